package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	kyaml "sigs.k8s.io/yaml"
)

// This file runs cases and compares what comes of them with what was expected.

// Result is what came of a case.
type Result struct {
	Case     string        `json:"case"`
	Line     int           `json:"line"`
	Passed   bool          `json:"passed"`
	Failures []string      `json:"failures,omitempty"` // what was not as expected
	Duration time.Duration `json:"nanoseconds"`

	// Object, Error and Warnings are what the server would answer.
	Object   json.RawMessage `json:"object,omitempty"`
	Error    string          `json:"error,omitempty"`
	Warnings []string        `json:"warnings,omitempty"`

	answered bool
}

// Run runs the cases for which choose says yes; nil chooses all.
func (s *Suite) Run(ctx context.Context, choose func(*Case) bool) []Result {
	var out []Result
	for i := range s.Cases {
		c := &s.Cases[i]
		if choose != nil && !choose(c) {
			continue
		}
		start := time.Now()
		r := c.run(ctx, s.Kinds)
		r.Case, r.Line, r.Duration = c.Name, c.Line, time.Since(start)
		r.Passed = len(r.Failures) == 0
		out = append(out, r)
	}
	return out
}

func (c *Case) run(ctx context.Context, k *Kinds) Result {
	var r Result
	fail := func(format string, args ...any) { r.Failures = append(r.Failures, fmt.Sprintf(format, args...)) }
	var outcome *Outcome
	var err error
	if c.Object != nil {
		outcome, err = k.Create(ctx, c.Object, c.Options)
	} else {
		outcome, err = k.Update(ctx, c.Initial, c.Updated, c.Options)
	}
	if err != nil {
		fail("%s", err)
		return r
	}
	r.answered = true
	r.Warnings = outcome.Warnings
	if outcome.Refusal != nil {
		r.Error = outcome.Refusal.Message
	} else {
		r.Object = withoutServerFields(outcome.Object, c.Stored)
	}
	switch {
	case c.Stored == nil && c.Error == nil && c.Warnings == nil:
		fail("the case expects nothing: add stored, error or warnings (--update writes them)")
	case c.Error != nil && r.Error == "":
		fail("accepted, want a refusal with %q", *c.Error)
	case c.Error != nil:
		if !strings.Contains(r.Error, *c.Error) {
			fail("refused otherwise:\ngot  %s\nwant %s", r.Error, *c.Error)
		}
	case r.Error != "":
		fail("refused: %s", r.Error)
	case c.Stored != nil:
		var got, want any
		if json.Unmarshal(r.Object, &got) != nil || json.Unmarshal(withoutNullTime(c.Stored), &want) != nil {
			fail("stored: not an object")
			break
		}
		compare("", got, want, fail)
	}
	if c.Warnings != nil {
		c.compareWarnings(&r, fail)
	}
	return r
}

func (c *Case) compareWarnings(r *Result, fail func(string, ...any)) {
	left := slices.Clone(r.Warnings)
	for _, want := range *c.Warnings {
		i := slices.IndexFunc(left, func(got string) bool { return strings.Contains(got, want) })
		if i < 0 {
			fail("no warning with %q", want)
			continue
		}
		left = slices.Delete(left, i, i+1)
	}
	for _, got := range left {
		fail("warning that is not expected: %s", got)
	}
}

// compare lists what differs, by path.
func compare(path string, got, want any, fail func(string, ...any)) {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			break
		}
		keys := map[string]bool{}
		for k := range g {
			keys[k] = true
		}
		for k := range w {
			keys[k] = true
		}
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			below := strings.TrimPrefix(path+"."+k, ".")
			gv, has := g[k]
			wv, wants := w[k]
			switch {
			case !has:
				fail("%s: got nothing, want %s", below, short(wv))
			case !wants:
				fail("%s: got %s, want nothing", below, short(gv))
			default:
				compare(below, gv, wv, fail)
			}
		}
		return
	case []any:
		g, ok := got.([]any)
		if !ok {
			break
		}
		for i := range max(len(g), len(w)) {
			below := fmt.Sprintf("%s[%d]", path, i)
			switch {
			case i >= len(g):
				fail("%s: got nothing, want %s", below, short(w[i]))
			case i >= len(w):
				fail("%s: got %s, want nothing", below, short(g[i]))
			default:
				compare(below, g[i], w[i], fail)
			}
		}
		return
	}
	if !reflect.DeepEqual(got, want) {
		fail("%s: got %s, want %s", path, short(got), short(want))
	}
}

func short(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if r := []rune(string(b)); len(r) > 200 {
		return string(r[:199]) + "…"
	}
	return string(b)
}

// serverFields are metadata that the server sets: they are compared only if the case says what they must be.
var serverFields = []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "namespace", "selfLink"}

// withoutServerFields is the object without metadata that differs from run to run, or goes without saying, unless the
// expectation has it.
func withoutServerFields(object, expected []byte) []byte {
	var got, want struct {
		Metadata map[string]json.RawMessage `json:"metadata"`
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(object, &all) != nil || json.Unmarshal(object, &got) != nil {
		return object
	}
	if expected != nil && json.Unmarshal(withoutNullTime(expected), &want) != nil {
		return object
	}
	fields := serverFields
	if _, generated := got.Metadata["generateName"]; generated {
		fields = append(slices.Clone(fields), "name")
	}
	for _, f := range fields {
		if _, ok := want.Metadata[f]; !ok {
			delete(got.Metadata, f)
		}
	}
	out, err := json.Marshal(got.Metadata)
	if err != nil {
		return object
	}
	all["metadata"] = out
	if out, err = json.Marshal(all); err != nil {
		return object
	}
	return out
}

// withoutNullTime takes away the null that many tools print for a time that is not set.
func withoutNullTime(object []byte) []byte {
	var all, metadata map[string]json.RawMessage
	if json.Unmarshal(object, &all) != nil || json.Unmarshal(all["metadata"], &metadata) != nil || string(metadata["creationTimestamp"]) != "null" {
		return object
	}
	delete(metadata, "creationTimestamp")
	var err error
	if all["metadata"], err = json.Marshal(metadata); err != nil {
		return object
	}
	if out, err := json.Marshal(all); err == nil {
		return out
	}
	return object
}

// yamlOf prints JSON as YAML.
func yamlOf(body []byte) (string, error) {
	b, err := kyaml.JSONToYAML(body)
	return string(b), err
}
