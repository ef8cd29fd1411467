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
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/api.txt")

const module = "github.com/keelson-io/keelson"

// stable are the packages of docs/api.md.
var stable = []string{
	"authz", "authz/chain", "cel", "cel/sql", "crd", "jsondoc", "kind", "kubernetes", "lint", "offline", "schema", "schema/structural", "server", "server/etcd", "servertest", "suite",
}

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

// TestOnlyThesePackages holds that callers can import the stable packages only, that docs/api.md names each, and that each has an
// example.
func TestOnlyThesePackages(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", "{{if and .GoFiles (ne .Name `main`)}}{{.ImportPath}} {{.Dir}}{{end}}", module+"/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(out)) {
		path, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		name := strings.TrimPrefix(path, module+"/")
		if strings.Contains("/"+name+"/", "/internal/") {
			continue
		}
		found = append(found, name)
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/api.md does not name %s", name)
		}
		files, _ := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if !slices.ContainsFunc(files, func(file string) bool {
			text, err := os.ReadFile(file)
			return err == nil && bytes.Contains(text, []byte("\nfunc Example"))
		}) {
			t.Errorf("%s has no example", name)
		}
	}
	slices.Sort(found)
	if !slices.Equal(found, stable) {
		t.Errorf("packages that can be imported: got %q, want %q", found, stable)
	}
}

// TestEveryTypeHasAPublicName holds that callers can name all types of the API: a type of a package that they cannot import has an
// alias in one of the stable packages. The members of such a type may have others: callers get them, but need not write their names.
func TestEveryTypeHasAPublicName(t *testing.T) {
	hidden := regexp.MustCompile(regexp.QuoteMeta(module) + `/[\w/]*\.\w+`)
	lines := current(t)
	named, aliases := map[string]bool{}, map[string]bool{}
	for _, line := range lines {
		if alias, target, ok := strings.Cut(line, " = "); ok && strings.Contains(line, ": type ") {
			named[target] = true
			aliases[strings.Replace(alias, ": type ", ": ", 1)] = true
		}
	}
	member := regexp.MustCompile(`^(\S+: )(?:field (\w+)\.|method \(\*?(\w+)\))`)
	for _, line := range lines {
		if m := member.FindStringSubmatch(line); m != nil && aliases[m[1]+m[2]+m[3]] {
			continue
		}
		for _, name := range hidden.FindAllString(line, -1) {
			path, _, _ := strings.Cut(strings.TrimPrefix(name, module+"/"), ".")
			if !slices.Contains(stable, path) && !named[name] {
				t.Errorf("%s: %s has no name in a package that callers can import", line, name)
			}
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

// hidden reports whether callers can name a type only by an alias, so that the API has the type's fields and methods.
func hidden(named *types.Named) bool {
	p := named.Obj().Pkg()
	if p == nil {
		return false
	}
	path, ours := strings.CutPrefix(p.Path(), module+"/")
	return ours && !slices.Contains(stable, path)
}

// describe returns a line for each exported name of a package, field and method. The fields and methods of a hidden type belong to
// its alias.
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
			named, ok := types.Unalias(o.Type()).(*types.Named)
			if o.IsAlias() {
				add("type %s = %s", n, text(types.Unalias(o.Type())))
				if !ok || !hidden(named) {
					continue
				}
			}
			switch u := named.Underlying().(type) {
			case *types.Struct:
				if !o.IsAlias() {
					add("type %s struct", n)
				}
				for f := range u.Fields() {
					if f.Exported() {
						add("field %s.%s %s", n, f.Name(), text(f.Type()))
					}
				}
			default: // a method more in an interface breaks those who implement it
				if !o.IsAlias() {
					add("type %s %s", n, text(u))
				}
			}
			for m := range named.Methods() {
				if !m.Exported() {
					continue
				}
				receiver := n
				if _, pointer := m.Signature().Recv().Type().(*types.Pointer); pointer {
					receiver = "*" + n
				}
				add("method (%s) %s%s", receiver, m.Name(), signature(m.Type()))
			}
		}
	}
	return lines
}
