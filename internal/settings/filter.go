package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/keelson-io/keelson/internal/manifest"
)

// This file drops findings.

// Entry identifies a finding without its line, so that it stays the same when a file changes above
// it.
type Entry struct {
	ID     string `json:"id"`
	File   string `json:"file"`
	Object string `json:"object,omitempty"` // kind and name
	Path   string `json:"path,omitempty"`   // of the field
	Count  int    `json:"count,omitempty"`  // of equal findings; 0 stands for 1
}

// baseline is the contents of a baseline file.
type baseline struct {
	APIVersion string  `json:"apiVersion"`
	Kind       string  `json:"kind"`
	Findings   []Entry `json:"findings"`
}

// baselineKind is the kind of a baseline file.
const baselineKind = "Baseline"

// Filter drops findings that are suppressed or in the baseline.
type Filter struct {
	settings *Settings
	lint     bool          // the findings are those of lint
	others   []Entry       // findings of the other command in the baseline
	used     []int         // findings that each suppression dropped
	known    map[Entry]int // findings of the baseline that were not met yet
	folder   string        // of the baseline
	seen     map[Entry]int // findings that no suppression dropped
	// Suppressed and Baseline are the numbers of dropped findings.
	Suppressed, Baseline int
}

// isLint reports whether an ID is that of a finding of lint. Those of validate begin with a capital.
func isLint(id string) bool { return id != "" && id[0] >= 'a' && id[0] <= 'z' }

// Filter returns a filter for the findings of lint, or of validate. The baseline is read from file;
// "" means that there is none. If write is set, the baseline is to be written: its findings are not
// dropped, and it need not be there.
func (s *Settings) Filter(file string, lint, write bool) (*Filter, error) {
	f := &Filter{settings: s, lint: lint, used: make([]int, len(s.Suppress)), known: map[Entry]int{}, seen: map[Entry]int{}, folder: filepath.Dir(file)}
	if file == "" {
		return f, nil
	}
	within := ""
	if file == s.Baseline {
		within = s.Root // the settings name it
	}
	text, err := manifest.ReadWithin(within, file)
	if errors.Is(err, os.ErrNotExist) {
		if write {
			return f, nil
		}
		return nil, fmt.Errorf("%w; write it with --write-baseline %s", err, file)
	}
	if err != nil {
		return nil, err
	}
	var b baseline
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&b); err != nil {
		return nil, fmt.Errorf("%s: not a baseline: %w; remove it, and write it with --write-baseline %s", file, err, file)
	}
	if b.APIVersion != apiVersion || b.Kind != baselineKind {
		return nil, fmt.Errorf("%s: got apiVersion %q and kind %q, want %s and %s", file, b.APIVersion, b.Kind, apiVersion, baselineKind)
	}
	for _, e := range b.Findings {
		switch {
		case isLint(e.ID) != lint:
			f.others = append(f.others, e)
		case !write:
			n := max(1, e.Count)
			e.Count = 0
			f.known[e] += n
		}
	}
	return f, nil
}

// Drops reports whether a finding is dropped.
func (f *Filter) Drops(e Entry) bool {
	e.Count = 0
	for i, s := range f.settings.Suppress {
		if s.ID == e.ID && doublestar.MatchUnvalidated(filepath.ToSlash(s.Path), f.settings.seenFrom(filepath.Dir(f.settings.File), e.File)) {
			f.used[i]++
			f.Suppressed++
			return true
		}
	}
	e.File = f.settings.seenFrom(f.folder, e.File)
	f.seen[e]++
	if f.known[e] > 0 {
		f.known[e]--
		f.Baseline++
		return true
	}
	return false
}

// seenFrom returns the name of a file as seen from a folder.
func (s *Settings) seenFrom(folder, file string) string {
	if file == "-" {
		return file
	}
	from, err := filepath.Abs(folder)
	if err != nil {
		return filepath.ToSlash(file)
	}
	to, err := filepath.Abs(file)
	if err != nil {
		return filepath.ToSlash(file)
	}
	name, err := filepath.Rel(from, to)
	if err != nil {
		return filepath.ToSlash(file)
	}
	return filepath.ToSlash(name)
}

// Notes returns what users should know: suppressions that dropped nothing, and findings of the
// baseline that do not occur any more.
func (f *Filter) Notes() []string {
	var out []string
	for i, s := range f.settings.Suppress {
		if f.used[i] == 0 && isLint(s.ID) == f.lint {
			out = append(out, fmt.Sprintf("%s: suppress[%d] (%s in %s) drops nothing: remove it", f.settings.File, i, s.ID, s.Path))
		}
	}
	gone := 0
	for _, n := range f.known {
		gone += n
	}
	if gone > 0 {
		out = append(out, fmt.Sprintf("%d of the findings in the baseline do not occur any more: write it again with --write-baseline", gone))
	}
	return out
}

// Write writes all findings that no suppression dropped as a baseline, beside those of the other
// command in it. It returns their number.
func (f *Filter) Write(file string) (int, error) {
	b := baseline{APIVersion: apiVersion, Kind: baselineKind, Findings: append([]Entry{}, f.others...)}
	total := 0
	for e, n := range f.seen {
		total += n
		if n > 1 {
			e.Count = n
		}
		b.Findings = append(b.Findings, e)
	}
	slices.SortFunc(b.Findings, func(x, y Entry) int {
		return strings.Compare(strings.Join([]string{x.File, x.Object, x.Path, x.ID}, "\x00"), strings.Join([]string{y.File, y.Object, y.Path, y.ID}, "\x00"))
	})
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(b); err != nil {
		return 0, err
	}
	return total, os.WriteFile(file, text.Bytes(), 0o644)
}
