package fastpath

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string][]Path{
		"": {}, "on": {}, "off:diagrams": {Diagrams}, "off:processor,direct": {Direct, Processor},
	} {
		bits, err := parse(text)
		var got []Path
		for p := range paths {
			if bits&(1<<p) != 0 {
				got = append(got, p)
			}
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: got %v, %v, want %v", text, got, err, want)
		}
	}
	if bits, err := parse("off"); err != nil || bits != 1<<paths-1 {
		t.Errorf("off: got %b, %v", bits, err)
	}
	for _, text := range []string{"no", "off:", "off:speed", "diagrams"} {
		if bits, err := parse(text); err == nil {
			t.Errorf("%q: got %b, want an error", text, bits)
		}
	}
}

// TestPathsAreDocumented holds that the document has a row for each path, by its name.
func TestPathsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/fastpaths.md")
	if err != nil {
		t.Fatal(err)
	}
	for p := range paths {
		if p.String() == "" || !strings.Contains(string(text), "| `"+p.String()+"` |") {
			t.Errorf("path %d, %q: no row in docs/fastpaths.md", p, p)
		}
	}
}
