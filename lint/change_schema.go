package lint

import (
	"bytes"
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/keelson-io/keelson/schema/structural"
)

// This file compares two schemas of a version.

// pair is the same node in the new and the old schema.
type pair struct {
	*change
	new, was *structural.Schema
	path     string
	root     bool
	// kept describes the value that an update must leave unchanged for ratcheting to apply; ""
	// means this value.
	kept string
}

// schemas compares the schemas of the i-th version.
func (c *change) schemas(new, was *apiextv1.CustomResourceDefinitionVersion, i int) {
	n, w := parse(new), parse(was)
	if n != nil && w != nil {
		pair{change: c, new: n, was: w, path: schemaPath(i), root: true}.compare()
	}
}

// tightened adds a finding for a restriction that stored objects may violate.
func (p pair) tightened(at, format string, args ...any) {
	p.breaks(p.path+at, fmt.Sprintf(format, args...), p.ratcheting())
}

// ratcheting returns the hint that says when ratcheting excuses stored objects.
func (p pair) ratcheting() string {
	kept := p.kept
	if kept == "" {
		kept = inObjects(p.path)
	}
	if p.root {
		return "stored objects that do not meet it are refused at the next update that changes anything"
	}
	return fmt.Sprintf("an update that leaves %s as it is passes (ratcheting)", kept)
}

// compare compares a node and all nodes below it.
func (p pair) compare() {
	if !p.types() {
		return // all nodes below differ in the same way
	}
	p.nullable()
	p.restrictions()
	p.lists()
	p.rules()
	p.properties()
	if p.was.Preserve && !p.new.Preserve {
		p.breaks(p.path, "fields that the schema does not declare are not preserved any more: they are dropped at the next read", "")
	}
	if p.was.Additional != nil && p.new.Additional == nil && !p.new.Preserve && (p.new.AdditionalAllows == nil || !*p.new.AdditionalAllows) {
		p.breaks(p.path, "keys that are not declared are not kept any more: they are dropped at the next read", "")
	}
	if p.was.Items != nil && p.new.Items != nil {
		q := p.below(p.new.Items, p.was.Items, ".items")
		if p.new.ListType != "map" && q.kept == "" {
			q.kept = "all of " + inObjects(p.path) // items of other lists are not correlated
		}
		q.compare()
	}
	if p.was.Additional != nil && p.new.Additional != nil {
		p.below(p.new.Additional, p.was.Additional, ".additionalProperties").compare()
	}
}

// below returns the pair for a node one step below.
func (p pair) below(new, was *structural.Schema, step string) pair {
	return pair{change: p.change, new: new, was: was, path: p.path + step, kept: p.kept}
}

// types compares the types. It reports whether they are equal or the new one is wider.
func (p pair) types() bool {
	name := func(s *structural.Schema) string {
		switch {
		case s.IntOrString:
			return "integer or string"
		case s.Type == "":
			return "any type"
		}
		return s.Type
	}
	was, is := name(p.was), name(p.new)
	switch {
	case was == is:
		return true
	case is == "any type", was == "integer" && is == "number", (was == "integer" || was == "string") && is == "integer or string":
		return false // wider: valid values stay valid
	}
	p.tightened(".type", "changes from %s to %s: stored values and clients of the old type are refused", was, is)
	return false
}

// nullable reports a node that no longer allows null.
func (p pair) nullable() {
	if p.was.Nullable && !p.new.Nullable {
		p.breaks(p.path+".nullable", "null is not valid any more: it is dropped, or replaced by the default", "")
	}
	switch {
	case p.was.Default != nil && p.new.Default == nil:
		p.breaks(p.path, fmt.Sprintf("the default %s is removed: readers find nothing where they found it", p.was.Default), "")
	case p.was.Default == nil && p.new.Default != nil:
		p.notes(p.path+".default", fmt.Sprintf("the default %s is new: stored objects show it from now on", p.new.Default), "")
	case !bytes.Equal(p.was.Default, p.new.Default):
		p.notes(p.path+".default", fmt.Sprintf("the default changes from %s to %s: stored objects without a value change when they are read", p.was.Default, p.new.Default), "")
	}
}

// values returns the value restrictions of both nodes, never nil.
func (p pair) values() (new, was *structural.Values) {
	new, was = p.new.Values, p.was.Values
	if new == nil {
		new = noValues()
	}
	if was == nil {
		was = noValues()
	}
	return new, was
}

func noValues() *structural.Values { return new(structural.Values) }

// restrictions compares everything but types.
func (p pair) restrictions() {
	n, w := p.values()
	for _, b := range []struct {
		name     string
		upper    bool
		new, was *int64
	}{
		{"maxLength", true, n.MaxLength, w.MaxLength}, {"minLength", false, n.MinLength, w.MinLength},
		{"maxItems", true, n.MaxItems, w.MaxItems}, {"minItems", false, n.MinItems, w.MinItems},
		{"maxProperties", true, n.MaxProperties, w.MaxProperties}, {"minProperties", false, n.MinProperties, w.MinProperties},
	} {
		compareBound(p, b.name, b.upper, b.new, b.was)
	}
	compareBound(p, "maximum", true, n.Maximum, w.Maximum)
	compareBound(p, "minimum", false, n.Minimum, w.Minimum)
	if n.ExclusiveMaximum && !w.ExclusiveMaximum && n.Maximum != nil && w.Maximum != nil && *n.Maximum >= *w.Maximum {
		p.tightened(".exclusiveMaximum", "the maximum itself is not valid any more")
	}
	if n.ExclusiveMinimum && !w.ExclusiveMinimum && n.Minimum != nil && w.Minimum != nil && *n.Minimum <= *w.Minimum {
		p.tightened(".exclusiveMinimum", "the minimum itself is not valid any more")
	}
	if n.MultipleOf != nil && (w.MultipleOf == nil || *n.MultipleOf != *w.MultipleOf) {
		p.tightened(".multipleOf", "values must be multiples of %v", *n.MultipleOf)
	}
	if n.Pattern != "" && n.Pattern != w.Pattern {
		if w.Pattern == "" {
			p.tightened(".pattern", "the pattern %q is new", n.Pattern)
		} else {
			p.tightened(".pattern", "the pattern changes from %q to %q", w.Pattern, n.Pattern)
		}
	}
	if p.new.Format != "" && p.new.Format != p.was.Format {
		p.tightened(".format", "the format changes from %q to %q", p.was.Format, p.new.Format)
	}
	p.enums(n, w)
	for _, j := range []struct {
		name     string
		new, was any
		set      bool
	}{
		{"allOf", n.AllOf, w.AllOf, n.AllOf != nil}, {"anyOf", n.AnyOf, w.AnyOf, n.AnyOf != nil},
		{"oneOf", n.OneOf, w.OneOf, n.OneOf != nil}, {"not", n.Not, w.Not, n.Not != nil},
	} {
		if j.set && !reflect.DeepEqual(j.new, j.was) {
			p.notes(p.path+"."+j.name, j.name+" is new or differs: it may refuse what was valid", p.ratcheting())
		}
	}
}

// compareBound reports a bound that became tighter. upper says in which direction that is.
func compareBound[T cmp.Ordered](p pair, name string, upper bool, new, was *T) {
	switch {
	case new == nil, was != nil && (upper && *new >= *was || !upper && *new <= *was):
	case was == nil:
		p.tightened("."+name, "%s: %v is new", name, *new)
	default:
		p.tightened("."+name, "%s changes from %v to %v", name, *was, *new)
	}
}

// enums reports values that an enum no longer allows.
func (p pair) enums(n, w *structural.Values) {
	has := func(list [][]byte, raw []byte) bool {
		return slices.ContainsFunc(list, func(b []byte) bool { return bytes.Equal(b, raw) })
	}
	switch {
	case n.Enum == nil:
		if w.Enum != nil {
			p.notes(p.path, "the enum is removed: clients may meet values that they do not know", "")
		}
	case w.Enum == nil:
		p.tightened(".enum", "only %s are valid from now on", bytes.Join(n.Enum, []byte(", ")))
	default:
		var gone, more []string
		for _, raw := range w.Enum {
			if !has(n.Enum, raw) {
				gone = append(gone, string(raw))
			}
		}
		for _, raw := range n.Enum {
			if !has(w.Enum, raw) {
				more = append(more, string(raw))
			}
		}
		if gone != nil {
			p.tightened(".enum", "%s not valid any more", be(gone))
		}
		if more != nil {
			p.notes(p.path+".enum", be(more)+" new: clients may meet values that they do not know", "")
		}
	}
}

// be returns the names of a list with "is" or "are".
func be(list []string) string {
	if len(list) == 1 {
		return list[0] + " is"
	}
	return strings.Join(list, ", ") + " are"
}

// lists compares list types, for which there is no ratcheting of single values.
func (p pair) lists() {
	const forgiven = "forgiven only for objects that break it already"
	atomic := func(t string) string {
		if t == "" {
			return "atomic"
		}
		return t
	}
	was, is := atomic(p.was.ListType), atomic(p.new.ListType)
	if was != is {
		if is != "atomic" {
			p.breaks(p.path+".x-kubernetes-list-type", fmt.Sprintf("changes from %s to %s: items that are there twice are refused, and appliers merge instead of replacing", was, is), forgiven)
		} else {
			p.breaks(p.path, fmt.Sprintf("the list type changes from %s to atomic: the last applier owns all of the list", was), "")
		}
	} else if is == "map" && !slices.Equal(p.was.ListMapKeys, p.new.ListMapKeys) {
		p.breaks(p.path+".x-kubernetes-list-map-keys", fmt.Sprintf("change from %v to %v: appliers match items otherwise", p.was.ListMapKeys, p.new.ListMapKeys), forgiven)
	}
}

// rules reports new rules, and rules that changed.
func (p pair) rules() {
	for i, r := range p.new.Rules {
		same := func(w apiextv1.ValidationRule) bool {
			return w.Rule == r.Rule && (w.OptionalOldSelf != nil && *w.OptionalOldSelf) == (r.OptionalOldSelf != nil && *r.OptionalOldSelf)
		}
		if slices.ContainsFunc(p.was.Rules, same) {
			continue
		}
		hint := p.ratcheting()
		if oldSelf.MatchString(r.Rule) {
			hint = "a transition rule: stored objects stay as they are, every update is checked; no ratcheting"
		}
		p.breaks(fmt.Sprintf("%s.x-kubernetes-validations[%d].rule", p.path, i), "the rule is new or differs: "+oneLine(r.Rule, 100), hint)
	}
}

// properties compares the declared and the required members.
func (p pair) properties() {
	n, w := p.values()
	for _, name := range p.was.Names {
		if p.root && metaFields[name] {
			continue
		}
		is := p.new.Properties[name]
		switch {
		case is != nil:
			p.below(is, p.was.Properties[name], ".properties["+name+"]").compare()
		case p.new.Preserve || p.new.Additional != nil || p.new.AdditionalAllows != nil && *p.new.AdditionalAllows:
			p.notes(p.path+".properties", fmt.Sprintf("field %q is not declared any more: it is kept, but not checked", name), "")
		default:
			p.breaks(p.path+".properties", fmt.Sprintf("field %q is removed: stored values are dropped at the next read, and clients that send it get an error or a warning", name), "")
		}
	}
	for i, name := range n.Required {
		if slices.Contains(w.Required, name) || p.root && metaFields[name] {
			continue
		}
		if s := p.new.Properties[name]; s != nil && s.Default != nil {
			continue
		}
		at := fmt.Sprintf(".required[%d]", i)
		if p.was.Properties[name] == nil && p.new.Properties[name] != nil {
			p.tightened(at, "field %q is new and required: no stored object has it", name)
		} else {
			p.tightened(at, "field %q becomes required", name)
		}
	}
}
