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

	"github.com/keelson-io/keelson/internal/coverage"
	"github.com/keelson-io/keelson/offline"
	"github.com/keelson-io/keelson/schema"
)

// This file runs cases and compares their results with the expectations.

// Result is the result of a case.
type Result struct {
	Case     string        `json:"case"`
	Line     int           `json:"line"`
	Passed   bool          `json:"passed"`
	Failures []string      `json:"failures,omitempty"` // what was not as expected
	Duration time.Duration `json:"nanoseconds"`

	// Object, Error and Warnings are the server's answer. AuditAnnotations are those that policies
	// add to the audit event.
	Object           json.RawMessage   `json:"object,omitempty"`
	Error            string            `json:"error,omitempty"`
	Warnings         []string          `json:"warnings,omitempty"`
	AuditAnnotations map[string]string `json:"auditAnnotations,omitempty"`

	// Reasons say why rules refused the object of a failed case.
	Reasons []schema.Reason `json:"explanations,omitempty"`

	answered bool
}

// Run runs the cases that choose selects; nil selects all.
func (s *Suite) Run(ctx context.Context, choose func(*Case) bool) []Result {
	return s.RunWith(ctx, RunOptions{Choose: choose})
}

// RunOptions say how cases are run. The zero value runs all.
type RunOptions struct {
	Choose func(*Case) bool // selects the cases; nil selects all
	// Coverage, if not nil, collects what the cases reach.
	Coverage *Recorder
	// Done, if not nil, is called after each case.
	Done func()
	// Until, if not nil, ends the run behind the first result for which it returns true.
	Until func(*Result) bool
}

// RunWith runs cases.
func (s *Suite) RunWith(ctx context.Context, o RunOptions) []Result {
	if o.Coverage != nil {
		o.Coverage.Define(s.docs)
	}
	var out []Result
	for i := range s.Cases {
		c := &s.Cases[i]
		if o.Choose != nil && !o.Choose(c) {
			continue
		}
		start := time.Now()
		r := c.run(ctx, s.Kinds, o.Coverage)
		if len(r.Failures) > 0 && r.Error != "" && o.Until == nil {
			r.Reasons = c.reasons(ctx, s.Kinds)
		}
		r.Case, r.Line, r.Duration = c.Name, c.Line, time.Since(start)
		r.Passed = len(r.Failures) == 0
		out = append(out, r)
		if o.Done != nil {
			o.Done()
		}
		if o.Until != nil && o.Until(&r) {
			break
		}
	}
	return out
}

// reasons returns why rules refused the object: it makes the request once more, so that cases that
// pass take no time for it.
func (c *Case) reasons(ctx context.Context, k *Kinds) []schema.Reason {
	again := *c
	again.Options.Explain = true
	outcome, err := again.ask(ctx, k, nil)
	if err != nil {
		return nil // as the first time, which has been reported
	}
	return outcome.Reasons
}

// ask makes the request of the case. r collects what it reaches, unless it is nil.
func (c *Case) ask(ctx context.Context, k *Kinds, r *coverage.Recorder) (*Outcome, error) {
	switch {
	case c.Object != nil:
		return k.ask(ctx, offline.Create, c.Object, nil, c.Options, r)
	case c.Deleted != nil:
		return k.ask(ctx, offline.Delete, c.Deleted, nil, c.Options, r)
	}
	return k.ask(ctx, offline.Update, c.Updated, c.Initial, c.Options, r)
}

func (c *Case) run(ctx context.Context, k *Kinds, cover *coverage.Recorder) Result {
	var r Result
	fail := func(format string, args ...any) { r.Failures = append(r.Failures, fmt.Sprintf(format, args...)) }
	outcome, err := c.ask(ctx, k, cover)
	if err != nil {
		fail("%s", err)
		return r
	}
	r.answered = true
	r.Warnings, r.AuditAnnotations = outcome.Warnings, outcome.AuditAnnotations
	if outcome.Refusal != nil {
		r.Error = outcome.Refusal.Message
	} else if outcome.Object != nil {
		r.Object = withoutServerFields(outcome.Object, c.Stored)
	}
	if c.Stored == nil && c.Error == nil && c.Warnings == nil && c.AuditAnnotations == nil {
		fail("the case expects nothing: add stored, error, warnings or auditAnnotations (--update writes them)")
		return r
	}
	c.compareAnswer(&r, fail)
	if c.Warnings != nil {
		c.compareWarnings(&r, fail)
	}
	if c.AuditAnnotations != nil {
		c.compareAnnotations(&r, fail)
	}
	return r
}

// compareAnswer compares the stored object or the refusal.
func (c *Case) compareAnswer(r *Result, fail func(string, ...any)) {
	switch {
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
			return
		}
		compare("", got, want, fail)
	}
}

func (c *Case) compareAnnotations(r *Result, fail func(string, ...any)) {
	for _, key := range slices.Sorted(maps.Keys(*c.AuditAnnotations)) {
		want := (*c.AuditAnnotations)[key]
		got, ok := r.AuditAnnotations[key]
		switch {
		case !ok:
			fail("no audit annotation %q", key)
		case !strings.Contains(got, want):
			fail("audit annotation %q: got %q, want it to have %q", key, got, want)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(r.AuditAnnotations)) {
		if _, ok := (*c.AuditAnnotations)[key]; !ok {
			fail("audit annotation that is not expected: %q: %q", key, r.AuditAnnotations[key])
		}
	}
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

// compare reports each difference with its path.
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

// serverFields are metadata that the server sets. They are compared only if the case names them.
var serverFields = []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "namespace", "selfLink"}

// withoutServerFields removes metadata that the server sets, unless the expectation has it.
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

// withoutNullTime removes the null that many tools write for an unset creationTimestamp.
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
