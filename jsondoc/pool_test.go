package jsondoc

import (
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/poison"
)

// TestLargeDocumentsAreNotKept releases a document that is larger than those that go back to the pool.
func TestLargeDocumentsAreNotKept(t *testing.T) {
	if poison.On {
		t.Skip("in the poison mode, no document goes back")
	}
	for _, test := range []struct {
		name, text string
		kept       bool
	}{
		{"small", `{"a":1}`, true},
		{"a text of 900 KiB", `"` + strings.Repeat("a", 900<<10) + `"`, true},
		{"30,000 nodes", "[" + strings.Repeat("1,", 30_000) + "1]", true},
		{"140,000 nodes", "[" + strings.Repeat("1,", 140_000) + "1]", false},
	} {
		d := new(Doc)
		if err := Parse(d, []byte(test.text)); err != nil {
			t.Fatal(err)
		}
		d.Release()
		if kept := len(d.nodes) == 0; kept != test.kept {
			t.Errorf("%s: kept: %v, want %v", test.name, kept, test.kept)
		}
	}
}
