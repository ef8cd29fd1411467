package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/api/admit"
	"github.com/keelson-io/keelson/internal/memory"
	"github.com/keelson-io/keelson/kind"
)

// randomJSON returns a compact JSON text.
func randomJSON(r *rand.Rand, depth int) string {
	texts := []string{`""`, `"a"`, `"x: y"`, `"two\nlines\n"`, `"{\"a\":[1,2]}"`, `"\\"`, `"é "`, `"- a"`, `"true"`, `"` + strings.Repeat("long ", 40) + `"`}
	switch n := r.IntN(8); {
	case n < 2 && depth > 0:
		var items []string
		for range r.IntN(4) {
			items = append(items, randomJSON(r, depth-1))
		}
		return "[" + strings.Join(items, ",") + "]"
	case n < 5 && depth > 0:
		var items []string
		for i := range r.IntN(4) {
			items = append(items, fmt.Sprintf(`"k%d":%s`, i, randomJSON(r, depth-1)))
		}
		return "{" + strings.Join(items, ",") + "}"
	case n == 5:
		return fmt.Sprint(r.IntN(1000) - 500)
	case n == 6:
		return []string{"true", "false", "null", "1.5", "1e+30"}[r.IntN(5)]
	}
	return texts[r.IntN(len(texts))]
}

// newRoom returns the room of a request that holds nothing else.
func newRoom() *admit.Room {
	var h admit.Holding
	admit.New(admit.Config{Shares: memory.SharesOf(64 << 30)}).Begin(&h, httptest.NewRequest("GET", "/", nil))
	return h.Room(context.Background())
}

// gatheredPieces returns pieces of a size that are gathered in a buffer.
func gatheredPieces(most int) (*pieces, *bytes.Buffer) {
	out := new(bytes.Buffer)
	p := &pieces{most: most, room: newRoom(), send: func(b []byte) error {
		out.Write(b)
		return nil
	}}
	p.begin()
	return p, out
}

// TestIndenterEqualsIndent holds the indenter against encoding/json, whatever the parts are that the text comes in.
func TestIndenterEqualsIndent(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		text := randomJSON(r, 6)
		var want bytes.Buffer
		if err := json.Indent(&want, []byte(text), "", "  "); err != nil {
			t.Fatal(err)
		}
		p, out := gatheredPieces(1 + r.IntN(100))
		n := indenter{p: p}
		for rest := []byte(text); len(rest) > 0; {
			part := 1 + r.IntN(len(rest))
			if err := n.add(rest[:part]); err != nil {
				t.Fatal(err)
			}
			rest = rest[part:]
		}
		p.flush()
		if !bytes.Equal(out.Bytes(), want.Bytes()) {
			t.Fatalf("%s: got\n%s\nwant\n%s", text, out, &want)
		}
	}
}

// TestIndenterHoldsLittle checks that the indenter does not gather deep JSON, whose indented text
// is quadratically long.
func TestIndenterHoldsLittle(t *testing.T) {
	p, _ := gatheredPieces(pieceSize)
	largest, total := 0, 0
	p.send = func(b []byte) error {
		largest, total = max(largest, len(b)), total+len(b)
		return nil
	}
	n := indenter{p: p}
	if err := n.add([]byte(strings.Repeat("[", 2000) + strings.Repeat("1,", 10000) + "1" + strings.Repeat("]", 2000))); err != nil {
		t.Fatal(err)
	}
	if total < 40<<20 || largest > 2*pieceSize {
		t.Errorf("%d bytes, %d at once, want at most %d", total, largest, 2*pieceSize)
	}
}

// TestListsAreAllTheSame holds every form of a list against the list as JSON, for lists that are a piece and for longer ones.
func TestListsAreAllTheSame(t *testing.T) {
	s := newTestServer(t)
	for _, n := range []int{0, 1, 300} {
		for i := range n {
			s.call("POST", widgets, widget(fmt.Sprintf("w%d", i), fmt.Sprintf(`"color":"%d: %s\\n- x"`, i, strings.Repeat("x", 10*i))))
		}
		get := func(accept string) []byte {
			w := httptest.NewRecorder()
			r := httptest.NewRequest("GET", widgets, nil)
			r.Header.Set("Accept", accept)
			s.h.ServeHTTP(w, r)
			if w.Code != http.StatusOK {
				t.Fatalf("%s: %d %s", accept, w.Code, w.Body)
			}
			return w.Body.Bytes()
		}
		for _, as := range []string{"", ";as=Table;v=v1;g=meta.k8s.io", ";as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"} {
			plain, pretty, inYAML := get("application/json"+as), get("application/json;pretty=1"+as), get("application/yaml"+as)
			for !bytes.Equal(plain, get("application/json"+as)) { // ages are counted in seconds
				plain, pretty, inYAML = get("application/json"+as), get("application/json;pretty=1"+as), get("application/yaml"+as)
			}
			var want bytes.Buffer
			if err := json.Indent(&want, bytes.TrimSuffix(plain, newline), "", "  "); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(pretty, want.Bytes()) {
				t.Errorf("%d objects, %s: pretty %.300s, want %.300s", n, as, pretty, &want)
			}
			text, err := yaml.JSONToYAML(plain)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(inYAML, text) {
				t.Errorf("%d objects, %s: YAML %.300s, want %.300s", n, as, inYAML, text)
			}
		}
		checkMetadataInProtobuf(t, get("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"),
			get("application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"))
	}
}

func checkMetadataInProtobuf(t *testing.T, asJSON, got []byte) {
	t.Helper()
	want, err := kind.ToProtobuf(asJSON, new(metav1.PartialObjectMetadataList))
	if err != nil {
		t.Fatal(err)
	}
	text := func(b []byte) string {
		list := kind.NewGoType(func() runtime.Object { return new(metav1.PartialObjectMetadataList) })
		j, err := kind.FromProtobuf(b, func(metav1.TypeMeta) (*kind.GoType, error) { return list, nil })
		if err != nil {
			t.Fatal(err)
		}
		return string(j)
	}
	if text(got) != text(want) {
		t.Errorf("metadata in protobuf: got %.300s, want %.300s", text(got), text(want))
	}
}

// TestFrames holds frames of a watch that are made around a message against those that apimachinery makes.
func TestFrames(t *testing.T) {
	for _, n := range []int{0, 1, 100, 127, 128, 16384, 3 << 20} {
		message := bytes.Repeat([]byte("x"), n)
		p, out := gatheredPieces(pieceSize)
		if err := p.frame("ADDED", "apps/v1", "Deployment", message); err != nil {
			t.Fatal(err)
		}
		p.flush()
		object, err := kind.WrapProtobuf(message, "apps/v1", "Deployment")
		if err != nil {
			t.Fatal(err)
		}
		want, err := appendWatchEvent(nil, "ADDED", object)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(out.Bytes(), want) {
			t.Errorf("message of %d bytes: frame differs", n)
		}
		if size := kind.ProtobufSize("apps/v1", "Deployment", n); size != len(object) {
			t.Errorf("message of %d bytes: size %d, want %d", n, size, len(object))
		}
	}
}

// TestHeavyPages holds that a page that remembers only its first objects has all of them.
func TestHeavyPages(t *testing.T) {
	s := newTestServer(t)
	for i := range pageKept + 20 {
		s.call("POST", widgets, widget(fmt.Sprintf("w%05d", i), `"color":"red"`))
	}
	for query, want := range map[string]int{"": pageKept + 20, fmt.Sprintf("?limit=%d", pageKept+7): pageKept + 7, "?limit=9": 9, "?fieldSelector=metadata.name!%3Dw08200": pageKept + 19} {
		w := httptest.NewRecorder()
		s.h.ServeHTTP(w, httptest.NewRequest("GET", widgets+query, nil))
		var list struct {
			Items []struct{ Metadata struct{ Name string } }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || len(list.Items) != want {
			t.Errorf("%s: %d items, %v, want %d", query, len(list.Items), err, want)
			continue
		}
		for i := 1; i < want; i++ {
			if list.Items[i-1].Metadata.Name >= list.Items[i].Metadata.Name {
				t.Errorf("%s: %s comes before %s", query, list.Items[i-1].Metadata.Name, list.Items[i].Metadata.Name)
			}
		}
	}
}
