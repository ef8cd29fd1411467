package sizes

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// This file holds that the module compiles for the platforms of releases, and for browsers.

// platforms are those that everything compiles for, apart from the one that tests run on.
var platforms = map[string][]string{
	"windows/amd64": {"cmd/keelson"}, "windows/arm64": {"cmd/keelson"},
	"darwin/amd64": {"cmd/keelson"}, "darwin/arm64": {"cmd/keelson"},
	"linux/arm64": {"cmd/keelson"}, "js/wasm": {"server", "offline", "suite", "lint", "cel", "schema"},
}

var cross = flag.Bool("cross", false, "compile for all platforms instead of checking types: needs -timeout=30m if little is in the build cache")

// TestPlatforms checks for each platform the types of every package that programs link, which takes
// seconds. What only a compiler finds, such as missing assembly, is left to -cross and make release.
func TestPlatforms(t *testing.T) {
	for platform, packages := range platforms {
		t.Run(platform, func(t *testing.T) {
			t.Parallel()
			var paths []string
			for _, p := range packages {
				paths = append(paths, module+p)
			}
			system, machine, _ := strings.Cut(platform, "/")
			command := []string{"GOOS=" + system, "GOARCH=" + machine, "CGO_ENABLED=0", "go"}
			if *cross {
				run(t, "env", slices.Concat(command, []string{"build", "-o", os.DevNull}, paths)...)
				return
			}
			list := run(t, "env", slices.Concat(command, []string{"list", "-deps", "-json=ImportPath,Dir,GoFiles,ImportMap"}, paths)...)
			if err := checkTypes(list, machine); err != nil {
				t.Error(err)
			}
		})
	}
}

// listed is a package as go list prints it.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string
}

// checkTypes checks the packages of a list in which each one stands after those that it imports.
// Functions of other modules are taken to be right.
func checkTypes(list string, machine string) error {
	done := map[string]*types.Package{"unsafe": types.Unsafe}
	for d := json.NewDecoder(strings.NewReader(list)); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if p.ImportPath == "unsafe" {
			continue
		}
		fset := token.NewFileSet()
		var files []*ast.File
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			files = append(files, f)
		}
		var errs []error
		c := types.Config{
			Sizes: types.SizesFor("gc", machine), IgnoreFuncBodies: !strings.HasPrefix(p.ImportPath, module),
			Error: func(err error) { errs = append(errs, err) },
			Importer: importer(func(path string) (*types.Package, error) {
				if to, ok := p.ImportMap[path]; ok {
					path = to
				}
				if done[path] == nil {
					return nil, fmt.Errorf("go list did not name %s before what imports it", path)
				}
				return done[path], nil
			}),
		}
		done[p.ImportPath], _ = c.Check(p.ImportPath, fset, files, nil) // its error is the first of errs
		if len(errs) > 0 {
			return errors.Join(errs...)
		}
	}
}

// importer is a function as a types.Importer.
type importer func(path string) (*types.Package, error)

// Import implements types.Importer.
func (f importer) Import(path string) (*types.Package, error) { return f(path) }
