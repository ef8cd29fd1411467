// Command figures prints the size of the source, and where it is hard to read: "make figures".
//
// It reads the Go files below the current folder, except for tests, testdata, generated files, and
// the modules conformance and bench. For each folder it prints the number of files, the lines of
// code (without blank lines and comments) and the share of comments. Then it lists long functions,
// functions with many branches, and package variables that change after initialization.
package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Functions above these are listed.
const (
	longFunction    = 80
	branchyFunction = 30
)

func main() {
	if err := run(os.Stdout, "."); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

// folder has the counts of one folder.
type folder struct {
	dir                   string
	files, code, comments int // in lines; a line with code and a comment counts for both
	functions             []function
	variables             []string
}

// function is a function that is long or has many branches.
type function struct {
	at              string
	name            string
	lines, branches int
}

func run(w io.Writer, root string) error {
	folders, err := read(root)
	if err != nil {
		return err
	}
	sum, product := folder{dir: "all"}, folder{dir: "all but what only tests use"}
	fmt.Fprintf(w, "%-28s %6s %8s %9s\n", "folder", "files", "lines", "comments")
	for _, f := range folders {
		f.printLine(w)
		sum.add(f)
		if !forTests(f.dir) {
			product.add(f)
		}
		sum.functions = append(sum.functions, f.functions...)
		sum.variables = append(sum.variables, f.variables...)
	}
	sum.printLine(w)
	product.printLine(w)
	slices.SortFunc(sum.functions, func(a, b function) int { return cmp.Compare(b.branches, a.branches) })
	fmt.Fprintf(w, "\nFunctions of more than %d lines or with a cyclomatic complexity of more than %d: %d\n", longFunction, branchyFunction, len(sum.functions))
	for _, f := range sum.functions {
		fmt.Fprintf(w, "  %-44s %-40s %4d lines, complexity %d\n", f.at, f.name, f.lines, f.branches)
	}
	harmless, state := split(sum.variables)
	printVariables(w, "Pools and once-values", harmless)
	printVariables(w, "Other package variables that change", state)
	return nil
}

// split separates pools and once-values, which make no difference to anybody, from other variables.
func split(variables []string) (harmless, state []string) {
	for _, v := range variables {
		if strings.HasSuffix(v, ": sync.Pool") || strings.Contains(v, ": once: ") {
			harmless = append(harmless, v)
		} else {
			state = append(state, v)
		}
	}
	return harmless, state
}

func printVariables(w io.Writer, title string, variables []string) {
	fmt.Fprintf(w, "\n%s: %d\n", title, len(variables))
	for _, v := range variables {
		fmt.Fprintln(w, "  "+v)
	}
}

// printLine prints the counts of a folder. The share of comments is that of all lines that are not
// blank.
func (f *folder) printLine(w io.Writer) {
	share := 100 * float64(f.comments) / float64(max(1, f.code+f.comments))
	fmt.Fprintf(w, "%-28s %6d %8d %7.0f %%\n", f.dir, f.files, f.code, share)
}

// add adds the counts of another folder.
func (f *folder) add(more *folder) {
	f.files += more.files
	f.code += more.code
	f.comments += more.comments
}

// forTests reports whether only tests, or this command, use a folder.
func forTests(dir string) bool {
	return strings.HasPrefix(dir, "internal/test") || dir == "internal/store/storetest" || dir == "internal/figures"
}

// read counts the folders below root.
func read(root string) ([]*folder, error) {
	found := map[string]*folder{}
	sources := map[string][]*ast.File{}
	fset := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := e.Name()
		if e.IsDir() {
			_, noModule := os.Stat(filepath.Join(path, "go.mod"))
			if path != root && (noModule == nil || strings.HasPrefix(name, ".") || name == "testdata" || name == "bin") {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(fset, path, text, parser.ParseComments)
		if err != nil {
			return err
		}
		if ast.IsGenerated(file) {
			return nil
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		f := found[dir]
		if f == nil {
			f = &folder{dir: dir}
			found[dir] = f
		}
		f.files++
		code, comments := countLines(text)
		f.code += code
		f.comments += comments
		f.functions = append(f.functions, functions(fset, file)...)
		sources[dir] = append(sources[dir], file)
		return nil
	})
	if err != nil {
		return nil, err
	}
	state, err := stateful(root)
	if err != nil {
		return nil, err
	}
	var out []*folder
	for dir, f := range found {
		f.variables = variables(fset, sources[dir], state)
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b *folder) int { return cmp.Compare(a.dir, b.dir) })
	return out, nil
}

// countLines returns the number of lines with code and with comments.
func countLines(text []byte) (code, comments int) {
	fset := token.NewFileSet()
	file := fset.AddFile("", fset.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	isCode, isComment := map[int]bool{}, map[int]bool{}
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return len(isCode), len(isComment)
		}
		if tok == token.SEMICOLON && lit == "\n" {
			continue // inserted by the scanner
		}
		lines := isCode
		if tok == token.COMMENT {
			lines = isComment
		}
		first := file.Line(pos)
		for i := range strings.Count(strings.TrimSuffix(lit, "\n"), "\n") + 1 {
			lines[first+i] = true
		}
	}
}

// functions returns the functions of a file that are long or have many branches.
func functions(fset *token.FileSet, file *ast.File) (out []function) {
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		from := fset.Position(f.Pos())
		lines, n := fset.Position(f.End()).Line-from.Line+1, complexity(f)
		if lines > longFunction || n > branchyFunction {
			out = append(out, function{fmt.Sprintf("%s:%d", from.Filename, from.Line), f.Name.Name, lines, n})
		}
	}
	return out
}

// complexity returns the cyclomatic complexity: 1, plus 1 for each branch, including those in
// function literals.
func complexity(f *ast.FuncDecl) int {
	n := 1
	ast.Inspect(f, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if node.List != nil {
				n++
			}
		case *ast.CommClause:
			if node.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if node.Op == token.LAND || node.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}
