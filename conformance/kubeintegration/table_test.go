package kubeintegration

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// This file has the list of what cannot pass, and the table in the documentation.

const (
	elsewhereFile = "testdata/elsewhere.txt"
	docsFile      = "../../docs/conformance.md"
	tableBegin    = "<!-- kube-integration -->\n"
	tableEnd      = "<!-- /kube-integration -->\n"
)

// readElsewhere returns the tests that cannot pass, "package Test", and why.
func readElsewhere() (map[string]string, error) {
	f, err := os.Open(elsewhereFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	listed := map[string]string{}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		test, reason, ok := strings.Cut(line, ": ")
		pkg, name, two := strings.Cut(test, " ")
		switch _, twice := listed[test]; {
		case !ok || !two || !strings.HasPrefix(name, "Test") || reason == "":
			return nil, fmt.Errorf("%s:%d: got %q, want \"package Test: reason\"", elsewhereFile, n, line)
		case twice:
			return nil, fmt.Errorf("%s:%d: %s is listed twice", elsewhereFile, n, test)
		case !slices.Contains(packages, pkg):
			return nil, fmt.Errorf("%s:%d: package %s is not run", elsewhereFile, n, pkg)
		}
		listed[test] = reason
	}
	return listed, lines.Err()
}

// TestElsewhere holds that the list can be read, and that the page names each package.
func TestElsewhere(t *testing.T) {
	if _, err := readElsewhere(); err != nil {
		t.Error(err)
	}
	docs, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packages {
		if !strings.Contains(string(docs), "\n| "+p+" |") {
			t.Errorf("%s has no row for %s: run with -update", docsFile, p)
		}
	}
}

// table prints the rows as they stand in the documentation.
func table(rows []row) string {
	var b strings.Builder
	b.WriteString("| package | passed | of | skipped by upstream's test |\n| --- | ---: | ---: | ---: |\n")
	var passed, all, skipped int
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %d | %d | %d |\n", r.name, len(r.passed), len(r.passed)+len(r.failed), len(r.skipped))
		passed, all, skipped = passed+len(r.passed), all+len(r.passed)+len(r.failed), skipped+len(r.skipped)
	}
	fmt.Fprintf(&b, "| all | %d | %d | %d |\n", passed, all, skipped)
	return b.String()
}

// checkTable compares the table in the documentation with the rows, or writes it.
func checkTable(t *testing.T, rows []row) {
	t.Helper()
	docs, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, begins := strings.Cut(string(docs), tableBegin)
	_, tail, ends := strings.Cut(rest, tableEnd)
	if !begins || !ends {
		t.Fatalf("%s has no place for the table", docsFile)
	}
	want := head + tableBegin + table(rows) + tableEnd + tail
	switch {
	case want == string(docs):
	case *update:
		if err := os.WriteFile(docsFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s has another table: run with -update. Now:\n%s", docsFile, table(rows))
	}
}
