package kubectl

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// This file compares the results with the list of differences and with the page about them.

const (
	listFile = "testdata/differences.txt"
	docsFile = "../../docs/conformance.md"
)

// The page has the table between these lines.
const (
	tableBegin = "<!-- begin: make conformance-kubectl -->\n"
	tableEnd   = "<!-- end: make conformance-kubectl -->\n"
)

// judge fails the test if a function differs that is not listed, or one that is listed does not. all says that no function is missing.
func judge(t *testing.T, results []result, all bool) {
	t.Helper()
	reasons, err := readReasons()
	if err != nil {
		t.Fatal(err)
	}
	var list strings.Builder
	for _, r := range results {
		difference, reason := r.difference(), reasons[r.function]
		delete(reasons, r.function)
		switch {
		case difference == "" && reason != "" && !*update:
			t.Errorf("%s: does not differ, and is listed in %s", r.function, listFile)
		case difference != "" && reason == "" && !*update:
			t.Errorf("%s: %s\n%s", r.function, difference, tail(r.here.out, 40))
		}
		if difference != "" {
			fmt.Fprintf(&list, "%s: %s\n", r.function, reason)
		}
	}
	if !all {
		return
	}
	for name := range reasons {
		if !*update {
			t.Errorf("%s: listed in %s, and not a function that was run", name, listFile)
		}
	}
	if *update {
		if err := os.WriteFile(listFile, []byte(list.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	document(t, table(results))
}

// readReasons returns the reasons for the differences, by function.
func readReasons() (map[string]string, error) {
	text, err := os.ReadFile(listFile)
	if err != nil {
		return nil, err
	}
	reasons := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, reason, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if name = strings.TrimSuffix(name, ":"); name != "" {
			reasons[name] = reason
		}
	}
	return reasons, nil
}

// TestReasons holds that each difference has a reason.
func TestReasons(t *testing.T) {
	reasons, err := readReasons()
	if err != nil {
		t.Fatal(err)
	}
	for name, reason := range reasons {
		if reason == "" {
			t.Errorf("%s: %s has no reason", listFile, name)
		}
	}
}

// table returns the results as a table, with the totals above it.
func table(results []result) string {
	var rows strings.Builder
	there, here, far := 0, 0, 0
	for _, r := range results {
		if r.there.passes() {
			there++
		}
		if r.here.passes() {
			here++
		}
		if r.difference() == "" {
			far++
		}
		fmt.Fprintf(&rows, "| `%s` | %s | %s |\n", r.function, r.there, r.here)
	}
	total := fmt.Sprintf("    kubectl: %d of %d functions pass or get as far as on kube-apiserver; %d pass here, %d there\n",
		far, len(results), here, there)
	return total + "\n| function | kube-apiserver | keelson |\n| --- | --- | --- |\n" + rows.String()
}

// document compares the page with the table, or writes it.
func document(t *testing.T, table string) {
	t.Helper()
	text, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), tableBegin)
	said, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		t.Fatalf("%s: the lines %q and %q are missing", docsFile, tableBegin, tableEnd)
	}
	fmt.Println(strings.TrimSpace(strings.SplitN(table, "\n", 2)[0]))
	switch {
	case *update:
		if err := os.WriteFile(docsFile, []byte(before+tableBegin+table+tableEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
	case said != table:
		t.Errorf("%s: got another table; make conformance-kubectl UPDATE=1 writes this one:\n%s", docsFile, table)
	}
}
