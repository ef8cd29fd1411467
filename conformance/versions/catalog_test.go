package versions

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/testcrds"
	"github.com/keelson-io/keelson/kubernetes"
	"github.com/keelson-io/keelson/lint"
)

// This file compares the verdicts of all releases on published definitions.

var only = flag.String("only", "", "compare only the definitions whose name contains this")

// TestCatalog compares, for each definition of the catalogue and each release, whether a server
// accepts it, and the oldest release that does.
func TestCatalog(t *testing.T) {
	running := oracles(t)
	all, err := testcrds.Definitions(testcrds.Catalog())
	if err != nil {
		t.Fatal(err)
	}
	count, refused := 0, map[string]int{}
	lowest := map[string]int{}
	for i := range all {
		d := &all[i]
		if d.Beta || !strings.Contains(d.Name, *only) {
			continue // no known release serves v1beta1
		}
		count++
		low := compareDefinition(t, running, d.Name, d.YAML, refused)
		lowest[low]++
	}
	for _, o := range running {
		t.Logf("%s refuses %d of %d definitions", o.release, refused[o.release.String()], count)
	}
	for _, r := range kubernetes.All() {
		if n := lowest[r.String()]; n > 0 {
			t.Logf("%d definitions: %s is the oldest release that accepts them", n, r)
		}
	}
	if count < 400 && *only == "" {
		t.Errorf("%d definitions, want 400", count)
	}
}

// compareDefinition compares the verdicts on one definition, and returns the lowest release.
func compareDefinition(t *testing.T, running []*oracle, name string, text []byte, refused map[string]int) string {
	d, err := lint.Load(lint.Source{Name: name, Text: text})
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return ""
	}
	report := lint.CheckReleases(context.Background(), d, nil, kubernetes.All())
	want, contiguous := "", true
	for _, o := range slices.Backward(running) {
		a := o.ask(t, "Definition", json.RawMessage(d.JSON))
		ours := reasons(report, o.release)
		if a.refuses() {
			refused[o.release.String()]++
			contiguous = false
		} else if contiguous {
			want = o.release.String()
		}
		if a.refuses() != (len(ours) > 0) {
			t.Errorf("%s: %s: upstream %s\nwe: %s", name, o.release, describe(a), strings.Join(ours, "\n    "))
		}
	}
	got := ""
	if report.Lowest != nil {
		got = report.Lowest.Kubernetes
	}
	if len(running) == len(kubernetes.All()) && got != want {
		t.Errorf("%s: lowest release: got %q, want %q", name, got, want)
	}
	return want
}

// reasons returns our errors for one release.
func reasons(report *lint.Report, r kubernetes.Release) []string {
	var out []string
	for _, f := range report.Findings {
		if f.Severity == lint.Error && (len(f.Kubernetes) == 0 || slices.Contains(f.Kubernetes, r.String())) {
			out = append(out, f.Path+": "+f.Message)
		}
	}
	return out
}

// describe returns what upstream says.
func describe(a *answer) string {
	if !a.refuses() {
		return "accepts"
	}
	return fmt.Sprintf("refuses: %s", strings.Join(slices.Concat(a.Errors, a.Unknown, a.Dropped), "\n    "))
}
