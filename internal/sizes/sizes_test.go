// Package sizes holds how many packages and bytes programs that use Keelson link. It has tests only.
package sizes

// This file measures programs: the binary, and those that the packages' examples would be.

import (
	"bytes"
	"flag"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var release = flag.Bool("release", false, "measure the binary as it is released, and how small xz makes it: builds for some minutes, needs xz")

const module = "github.com/keelson-io/keelson/"

// program is a program that is measured.
type program struct {
	name      string
	file      string // of an example, from the root of the module; "" for the binary
	example   string // a function in the file, which is the program's main
	packages  int    // of the standard library and of other modules, at most
	megabytes int    // at most, stripped
}

// programs has a row for each kind of use. The limits are those that were reached, rounded up. The
// binary would have 9 MB less without go-cmp, which embedded etcd calls in a self-check
// (VerifyBackendConsistency): because of it, the linker keeps every exported method (go build
// -ldflags=-dumpdep shows ReflectMethod). It cannot be left out by a build tag, nor by embed in place of
// etcdserver. The tag grpcnotrace would save 0.3 MB. For keelson export and query, SQLite
// is 4.2 MB, and the client of PostgreSQL 3.9 MB.
var programs = []program{
	{name: "the binary", packages: 830, megabytes: 78},
	{name: "cel: one rule", file: "cel/example_test.go", example: "Example", packages: 225, megabytes: 12},
	{name: "cel: a language", file: "cel/language_example_test.go", example: "ExampleLanguage", packages: 225, megabytes: 12},
	{name: "validate an object against a definition", file: "crd/example_test.go", example: "ExampleCompile", packages: 395, megabytes: 20},
	{name: "a server's whole verdict on an object", file: "suite/example_test.go", example: "ExampleKinds_Create", packages: 530, megabytes: 40},
}

// heavy are modules that only the binary links.
var heavy = []string{"go.etcd.io/", "google.golang.org/grpc", "go.opentelemetry.io/", "go.uber.org/zap", "github.com/spf13/cobra"}

// TestPrograms builds each program and compares it with its limits.
func TestPrograms(t *testing.T) {
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			dir := "../../cmd/keelson"
			if p.file != "" {
				dir = p.write(t)
			}
			packages := slices.DeleteFunc(strings.Fields(run(t, "go", "list", "-deps", dir)), func(path string) bool {
				return strings.HasPrefix(path, module) // how the module is divided adds no weight
			})
			if len(packages) > p.packages {
				t.Errorf("%d packages, want at most %d: what imports the new ones? (go list -deps, go mod why)", len(packages), p.packages)
			}
			for _, path := range packages {
				if p.file != "" && slices.ContainsFunc(heavy, func(h string) bool { return strings.HasPrefix(path, h) }) {
					t.Errorf("links %s, which only keelson serve should", path)
				}
			}
			if testing.Short() || p.file == "" && !*release {
				return
			}
			out := filepath.Join(t.TempDir(), "program")
			flags := []string{"build", "-ldflags=-s -w", "-o", out}
			if *release {
				flags = append(flags, "-trimpath")
			}
			run(t, "go", append(flags, dir)...)
			info, err := os.Stat(out)
			if err != nil {
				t.Fatal(err)
			}
			size := float64(info.Size()) / 1e6
			t.Logf("%d packages, %.1f MB", len(packages), size)
			if size > float64(p.megabytes) {
				t.Errorf("%.1f MB, want at most %d: see go tool nm -size -sort size", size, p.megabytes)
			}
			if p.file == "" && *release {
				run(t, "xz", "-k", "-T2", out)
				packed, err := os.Stat(out + ".xz")
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("compressed: %.1f MB", float64(packed.Size())/1e6)
				if packed.Size() > 19e6 {
					t.Errorf("compressed by xz: %.1f MB, want at most 19", float64(packed.Size())/1e6)
				}
			}
		})
	}
}

// write writes the program: the file of the example, without other examples. It returns a folder in
// this module, which is removed after the test.
func (p *program) write(t *testing.T) string {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, filepath.Join("../..", p.file), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.Name.Name = "main"
	found := false
	f.Decls = slices.DeleteFunc(f.Decls, func(d ast.Decl) bool {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			return false
		}
		if fn.Name.Name == p.example {
			fn.Name.Name, found = "main", true
			return false
		}
		return strings.HasPrefix(fn.Name.Name, "Example")
	})
	if !found {
		t.Fatalf("%s: no function %s", p.file, p.example)
	}
	used := map[string]bool{}
	for _, d := range f.Decls {
		ast.Inspect(d, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok {
					used[x.Name] = true
				}
			}
			return true
		})
	}
	for _, d := range f.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT {
			g.Specs = slices.DeleteFunc(g.Specs, func(s ast.Spec) bool {
				i := s.(*ast.ImportSpec)
				path := strings.Trim(i.Path.Value, `"`)
				return i.Name == nil && !used[path[strings.LastIndex(path, "/")+1:]]
			})
		}
	}
	var text bytes.Buffer
	if err := printer.Fprint(&text, fset, f); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(".", ".program") // passed over by wildcards of go, and by tests that read the repository
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.WriteFile(filepath.Join(dir, "main.go"), text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return "./" + dir
}

// run runs a command and returns what it prints.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, errs.Bytes())
	}
	return string(out)
}
