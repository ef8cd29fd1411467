package eval

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/cel/internal/check"
	"github.com/keelson-io/keelson/cel/internal/val"
	"github.com/keelson-io/keelson/kubernetes"
)

// TestSearchAlike compares searching with cel-go's own functions.
func TestSearchAlike(t *testing.T) {
	decls, err := check.DeclarationsOf("1.37", true, kubernetes.Newest())
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(8, 8))
	word := func(n int) val.Value {
		var s strings.Builder
		for range r.IntN(n) {
			s.WriteString([]string{"a", "b", "é", "\xff", "\ufffd", "✓"}[r.IntN(6)])
		}
		return val.TextValue(s.String())
	}
	found, failed := 0, 0
	for i := range 20_000 {
		args := []val.Value{word(12), word(4)}
		id := []string{"string_index_of_string", "string_last_index_of_string"}[i%2]
		if i%3 == 0 {
			id += "_int"
			args = append(args, val.IntValue(int64(r.IntN(14)-1)))
		}
		cc := &callCode{name: "f", impl: decls.Implementation(id, "")}
		want, got := cc.bridge(&val.Frame{}, args), val.Value{}
		var ok bool
		if got, ok = builtins[id](args); !ok {
			failed++
			continue
		}
		if got.K != val.KindInt || want.K != val.KindInt || got.Int() != want.Int() {
			t.Fatalf("%s of %q: got %v, want %v", id, args, got.Int(), want)
		}
		if got.Int() >= 0 {
			found++
		}
	}
	if found < 1000 || failed < 1000 {
		t.Errorf("%d found, %d left to cel-go", found, failed)
	}
}
