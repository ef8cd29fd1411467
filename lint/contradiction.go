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

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file finds what a schema cannot mean: bounds that exclude each other, values that no object can have.

// contradictions are the findings at one node.
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

// bounds finds ranges with nothing in them, those of allOf included.
func (n node) bounds(v *structural.Values, warn warner) {
	all := []*structural.Values{v}
	for _, a := range v.AllOf {
		all = append(all, &a.Values)
	}
	for _, r := range []struct {
		min, max, unit string
		of             func(*structural.Values) (min, max *int64)
	}{
		{"minLength", "maxLength", "text", func(v *structural.Values) (*int64, *int64) { return v.MinLength, v.MaxLength }},
		{"minItems", "maxItems", "list", func(v *structural.Values) (*int64, *int64) { return v.MinItems, v.MaxItems }},
		{"minProperties", "maxProperties", "object", func(v *structural.Values) (*int64, *int64) { return v.MinProperties, v.MaxProperties }},
	} {
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
	low, high := math.Inf(-1), math.Inf(1)
	openLow, openHigh := false, false
	for _, v := range all {
		if v.Minimum != nil && (*v.Minimum > low || *v.Minimum == low && v.ExclusiveMinimum) {
			low, openLow = *v.Minimum, v.ExclusiveMinimum
		}
		if v.Maximum != nil && (*v.Maximum < high || *v.Maximum == high && v.ExclusiveMaximum) {
			high, openHigh = *v.Maximum, v.ExclusiveMaximum
		}
		if v.ExclusiveMinimum && v.Minimum == nil {
			warn("no-effect", ".exclusiveMinimum", "exclusiveMinimum says nothing without minimum")
		}
		if v.ExclusiveMaximum && v.Maximum == nil {
			warn("no-effect", ".exclusiveMaximum", "exclusiveMaximum says nothing without maximum")
		}
	}
	switch {
	case low > high:
		warn("contradiction", ".minimum", "minimum is %v and maximum is %v: no number is valid", low, high)
	case low == high && (openLow || openHigh):
		warn("contradiction", ".minimum", "minimum and maximum are %v, and one of them is exclusive: no number is valid", low)
	case n.schema.Type == "integer" && !math.IsInf(low, 0) && !math.IsInf(high, 0):
		first, last := math.Ceil(low), math.Floor(high)
		if openLow && first == low {
			first++
		}
		if openHigh && last == high {
			last--
		}
		if first > last {
			warn("contradiction", ".minimum", "there is no integer between minimum %v and maximum %v", low, high)
		}
	}
	if n.schema.ListType == "set" && n.schema.Items != nil && n.schema.Items.Values != nil && v.MinItems != nil {
		if values := len(n.schema.Items.Values.Enum); values > 0 && *v.MinItems > int64(values) {
			warn("contradiction", ".minItems", "minItems is %d and the items of the set can have %d values: no list is valid", *v.MinItems, values)
		}
	}
}

// required finds members that must be there and cannot be.
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

// junctors finds alternatives that require what cannot be there.
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

// enum finds values that the rest of the schema excludes.
func (n node) enum(v *structural.Values, warn warner) {
	var pattern *regexp.Regexp
	if v.Pattern != "" {
		pattern, _ = regexp.Compile(v.Pattern) // if it is none, the server's verdict says so
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

// excluded says why a value of an enum is not possible; "" if it is.
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

// idle finds restrictions that values of this type never meet.
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

// badDefault is what is wrong with a default that servers do not check; "" if nothing is.
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
	var d doc.Doc
	if _, err := p.Decode(&d, n.schema.Default); err != nil {
		return err.Error()
	}
	result := p.Validate(context.Background(), &d, nil, schema.Whole)
	if len(result.Errors) == 0 {
		return ""
	}
	return strings.TrimPrefix(result.Errors[0].Error(), "<nil>: ")
}
