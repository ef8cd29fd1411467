package schema

import (
	"context"
	"flag"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// This file holds what rules say about objects, and what is said about their cost, to the word and in its order, against files that upstream
// agrees with.

var update = flag.Bool("update", false, "write testdata/rules.txt")

// full is an object with those members, in which a5120 stands for so many letters.
func full(members string) string {
	for text, n := range map[string]int{"a5119": 5119, "a5120": 5120, "a5121": 5121} {
		members = strings.ReplaceAll(members, text, strings.Repeat("a", n))
	}
	return `{"apiVersion":"g/v1","kind":"K","metadata":{},` + members + `}`
}

func TestRuleOutcomes(t *testing.T) {
	text, err := os.ReadFile("testdata/rules.txt")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	print := func(line string) {
		line = strings.ReplaceAll(line, strings.Repeat("a", 5119), "[5119]")
		out.WriteString("\t" + strings.ReplaceAll(line, "\n", "\\n") + "\n")
	}
	var p *Program
	old, objects := "", 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "\t") {
			continue
		}
		out.WriteString(line + "\n")
		switch what, rest, _ := strings.Cut(line, " "); what {
		case "schema":
			p, old = compileYAML(t, rest, Options{Resource: true}), ""
		case "old":
			old = full(rest)
		case "new":
			objects++
			r := p.Validate(context.Background(), object(t, p, full(rest)), object(t, p, old), Whole)
			for _, e := range lines(r.Errors) {
				print(e)
			}
			for _, w := range r.Warnings {
				print("warning: " + w)
			}
		}
	}
	if objects < 20 {
		t.Fatalf("%d objects", objects)
	}
	golden(t, "testdata/rules.txt", string(text), out.String())
}

// TestCostLimits: what estimates are too much, and by how much.
func TestCostLimits(t *testing.T) {
	text, err := os.ReadFile("testdata/costs.txt")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "\t") {
			continue
		}
		out.WriteString(line)
		schema, ok := strings.CutPrefix(line, "schema ")
		if !ok {
			continue
		}
		for _, e := range lines(compileYAML(t, schema, Options{Resource: true}).CheckRules(RuleCheck{Path: field.NewPath("root")})) {
			out.WriteString("\t" + e + "\n")
		}
	}
	golden(t, "testdata/costs.txt", string(text), out.String())
}

// golden compares what is said with a file, or writes it.
func golden(t *testing.T, file, want, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	has, wants := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(has), len(wants)) {
		if has[i] != wants[i] {
			t.Fatalf("%s:%d:\n got %s\nwant %s", file, i+1, has[i], wants[i])
		}
	}
	if len(has) != len(wants) {
		t.Fatalf("%s: got %d lines, want %d", file, len(has), len(wants))
	}
}
