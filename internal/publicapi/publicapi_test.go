// Package publicapi holds the public API of the library to what it promised. It has tests only.
//
// testdata/api.txt has a line for each exported name of the stable packages. A line that goes or
// changes is a break: TestNothingBreaks fails. New names need their lines, too, so that each change of
// the API is seen in a review: go test ./internal/publicapi -update writes them.
package publicapi

// This file reads the API of the packages and compares it.

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/api.txt")

const module = "github.com/keelson-io/keelson"

// stable are the packages of docs/stability.md.
var stable = []string{"authz", "cel", "crd", "jsondoc", "kind", "lint", "offline", "schema", "server", "servertest", "suite"}

const baseline = "testdata/api.txt"

// TestNothingBreaks compares the API with the baseline.
func TestNothingBreaks(t *testing.T) {
	now := current(t)
	if *update {
		if err := os.WriteFile(baseline, []byte(strings.Join(now, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(baseline)
	if err != nil {
		t.Fatal(err)
	}
	broken, added := compare(strings.Split(strings.TrimSpace(string(text)), "\n"), now)
	for _, line := range broken {
		t.Errorf("break: %s", line)
	}
	if len(broken) > 0 {
		t.Error("programs that use these names no longer compile. Keep the old name beside the new one, with a comment \"Deprecated: use …\". " +
			"If the break is intended: a line in CHANGELOG.md, and go test ./internal/publicapi -update")
	}
	for _, line := range added {
		t.Logf("added: %s", line)
	}
}

// TestBreaksAreFound holds the comparison itself: additions pass, breaks do not.
func TestBreaksAreFound(t *testing.T) {
	old := []string{"cel: func F(int) error", "cel: type T struct"}
	for _, c := range []struct {
		now           []string
		broken, added int
	}{
		{old, 0, 0},
		{append(slices.Clone(old), "cel: func G()"), 0, 1},
		{[]string{"cel: func F(int, string) error", "cel: type T struct"}, 1, 1},
		{old[:1], 1, 0},
	} {
		if broken, added := compare(old, c.now); len(broken) != c.broken || len(added) != c.added {
			t.Errorf("%q: got %q broken, %q added", c.now, broken, added)
		}
	}
}

// TestNoInternalTypes holds that callers can name all types of the API. An alias is a name.
func TestNoInternalTypes(t *testing.T) {
	for _, line := range current(t) {
		if strings.Contains(line, module+"/internal/") && !strings.HasPrefix(line, "offline: type Document = ") {
			t.Errorf("%s: has a type of an internal package", line)
		}
	}
}

// compare returns the lines that are gone, and those that are new.
func compare(old, now []string) (broken, added []string) {
	for _, line := range old {
		if !slices.Contains(now, line) {
			broken = append(broken, line)
		}
	}
	for _, line := range now {
		if !slices.Contains(old, line) {
			added = append(added, line)
		}
	}
	return broken, added
}

// current returns the lines of all stable packages, sorted.
func current(t *testing.T) []string {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Export"}
	for _, p := range stable {
		args = append(args, module+"/"+p)
	}
	cmd := exec.Command("go", args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, errs.Bytes())
	}
	files := map[string]string{}
	in := json.NewDecoder(bytes.NewReader(out))
	for {
		var p struct{ ImportPath, Export string }
		if err := in.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		files[p.ImportPath] = p.Export
	}
	imports := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) })
	var lines []string
	for _, name := range stable {
		p, err := imports.Import(module + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, describe(name, p)...)
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// describe returns a line for each exported name of a package, field and method.
func describe(name string, p *types.Package) []string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, name+": "+fmt.Sprintf(format, args...)) }
	in := types.RelativeTo(p)
	text := func(t types.Type) string { return types.TypeString(t, in) }
	signature := func(t types.Type) string { return strings.TrimPrefix(text(t), "func") }
	for _, n := range p.Scope().Names() {
		o := p.Scope().Lookup(n)
		if !o.Exported() {
			continue
		}
		switch o := o.(type) {
		case *types.Func:
			add("func %s%s", n, signature(o.Type()))
		case *types.Var:
			add("var %s %s", n, text(o.Type()))
		case *types.Const:
			add("const %s %s = %s", n, text(o.Type()), o.Val().ExactString())
		case *types.TypeName:
			if o.IsAlias() {
				add("type %s = %s", n, text(types.Unalias(o.Type())))
				continue
			}
			named := o.Type().(*types.Named)
			switch u := named.Underlying().(type) {
			case *types.Struct:
				add("type %s struct", n)
				for f := range u.Fields() {
					if f.Exported() {
						add("field %s.%s %s", n, f.Name(), text(f.Type()))
					}
				}
			default: // a method more in an interface breaks those who implement it
				add("type %s %s", n, text(u))
			}
			for m := range named.Methods() {
				if m.Exported() {
					add("method (%s) %s%s", text(m.Signature().Recv().Type()), m.Name(), signature(m.Type()))
				}
			}
		}
	}
	return lines
}
