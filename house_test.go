// This file checks the house rules that no linter knows: what a reader of the source may rely on.

package keelson

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	maxFileLines = 600
	maxFuncLines = 80
)

// longFuncs lists the functions that may be longer, with the reason.
var longFuncs = map[string]string{}

// otherPanics lists the files whose panics need not start with "BUG: ", with the reason.
var otherPanics = map[string]string{
	"cel/internal/eval/compile.go": "unwinds the compiler from any depth; compile turns it into its error",
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
			checkKeyParsers(t, fset, filepath.ToSlash(path), file)
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

// minComments is the share of comments, in percent, that every folder of the product has at least:
// lines with comments among lines that are not blank.
const minComments = 6

// commentFloors has the floors of folders with more comments, as of the last change of this table. A
// floor may rise, and a folder may be added. A floor never falls.
var commentFloors = map[string]int{
	"internal/admission":                     17,
	"internal/admission/certificates":        18,
	"internal/admission/conditions":          15,
	"internal/admission/eventrate":           17,
	"internal/admission/lookup":              16,
	"internal/admission/match":               19,
	"internal/admission/noderestriction":     10,
	"internal/admission/pods":                8,
	"internal/admission/podsecurity":         9,
	"internal/admission/policy":              11,
	"internal/admission/quota":               11,
	"internal/admission/services":            15,
	"internal/admission/storage":             17,
	"internal/admission/typecheck":           12,
	"internal/admission/webhook":             13,
	"internal/allocator":                     12,
	"internal/api":                           13,
	"internal/api/discovery":                 13,
	"internal/api/impersonation":             14,
	"internal/api/table":                     16,
	"internal/apply":                         12,
	"internal/audit":                         13,
	"internal/authn":                         16,
	"internal/authn/bootstrap":               14,
	"internal/authn/jwt":                     11,
	"internal/authn/serviceaccount":          14,
	"internal/authn/webhook":                 10,
	"authz":                                  20,
	"internal/authz/abac":                    13,
	"internal/authz/config":                  13,
	"internal/authz/feed":                    19,
	"internal/authz/match":                   15,
	"internal/authz/node":                    11,
	"internal/authz/partial":                 20,
	"internal/authz/rbac":                    13,
	"internal/authz/reload":                  17,
	"internal/authz/webhook":                 14,
	"internal/builtin":                       12,
	"internal/builtin/admissionregistration": 8,
	"internal/builtin/apiregistration":       10,
	"internal/builtin/apps":                  7,
	"internal/builtin/authentication":        19,
	"internal/builtin/authorization":         14,
	"internal/builtin/autoscaling":           6,
	"internal/builtin/batch":                 6,
	"internal/builtin/certificates":          8,
	"internal/builtin/coordination":          10,
	"internal/builtin/core":                  7,
	"internal/builtin/describe":              16,
	"internal/builtin/events":                7,
	"internal/builtin/flowcontrol":           6,
	"internal/builtin/networking":            6,
	"internal/builtin/node":                  9,
	"internal/builtin/policy":                12,
	"internal/builtin/rbac":                  7,
	"internal/builtin/resource":              7,
	"internal/builtin/scheduling":            9,
	"internal/builtin/storage":               6,
	"internal/cache":                         16,
	"internal/cache/follow":                  22,
	"cel":                                    22,
	"cel/internal/check":                     9,
	"cel/internal/eval":                      11,
	"cel/internal/fast":                      17,
	"cel/internal/lib":                       9,
	"cel/internal/val":                       13,
	"internal/requests":                      35,
	"internal/conversion":                    11,
	"crd":                                    11,
	"internal/flow":                          14,
	"internal/flow/bootstrap":                10,
	"internal/cli":                           6,
	"internal/configfile":                    17,
	"internal/dfa":                           16,
	"internal/figures":                       7,
	"internal/kubehook":                      16,
	"internal/manifest":                      13,
	"offline":                                12,
	"internal/poison":                        41,
	"internal/reloads":                       18,
	"internal/selector":                      13,
	"internal/series":                        19,
	"internal/testcerts":                     8,
	"internal/testcrds":                      11,
	"internal/testdir":                       20,
	"internal/testkinds":                     9,
	"internal/testpeers":                     15,
	"internal/testports":                     17,
	"internal/watchfile":                     16,
	"internal/webhook":                       22,
	"internal/yamljson":                      16,
	"servertest":                             14,
	"kind":                                   21,
	"lint":                                   10,
	"internal/meta":                          15,
	"internal/networking":                    8,
	"internal/objects":                       18,
	"internal/openapi":                       10,
	"schema":                                 13,
	"schema/structural":                      13,
	"server":                                 13,
	"internal/status":                        25,
	"internal/store":                         43,
	"internal/store/encrypt":                 12,
	"internal/store/etcd":                    15,
	"internal/store/format":                  17,
	"internal/store/mem":                     13,
	"internal/store/storetest":               6,
	"suite":                                  11,
}

// TestCommentDensity holds that no folder loses comments. It counts as "make figures" does.
func TestCommentDensity(t *testing.T) {
	type count struct{ comments, lines int }
	folders := map[string]*count{}
	for path := range parseRepository(t) {
		dir := filepath.ToSlash(filepath.Dir(path))
		first, _, _ := strings.Cut(dir, "/")
		if strings.HasSuffix(path, "_test.go") || first == "conformance" || first == "bench" || first == "e2e" || dir == "." {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if ast.IsGenerated(parseRepository(t)[path]) {
			continue
		}
		if folders[dir] == nil {
			folders[dir] = &count{}
		}
		comments, lines := countComments(text)
		folders[dir].comments += comments
		folders[dir].lines += lines
	}
	for dir, n := range folders {
		floor := max(minComments, commentFloors[dir])
		if n.comments*100 < floor*n.lines {
			t.Errorf("%s: got %d lines with comments of %d (%d %%), want at least %d %%", dir, n.comments, n.lines, n.comments*100/n.lines, floor)
		}
	}
	for dir := range commentFloors {
		if folders[dir] == nil {
			t.Errorf("commentFloors: %s is not a folder of the product", dir)
		}
	}
}

// countComments returns how many lines of a source have a comment, and how many are not blank.
func countComments(text []byte) (comments, lines int) {
	fset := token.NewFileSet()
	file := fset.AddFile("", fset.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	hasComment, hasText := map[int]bool{}, map[int]bool{}
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return len(hasComment), len(hasText)
		}
		if tok == token.SEMICOLON && lit == "\n" {
			continue // inserted by the scanner
		}
		first := file.Line(pos)
		for i := range strings.Count(strings.TrimSuffix(lit, "\n"), "\n") + 1 {
			hasText[first+i] = true
			if tok == token.COMMENT {
				hasComment[first+i] = true
			}
		}
	}
}

// TestCountComments holds that countComments counts a line with code and a comment as both.
func TestCountComments(t *testing.T) {
	comments, lines := countComments([]byte("// Package a.\npackage a\n\n/* b\nc */\nvar x = `\ny` // z\n"))
	if comments != 4 || lines != 6 {
		t.Errorf("got %d lines with comments of %d, want 4 of 6", comments, lines)
	}
}

// ignored are the endings of files that measurements leave, which .gitignore lists.
var ignored = map[string]bool{".test": true, ".prof": true, ".out": true}

// TestFilesAreText checks that a reader can see the difference between two versions of every file.
func TestFilesAreText(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && path != "." && (strings.HasPrefix(e.Name(), ".") || path == "bin" || path == "keelson-data"):
			return fs.SkipDir
		case !e.Type().IsRegular() || ignored[filepath.Ext(path)]:
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if bytes.IndexByte(text, 0) >= 0 && !bytes.HasPrefix(text, []byte("\x7fELF")) { // "go build" leaves programs here
			t.Errorf("%s: got a binary file, want text", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
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
var usual = map[string]bool{"Error": true, "Unwrap": true, "Is": true, "String": true, "ServeHTTP": true, "Close": true,
	"Type": true, "Value": true, "Equal": true, "Size": true, "ConvertToType": true, "ConvertToNative": true} // cel-go's values

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

// keyParsers are the functions that parse keys and certificates of any length. internal/keysize
// bounds the length first. A call elsewhere needs an entry in boundedCalls.
var keyParsers = map[string]string{
	"x509": "ParseCertificate ParseCertificates ParseCertificateRequest ParsePKIXPublicKey ParsePKCS1PublicKey ParsePKCS1PrivateKey " +
		"ParsePKCS8PrivateKey ParseECPrivateKey",
	"tls":     "X509KeyPair LoadX509KeyPair",
	"keyutil": "PrivateKeyFromFile PublicKeysFromFile ParsePrivateKeyPEM ParsePublicKeysPEM",
	"rest":    "HTTPClientFor TLSConfigFor TransportFor RESTClientFor",
	"":        "AppendCertsFromPEM ParseSigned", // of any value
}

// boundedCalls are the files that may call such a function, and why.
var boundedCalls = map[string]string{
	"crd/validate_conversion.go":                      "decides as upstream does; checks no signature, and the webhook's client bounds the keys",
	"server/certs.go":                                 "parses the certificate that it just made",
	"internal/cli/convert/serve.go":                   "checks the files before",
	"internal/authn/serviceaccount/keys.go":           "checks the file before",
	"internal/authn/serviceaccount/serviceaccount.go": "authn.IssuerOf checks the token before",
	"internal/webhook/webhook.go":                     "checks the bundle; readFiles checks the keys",
	"internal/crdsource/cluster.go":                   "checks the kubeconfig before",
	"internal/cli/snapshot/snapshot.go":               "checks the kubeconfig before",
	"internal/cli/export/server.go":                   "checks the kubeconfig before",
	"internal/site/reference.go":                      "makes the documentation, from a server that it started",
}

// checkKeyParsers reports parsers of keys whose length nothing bounds.
func checkKeyParsers(t *testing.T, fset *token.FileSet, path string, file *ast.File) {
	for _, folder := range []string{"internal/keysize/", "internal/test", "keelsontest/", "bench/", "attack/", "conformance/"} {
		if strings.HasPrefix(path, folder) {
			return
		}
	}
	found := false
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		of, _ := call.X.(*ast.Ident)
		if slices.Contains(strings.Fields(keyParsers[""]), call.Sel.Name) || of != nil && slices.Contains(strings.Fields(keyParsers[of.Name]), call.Sel.Name) {
			found = true
			if boundedCalls[path] == "" {
				t.Errorf("%s: %s parses a key of any length; call internal/keysize", fset.Position(call.Pos()), call.Sel.Name)
			}
		}
		return true
	})
	if !found && boundedCalls[path] != "" {
		t.Errorf("%s: parses no key: take it off the list", path)
	}
}
