// This file checks that the files, headings and tests exist that documents and comments name.

package keelson

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// repository is what links may point to.
type repository struct {
	files map[string]bool            // files and folders, with slashes, from the root
	tests map[string]map[string]bool // folder -> names of its tests, benchmarks and fuzz targets
}

func TestLinks(t *testing.T) {
	r := repository{map[string]bool{}, map[string]map[string]bool{}}
	var documents []string
	err := walkRepository(func(path string, _ fs.DirEntry) error {
		r.files[path] = true
		if filepath.Ext(path) == ".md" && !strings.Contains(path, "testdata/") {
			documents = append(documents, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	sources := parseRepository(t)
	for path, file := range sources {
		r.addTests(path, file)
	}
	if len(documents) < 5 || len(sources) < 100 || len(r.tests["e2e"]) == 0 {
		t.Fatalf("got %d documents, %d sources and %d tests of e2e: this is not the whole repository", len(documents), len(sources), len(r.tests["e2e"]))
	}
	for path, file := range sources {
		for _, group := range file.Comments {
			for _, complaint := range r.checkComment(path, group.Text()) {
				t.Errorf("%s: the comment names %s", sourceFiles.Position(group.Pos()), complaint)
			}
		}
	}
	for _, path := range documents {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, complaint := range r.checkDocument(path, string(text)) {
			t.Errorf("%s: %s", path, complaint)
		}
	}
}

// walkRepository calls visit with each file and folder of the repository, named with slashes from the root.
func walkRepository(visit func(path string, e fs.DirEntry) error) error {
	return filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && path != "." && (strings.HasPrefix(e.Name(), ".") || path == "bin") {
			return fs.SkipDir
		}
		return visit(filepath.ToSlash(path), e)
	})
}

// sourceFiles has the positions of the files that parseRepository returns.
var sourceFiles = token.NewFileSet()

// parsedSources parses every Go file outside testdata, once for all tests of this package.
var parsedSources = sync.OnceValues(func() (map[string]*ast.File, error) {
	sources := map[string]*ast.File{}
	err := walkRepository(func(path string, e fs.DirEntry) error {
		if filepath.Ext(path) != ".go" || e.IsDir() || strings.Contains(path, "testdata/") {
			return nil
		}
		file, err := parser.ParseFile(sourceFiles, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		sources[path] = file
		return err
	})
	return sources, err
})

// parseRepository returns the parsed Go files of the repository by their paths, without those of testdata.
func parseRepository(t *testing.T) map[string]*ast.File {
	t.Helper()
	sources, err := parsedSources()
	if err != nil {
		t.Fatal(err)
	}
	return sources
}

func (r *repository) addTests(path string, file *ast.File) {
	if !strings.HasSuffix(path, "_test.go") {
		return
	}
	dir := filepath.ToSlash(filepath.Dir(path))
	if r.tests[dir] == nil {
		r.tests[dir] = map[string]bool{}
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
			r.tests[dir][f.Name.Name] = true
		}
	}
}

var (
	// pathWords finds the path of a source or a document. It begins at a word's beginning, so that URLs and import paths, which
	// have dots in their first part, are not found.
	pathWords = regexp.MustCompile(`(?:^|[\s("'` + "`" + `])([a-z][a-z0-9_-]*(?:/[A-Za-z0-9_-]+)+\.(?:go|md))\b`)
	fileWords = regexp.MustCompile(`(?:^|[\s("'` + "`" + `])([a-z][a-z0-9_]*\.(?:go|md))\b`)
	examples  = regexp.MustCompile(`(?m)^[\t ].*$`)
	mdLinks   = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	codeSpans = regexp.MustCompile("`[^`\n]*`")
	fences    = regexp.MustCompile("(?ms)^```.*?^```")
	headings  = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	// namedTests finds a package with the tests that a document names in it.
	namedTests = regexp.MustCompile("`([a-z0-9_/]+)` ((?:Test|Fuzz|Benchmark)[A-Z]\\w*(?:, (?:Test|Fuzz|Benchmark)[A-Z]\\w*)*)")
	testWords  = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w*`)
)

// has reports whether a path that a source or a document names exists, from the root or from any folder above that file. A path
// whose first part is not a folder of this repository is another project's.
func (r *repository) has(from, named string) bool {
	named = strings.TrimLeft(named, " \t\n(\"'`")
	first, _, _ := strings.Cut(named, "/")
	if !r.files[first] {
		return true
	}
	for dir := filepath.Dir(from); ; dir = filepath.Dir(dir) {
		if r.files[filepath.ToSlash(filepath.Join(dir, named))] {
			return true
		}
		if dir == "." {
			return false
		}
	}
}

// checkComment returns the missing names in the comment of a source: paths, sources without a
// folder, and tests. Indented lines are examples.
func (r *repository) checkComment(path, text string) (complaints []string) {
	text = examples.ReplaceAllString(text, "")
	for _, named := range pathWords.FindAllString(text, -1) {
		if !r.has(path, named) {
			complaints = append(complaints, strings.TrimSpace(named)+", which does not exist")
		}
	}
	for _, m := range fileWords.FindAllStringSubmatch(text, -1) {
		if !r.hasFile(m[1]) {
			complaints = append(complaints, m[1]+": there is no such file in any folder")
		}
	}
	for _, name := range testWords.FindAllString(text, -1) {
		if !r.hasTest(name) {
			complaints = append(complaints, name+": there is no such test")
		}
	}
	return complaints
}

func (r *repository) hasFile(name string) bool {
	for path := range r.files {
		if filepath.Base(path) == name {
			return true
		}
	}
	return false
}

// hasTest reports whether any package has the test.
func (r *repository) hasTest(name string) bool {
	for _, names := range r.tests {
		if names[name] {
			return true
		}
	}
	return false
}

// checkDocument returns the missing targets of a document.
func (r *repository) checkDocument(path, text string) (complaints []string) {
	plain := codeSpans.ReplaceAllString(fences.ReplaceAllString(text, ""), "")
	for _, m := range mdLinks.FindAllStringSubmatch(plain, -1) {
		if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
			continue
		}
		file, anchor, _ := strings.Cut(m[1], "#")
		target := path
		if file != "" {
			target = filepath.ToSlash(filepath.Join(filepath.Dir(path), file))
		}
		if !r.files[target] {
			complaints = append(complaints, "the link "+m[1]+" points to a file that does not exist")
		} else if anchor != "" && filepath.Ext(target) == ".md" {
			if b, err := os.ReadFile(target); err != nil || !slices.Contains(anchors(string(b)), anchor) {
				complaints = append(complaints, "the link "+m[1]+" points to a heading that does not exist")
			}
		}
	}
	for _, named := range pathWords.FindAllString(text, -1) {
		if !r.has(path, named) {
			complaints = append(complaints, "names "+strings.TrimSpace(named)+", which does not exist")
		}
	}
	for _, m := range namedTests.FindAllStringSubmatch(text, -1) {
		for name := range strings.SplitSeq(m[2], ", ") {
			if !r.tests[m[1]][name] {
				complaints = append(complaints, "names `"+m[1]+"` "+name+": there is no such test in this package")
			}
		}
	}
	switch path {
	case "docs/compat.md":
		complaints = append(complaints, r.checkLedger(text)...)
	case "docs/limits.md":
		complaints = append(complaints, r.checkLedger(text)...)
		complaints = append(complaints, r.checkProofs(text)...)
	case "docs/security.md":
		complaints = append(complaints, r.checkProofs(text)...)
		complaints = append(complaints, checkActors(text)...)
	}
	return complaints
}

// checkLedger wants a test or a package in each line of the tables whose last column holds tests, and that every test named
// anywhere in the text exists.
func (r *repository) checkLedger(text string) (complaints []string) {
	for _, name := range testWords.FindAllString(text, -1) {
		if !r.hasTest(name) {
			complaints = append(complaints, "names "+name+": there is no such test")
		}
	}
	inTable := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			inTable = false
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), " | ")
		last := strings.TrimSpace(cells[len(cells)-1])
		switch {
		case last == "test" || last == "tests" || last == "where":
			inTable = true
		case !inTable || strings.HasPrefix(last, "---"):
		default:
			ok := testWords.MatchString(last)
			for _, span := range codeSpans.FindAllString(last, -1) {
				dir := strings.Trim(span, "`")
				ok = ok || r.tests[dir] != nil
			}
			if !ok {
				complaints = append(complaints, "no test or package with tests in the last column of: "+line[:min(120, len(line))])
			}
		}
	}
	return complaints
}

// tableRow is a row of a table in a document, with the words in the head of its last column.
type tableRow struct {
	column string
	cells  []string
}

// tables returns the rows of all tables of a document.
func tables(text string) (rows []tableRow) {
	column := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			column = ""
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), " | ")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch last := cells[len(cells)-1]; {
		case column == "":
			column = last
		case strings.HasPrefix(last, "---"):
		default:
			rows = append(rows, tableRow{column, cells})
		}
	}
	return rows
}

// reasons are words of a row that say why there is nothing to test.
var reasons = regexp.MustCompile(`does not apply, because|not used|only|fixed in`)

// checkProofs wants a test, with its package, in each row of the tables whose last column says where bounds and promises are tested.
// A row may have a dash instead if it says why there is nothing to test.
func (r *repository) checkProofs(text string) (complaints []string) {
	for _, row := range tables(text) {
		last := row.cells[len(row.cells)-1]
		switch {
		case row.column != "test" && row.column != "where":
		case last == "–" && reasons.MatchString(strings.Join(row.cells, " ")):
		case !namedTests.MatchString(last):
			complaints = append(complaints, "no package and test in the last column of the row "+row.cells[0])
		}
	}
	return complaints
}

// checkActors wants, for each actor of the threat model, what is promised and tested, and what is not promised.
func checkActors(text string) (complaints []string) {
	_, actors, _ := strings.Cut(text, "\n## Who attacks")
	actors, _, _ = strings.Cut(actors, "\n## ")
	sections := strings.Split(actors, "\n### ")
	if len(sections) < 9 {
		complaints = append(complaints, "lacks actors: want those of a server, from an anonymous client to the holder of the disk")
	}
	for _, section := range sections[1:] {
		name, _, _ := strings.Cut(section, "\n")
		promises := 0
		for _, row := range tables(section) {
			if row.column == "test" {
				promises++
			}
		}
		if promises < 3 || !strings.Contains(section, "\nNot promised:\n\n- ") {
			complaints = append(complaints, name+": got "+strconv.Itoa(promises)+" promises, want at least three with their tests, and what is not promised")
		}
	}
	return complaints
}

// anchors returns the names of a document's headings as GitHub makes them.
func anchors(text string) (out []string) {
	for _, m := range headings.FindAllStringSubmatch(fences.ReplaceAllString(text, ""), -1) {
		slug := strings.Map(func(c rune) rune {
			switch {
			case c == ' ':
				return '-'
			case c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c > 127:
				return c
			}
			return -1
		}, strings.ToLower(m[1]))
		out = append(out, slug)
	}
	return out
}

// TestLinkCheck holds that TestLinks finds what is broken.
func TestLinkCheck(t *testing.T) {
	r := repository{
		files: map[string]bool{"docs": true, "docs/limits.md": true, "api": true, "api/route.go": true},
		tests: map[string]map[string]bool{"api": {"TestRoute": true}},
	}
	tests := []struct {
		name, text, want string // want is empty if nothing is broken
	}{
		{"a link", "[a](../api/route.go)", ""},
		{"a broken link", "[a](../api/gone.go)", "the link ../api/gone.go points to a file"},
		{"a link to a missing file in an example", "`[a](gone.md)`", ""},
		{"a path", "see `api/route.go`", ""},
		{"a broken path", "see `api/gone.go`", "which does not exist"},
		{"a path of another project", "see `pkg/gone.go` and https://go.dev/api/gone.go", ""},
		{"a test", "| a | test |\n| --- | --- |\n| b | `api` TestRoute |\n", ""},
		{"a missing test", "`api` TestGone", "there is no such test in this package"},
		{"a test of another package", "`docs` TestRoute", "there is no such test in this package"},
		{"a missing test without a package", "TestGone", "names TestGone: there is no such test"},
		{"a line without a test", "| a | test |\n| --- | --- |\n| b | none |\n", "no test or package with tests in the last column"},
		{"a line with a package", "| a | test |\n| --- | --- |\n| b | `api` |\n", "no package and test"},
	}
	for _, test := range tests {
		got := strings.Join(r.checkDocument("docs/limits.md", test.text), "; ")
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
	for text, want := range map[string]string{
		"| a | where |\n| --- | --- |\n| b | `api` TestRoute |\n":                                     "",
		"| a | where |\n| --- | --- |\n| b | `api` |\n":                                               "no package and test",
		"| a | b | test |\n| --- | --- | --- |\n| c | does not apply, because it is not here | – |\n": "",
		"| a | b | test |\n| --- | --- | --- |\n| c | it is refused | – |\n":                          "no package and test",
	} {
		if got := strings.Join(r.checkProofs(text), "; "); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
	if got := strings.Join(checkActors("\n## Who attacks\n\n### A node\n\n| a | test |\n| --- | --- |\n| b | `api` TestRoute |\n\n## Defaults\n"), "; "); !strings.Contains(got, "A node: got 1 promises") ||
		!strings.Contains(got, "lacks actors") {
		t.Errorf("an actor with one promise: got %q", got)
	}
	for text, want := range map[string]string{
		"see api/route.go, route.go and TestRoute": "", "see api/gone.go": "api/gone.go, which does not exist",
		"see gone.go": "gone.go: there is no such file", "see TestGone": "TestGone: there is no such test", "as in\n\n\tTestGone in gone.go\n": "",
	} {
		got := strings.Join(r.checkComment("docs/a.go", text), "; ")
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
	if got := anchors("# A `b` c, d\n```\n# no\n```\n## Two-part\n"); !slices.Equal(got, []string{"a-b-c-d", "two-part"}) {
		t.Errorf("anchors: got %q", got)
	}
}
