package lint

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file finds contradictions in a schema: bounds that exclude each other, and values that no
// object can have.

// contradictions returns the findings at one node.
func (n node) contradictions() []Finding {
	var out []Finding
	warn := func(check, at, format string, args ...any) {
		out = append(out, Finding{Severity: Warning, Check: check, Path: n.path + at, Message: fmt.Sprintf(format, args...)})
	}
	v := n.values()
	n.bounds(v, warn)
	n.required(v, warn)
	n.enum(v, warn)
	n.idle(v, warn)
	n.junctors(v, warn)
	if s := n.schema; s.Default != nil && n.unchecked {
		if text := n.badDefault(); text != "" {
			warn("contradiction", ".default", "%s, and servers do not find out before it is used: %s", "the default is not valid", text)
		}
	}
	return out
}

type warner func(check, at, format string, args ...any)

// bounds finds empty ranges, including those that allOf restricts.
func (n node) bounds(v *structural.Values, warn warner) {
	all := []*structural.Values{v}
	for _, a := range v.AllOf {
		all = append(all, &a.Values)
	}
	sizes(all, warn)
	n.numbers(all, warn)
	if n.schema.ListType == "set" && n.schema.Items != nil && n.schema.Items.Values != nil && v.MinItems != nil {
		if values := len(n.schema.Items.Values.Enum); values > 0 && *v.MinItems > int64(values) {
			warn("contradiction", ".minItems", "minItems is %d and the items of the set can have %d values: no list is valid", *v.MinItems, values)
		}
	}
}

// sizeBounds are the pairs of keywords that bound a size.
var sizeBounds = []struct {
	min, max, unit string
	of             func(*structural.Values) (min, max *int64)
}{
	{"minLength", "maxLength", "text", func(v *structural.Values) (*int64, *int64) { return v.MinLength, v.MaxLength }},
	{"minItems", "maxItems", "list", func(v *structural.Values) (*int64, *int64) { return v.MinItems, v.MaxItems }},
	{"minProperties", "maxProperties", "object", func(v *structural.Values) (*int64, *int64) { return v.MinProperties, v.MaxProperties }},
}

// sizes finds sizes whose bounds exclude every value. All elements of all apply together, so that
// the largest minimum and the smallest maximum count.
func sizes(all []*structural.Values, warn warner) {
	for _, r := range sizeBounds {
		var low, high *int64
		for _, v := range all {
			min, max := r.of(v)
			if min != nil && (low == nil || *min > *low) {
				low = min
			}
			if max != nil && (high == nil || *max < *high) {
				high = max
			}
		}
		if low != nil && high != nil && *low > *high {
			warn("contradiction", "."+r.min, "%s is %d and %s is %d: no %s is valid", r.min, *low, r.max, *high, r.unit)
		}
		if high != nil && *high < 0 {
			warn("contradiction", "."+r.max, "%s is %d: no %s is valid", r.max, *high, r.unit)
		}
	}
}

// interval is a range of numbers. A bound that is open is not part of it.
type interval struct {
	low, high         float64
	openLow, openHigh bool
}

// intersect restricts the interval by the bounds of one set of restrictions.
func (i *interval) intersect(v *structural.Values) {
	if v.Minimum != nil && (*v.Minimum > i.low || *v.Minimum == i.low && v.ExclusiveMinimum) {
		i.low, i.openLow = *v.Minimum, v.ExclusiveMinimum
	}
	if v.Maximum != nil && (*v.Maximum < i.high || *v.Maximum == i.high && v.ExclusiveMaximum) {
		i.high, i.openHigh = *v.Maximum, v.ExclusiveMaximum
	}
}

// hasInteger reports whether the interval, which has two finite bounds, contains an integer.
func (i *interval) hasInteger() bool {
	first, last := math.Ceil(i.low), math.Floor(i.high)
	if i.openLow && first == i.low {
		first++
	}
	if i.openHigh && last == i.high {
		last--
	}
	return first <= last
}

// numbers finds bounds that exclude every number, and exclusive bounds without a bound. All
// elements of all apply together.
func (n node) numbers(all []*structural.Values, warn warner) {
	in := interval{low: math.Inf(-1), high: math.Inf(1)}
	for _, v := range all {
		in.intersect(v)
		if v.ExclusiveMinimum && v.Minimum == nil {
			warn("no-effect", ".exclusiveMinimum", "exclusiveMinimum says nothing without minimum")
		}
		if v.ExclusiveMaximum && v.Maximum == nil {
			warn("no-effect", ".exclusiveMaximum", "exclusiveMaximum says nothing without maximum")
		}
	}
	switch {
	case in.low > in.high:
		warn("contradiction", ".minimum", "minimum is %v and maximum is %v: no number is valid", in.low, in.high)
	case in.low == in.high && (in.openLow || in.openHigh):
		warn("contradiction", ".minimum", "minimum and maximum are %v, and one of them is exclusive: no number is valid", in.low)
	case n.schema.Type == "integer" && !math.IsInf(in.low, 0) && !math.IsInf(in.high, 0) && !in.hasInteger():
		warn("contradiction", ".minimum", "there is no integer between minimum %v and maximum %v", in.low, in.high)
	}
}

// required finds required members that cannot exist.
func (n node) required(v *structural.Values, warn warner) {
	if n.schema.Type != "object" {
		return
	}
	for i, name := range v.Required {
		if !n.keeps(name) {
			warn("contradiction", fmt.Sprintf(".required[%d]", i), "%q is required and not declared: it is pruned, and no object is valid", name)
		}
		if slices.Contains(v.Required[:i], name) {
			warn("no-effect", fmt.Sprintf(".required[%d]", i), "%q is required twice", name)
		}
	}
	if v.MaxProperties != nil && int64(len(v.Required)) > *v.MaxProperties {
		warn("contradiction", ".maxProperties", "maxProperties is %d and %d properties are required: no object is valid", *v.MaxProperties, len(v.Required))
	}
}

// junctors finds alternatives that require members that cannot exist.
func (n node) junctors(v *structural.Values, warn warner) {
	if n.schema.Type != "object" {
		return
	}
	for _, j := range []struct {
		name, effect string
		list         []*structural.Nested
	}{
		{"allOf", "no object is valid", v.AllOf},
		{"anyOf", "this alternative never matches", v.AnyOf},
		{"oneOf", "this alternative never matches", v.OneOf},
	} {
		for i, branch := range j.list {
			for k, name := range branch.Required {
				if !n.keeps(name) {
					warn("contradiction", fmt.Sprintf(".%s[%d].required[%d]", j.name, i, k), "%q is not declared and therefore pruned: %s", name, j.effect)
				}
			}
		}
	}
}

// enum finds enum values that the rest of the schema excludes.
func (n node) enum(v *structural.Values, warn warner) {
	var pattern *regexp.Regexp
	if v.Pattern != "" {
		pattern, _ = regexp.Compile(v.Pattern) // the server's verdict covers an invalid pattern
	}
	bad := 0
	for i, raw := range v.Enum {
		why := n.excluded(v, pattern, raw)
		if why == "" {
			for _, other := range v.Enum[:i] {
				if bytes.Equal(other, raw) {
					warn("no-effect", fmt.Sprintf(".enum[%d]", i), "%s is there twice", raw)
					break
				}
			}
			continue
		}
		bad++
		warn("contradiction", fmt.Sprintf(".enum[%d]", i), "%s can never be a value here: %s", raw, why)
	}
	if bad > 0 && bad == len(v.Enum) {
		warn("contradiction", ".enum", "no value of the enum is possible: nothing is valid here")
	}
}

// excluded returns why a value of an enum is impossible; "" if it is possible.
func (n node) excluded(v *structural.Values, pattern *regexp.Regexp, raw []byte) string {
	var value any
	if json.Unmarshal(raw, &value) != nil {
		return ""
	}
	if value == nil {
		if n.schema.Nullable || n.schema.Type == "" {
			return ""
		}
		return "the schema is not nullable"
	}
	if got := jsonType(value); n.schema.Type != "" && got != n.schema.Type && (got != "integer" || n.schema.Type != "number") {
		return fmt.Sprintf("got %s, want %s", got, n.schema.Type)
	}
	switch value := value.(type) {
	case string:
		length := int64(utf8.RuneCountInString(value))
		switch {
		case pattern != nil && !pattern.MatchString(value):
			return fmt.Sprintf("pattern %q does not match it", v.Pattern)
		case v.MaxLength != nil && length > *v.MaxLength:
			return fmt.Sprintf("maxLength is %d", *v.MaxLength)
		case v.MinLength != nil && length < *v.MinLength:
			return fmt.Sprintf("minLength is %d", *v.MinLength)
		}
	case float64:
		switch {
		case v.Minimum != nil && (value < *v.Minimum || v.ExclusiveMinimum && value == *v.Minimum):
			return fmt.Sprintf("minimum is %v", *v.Minimum)
		case v.Maximum != nil && (value > *v.Maximum || v.ExclusiveMaximum && value == *v.Maximum):
			return fmt.Sprintf("maximum is %v", *v.Maximum)
		}
	}
	return ""
}

// jsonType returns the schema type of a decoded JSON value.
func jsonType(v any) string {
	switch v := v.(type) {
	case string:
		return "string"
	case bool:
		return "boolean"
	case float64:
		if v == math.Trunc(v) {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

// idle finds restrictions that never apply to values of the node's type.
func (n node) idle(v *structural.Values, warn warner) {
	s := n.schema
	if s.Type == "" {
		return
	}
	for _, k := range []struct {
		keyword, types string
		set            bool
	}{
		{"maxLength", "string", v.MaxLength != nil}, {"minLength", "string", v.MinLength != nil}, {"pattern", "string", v.Pattern != ""},
		{"maximum", "integer number", v.Maximum != nil}, {"minimum", "integer number", v.Minimum != nil}, {"multipleOf", "integer number", v.MultipleOf != nil},
		{"maxItems", "array", v.MaxItems != nil}, {"minItems", "array", v.MinItems != nil},
		{"maxProperties", "object", v.MaxProperties != nil}, {"minProperties", "object", v.MinProperties != nil},
		{"required", "object", len(v.Required) > 0},
	} {
		if k.set && !slices.Contains(strings.Fields(k.types), s.Type) {
			warn("no-effect", "."+k.keyword, "%s says nothing about a value of type %s", k.keyword, s.Type)
		}
	}
}

// badDefault returns the error of a default that servers do not check; "" if it is valid.
func (n node) badDefault() string {
	bare := *n.schema
	bare.Default = nil
	env, err := environment()
	if err != nil {
		return ""
	}
	p, err := schema.Compile(&bare, schema.Options{Env: env})
	if err != nil {
		return ""
	}
	var d jsondoc.Doc
	if _, err := p.DecodeApplied(&d, n.schema.Default); err != nil { // a server keeps the nulls of defaults
		return err.Error()
	}
	result := p.Validate(context.Background(), &d, nil, schema.Whole)
	if len(result.Errors) == 0 {
		return ""
	}
	return strings.TrimPrefix(result.Errors[0].Error(), "<nil>: ")
}
