package witness

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file makes values for schema nodes: the smallest ones, and candidates with a property.

// maxNesting is the greatest depth of generated values.
const maxNesting = 40

// minimal returns a small value of a node: only required members, the least number of items. It may
// not satisfy anyOf, oneOf, not and rules: the search repairs that.
func (s *Search) minimal(n *structural.Schema, depth int) tree {
	if n == nil || depth > maxNesting {
		return map[string]any{}
	}
	if n.Default != nil {
		if t, ok := parseTree(n.Default); ok {
			return t
		}
	}
	v := valuesOf(n)
	for _, t := range enumOf(n) {
		if s.fits(n, t) {
			return t
		}
	}
	switch {
	case n.IntOrString:
		return s.firstOf(n, int64(0), int64(1), "1", "1%", "a")
	case n.Type == "object":
		return s.minimalObject(n, v, depth)
	case n.Type == "array":
		out := []any{}
		if v.MinItems != nil {
			for range min(*v.MinItems, 64) {
				out = append(out, s.distinct(n, out, s.minimal(n.Items, depth+1)))
			}
		}
		return out
	case n.Type == "string":
		if texts := s.texts(n, nil, 1); len(texts) > 0 {
			return texts[0]
		}
		return ""
	case n.Type == "boolean":
		return false
	case n.Type == "integer", n.Type == "number":
		return s.minimalNumber(n, v)
	}
	return map[string]any{}
}

// minimalObject is minimal for objects.
func (s *Search) minimalObject(n *structural.Schema, v *structural.Values, depth int) tree {
	out := map[string]any{}
	if n.Embedded {
		out["apiVersion"], out["kind"], out["metadata"] = "v1", "A", map[string]any{"name": "a"}
	}
	required := v.Required
	for _, all := range v.AllOf {
		required = append(required[:len(required):len(required)], all.Required...)
	}
	for _, name := range required {
		if child := n.Properties[name]; child != nil && child.Default == nil {
			out[name] = s.minimal(child, depth+1)
		} else if n.Additional != nil {
			out[name] = s.minimal(n.Additional, depth+1)
		}
	}
	if v.MinProperties != nil && n.Additional != nil {
		for i := 0; int64(len(out)) < min(*v.MinProperties, 64); i++ {
			out[freshName(i)] = s.minimal(n.Additional, depth+1)
		}
	}
	if v.MinProperties != nil {
		for _, name := range n.Names {
			if _, ok := out[name]; !ok && int64(len(out)) < *v.MinProperties {
				out[name] = s.minimal(n.Properties[name], depth+1)
			}
		}
	}
	return out
}

// freshName returns the i-th of a row of different names.
func freshName(i int) string {
	if i < 26 {
		return string(rune('a' + i))
	}
	return freshName(i/26-1) + string(rune('a'+i%26))
}

// firstOf returns the first value that is valid for n, or the first one.
func (s *Search) firstOf(n *structural.Schema, values ...tree) tree {
	for _, v := range values {
		if s.fits(n, v) {
			return v
		}
	}
	return values[0]
}

// minimalNumber returns the valid number that is closest to 0.
func (s *Search) minimalNumber(n *structural.Schema, v *structural.Values) tree {
	low, high := bounds(n)
	start := 0.0
	if low > 0 {
		start = low
	} else if high < 0 {
		start = high
	}
	if v.MultipleOf != nil && *v.MultipleOf > 0 && start != 0 {
		start = math.Ceil(start / *v.MultipleOf) * *v.MultipleOf
	}
	return s.firstOf(n, number(n, start), number(n, start+1), number(n, start-1), number(n, start+0.5))
}

// bounds returns the bounds of a number, including those of allOf.
func bounds(n *structural.Schema) (low, high float64) {
	low, high = math.Inf(-1), math.Inf(1)
	add := func(v *structural.Values) {
		if v.Minimum != nil {
			low = max(low, *v.Minimum)
		}
		if v.Maximum != nil {
			high = min(high, *v.Maximum)
		}
	}
	v := valuesOf(n)
	add(v)
	for _, a := range v.AllOf {
		add(&a.Values)
	}
	return low, high
}

// number returns f as a value of a node: an integer unless the type is number and f is not whole.
func number(n *structural.Schema, f float64) tree {
	if f == math.Trunc(f) && math.Abs(f) < 1<<62 || n.Type == "integer" {
		return int64(f)
	}
	return f
}

// valuesOf returns the restrictions of a node, never nil.
func valuesOf(n *structural.Schema) *structural.Values {
	if n == nil || n.Values == nil {
		return new(structural.Values)
	}
	return n.Values
}

// parseTree decodes JSON to a tree.
func parseTree(text []byte) (tree, bool) {
	var d jsondoc.Doc
	if jsondoc.Parse(&d, text) != nil {
		return nil, false
	}
	return d.Root().Interface(), true
}

// fits reports whether v is valid for a node, without its rules and those below.
func (s *Search) fits(n *structural.Schema, v tree) bool {
	if n == nil {
		return true
	}
	p, ok := s.leaves[n]
	if !ok {
		var err error
		if p, err = schema.Compile(wrap(bare(n, map[*structural.Schema]*structural.Schema{})), schema.Options{}); err != nil {
			p = nil
		}
		s.leaves[n] = p
	}
	if p == nil {
		return true
	}
	text, err := json.Marshal(map[string]any{"v": v})
	if err != nil {
		return false
	}
	var d jsondoc.Doc
	if found, err := p.Decode(&d, text); err != nil || found&schema.FoundUnknown != 0 {
		return false
	}
	return len(p.Validate(s.ctx, &d, nil, schema.Whole).Errors) == 0
}

// wrap returns the schema of an object with the required member v of schema n.
func wrap(n *structural.Schema) *structural.Schema {
	return &structural.Schema{Type: "object", Names: []string{"v"}, Properties: map[string]*structural.Schema{"v": n},
		Values: &structural.Values{Required: []string{"v"}}}
}

// bare returns a copy of a schema without rules. Equal parts stay shared.
func bare(n *structural.Schema, known map[*structural.Schema]*structural.Schema) *structural.Schema {
	if n == nil {
		return nil
	}
	if out, ok := known[n]; ok {
		return out
	}
	out := *n
	known[n] = &out
	out.Rules = nil
	out.Items, out.Additional = bare(n.Items, known), bare(n.Additional, known)
	if n.Properties != nil {
		out.Properties = make(map[string]*structural.Schema, len(n.Properties))
		for name, p := range n.Properties {
			out.Properties[name] = bare(p, known)
		}
	}
	return &out
}

// distinct returns a value for an item of a list that has no duplicates: if v equals an item, it is
// changed.
func (s *Search) distinct(n *structural.Schema, items []any, v tree) tree {
	return s.distincts(n, items, v)[0]
}

// distincts returns values for an item of a list that has no duplicates. For a list map there is one
// for each key that can be changed.
func (s *Search) distincts(n *structural.Schema, items []any, v tree) []tree {
	switch n.ListType {
	case "set":
		for _, other := range s.variants(n.Items, v, len(items)+2) {
			if !contains(items, other) {
				return []tree{other}
			}
		}
	case "map":
		m, ok := v.(map[string]any)
		if !ok || len(n.ListMapKeys) == 0 || n.Items == nil {
			break
		}
		taken := func(m map[string]any) bool {
			for _, item := range items {
				o, _ := item.(map[string]any)
				same := true
				for _, key := range n.ListMapKeys {
					same = same && equalTrees(s.keyOf(n, o, key), s.keyOf(n, m, key))
				}
				if same {
					return true
				}
			}
			return false
		}
		if !taken(m) {
			break
		}
		var out []tree
		for _, key := range n.ListMapKeys {
			child := n.Items.Properties[key]
			for _, other := range s.variants(child, s.keyOf(n, m, key), len(items)+2) {
				changed := with(m, []any{key}, other, nil).(map[string]any)
				if !taken(changed) {
					out = append(out, changed)
					break
				}
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	return []tree{v}
}

// keyOf returns a key of an item of a list map: its value or the default.
func (s *Search) keyOf(n *structural.Schema, item map[string]any, key string) tree {
	if v, ok := item[key]; ok {
		return v
	}
	if child := n.Items.Properties[key]; child != nil && child.Default != nil {
		t, _ := parseTree(child.Default)
		return t
	}
	return nil
}

// variants returns up to max valid values of a scalar node, beginning with v.
func (s *Search) variants(n *structural.Schema, v tree, max int) []tree {
	out := []tree{}
	add := func(t tree) {
		if len(out) < max && !contains(out, t) && s.fits(n, t) {
			out = append(out, t)
		}
	}
	if v != nil {
		add(v)
	}
	if n == nil {
		return out
	}
	enum := enumOf(n)
	for _, t := range enum {
		add(t)
	}
	switch {
	case len(enum) > 0:
	case n.Type == "string":
		for _, t := range s.texts(n, nil, max) {
			add(t)
		}
		if text, ok := v.(string); ok {
			for i := 0; len(out) < max && i < 4*max; i++ {
				add(text + freshName(i))
			}
		}
	case n.Type == "integer", n.Type == "number", n.IntOrString:
		low, high := bounds(n)
		for i := 0; len(out) < max && i < 2*max; i++ {
			add(int64(i))
			if low > 0 || !math.IsInf(low, -1) {
				add(number(n, low+float64(i)))
			}
			if !math.IsInf(high, 1) {
				add(number(n, high-float64(i)))
			}
		}
	case n.Type == "boolean":
		add(false)
		add(true)
	}
	return out
}

// formatSeeds are valid texts of formats.
var formatSeeds = map[string][]string{
	"date-time": {"2020-01-01T00:00:00Z", "2000-01-01T00:00:00Z"}, "date": {"2020-01-01", "2000-01-01"}, "duration": {"1s", "0s", "1h"}, "byte": {"YQ==", ""},
	"uri": {"http://a", "https://a.b/c"}, "email": {"a@b.co"}, "hostname": {"a", "a.b"}, "ipv4": {"10.0.0.1"}, "ip": {"10.0.0.1"}, "ipv6": {"::1"},
	"cidr": {"10.0.0.0/8"}, "mac": {"00:00:00:00:00:00"}, "uuid": {"00000000-0000-0000-0000-000000000000"},
	"uuid3": {"00000000-0000-3000-8000-000000000000"}, "uuid4": {"00000000-0000-4000-8000-000000000000"}, "uuid5": {"00000000-0000-5000-8000-000000000000"},
	"bsonobjectid": {"000000000000000000000000"}, "isbn": {"0321751043"}, "isbn10": {"0321751043"}, "isbn13": {"978-0321751041"},
	"creditcard": {"4111111111111111"}, "ssn": {"111-11-1111"}, "hexcolor": {"#ffffff"}, "rgbcolor": {"rgb(0,0,0)"}, "password": {"a"},
}

// textRule is a condition on a text: a regular expression that must match, or must not.
type textRule struct {
	pattern string
	match   bool
}

// texts returns up to max valid texts of a node that satisfy the conditions, the shortest first.
func (s *Search) texts(n *structural.Schema, conditions []textRule, max int) []string {
	key := fmt.Sprintf("%p %d %v", n, max, conditions)
	out, ok := s.known[key]
	if !ok {
		out = s.findTexts(n, conditions, max)
		s.known[key] = out
	}
	return out
}

// findTexts is texts without the memory of earlier results.
func (s *Search) findTexts(n *structural.Schema, conditions []textRule, max int) []string {
	all := conditions[:len(conditions):len(conditions)]
	v, format := valuesOf(n), ""
	if n != nil {
		format = n.Format
	}
	low, high := 0, 1<<20
	restrict := func(v *structural.Values) {
		if v.Pattern != "" {
			all = append(all, textRule{v.Pattern, true})
		}
		if v.MinLength != nil && *v.MinLength < 1<<16 {
			low = int(*v.MinLength)
		}
		if v.MaxLength != nil && *v.MaxLength < int64(high) {
			high = int(*v.MaxLength)
		}
	}
	restrict(v)
	for _, a := range v.AllOf {
		restrict(&a.Values)
	}
	var out []string
	add := func(text string) {
		if len(out) < max && !contains(out, text) && (n == nil || s.fits(n, text)) && s.satisfies(text, conditions) {
			out = append(out, text)
		}
	}
	enum := []tree{}
	if n != nil {
		enum = enumOf(n)
	}
	if seeds := formatSeeds[format]; len(enum) > 0 || seeds != nil {
		for _, t := range enum {
			if text, ok := t.(string); ok {
				add(text)
			}
		}
		for _, seed := range seeds {
			add(seed)
		}
		if len(enum) > 0 || len(out) > 0 && len(out) >= min(max, 2) {
			return out
		}
	}
	found, _ := members(all, low, high, max+8)
	for _, text := range found {
		add(text)
	}
	if len(out) == 0 { // junctors and formats may ask for more
		for _, seed := range textSeeds {
			add(seed)
		}
	}
	return out
}

// textSeeds are texts that functions and patterns often ask for.
var textSeeds = []string{"", "a", "A", "1", "a-b", "a.b", "a/b", "/", "*", "*.a", "10.0.0.1", "::1", "10.0.0.0/8", "fd00::/8", "http://a", "https://a.b:1/c?d=e",
	"ftp://a", "file:///a", "1s", "1ms", "0s", "1h", "-1s", "2020-01-01T00:00:00Z", "2020-01-01", "1Gi", "0", "100m", "-1", "1.0.0", "2.0.0", "10.20.30", "1.2.3-a", "true",
	"a@b.co", "a:b", "a=b", "YQ==", "00000000-0000-4000-8000-000000000000", "!", " ", strings.Repeat("a", 64), strings.Repeat("a", 254)}

// contains reports whether list has v.
func contains[T any](list []T, v T) bool {
	for _, other := range list {
		if equalTrees(other, v) {
			return true
		}
	}
	return false
}

// equalTrees reports whether two trees are equal.
func equalTrees(a, b tree) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && string(x) == string(y)
}

// length returns the length of a text in code points.
func length(s string) int { return utf8.RuneCountInString(s) }
