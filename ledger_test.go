// This file checks the ledger of differences, docs/compat.md, against the tests that hold its rows.

package keelson

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	ledgerFile  = "docs/compat.md"
	ledgerCells = 5 // ID, Kubernetes, Keelson, why, tests
	// maxLedgerWords bounds each cell of a row but the tests, so that a row can be read at once.
	maxLedgerWords = 36
)

var (
	ledgerID = regexp.MustCompile("^`([a-z0-9]+(?:-[a-z0-9]+)*)`$")
	// ledgerMark finds the rows that a comment of a test names. The list may be wrapped.
	ledgerMark = regexp.MustCompile(`(?m)^Ledger:\s+([a-z0-9-]+(?:,\s+[a-z0-9-]+)*)\.$`)
)

// ledgerRows returns the folders that each row of the ledger names, by the row's ID, and what is wrong with the rows.
func ledgerRows(text string) (folders map[string][]string, complaints []string) {
	folders = map[string][]string{}
	inTable := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			inTable = false
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), " | ")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if cells[0] == "ID" || strings.HasPrefix(cells[0], "---") {
			inTable = true
			continue
		}
		if !inTable {
			continue
		}
		m := ledgerID.FindStringSubmatch(cells[0])
		if m == nil || len(cells) != ledgerCells {
			complaints = append(complaints, "got a row without an ID or with too many cells: "+line[:min(80, len(line))])
			continue
		}
		id := m[1]
		if folders[id] != nil {
			complaints = append(complaints, id+": two rows have this ID")
		}
		for i, cell := range cells[1 : ledgerCells-1] {
			if n := len(strings.Fields(cell)); n == 0 || n > maxLedgerWords || !strings.HasSuffix(cell, ".") {
				complaints = append(complaints, id+": column "+[]string{"Kubernetes", "Keelson", "Why"}[i]+" is not a short sentence")
			}
		}
		folders[id] = []string{}
		for _, span := range codeSpans.FindAllString(cells[ledgerCells-1], -1) {
			folders[id] = append(folders[id], strings.Trim(span, "`"))
		}
	}
	return folders, complaints
}

// ledgerMarks returns the IDs that the comments of a source name.
func ledgerMarks(file *ast.File) (ids []string) {
	for _, group := range file.Comments {
		for _, m := range ledgerMark.FindAllStringSubmatch(group.Text(), -1) {
			for id := range strings.SplitSeq(m[1], ",") {
				ids = append(ids, strings.TrimSpace(id))
			}
		}
	}
	return ids
}

// TestLedger checks that each row of the ledger has an ID, which a comment names in every folder that the row points to,
// and that each ID in a comment is that of a row.
func TestLedger(t *testing.T) {
	text, err := os.ReadFile(ledgerFile)
	if err != nil {
		t.Fatal(err)
	}
	folders, complaints := ledgerRows(string(text))
	for _, c := range complaints {
		t.Errorf("%s: %s", ledgerFile, c)
	}
	if len(folders) < 100 {
		t.Fatalf("%s: got %d rows, want at least 100: the table is not recognized", ledgerFile, len(folders))
	}
	marked := map[string][]string{} // ID -> folders with a comment that names it
	for path, file := range parseRepository(t) {
		if !strings.HasSuffix(path, "_test.go") {
			continue
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		for _, id := range ledgerMarks(file) {
			marked[id] = append(marked[id], dir)
			if folders[id] == nil {
				t.Errorf("%s: the comment names row %s, which %s does not have", path, id, ledgerFile)
			}
		}
	}
	for id, dirs := range folders {
		for _, dir := range dirs {
			if !slices.Contains(marked[id], dir) {
				t.Errorf(`%s: row %s: no test in %s says "Ledger: %s."`, ledgerFile, id, dir, id)
			}
		}
	}
}

// TestLedgerCheck holds that ledgerRows finds what is wrong with a row.
func TestLedgerCheck(t *testing.T) {
	const head = "| ID | Kubernetes | Keelson | Why | Test |\n| --- | --- | --- | --- | --- |\n"
	for row, want := range map[string]string{
		"| `a-b` | Does. | Does not. | Because. | `api` TestA, `e2e` TestB |":                        "",
		"| a-b | Does. | Does not. | Because. | `api` TestA |":                                       "without an ID",
		"| `a-b` | Does. | Because. | `api` TestA |":                                                 "too many cells",
		"| `a-b` | Does. | does | Because. | `api` TestA |":                                          "column Keelson",
		"| `a-b` | " + strings.Repeat("very ", 40) + "long. | Does. | Because. | `api` TestA |":      "column Kubernetes",
		"| `a` | A. | B. | C. | `api` TestA |\n| `a` | Does. | Does not. | Because. | `api` TestA |": "two rows",
	} {
		_, complaints := ledgerRows(head + row + "\n")
		got := strings.Join(complaints, "; ")
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", row, got, want)
		}
	}
	folders, _ := ledgerRows(head + "| `a-b` | Does. | Does not. | Because. | `api` TestA, `e2e` TestB |\n")
	if got := folders["a-b"]; !slices.Equal(got, []string{"api", "e2e"}) {
		t.Errorf("got folders %q, want api and e2e", got)
	}
}
