package builtin

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This file knows the rules of upstream that Keelson does not have: testdata/unchecked.txt names the kind, the field and what upstream says
// of it, each rule on a line. Each must be one that Keelson lacks, and there must be no other.

// rule is one of them, as it stands there and as regular expressions. An index is [*], and … is any text.
type rule struct {
	text string
	res  [3]*regexp.Regexp
	used int
}

// readRules reads the rules.
func readRules(t *testing.T, path string) []*rule {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []*rule
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSuffix(line, "\n"); line == "" || line[0] == '#' {
			continue
		}
		parts := strings.SplitN(line, " | ", 3)
		if len(parts) != 3 {
			t.Fatalf("%s: %q is no rule", path, line)
		}
		r := &rule{text: line}
		for i, part := range parts {
			part = regexp.QuoteMeta(part)
			part = strings.ReplaceAll(part, `\[\*\]`, `\[\d+\]`)
			r.res[i] = regexp.MustCompile("^(?s:" + strings.ReplaceAll(part, "…", ".*") + ")$")
		}
		all = append(all, r)
	}
	return all
}

// goDifference is a difference of two specs, as Go prints it, off what is wrong with an object.
var goDifference = regexp.MustCompile(`(?s)\n@@ .*`)

// causes are what an answer says is wrong with an object, nil if it does not.
func (a *answer) causes() []metav1.StatusCause {
	var said metav1.Status
	if a.code != 422 || json.Unmarshal(a.body, &said) != nil || said.Details == nil {
		return nil
	}
	for i := range said.Details.Causes {
		c := &said.Details.Causes[i]
		if text := goDifference.FindString(c.Message); strings.HasPrefix(text, "\n") {
			c.Message = strings.TrimSuffix(c.Message, text)
		}
	}
	return said.Details.Causes
}

// Ledger: pod-validation, device-validation.

// lacks reports whether upstream refuses by rules that Keelson lacks alone, or finds more wrong by them.
func (r *run) lacks(of string, theirs, ours *answer) bool {
	if ours.code >= 300 && ours.code != 422 {
		return false
	}
	said, got := theirs.causes(), ours.causes()
	if len(said) == 0 || ours.code == 422 && len(got) == 0 {
		return false
	}
	for _, c := range got {
		if !slices.Contains(said, c) {
			return false
		}
	}
	more, known := 0, true
	for _, c := range said {
		if slices.Contains(got, c) {
			continue
		}
		more++
		i := slices.IndexFunc(r.rules, func(r *rule) bool {
			return r.res[0].MatchString(of) && r.res[1].MatchString(c.Field) && r.res[2].MatchString(c.Message)
		})
		if i < 0 {
			known = false
			r.t.Errorf("unchecked: %s | %s | %s", of, c.Field, c.Message)
			continue
		}
		r.rules[i].used++
	}
	return more > 0 && known
}
