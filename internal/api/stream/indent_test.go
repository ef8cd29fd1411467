package stream

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/api/admit"
	"github.com/keelson-io/keelson/internal/memory"
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

// gatheredPieces returns pieces of a size that are gathered in a buffer.
func gatheredPieces(most int) (*Pieces, *bytes.Buffer) {
	out := new(bytes.Buffer)
	var h admit.Holding
	admit.New(admit.Config{Shares: memory.SharesOf(64 << 30)}).Begin(&h, httptest.NewRequest("GET", "/", nil))
	room := h.Room(context.Background())
	p := &Pieces{Most: most, Room: room, Send: func(b []byte) error {
		out.Write(b)
		return nil
	}}
	p.Begin()
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
		n := Indenter{To: p}
		for rest := []byte(text); len(rest) > 0; {
			part := 1 + r.IntN(len(rest))
			if err := n.Add(rest[:part]); err != nil {
				t.Fatal(err)
			}
			rest = rest[part:]
		}
		p.Flush()
		if !bytes.Equal(out.Bytes(), want.Bytes()) {
			t.Fatalf("%s: got\n%s\nwant\n%s", text, out, &want)
		}
	}
}

// TestIndenterHoldsLittle checks that the indenter does not gather deep JSON, whose indented text
// is quadratically long.
func TestIndenterHoldsLittle(t *testing.T) {
	p, _ := gatheredPieces(PieceSize)
	largest, total := 0, 0
	p.Send = func(b []byte) error {
		largest, total = max(largest, len(b)), total+len(b)
		return nil
	}
	n := Indenter{To: p}
	if err := n.Add([]byte(strings.Repeat("[", 2000) + strings.Repeat("1,", 10000) + "1" + strings.Repeat("]", 2000))); err != nil {
		t.Fatal(err)
	}
	if total < 40<<20 || largest > 2*PieceSize {
		t.Errorf("%d bytes, %d at once, want at most %d", total, largest, 2*PieceSize)
	}
}
