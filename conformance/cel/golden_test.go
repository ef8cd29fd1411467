package cel_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write upstream's outcomes to package cel's golden file")

// TestGolden writes the file that package cel's own tests read: upstream's
// outcome for every expression of the table.
func TestGolden(t *testing.T) {
	if !*update {
		t.Skip("without -update")
	}
	text, err := os.ReadFile("testdata/expressions.txt")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	out.WriteString("# Made by go test ./cel -run Golden -update in module conformance: what upstream answers.\n")
	var up *upstream
	var data any
	for _, line := range strings.Split(string(text), "\n") {
		switch {
		case line == "" || strings.HasPrefix(line, "# "):
			continue
		case strings.HasPrefix(line, "schema "):
			up = newUpstream(t, structural(t, line[len("schema "):]), false)
		case strings.HasPrefix(line, "data "):
			data = parseData(t, line[len("data "):])
		default:
			o := normal(up.run(line, data, data))
			if known(line, o, outcome{estimate: o.estimate, err: "invalid data, "}) {
				continue
			}
			fmt.Fprintf(&out, "%s\n\t%s\n", line, o)
			continue
		}
		out.WriteString(line + "\n")
	}
	if err := os.WriteFile("../../cel/testdata/golden.txt", []byte(out.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
