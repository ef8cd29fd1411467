package lint

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"k8s.io/kube-openapi/pkg/validation/strfmt"

	"github.com/keelson-io/keelson/schema/structural"
)

// This file compares the restrictions of values: bounds, patterns, formats, enums, junctors (allOf,
// anyOf, oneOf, not), required fields, and the types of lists and maps.

// values returns the value restrictions of both nodes, never nil.
func (p *pair) values() (new, was *structural.Values) {
	return restrictionsOf(p.new), restrictionsOf(p.was)
}

// intOrString is the anyOf that repeats x-kubernetes-int-or-string.
var intOrString = []*structural.Nested{{Type: "integer"}, {Type: "string"}}

// restrictionsOf returns the value restrictions of s, never nil. It omits the anyOf that repeats
// x-kubernetes-int-or-string, also below allOf.
func restrictionsOf(s *structural.Schema) *structural.Values {
	if s.Values == nil {
		return new(structural.Values)
	}
	v := *s.Values
	if !s.IntOrString {
		return &v
	}
	if reflect.DeepEqual(v.AnyOf, intOrString) {
		v.AnyOf = nil
	}
	v.AllOf = slices.DeleteFunc(slices.Clone(v.AllOf), func(n *structural.Nested) bool {
		return reflect.DeepEqual(*n, structural.Nested{Values: structural.Values{AnyOf: intOrString}})
	})
	return &v
}

// restrictions compares everything but types, for the types that stored values may have.
func (p *pair) restrictions() {
	n, w := p.values()
	if admits(p.was, "string") {
		p.size("maxLength", n.MaxLength, w.MaxLength)
		p.size("minLength", n.MinLength, w.MinLength)
		p.pattern(n, w)
	}
	if admits(p.was, "array") {
		p.size("maxItems", n.MaxItems, w.MaxItems)
		p.size("minItems", n.MinItems, w.MinItems)
		if n.UniqueItems && !w.UniqueItems {
			p.tightened(".uniqueItems", "items that are there twice are not valid any more")
		}
	}
	if admits(p.was, "object") {
		p.propertyCounts(n, w)
	}
	if admits(p.was, "number") {
		p.numbers(n, w)
	}
	p.format()
	p.enums(n, w)
	p.junctors(n, w)
}

// size reports a bound of a size that became tighter. The name of the bound starts with max or min.
func (p *pair) size(name string, new, was *int64) {
	upper := strings.HasPrefix(name, "max")
	switch {
	case new == nil, !upper && *new <= 0, was != nil && (upper && *new >= *was || !upper && *new <= *was):
	case was == nil:
		p.tightened("."+name, "%s: %v is new", name, *new)
	default:
		p.tightened("."+name, "%s changes from %v to %v", name, *was, *new)
	}
}

// propertyCounts compares minProperties and maxProperties. They do not refuse an object whose
// declared and required fields keep it within the bounds.
func (p *pair) propertyCounts(n, w *structural.Values) {
	closed := p.other(p.was, p.wasKeeps, "") == nil && !p.isResource(p.was)
	if n.MaxProperties == nil || !closed || *n.MaxProperties < int64(len(p.was.Names)) {
		p.size("maxProperties", n.MaxProperties, w.MaxProperties)
	}
	if n.MinProperties == nil || *n.MinProperties > int64(len(w.Required)) {
		p.size("minProperties", n.MinProperties, w.MinProperties)
	}
}

// numbers compares the bounds of numbers, and multipleOf.
func (p *pair) numbers(n, w *structural.Values) {
	if at, value := unusable(p.new, n); at != "" {
		if was, _ := unusable(p.was, w); was == "" {
			p.tightened("."+at, "%s: the type cannot represent %v, so that every value is refused", at, value)
		}
		return
	}
	p.numberBound("aximum", n.Maximum, w.Maximum, n.ExclusiveMaximum, w.ExclusiveMaximum, 1)
	p.numberBound("inimum", n.Minimum, w.Minimum, n.ExclusiveMinimum, w.ExclusiveMinimum, -1)
	known := w.MultipleOf
	if one := 1.0; known == nil && p.was.Type == "integer" {
		known = &one
	}
	if n.MultipleOf != nil && (known == nil || !isMultiple(*known, *n.MultipleOf)) {
		p.tightened(".multipleOf", "values must be multiples of %v", *n.MultipleOf)
	}
}

// numberBound reports a bound of numbers that became tighter. name is that of the bound without its
// first letter; sign is 1 for an upper bound, -1 for a lower one.
func (p *pair) numberBound(name string, new, was *float64, newExcludes, wasExcludes bool, sign float64) {
	switch {
	case new == nil:
	case was == nil:
		p.tightened(".m"+name, "m%s: %v is new", name, *new)
	case sign**new < sign**was:
		if p.was.Type == "integer" && wasExcludes && !newExcludes && *was == math.Trunc(*was) && *new == *was-sign {
			return // the same integers
		}
		p.tightened(".m"+name, "m%s changes from %v to %v", name, *was, *new)
	case newExcludes && !wasExcludes && math.Trunc(*new) == math.Trunc(*was): // servers truncate bounds for integers
		p.tightened(".exclusiveM"+name, "the m%s itself is not valid any more", name)
	}
}

// unusable returns the bound that the type of s cannot represent, "" if there is none. Servers then
// refuse every number.
func unusable(s *structural.Schema, v *structural.Values) (name string, value float64) {
	if s.Type != "integer" {
		return "", 0
	}
	limit := float64(math.MaxInt64)
	if s.Format == "int32" {
		limit = math.MaxInt32
	}
	for _, b := range []struct {
		name  string
		value *float64
	}{{"maximum", v.Maximum}, {"minimum", v.Minimum}, {"multipleOf", v.MultipleOf}} {
		if b.value != nil && (*b.value != math.Trunc(*b.value) || math.Abs(*b.value) > limit) {
			return b.name, *b.value
		}
	}
	return "", 0
}

// isMultiple reports whether all multiples of a are multiples of b. It may be false for fractions.
func isMultiple(a, b float64) bool {
	return a == b || b >= 1 && a == math.Trunc(a) && b == math.Trunc(b) && math.Mod(a, b) == 0
}

// pattern reports a new or different pattern.
func (p *pair) pattern(n, w *structural.Values) {
	switch {
	case n.Pattern == "" || n.Pattern == w.Pattern:
	case w.Pattern == "":
		p.tightened(".pattern", "the pattern %q is new", n.Pattern)
	default:
		p.tightened(".pattern", "the pattern changes from %q to %q", w.Pattern, n.Pattern)
	}
}

// checkedFormat returns the format of s without dashes, "" if it refuses no value. A format of a node
// of any type refuses numbers, booleans and objects.
func checkedFormat(s *structural.Schema) string {
	switch {
	case s.Type == "integer" && s.Format == "int32", s.Type == "number" && s.Format == "float":
		return s.Format
	case s.Format == "password" && (s.Type == "string" || s.IntOrString): // fits every string
	case (s.Type == "string" || s.Type == "") && strfmt.Default.ContainsName(s.Format):
		return strings.ReplaceAll(s.Format, "-", "")
	}
	return ""
}

// celFormats are the formats of strings that rules read as another type than string.
var celFormats = map[string]bool{"byte": true, "date": true, "date-time": true, "datetime": true, "duration": true}

// format reports a new or different format that servers check.
func (p *pair) format() {
	if is := checkedFormat(p.new); is != "" && is != checkedFormat(p.was) {
		p.tightened(".format", "the format changes from %q to %q", p.was.Format, p.new.Format)
	} else if is != checkedFormat(p.was) && celFormats[p.was.Format] {
		if rule := p.reader(); rule != "" {
			p.breaks(p.path, fmt.Sprintf("the format changes from %q to %q, and a rule may read it: %s", p.was.Format, p.new.Format, rule), "")
		}
	}
}

// junctors reports allOf, anyOf, oneOf and not that may refuse more than before.
func (p *pair) junctors(n, w *structural.Values) {
	report := func(name string) {
		p.tightened("."+name, "%s is new or differs: it may refuse what was valid", name)
	}
	if !isSubset(n.AllOf, w.AllOf) {
		report("allOf")
	}
	if n.AnyOf != nil && (w.AnyOf == nil || !isSubset(w.AnyOf, n.AnyOf)) && (w.OneOf == nil || !isSubset(w.OneOf, n.AnyOf)) {
		report("anyOf")
	}
	if n.OneOf != nil && (len(n.OneOf) != len(w.OneOf) || !isSubset(n.OneOf, w.OneOf) || !isSubset(w.OneOf, n.OneOf)) {
		report("oneOf")
	}
	if n.Not != nil && !reflect.DeepEqual(n.Not, w.Not) {
		report("not")
	}
}

// isSubset reports whether all schemas of a are in b.
func isSubset(a, b []*structural.Nested) bool {
	for _, n := range a {
		if !slices.ContainsFunc(b, func(m *structural.Nested) bool { return reflect.DeepEqual(n, m) }) {
			return false
		}
	}
	return true
}

// enums reports values that an enum no longer allows.
func (p *pair) enums(n, w *structural.Values) {
	switch {
	case n.Enum == nil:
		if w.Enum != nil {
			p.notes(p.path, "the enum is removed: clients may meet values that they do not know", "")
		}
	case w.Enum == nil && p.was.Type == "boolean" && !p.was.Nullable && hasJSON(n.Enum, []byte("true")) && hasJSON(n.Enum, []byte("false")):
	case w.Enum == nil:
		p.tightened(".enum", "only %s are valid from now on", bytes.Join(n.Enum, []byte(", ")))
	default:
		var gone, more []string
		for _, raw := range w.Enum {
			if !hasJSON(n.Enum, raw) {
				gone = append(gone, string(raw))
			}
		}
		for _, raw := range n.Enum {
			if !hasJSON(w.Enum, raw) {
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

// hasJSON reports whether a value is in a list.
func hasJSON(list [][]byte, raw []byte) bool {
	return slices.ContainsFunc(list, func(b []byte) bool { return bytes.Equal(b, raw) })
}

// be returns the names of a list with "is" or "are".
func be(list []string) string {
	if len(list) == 1 {
		return list[0] + " is"
	}
	return strings.Join(list, ", ") + " are"
}

// required reports fields that become required.
func (p *pair) required() {
	n, w := p.values()
	for i, name := range n.Required {
		if slices.Contains(w.Required, name) || p.root && metaFields[name] || p.was.Embedded && (name == "apiVersion" || name == "kind") {
			continue
		}
		if s := p.new.Properties[name]; s != nil && s.Default != nil {
			continue
		}
		at := fmt.Sprintf(".required[%d]", i)
		if p.member(p.was, p.wasKeeps, name) == nil && p.new.Properties[name] != nil {
			p.tightened(at, "field %q is new and required: no stored object has it", name)
		} else {
			p.tightened(at, "field %q becomes required", name)
		}
	}
}

// lists compares list types and keys. An update of an object that breaks the new ones already is not refused; updates of others are, if they
// break them.
func (p *pair) lists() {
	const forgiven = "forgiven only for objects that break it already"
	atomic := func(t string) string {
		if t == "" {
			return "atomic"
		}
		return t
	}
	sorted := func(keys []string) []string { return slices.Sorted(slices.Values(keys)) }
	was, is := atomic(p.was.ListType), atomic(p.new.ListType)
	if was != is {
		if is != "atomic" {
			p.breaks(p.path+".x-kubernetes-list-type", fmt.Sprintf("changes from %s to %s: items that are there twice are refused, and appliers merge instead of replacing", was, is), forgiven)
		} else {
			p.breaks(p.path, fmt.Sprintf("the list type changes from %s to atomic: the last applier owns all of the list", was), "")
		}
	} else if is == "map" && !slices.Equal(sorted(p.was.ListMapKeys), sorted(p.new.ListMapKeys)) {
		p.breaks(p.path+".x-kubernetes-list-map-keys", fmt.Sprintf("change from %v to %v: appliers match items otherwise", p.was.ListMapKeys, p.new.ListMapKeys), forgiven)
	}
}

// mapType reports an object whose fields appliers no longer own one by one, or begin to.
func (p *pair) mapType() {
	wasAtomic, isAtomic := p.was.MapType == "atomic", p.new.MapType == "atomic"
	switch {
	case isAtomic && !wasAtomic:
		p.breaks(p.path+".x-kubernetes-map-type", "changes from granular to atomic: the last applier owns all of the object", "")
	case wasAtomic && !isAtomic:
		p.breaks(p.path, "the map type changes from atomic to granular: appliers merge instead of replacing", "")
	}
}
