package fastpath

import (
	"os"
	"os/exec"
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

// TestEmbedding holds that the environment neither ends nor changes a program that uses packages
// of Keelson.
func TestEmbedding(t *testing.T) {
	for _, value := range []string{"nonsense", "off"} {
		cmd := exec.Command("go", "run", "./testdata/embed")
		cmd.Env = append(os.Environ(), Variable+"="+value)
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != "true <nil> true\n" {
			t.Errorf("%s=%s: got %q, %v", Variable, value, out, err)
		}
	}
}

// TestPlainPackages holds that the tests that "make plain" runs read the environment variable.
func TestPlainPackages(t *testing.T) {
	text, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "\nPLAIN     := ")
	list, _, _ = strings.Cut(list, "\n")
	args := append([]string{"list", "-test", "-f", `{{.ImportPath}} {{join .Deps " "}}`}, strings.Fields(list)...)
	cmd := exec.Command("go", args...)
	cmd.Dir = "../.."
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const internal = "github.com/keelson-io/keelson/internal/"
	found := 0
	for line := range strings.Lines(string(out)) {
		deps := strings.Fields(line)
		if !strings.HasSuffix(deps[0], ".test") || !slices.Contains(deps, internal+"fastpath") {
			continue
		}
		found++
		if !slices.Contains(deps, internal+"testfastpath") {
			t.Errorf("%s: no test imports internal/testfastpath", strings.TrimSuffix(deps[0], ".test"))
		}
	}
	if found < 8 {
		t.Errorf("got %d packages with fast paths in %q, want at least 8", found, list)
	}
}
