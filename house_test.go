// This file checks the house rules that no linter knows: what a reader of the source may rely on.

package keelson

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const (
	maxFileLines = 600
	maxFuncLines = 120
)

// longFuncs lists the functions that may be longer, with the reason.
var longFuncs = map[string]string{}

// otherPanics lists the files whose panics need not start with "BUG: ", with the reason.
var otherPanics = map[string]string{
	"cel/compile.go": "unwinds the compiler from any depth; compile turns it into its error",
}

func TestHouseRules(t *testing.T) {
	fset := token.NewFileSet()
	documented := map[string]bool{} // folder -> has a package comment
	err := filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			switch name := e.Name(); {
			case path == ".":
				return nil
			case strings.HasPrefix(name, ".") || name == "testdata" || path == "bin":
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		test := strings.HasSuffix(path, "_test.go")
		if !test {
			dir := filepath.Dir(path)
			documented[dir] = documented[dir] || file.Doc != nil
		}
		checkComments(t, fset, file)
		if !test {
			if n := fset.File(file.Pos()).LineCount(); n > maxFileLines {
				t.Errorf("%s: %d lines, want at most %d", path, n, maxFileLines)
			}
			checkFuncs(t, fset, file)
			checkDocumented(t, fset, file)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("%s: no package comment", dir)
		}
	}
}

// checkComments finds what was left open.
func checkComments(t *testing.T, fset *token.FileSet, file *ast.File) {
	for _, group := range file.Comments {
		for _, c := range group.List {
			for _, word := range []string{"TODO", "FIXME", "XXX"} {
				if strings.Contains(c.Text, word) && !strings.Contains(c.Text, strconv.Quote(word)) {
					t.Errorf("%s: comment says %s", fset.Position(c.Pos()), word)
				}
			}
		}
	}
}

// checkFuncs wants short functions, no init, and panics only for broken invariants.
func checkFuncs(t *testing.T, fset *token.FileSet, file *ast.File) {
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		at := fset.Position(f.Pos())
		name := file.Name.Name + "." + f.Name.Name
		if f.Recv == nil && f.Name.Name == "init" {
			t.Errorf("%s: func init: nothing registers itself here", at)
		}
		if n := fset.Position(f.End()).Line - at.Line + 1; n > maxFuncLines && longFuncs[name] == "" {
			t.Errorf("%s: %s has %d lines, want at most %d", at, name, n, maxFuncLines)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if id, ok := call.Fun.(*ast.Ident); ok && id.Name == "panic" && len(call.Args) == 1 &&
			!startsWithBug(call.Args[0]) && !abortsHandler(call.Args[0]) && otherPanics[fset.Position(call.Pos()).Filename] == "" {
			t.Errorf(`%s: panic without "BUG: ": errors are returned`, fset.Position(call.Pos()))
		}
		return true
	})
}

// abortsHandler recognises net/http's way to cut an answer off.
func abortsHandler(arg ast.Expr) bool {
	sel, ok := arg.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "ErrAbortHandler"
}

// startsWithBug looks for the first string in the argument of panic.
func startsWithBug(arg ast.Expr) bool {
	found, ok := false, false
	ast.Inspect(arg, func(n ast.Node) bool {
		lit, is := n.(*ast.BasicLit)
		if is && lit.Kind == token.STRING && !found {
			found = true
			text, err := strconv.Unquote(lit.Value)
			ok = err == nil && strings.HasPrefix(text, "BUG: ")
		}
		return !found
	})
	return ok
}

// usual methods say the same in every package.
var usual = map[string]bool{"Error": true, "Unwrap": true, "Is": true, "String": true, "ServeHTTP": true, "Close": true}

// checkDocumented wants a comment on everything exported at the top level of a package.
func checkDocumented(t *testing.T, fset *token.FileSet, file *ast.File) {
	if file.Name.Name == "main" {
		return
	}
	missing := func(pos token.Pos, what string) { t.Errorf("%s: exported %s has no comment", fset.Position(pos), what) }
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && d.Doc == nil && (d.Recv == nil || exportedReceiver(d.Recv) && !usual[d.Name.Name]) {
				missing(d.Pos(), d.Name.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
						missing(s.Pos(), fmt.Sprint("type ", s.Name.Name))
					}
				case *ast.ValueSpec:
					if s.Names[0].IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
						missing(s.Pos(), s.Names[0].Name)
					}
				}
			}
		}
	}
}

func exportedReceiver(recv *ast.FieldList) bool {
	e := recv.List[0].Type
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	if index, ok := e.(*ast.IndexExpr); ok {
		e = index.X
	}
	id, ok := e.(*ast.Ident)
	return ok && id.IsExported()
}
