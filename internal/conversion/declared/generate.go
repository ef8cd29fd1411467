package declared

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/internal/witness"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file generates valid objects of a version, for the search for losses.
//
// The objects are a small one, each field added to it, and a large one with all fields, with each
// field changed or left out. Values are those of enums, bounds, and the constants of the Conversion.
// Objects that need more thought, because rules or patterns decide, come from package witness.

// Bounds of generated objects.
const (
	maxDepth     = 12 // of the fields that are varied
	maxPlaces    = 3000
	maxSamples   = 24 // for one field
	witnessSteps = 1500
)

// generator makes the objects of a version.
type generator struct {
	ctx     context.Context
	v       *version
	options witness.Options
	texts   []string // constants of the Conversion
	left    int      // objects that may still be made
	places  []fieldPlace
	valid   map[string]bool // texts of objects that were made
	yield   func(object []byte) bool
	stopped bool
}

// fieldPlace is a field that is varied.
type fieldPlace struct {
	steps   []any // names, and 0 for the first item
	schema  *structural.Schema
	reached bool
}

// generate calls yield with valid objects of v until it returns false, the context ends, or max
// objects were made.
func (c *Converter) generate(ctx context.Context, v *version, max int, yield func([]byte) bool) error {
	env, err := environment()
	if err != nil {
		return err
	}
	operations, err := witness.NewOperations()
	if err != nil {
		return err
	}
	g := &generator{ctx: ctx, v: v, left: max, valid: map[string]bool{}, yield: yield, texts: c.constants(),
		options: witness.Options{Env: env.rules, Operations: operations, Resource: true, APIVersion: v.apiVersion, Kind: c.kind, Namespaced: c.namespaced, Steps: witnessSteps}}
	g.walk(v.schema, nil)
	g.run(c.conditions(v))
	return ctx.Err()
}

// run makes the objects.
func (g *generator) run(conditions []string) {
	base, ok := g.base()
	if !ok {
		return
	}
	g.offer(base)
	large := base
	for i := range g.places {
		p := &g.places[i]
		for _, sample := range g.samples(p.schema, 0) {
			if g.done() {
				return
			}
			if !g.offer(g.put(base, p, sample)) {
				continue
			}
			if next := g.put(large, p, sample); !p.reached && g.isValid(next) != nil {
				large = next
			}
			p.reached = true
		}
	}
	g.offer(large)
	for _, condition := range conditions {
		for _, want := range []witness.Want{witness.Accept, witness.Refuse} {
			g.find(condition, want)
		}
	}
	for i := range g.places {
		if p := &g.places[i]; !p.reached && !g.done() {
			g.find(expressionOf(p.steps), witness.Accept)
		}
	}
	for i := range g.places {
		p := &g.places[i]
		if g.done() {
			return
		}
		g.offer(removed(large, p.steps))
		for _, sample := range g.samples(p.schema, 0) {
			g.offer(g.put(large, p, sample))
		}
	}
}

// done reports whether no more objects are wanted.
func (g *generator) done() bool { return g.stopped || g.left <= 0 || g.ctx.Err() != nil }

// base returns a small valid object.
func (g *generator) base() (any, bool) {
	search, err := witness.New(g.v.schema, g.options)
	if err != nil {
		return nil, false
	}
	text := search.Minimal(g.ctx)
	if text == nil {
		return nil, false
	}
	return decoded(text), true
}

// find offers an object for which an expression is true or false, if a search finds one.
func (g *generator) find(expr string, want witness.Want) {
	if g.done() {
		return
	}
	search, rule, err := witness.Expression(g.v.schema, expr, g.options)
	if err != nil {
		return
	}
	if found := search.Find(g.ctx, rule, want); found.Object != nil {
		g.offer(decoded(found.Object))
	}
}

// offer yields an object if it is valid and new, and reports whether it is valid.
func (g *generator) offer(object any) bool {
	if g.done() {
		return false
	}
	text := g.isValid(object)
	if text == nil {
		return false
	}
	if !g.valid[string(text)] {
		g.valid[string(text)] = true
		g.left--
		g.stopped = !g.yield(text)
	}
	return true
}

// isValid returns the text of an object with its defaults, nil if it is not valid.
func (g *generator) isValid(object any) []byte {
	text, err := json.Marshal(object)
	if err != nil {
		return nil
	}
	return g.v.normalized(g.ctx, text)
}

// normalized returns an object with its defaults, nil if it is not valid.
func (v *version) normalized(ctx context.Context, text []byte) []byte {
	d := jsondoc.Get()
	defer d.Release()
	if found, err := v.program.Decode(d, text); err != nil || found != 0 {
		return nil
	}
	if len(v.program.Validate(ctx, d, nil, schema.Whole).Errors) > 0 {
		return nil
	}
	return d.AppendJSON(nil, d.Root().Node)
}

// walk collects the places of fields, outer ones first.
func (g *generator) walk(s *structural.Schema, steps []any) {
	if s == nil || len(steps) > maxDepth || len(g.places) >= maxPlaces {
		return
	}
	below := func(step any) []any { return append(steps[:len(steps):len(steps)], step) }
	if len(steps) > 0 {
		g.places = append(g.places, fieldPlace{steps: steps, schema: s})
	}
	for _, name := range s.Names {
		if len(steps) == 0 && (name == "apiVersion" || name == "kind" || name == "metadata") {
			continue
		}
		g.walk(s.Properties[name], below(name))
	}
	g.walk(s.Additional, below("a"))
	g.walk(s.Items, below(0))
}

// samples returns values for a schema, which may not be valid.
func (g *generator) samples(s *structural.Schema, depth int) []any {
	if s == nil || depth > 6 {
		return []any{map[string]any{}}
	}
	var out []any
	if s.Values != nil {
		for _, text := range s.Values.Enum {
			out = append(out, decoded(text))
		}
	}
	if len(out) > 0 {
		return out[:min(len(out), maxSamples)]
	}
	switch {
	case s.IntOrString:
		return []any{int64(1), "1", "a", "50%"}
	case s.Type == "boolean":
		return []any{true, false}
	case s.Type == "integer" || s.Type == "number":
		return numbers(s)
	case s.Type == "string":
		return g.strings(s)
	case s.Type == "array":
		items := g.samples(s.Items, depth+1)
		out = append(out, []any{items[0]}, []any{})
		if len(items) > 1 {
			out = append(out, []any{items[len(items)-1], items[0]}, []any{items[0], items[1]})
		}
		return append(out, []any{items[0], items[0]})
	case s.Type == "object" && s.Additional != nil:
		items := g.samples(s.Additional, depth+1)
		return append(out, map[string]any{"a": items[0]}, map[string]any{}, map[string]any{"b": items[len(items)-1], "a": items[0]})
	case s.Type == "object":
		return g.objects(s, depth)
	}
	return []any{map[string]any{"a": int64(1)}, "a", int64(1), []any{}}
}

// objects returns samples of an object: with all members, with the required ones, with other values.
func (g *generator) objects(s *structural.Schema, depth int) []any {
	all, other, required := map[string]any{}, map[string]any{}, map[string]any{}
	for _, name := range s.Names {
		samples := g.samples(s.Properties[name], depth+1)
		all[name], other[name] = samples[0], samples[min(1, len(samples)-1)]
		if s.Values != nil && slices.Contains(s.Values.Required, name) {
			required[name] = samples[0]
		}
	}
	return []any{all, required, other}
}

// numbers returns samples of a number.
func numbers(s *structural.Schema) []any {
	out := []any{int64(1), int64(0), int64(80), int64(-1)}
	if v := s.Values; v != nil {
		if v.Minimum != nil {
			out = append(out, int64(*v.Minimum), int64(*v.Minimum)+1)
		}
		if v.Maximum != nil {
			out = append(out, int64(*v.Maximum))
		}
	}
	if s.Type == "number" {
		out = append(out, 1.5)
	}
	return out
}

// formatSamples are valid texts of formats.
var formatSamples = map[string]string{
	"date-time": "2026-01-02T03:04:05Z", "date": "2026-01-02", "duration": "1h0m0s", "byte": "YQ==", "uuid": "123e4567-e89b-12d3-a456-426614174000",
	"ipv4": "10.0.0.1", "ipv6": "2001:db8::1", "cidr": "10.0.0.0/8", "uri": "https://example.com", "email": "a@example.com", "hostname": "example.com", "mac": "02:00:00:00:00:01",
}

// strings returns samples of a string.
func (g *generator) strings(s *structural.Schema) []any {
	if text, ok := formatSamples[s.Format]; ok {
		return []any{text, ""}
	}
	out := []any{"a", "b", "", "1"}
	for _, text := range g.texts {
		out = append(out, text)
	}
	if s.Values != nil && s.Values.MinLength != nil && *s.Values.MinLength < 1000 {
		out = append(out, strings.Repeat("a", int(*s.Values.MinLength)))
	}
	return out[:min(len(out), maxSamples)]
}

// constants returns the texts of the Conversion that may matter in objects: separators, with parts
// around them, and replaced values.
func (c *Converter) constants() []string {
	var out []string
	add := func(text string) {
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	for _, s := range c.spokes {
		for _, st := range s.steps {
			switch st := st.(type) {
			case *splitStep:
				add("a" + st.separator + "b")
				add("a" + st.separator + "80")
				add("a" + st.separator + "08")
				add("a" + st.separator)
				add(st.separator + "b" + st.separator)
			case *moveStep:
				for _, v := range st.values() {
					if v.Kind() == jsondoc.String {
						add(v.Text())
					}
				}
			}
		}
	}
	return out
}

// conditions returns the conditions in the expressions of a version: those of when, and those of
// conditional operators.
func (c *Converter) conditions(v *version) []string {
	seen := map[string]bool{}
	for _, s := range c.spokes {
		for _, w := range []*way{{s, s.version, c.hub, &s.toHub, true}, {s, c.hub, s.version, &s.fromHub, false}} {
			if w.source != v {
				continue
			}
			for _, set := range w.setters {
				if set.when != nil && set.itemType == nil {
					seen[set.when.Source()] = true
				}
				if set.expr == nil || set.itemType != nil {
					continue
				}
				ast.PreOrderVisit(set.expr.Tree().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
					if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != operators.Conditional {
						return
					}
					if text, err := set.expr.Text(e.AsCall().Args()[0]); err == nil {
						seen[text] = true
					}
				}))
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// expressionOf returns an expression that is true if the field at a place is present.
func expressionOf(steps []any) string {
	at := "self"
	var has []string
	for _, step := range steps {
		switch step := step.(type) {
		case int:
			has = append(has, at+".size() > 0")
			at += "[0]"
		case string:
			has = append(has, strconv.Quote(step)+" in "+at)
			if name, ok := cel.Escape(step); ok {
				has[len(has)-1] = "has(" + at + "." + name + ")"
				at += "." + name
				continue
			}
			at += "[" + strconv.Quote(step) + "]"
		}
	}
	return strings.Join(has, " && ")
}

// put returns an object with a value at a place. Missing parents are made with their required
// members.
func (g *generator) put(object any, p *fieldPlace, value any) any {
	return g.with(object, g.v.schema, p.steps, value)
}

// with returns a copy of a value of schema s with another value at steps.
func (g *generator) with(at any, s *structural.Schema, steps []any, value any) any {
	if len(steps) == 0 {
		return value
	}
	switch step := steps[0].(type) {
	case int:
		list, _ := at.([]any)
		out := slices.Clone(list)
		var child *structural.Schema
		if s != nil {
			child = s.Items
		}
		if len(out) == 0 {
			out = []any{g.required(child)}
		}
		out[0] = g.with(out[0], child, steps[1:], value)
		return out
	case string:
		was, ok := at.(map[string]any)
		out := maps.Clone(was)
		if !ok {
			out, _ = g.required(s).(map[string]any)
		}
		if out == nil {
			out = map[string]any{}
		}
		var child *structural.Schema
		if s != nil {
			child, _ = declaredMember(s, step)
		}
		if _, ok := out[step]; !ok && len(steps) > 1 {
			out[step] = g.required(child)
		}
		out[step] = g.with(out[step], child, steps[1:], value)
		return out
	}
	panic(fmt.Sprintf("BUG: a step of type %T", steps[0]))
}

// required returns a small value for a schema.
func (g *generator) required(s *structural.Schema) any {
	if s == nil || s.Type == "object" && s.Additional != nil {
		return map[string]any{}
	}
	samples := g.samples(s, 3)
	if s.Type == "object" {
		return samples[1]
	}
	return samples[0]
}

// removed returns a copy of a value without what is at steps.
func removed(at any, steps []any) any {
	switch step := steps[0].(type) {
	case int:
		list, _ := at.([]any)
		if len(list) == 0 {
			return at
		}
		if len(steps) == 1 {
			return list[1:]
		}
		out := slices.Clone(list)
		out[0] = removed(out[0], steps[1:])
		return out
	case string:
		was, ok := at.(map[string]any)
		if !ok {
			return at
		}
		out := maps.Clone(was)
		if len(steps) == 1 {
			delete(out, step)
		} else if child, ok := out[step]; ok {
			out[step] = removed(child, steps[1:])
		}
		return out
	}
	panic(fmt.Sprintf("BUG: a step of type %T", steps[0]))
}

// decoded returns a JSON text as Go values. Integers are int64.
func decoded(text []byte) any {
	var d jsondoc.Doc
	if jsondoc.Parse(&d, text) != nil {
		return nil
	}
	return d.Root().Interface()
}
