// This file finds the package variables whose type leads to something that changes.

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// listed is what go list says of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	DepOnly                 bool
}

// stateful returns the package variables of the module at root whose type leads to something that
// is made to be changed: behind pointers, in fields, elements and results. The keys are the
// variables as file:line: name, the values the way to what changes. It compiles the module.
func stateful(root string) (map[string]string, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("go", "list", "-e", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,DepOnly", "./...")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", cmd, err, stderr.Bytes())
	}
	exports := map[string]string{}
	var own []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		exports[p.ImportPath] = p.Export
		if !p.DepOnly {
			own = append(own, p)
		}
	}
	fset := token.NewFileSet()
	from := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	found := map[string]string{}
	for i := range own {
		if err := own[i].stateful(root, fset, from, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// stateful adds the variables of one package to found.
func (p *listed) stateful(root string, fset *token.FileSet, from types.Importer, found map[string]string) error {
	var files []*ast.File
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, 0)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	info := &types.Info{Defs: map[*ast.Ident]types.Object{}}
	if _, err := (&types.Config{Importer: from}).Check(p.ImportPath, fset, files, info); err != nil {
		return err
	}
	for _, file := range files {
		for _, d := range file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, s := range g.Specs {
				for _, name := range s.(*ast.ValueSpec).Names {
					v, ok := info.Defs[name].(*types.Var)
					if !ok || name.Name == "_" {
						continue
					}
					if way := leadsTo(v.Type(), nil); way != "" {
						at := fset.Position(s.Pos())
						file, err := filepath.Rel(root, at.Filename)
						if err != nil {
							return err
						}
						found[fmt.Sprintf("%s:%d: %s", filepath.ToSlash(file), at.Line, name.Name)] = way
					}
				}
			}
		}
	}
	return nil
}

// leadsTo returns the way from a value of a type to something that is made to be changed, or "":
// locks, atomic values, pools and channels, and metrics. The types in within hold t.
func leadsTo(t types.Type, within []types.Type) string {
	for _, outer := range within {
		if outer == t {
			return ""
		}
	}
	within = append(within, t)
	if n, ok := types.Unalias(t).(*types.Named); ok && n.Obj().Pkg() != nil {
		name := n.Obj().Pkg().Name() + "." + n.Obj().Name()
		switch path := n.Obj().Pkg().Path(); {
		case path == "sync", path == "sync/atomic", strings.HasSuffix(path, "/prometheus"):
			return name
		case path == "regexp", path == "reflect", path == "strings", path == "time", path == "embed":
			return "" // nobody can see their changes
		}
		if way := leadsTo(n.Underlying(), within); way != "" {
			return name + " " + way
		}
		return ""
	}
	switch u := t.Underlying().(type) {
	case *types.Chan:
		return "a channel"
	case *types.Pointer:
		return leadsTo(u.Elem(), within)
	case *types.Slice:
		return leadsTo(u.Elem(), within)
	case *types.Array:
		return leadsTo(u.Elem(), within)
	case *types.Map:
		return leadsTo(u.Elem(), within)
	case *types.Struct:
		for field := range u.Fields() {
			if way := leadsTo(field.Type(), within); way != "" {
				return field.Name() + " " + way
			}
		}
	case *types.Signature: // such as that of a once-value
		if u.Params().Len() > 0 {
			break
		}
		for v := range u.Results().Variables() {
			if way := leadsTo(v.Type(), within); way != "" {
				return "once: " + way
			}
		}
	}
	return ""
}
