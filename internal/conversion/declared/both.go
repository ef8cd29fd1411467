package declared

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file compiles the steps in both.
//
// The paths in a step are those of the schemas: version paths of the version, hub paths of the hub.
// While the steps run, the result is in between. Therefore each path is translated to the names that
// hold when its step runs: those of the hub for fields that earlier steps moved, those of the version
// for fields that later steps will move.

// rawStep is a step whose paths are those of the schemas.
type rawStep struct {
	at      string // the path of the step's kind in the Conversion
	step    *Step
	version []path
	hub     []path
	vs, hs  []*structural.Schema
	moves   bool // paths below version[0] become paths below hub[0]
}

// both compiles the steps of a spoke.
type both struct {
	*compiler
	version, hub *version
	raw          []rawStep
}

// parse adds a step, unless its paths have mistakes.
func (b *both) parse(s *Step, at string) {
	r := rawStep{step: s}
	one := func(m Move) ([]string, []string) { return []string{m.Version}, []string{m.Hub} }
	var versions, hubs []string
	switch {
	case s.Move != nil:
		r.at, r.moves = at+".move", true
		versions, hubs = one(*s.Move)
	case s.Values != nil:
		r.at, r.moves = at+".values", true
		versions, hubs = one(s.Values.Move)
	case s.Split != nil:
		r.at = at + ".split"
		versions, hubs = []string{s.Split.Version}, s.Split.Hub
	case s.Join != nil:
		r.at = at + ".join"
		versions, hubs = s.Join.Version, []string{s.Join.Hub}
	case s.ListToMap != nil:
		r.at = at + ".listToMap"
		versions, hubs = one(s.ListToMap.Move)
	case s.MapToList != nil:
		r.at = at + ".mapToList"
		versions, hubs = one(s.MapToList.Move)
	}
	ok := true
	read := func(texts []string, v *version, name string) (paths []path, schemas []*structural.Schema) {
		for i, text := range texts {
			where := r.at + "." + name
			if len(texts) > 1 {
				where = fmt.Sprintf("%s[%d]", where, i)
			}
			p, found := b.field(text, v, where)
			if p == nil {
				ok = false
				continue
			}
			if p[len(p)-1].kind == each {
				b.report(where, fmt.Sprintf("got %q, want a field of the items, or the list itself without [*]", text))
				ok = false
			}
			paths, schemas = append(paths, p), append(schemas, found)
		}
		return paths, schemas
	}
	r.version, r.vs = read(versions, b.version, "version")
	r.hub, r.hs = read(hubs, b.hub, "hub")
	for _, other := range b.raw {
		if p := common(r.version, other.version); ok && p != nil {
			b.report(r.at, fmt.Sprintf("%s of %s is in %s, too: a field has one step", p, b.version.name, other.at))
			ok = false
		}
		if p := common(r.hub, other.hub); ok && p != nil {
			b.report(r.at, fmt.Sprintf("%s of %s is in %s, too: a field has one step", p, b.hub.name, other.at))
			ok = false
		}
	}
	if ok {
		b.raw = append(b.raw, r)
	}
}

// common returns a path that is in both lists, nil if there is none.
func common(a, b []path) path {
	for _, p := range a {
		if slices.ContainsFunc(b, p.equal) {
			return p
		}
	}
	return nil
}

// versionPath returns a path of the version as it is before step i runs forward.
func (b *both) versionPath(p path, i int) path {
	moved, found := b.renamed(p, b.raw[:i], true)
	if found {
		moved, _ = b.renamed(moved, b.raw[i+1:], false)
	}
	return moved
}

// hubPath returns a path of the hub as it is after step i ran forward.
func (b *both) hubPath(p path, i int) path {
	moved, found := b.renamed(p, b.raw[i+1:], false)
	if found {
		moved, _ = b.renamed(moved, b.raw[:i], true)
	}
	return moved
}

// renamed applies the step that moves the longest part of p, and reports whether there is one.
func (b *both) renamed(p path, steps []rawStep, forward bool) (path, bool) {
	out, longest := p, 0
	for _, r := range steps {
		if !r.moves {
			continue
		}
		from, to := r.version[0], r.hub[0]
		if !forward {
			from, to = to, from
		}
		if len(from) >= longest && p.within(from) {
			out, longest = p.replaced(from, to), len(from)
		}
	}
	return out, longest > 0
}

// compile compiles step i. It returns nil after a problem.
func (b *both) compile(i int) step {
	r := &b.raw[i]
	paths := func(raw []path, translate func(path, int) path) (out []path) {
		for _, p := range raw {
			out = append(out, translate(p, i))
		}
		return out
	}
	versions, hubs := paths(r.version, b.versionPath), paths(r.hub, b.hubPath)
	prefix, _ := versions[0].cut()
	for _, p := range slices.Concat(versions, hubs) {
		if other, _ := p.cut(); !other.equal(prefix) {
			b.report(r.at, fmt.Sprintf("%s and %s are in different lists: move the list in a step of its own, which may come before or after", r.version[0], r.hub[0]))
			return nil
		}
	}
	below := func(paths []path) (out []path) {
		for _, p := range paths {
			out = append(out, p[len(prefix):])
		}
		return out
	}
	versions, hubs = below(versions), below(hubs)
	before := len(b.problems)
	out := b.build(r, prefix, versions, hubs)
	if len(b.problems) > before {
		return nil
	}
	return out
}

// build returns the compiled step.
func (b *both) build(r *rawStep, prefix path, versions, hubs []path) step {
	at := places{prefix: prefix, version: versions[0], hub: hubs[0]}
	switch s := r.step; {
	case s.Move != nil:
		if !sameType(r.vs[0], r.hs[0]) {
			b.report(r.at, fmt.Sprintf("%s is %s in %s, and %s is %s in %s: a value that only moves keeps its type; use values, or set with an expression in both directions",
				r.version[0], typeName(r.vs[0]), b.version.name, r.hub[0], typeName(r.hs[0]), b.hub.name))
		}
		return &moveStep{places: at}
	case s.Values != nil:
		table := b.table(r)
		return &moveStep{places: at, table: table, change: table.change}
	case s.Split != nil:
		return b.splitStep(r, s.Split.Separator, prefix, versions[0], r.vs[0], hubs, r.hs, false)
	case s.Join != nil:
		return b.splitStep(r, s.Join.Separator, prefix, hubs[0], r.hs[0], versions, r.vs, true)
	case s.ListToMap != nil:
		b.checkKeyed(r, s.ListToMap, r.vs[0], r.hs[0])
		return &moveStep{places: at, change: (&keyed{s.ListToMap.Key, s.ListToMap.Value, true}).change}
	case s.MapToList != nil:
		b.checkKeyed(r, s.MapToList, r.hs[0], r.vs[0])
		return &moveStep{places: at, change: (&keyed{s.MapToList.Key, s.MapToList.Value, false}).change}
	}
	panic("BUG: a step without a kind")
}

// table compiles the pairs of a Values.
func (b *both) table(r *rawStep) *valueTable {
	out := new(valueTable)
	read := func(text json.RawMessage, s *structural.Schema, name string, i int) jsondoc.Value {
		v, err := parseValue(text)
		at := fmt.Sprintf("%s.pairs[%d].%s", r.at, i, name)
		if err != nil {
			b.report(at, err.Error())
			return v
		}
		if message := misfit(v, text, s); message != "" {
			b.report(at, message)
		}
		return v
	}
	for i, pair := range r.step.Values.Pairs {
		out.version = append(out.version, read(pair.Version, r.vs[0], "version", i))
		out.hub = append(out.hub, read(pair.Hub, r.hs[0], "hub", i))
	}
	return out
}

// splitStep compiles a Split or a Join.
func (b *both) splitStep(r *rawStep, separator string, prefix, text path, ts *structural.Schema, parts []path, ps []*structural.Schema, isJoin bool) step {
	out := &splitStep{prefix: prefix, text: text, parts: parts, separator: separator, isJoin: isJoin}
	if name := typeName(ts); name != "string" && name != "any" {
		b.report(r.at, fmt.Sprintf("%s: got type %s, want a string", text, name))
	}
	for i, s := range ps {
		name := typeName(s)
		if name != "string" && name != "any" && name != "integer" {
			b.report(r.at, fmt.Sprintf("%s: got type %s, want a string or an integer", parts[i], name))
		}
		out.integers = append(out.integers, name == "integer")
	}
	return out
}

// checkKeyed checks the schemas of a Keyed.
func (b *both) checkKeyed(r *rawStep, k *Keyed, list, table *structural.Schema) {
	if name := typeName(list); name != "array" && name != "any" {
		b.report(r.at, fmt.Sprintf("got type %s, want a list of objects on this side", name))
		return
	}
	if name := typeName(table); name != "map" && name != "object" && name != "any" {
		b.report(r.at, fmt.Sprintf("got type %s, want a map on this side", name))
		return
	}
	if list == nil || list.Items == nil || list.Items.Preserve {
		return
	}
	if key := list.Items.Properties[k.Key]; key == nil || typeName(key) != "string" {
		b.report(r.at+".key", fmt.Sprintf("the items have no string %q%s", k.Key, didYouMean(k.Key, list.Items.Names)))
	}
	if k.Value == "" {
		return
	}
	value := list.Items.Properties[k.Value]
	if value == nil {
		b.report(r.at+".value", fmt.Sprintf("the items have no member %q%s", k.Value, didYouMean(k.Value, list.Items.Names)))
	} else if table != nil && table.Additional != nil && !sameType(value, table.Additional) {
		b.report(r.at+".value", fmt.Sprintf("got type %s, want %s, the type of the map's values", typeName(value), typeName(table.Additional)))
	}
}

// parseValue parses a constant.
func parseValue(text json.RawMessage) (jsondoc.Value, error) {
	if len(text) == 0 {
		return jsondoc.Value{}, fmt.Errorf("want a value")
	}
	d := new(jsondoc.Doc)
	if err := jsondoc.Parse(d, text); err != nil {
		return jsondoc.Value{}, err
	}
	return d.Root(), nil
}

// misfit returns what is wrong with a constant of schema s, "" if nothing is. It checks the type of
// the value itself and enums: the search for losses finds the rest.
func misfit(v jsondoc.Value, text json.RawMessage, s *structural.Schema) string {
	want, got := typeName(s), v.Kind().String()
	ok := want == "any" || want == got || v.Kind() == jsondoc.Null && s.Nullable
	switch want {
	case "map":
		ok = got == "object"
	case "number":
		ok = got == "integer" || got == "number"
	case "integer or string":
		ok = got == "integer" || got == "string"
	}
	if !ok {
		return fmt.Sprintf("got %s, want %s", text, want)
	}
	if s == nil || s.Values == nil || len(s.Values.Enum) == 0 {
		return ""
	}
	var names []string
	for _, allowed := range s.Values.Enum {
		a, err := parseValue(allowed)
		if err == nil && jsondoc.Equal(a, v) {
			return ""
		}
		names = append(names, a.Text())
	}
	return fmt.Sprintf("got %s, want a value of the enum%s", text, didYouMean(v.Text(), names))
}
