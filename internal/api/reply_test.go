package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/internal/api/stream"
	"github.com/keelson-io/keelson/kind"
)

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
		out := new(bytes.Buffer)
		p := &stream.Pieces{Most: stream.PieceSize, Send: func(b []byte) error { _, err := out.Write(b); return err }}
		p.Begin()
		if err := addFrame(p, "ADDED", "apps/v1", "Deployment", message); err != nil {
			t.Fatal(err)
		}
		p.Flush()
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
