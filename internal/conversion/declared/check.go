package declared

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file searches for round trips that lose data.

// DefaultObjects is the number of objects that a check makes for each version.
const DefaultObjects = 4000

// maxFindings bounds the findings of one direction.
const maxFindings = 16

// maxShrinks bounds the attempts to make a counterexample smaller.
const maxShrinks = 400

// FindingKind says what is wrong with a conversion.
type FindingKind string

// The kinds of findings.
const (
	Lost    FindingKind = "lost"    // a round trip changes the object
	Invalid FindingKind = "invalid" // the result is not valid in its version
	Failed  FindingKind = "failed"  // a valid object cannot be converted
)

// Finding is a counterexample: a valid object whose round trip shows a mistake of the Conversion.
type Finding struct {
	Kind FindingKind `json:"kind"`
	// From is the version of the object, Via the version to which it is converted.
	From string `json:"from"`
	Via  string `json:"via"`
	// Object is a small counterexample. Converted is what it is in the other version, Returned what
	// comes back. They are nil if there is no such result.
	Object    json.RawMessage `json:"object"`
	Converted json.RawMessage `json:"converted,omitempty"`
	Returned  json.RawMessage `json:"returned,omitempty"`
	// Differences are those between Object and Returned that are not declared.
	Differences []Difference `json:"differences,omitempty"`
	// Message is the error of a conversion or a validation.
	Message string `json:"message,omitempty"`
	// Path is the place in the Conversion at which a loss can be declared.
	Path string `json:"path"`

	invalid string // the field that is not valid
}

// Difference is a field that a round trip changes.
type Difference struct {
	Field  string          `json:"field"`
	Before json.RawMessage `json:"before,omitempty"` // nil: absent
	After  json.RawMessage `json:"after,omitempty"`

	steps []any
}

// Report is the result of a check.
type Report struct {
	Findings []Finding `json:"findings"`
	// Objects is the number of objects that made a round trip.
	Objects int `json:"objects"`
}

// Check searches for valid objects whose round trip to another version and back loses data that is
// not declared under preserve or drop, whose conversion fails, or whose result is not valid. It makes
// up to max objects for each version; 0 means DefaultObjects. If it finds nothing, there may still be
// a loss. The error is that of the context.
func (c *Converter) Check(ctx context.Context, max int) (*Report, error) {
	if max == 0 {
		max = DefaultObjects
	}
	out := &Report{Findings: []Finding{}}
	for _, s := range c.spokes {
		for _, w := range []*way{{s, s.version, c.hub, &s.toHub, true}, {s, c.hub, s.version, &s.fromHub, false}} {
			known := map[string]bool{}
			err := c.generate(ctx, w.source, max, func(object []byte) bool {
				out.Objects++
				f := w.roundTrip(ctx, object)
				if f == nil || ctx.Err() != nil || known[f.key()] {
					return ctx.Err() == nil
				}
				known[f.key()] = true
				out.Findings = append(out.Findings, *w.shrink(ctx, f))
				return len(known) < maxFindings
			})
			if err != nil {
				return out, err
			}
		}
	}
	return out, nil
}

// key returns what findings with the same cause have in common.
func (f *Finding) key() string {
	if f.Kind == Lost {
		return string(f.Kind) + " " + pattern(f.Differences[0].steps)
	}
	if f.Kind == Invalid {
		return string(f.Kind) + " " + f.invalid
	}
	return string(f.Kind) + " " + strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return '#'
		}
		return r
	}, f.Message)
}

// roundTrip returns the finding that an object leads to, nil if there is none.
func (w *way) roundTrip(ctx context.Context, object []byte) *Finding {
	f := &Finding{From: w.source.name, Via: w.result.name, Object: object, Path: fmt.Sprintf("spec.versions[%d].%s", w.index, w.label())}
	there, err := w.convert(ctx, object)
	if err != nil {
		f.Kind, f.Message = Failed, fmt.Sprintf("from %s to %s: %v", w.source.name, w.result.name, err)
		return f
	}
	if there, f.Message, f.invalid = w.result.read(ctx, there); f.Message != "" {
		f.Kind, f.Converted = Invalid, there
		return f
	}
	f.Converted = there
	back := w.back()
	again, err := back.convert(ctx, there)
	if err != nil {
		f.Kind, f.Message = Failed, fmt.Sprintf("back from %s to %s: %v", w.result.name, w.source.name, err)
		return f
	}
	again, _, _ = w.source.read(ctx, again)
	var a, b jsondoc.Doc
	if jsondoc.Parse(&a, object) != nil || jsondoc.Parse(&b, again) != nil {
		f.Kind, f.Message = Failed, "the object that comes back cannot be read"
		return f
	}
	w.differences(a.Root(), b.Root(), w.source.schema, nil, &f.Differences)
	if len(f.Differences) == 0 {
		return nil
	}
	f.Kind, f.Returned = Lost, again
	return f
}

// label returns the name of the direction in a Conversion.
func (w *way) label() string {
	if w.forward {
		return "toHub"
	}
	return "fromHub"
}

// read returns an object with its defaults, what is wrong with it, and the first field that is wrong.
func (v *version) read(ctx context.Context, text []byte) (out []byte, message, field string) {
	d := jsondoc.Get()
	defer d.Release()
	if _, err := v.program.Decode(d, text); err != nil {
		return text, err.Error(), ""
	}
	text = d.AppendJSON(nil, d.Root().Node)
	if errs := v.program.Validate(ctx, d, nil, schema.Whole).Errors; len(errs) > 0 {
		return text, errs.ToAggregate().Error(), errs[0].Field
	}
	return text, "", ""
}

// differences appends the differences between an object and its round trip that are not declared. s
// is the schema of both, nil if it is not known. Maps are compared as a whole.
func (w *way) differences(a, b jsondoc.Value, s *structural.Schema, steps []any, out *[]Difference) {
	below := func(step any) []any { return append(steps[:len(steps):len(steps)], step) }
	object := func(v jsondoc.Value) bool { return v.Kind() == jsondoc.Object && v.Len() > 0 }
	var items *structural.Schema
	isMap := false
	if s != nil {
		items, isMap = s.Items, s.Additional != nil
	}
	switch {
	case len(*out) >= maxFindings || jsondoc.Equal(a, b):
	case !isMap && (a.Kind() == jsondoc.Object && b.Kind() == jsondoc.Object || object(a) && !b.Exists() || object(b) && !a.Exists()):
		for name, pair := range jsondoc.Both(a, b) {
			if len(steps) == 2 && strings.HasPrefix(name, annotationPrefix) {
				continue
			}
			var member *structural.Schema
			if s != nil {
				member = s.Properties[name]
			}
			w.differences(pair[0], pair[1], member, below(strings.Clone(name)), out)
		}
	case a.Kind() == jsondoc.Array && b.Kind() == jsondoc.Array && a.Len() == b.Len():
		for i, item := range a.Items() {
			w.differences(item, b.Item(i), items, below(i), out)
		}
	case w.isDropped(steps, a):
	default:
		d := Difference{Field: pathText(steps), steps: steps}
		if a.Exists() {
			d.Before = a.AppendJSON(nil)
		}
		if b.Exists() {
			d.After = b.AppendJSON(nil)
		}
		*out = append(*out, d)
	}
}

// isDropped reports whether the loss of a value is declared.
func (w *way) isDropped(steps []any, was jsondoc.Value) bool {
	empty := was.Exists() && was.Len() == 0 && (was.Kind() == jsondoc.Object || was.Kind() == jsondoc.Array)
	for _, d := range w.drop {
		if len(steps) < len(d.field) || d.onlyEmpty && (!empty || len(steps) != len(d.field)) {
			continue
		}
		covers := true
		for i, e := range d.field {
			switch step := steps[i].(type) {
			case int:
				covers = covers && (e.kind == each || e.kind == first && step == 0)
			case string:
				covers = covers && e.kind == memberOf && e.name == step
			}
		}
		if covers {
			return true
		}
	}
	return false
}

// pathText returns a path as text.
func pathText(steps []any) string {
	var b strings.Builder
	for i, step := range steps {
		switch step := step.(type) {
		case int:
			b.WriteString("[" + strconv.Itoa(step) + "]")
		case string:
			name := path{{name: step}}.String()
			if i > 0 && name[0] != '[' {
				b.WriteByte('.')
			}
			b.WriteString(name)
		}
	}
	return b.String()
}

// pattern returns a path with [*] for each index: as a declaration names it.
func pattern(steps []any) string {
	var p path
	for _, step := range steps {
		if name, ok := step.(string); ok {
			p = append(p, element{name: name})
		} else {
			p = append(p, element{kind: each})
		}
	}
	return p.String()
}

// Field returns the path by which a declaration names a field that is lost, "" for other findings.
func (f *Finding) Field() string {
	if f.Kind != Lost {
		return ""
	}
	return pattern(f.Differences[0].steps)
}

// shrink returns the finding for a smaller object, from which nothing can be left out.
func (w *way) shrink(ctx context.Context, f *Finding) *Finding {
	key, attempts := f.key(), 0
	for again := true; again; {
		again = false
		for _, steps := range placesIn(decoded(f.Object), nil) {
			if attempts++; attempts > maxShrinks || ctx.Err() != nil {
				return f
			}
			text, err := json.Marshal(removed(decoded(f.Object), steps))
			if err != nil {
				continue
			}
			text = w.source.normalized(ctx, text)
			if text == nil || bytes.Equal(text, f.Object) {
				continue
			}
			if smaller := w.roundTrip(ctx, text); smaller != nil && smaller.key() == key && len(text) < len(f.Object) {
				f, again = smaller, true
				break
			}
		}
	}
	return f
}

// placesIn returns the places of all values in an object besides its heading, outer ones first.
func placesIn(v any, steps []any) (out [][]any) {
	below := func(step any) []any { return append(steps[:len(steps):len(steps)], step) }
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if len(steps) > 0 || name != "apiVersion" && name != "kind" && name != "metadata" {
				out = append(append(out, below(name)), placesIn(v[name], below(name))...)
			}
		}
	case []any:
		if len(v) > 0 {
			out = append(append(out, below(0)), placesIn(v[0], below(0))...)
		}
	}
	return out
}
