package kind

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestCostLimits compares what is said about what rules cost, at the limits, in the schemas of package schema's own table.
func TestCostLimits(t *testing.T) {
	text, err := os.ReadFile("../../schema/testdata/costs.txt")
	if err != nil {
		t.Fatal(err)
	}
	valid, refused := 0, 0
	for line := range strings.Lines(string(text)) {
		schema, ok := strings.CutPrefix(line, "schema ")
		if !ok {
			continue
		}
		crd := embedding(t, schema)
		got, want := texts(ours(crd, nil)), texts(theirs(t, crd, nil))
		if len(want) > 0 {
			refused++
		} else {
			valid++
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:\ngot      %q\nupstream %q", schema, got, want)
		}
	}
	if valid < 3 || refused < 8 {
		t.Errorf("%d valid, %d refused", valid, refused)
	}
}
