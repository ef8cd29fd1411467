// This file finds package variables that change.

package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"path/filepath"
	"slices"
)

// variables returns the package variables that a function of the package assigns to or takes the
// address of, and those whose type leads to something that is made for changes (see stateful).
// It does not detect methods that change their receiver otherwise.
func variables(fset *token.FileSet, files []*ast.File, stateful map[string]string) []string {
	specs := map[string]*ast.ValueSpec{}
	why := map[string]string{}
	for _, file := range files {
		for _, d := range file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, s := range g.Specs {
				spec := s.(*ast.ValueSpec)
				for _, name := range spec.Names {
					specs[name.Name] = spec
					at := fset.Position(spec.Pos())
					if what := stateful[fmt.Sprintf("%s:%d: %s", filepath.ToSlash(at.Filename), at.Line, name.Name)]; what != "" {
						why[name.Name] = what
					}
				}
			}
		}
	}
	for _, file := range files {
		markChanges(file, specs, why)
	}
	type found struct {
		at   token.Position
		text string
	}
	var all []found
	for name, what := range why {
		if name != "_" {
			at := fset.Position(specs[name].Pos())
			all = append(all, found{at, fmt.Sprintf("%s:%d: %s: %s", at.Filename, at.Line, name, what)})
		}
	}
	slices.SortFunc(all, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.at.Filename, b.at.Filename), cmp.Compare(a.at.Line, b.at.Line), cmp.Compare(a.text, b.text))
	})
	var out []string
	for _, f := range all {
		out = append(out, f.text)
	}
	return out
}

// markChanges records in why the variables that the functions of a file change.
func markChanges(file *ast.File, specs map[string]*ast.ValueSpec, why map[string]string) {
	unresolved := map[*ast.Ident]bool{} // names that other files or packages declare
	for _, id := range file.Unresolved {
		unresolved[id] = true
	}
	mark := func(e ast.Expr, what string) {
		id := root(e)
		if id == nil || specs[id.Name] == nil || why[id.Name] != "" {
			return
		}
		if unresolved[id] || id.Obj != nil && id.Obj.Decl == specs[id.Name] {
			why[id.Name] = what
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				for _, e := range n.Lhs {
					mark(e, "assigned")
				}
			}
		case *ast.IncDecStmt:
			mark(n.X, "assigned")
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				mark(n.X, "its address is taken")
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok && (f.Name == "delete" || f.Name == "clear") && len(n.Args) > 0 {
				mark(n.Args[0], "assigned")
			}
		}
		return true
	})
}

// root returns the variable in x, x.f, x[i] and *x, or nil.
func root(e ast.Expr) *ast.Ident {
	for {
		switch at := e.(type) {
		case *ast.Ident:
			return at
		case *ast.SelectorExpr:
			e = at.X
		case *ast.IndexExpr:
			e = at.X
		case *ast.StarExpr:
			e = at.X
		case *ast.ParenExpr:
			e = at.X
		default:
			return nil
		}
	}
}
