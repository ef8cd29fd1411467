package schema

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"
	openapi "k8s.io/kube-openapi/pkg/validation/errors"

	"github.com/keelson-io/keelson/doc"
)

// This file is the slow path of value validation: it lists what is wrong, in
// upstream's words and order. The words come from upstream's error package.

// in is where upstream says values come from.
const in = "body"

// findings are the errors of one node. matched counts the checks that passed,
// by which the branch of an anyOf or oneOf is chosen whose errors are shown.
type findings struct {
	errs    []error
	matched int
}

func (f *findings) add(errs ...error) { f.errs = append(f.errs, errs...) }

func (f *findings) merge(other findings) {
	f.errs = append(f.errs, other.errs...)
	f.matched += other.matched
}

// explain lists what is wrong with x. name is its path. c correlates x with
// its old value, nil if there is none; errors of unchanged values are dropped.
func (n *node) explain(x doc.Value, name string, c *correlation) findings {
	f := n.explainNode(x, name, c)
	if len(f.errs) > 0 && c.unchanged() {
		f.errs = nil
	}
	return f
}

func (n *node) explainNode(x doc.Value, name string, c *correlation) findings {
	var f findings
	typed := n.types != "" || n.format != ""
	if err := n.typeError(x, name); err != nil {
		f.add(err)
	} else if typed || x.Kind() == doc.Null {
		f.matched++
	}
	if x.Kind() == doc.Null {
		f.add(n.enumError(x, name)...)
		return f
	}
	if typed {
		f.matched++
	}
	f.merge(n.explainJunctors(x, name))
	f.matched++
	switch x.Kind() {
	case doc.String:
		f.add(n.textErrors(x, name)...)
		f.matched++
		if n.formatOK != nil {
			if !n.formatOK(x.Text()) {
				f.add(openapi.InvalidType(name, in, n.format, x.Text()))
			}
			f.matched++
		}
	case doc.Int, doc.Float:
		f.add(n.numberErrors(x, name)...)
		f.matched += 2
	case doc.Array:
		f.merge(n.explainItems(x, name, c))
		f.matched += 2
	}
	f.add(n.enumError(x, name)...)
	f.matched++
	if x.Kind() == doc.Object {
		f.merge(n.explainMembers(x, name, c))
		f.matched++
	}
	f.matched++
	return f
}

// typeError says that x is of the wrong type. A value that does not fit because
// of the format alone is said to be of a wrong format.
func (n *node) typeError(x doc.Value, name string) error {
	if n.typeOK(x.Kind(), x.Node) {
		return nil
	}
	found, format := x.Kind().String(), ""
	switch x.Kind() {
	case doc.Int:
		format = "int64"
	case doc.Float:
		format = "float64"
	}
	if n.format != "" && n.format != format && x.Kind() != doc.String && x.Kind() != doc.Array && x.Kind() != doc.Null {
		return openapi.InvalidType(name, in, n.format, format)
	}
	return openapi.InvalidType(name, in, n.types, found)
}

func (n *node) enumError(x doc.Value, name string) []error {
	if n.values == nil || len(n.values.enum) == 0 || x.Kind() != doc.Null && n.values.enumOK(x.Doc, x.Node, x.Kind()) {
		return nil
	}
	return []error{openapi.EnumFail(name, in, x.Interface(), n.values.enum)}
}

func (n *node) textErrors(x doc.Value, name string) []error {
	v := n.values
	if v == nil {
		return nil
	}
	s := x.Text()
	size := int64(utf8.RuneCountInString(s))
	switch {
	case v.maxLength != none && size > v.maxLength:
		return []error{openapi.TooLong(name, in, v.maxLength, s)}
	case v.minLength != none && size < v.minLength:
		return []error{openapi.TooShort(name, in, v.minLength, s)}
	case v.match != nil && v.match.err() != nil:
		return []error{openapi.FailedPattern(name, in, fmt.Sprintf("%s, but pattern is invalid: %s", v.match.text, v.match.err()), s)}
	case v.match != nil && !v.match.matches(s):
		return []error{openapi.FailedPattern(name, in, v.match.text, s)}
	}
	return nil
}

// numberErrors checks the range of the format, then multipleOf, maximum and
// minimum. A bound that does not fit the type itself is an error, too.
func (n *node) numberErrors(x doc.Value, name string) []error {
	var errs []error
	digits := ""
	if x.Kind() == doc.Int {
		digits = strconv.FormatInt(x.Node.Int(), 10)
	} else {
		digits = strconv.FormatFloat(x.Node.Float(), 'f', -1, 64)
	}
	if !inRange(digits, n.numType, n.format) {
		errs = append(errs, errRange{n.numType, n.format, "Checked", name})
	}
	v := n.values
	if v == nil {
		return errs
	}
	check := func(b *float64, what string, byInt func(v, b int64) error, byFloat func(v, b float64) error) {
		errs = append(errs, n.boundErrors(x, b, what, name, byInt, byFloat)...)
	}
	check(v.multiple, "MultipleOf", func(v, b int64) error {
		return multipleError(name, v, b, b > 0, multipleOfInt(v, b))
	}, func(v, b float64) error {
		return multipleError(name, v, b, b > 0, multipleOfFloat(v, b))
	})
	check(v.max, "Maximum boundary", func(i, b int64) error {
		if belowInt(i, b, v.exclMax) {
			return nil
		}
		return openapi.ExceedsMaximumInt(name, in, b, v.exclMax, i)
	}, func(f, b float64) error {
		if belowFloat(f, b, v.exclMax) {
			return nil
		}
		return openapi.ExceedsMaximum(name, in, b, v.exclMax, f)
	})
	check(v.min, "Minimum boundary", func(i, b int64) error {
		if belowInt(b, i, v.exclMin) {
			return nil
		}
		return openapi.ExceedsMinimumInt(name, in, b, v.exclMin, i)
	}, func(f, b float64) error {
		if belowFloat(b, f, v.exclMin) {
			return nil
		}
		return openapi.ExceedsMinimum(name, in, b, v.exclMin, f)
	})
	return errs
}

// boundErrors checks one bound: b itself, and x by it, as integers if both are.
func (n *node) boundErrors(x doc.Value, b *float64, what, name string, byInt func(v, b int64) error, byFloat func(v, b float64) error) []error {
	if b == nil {
		return nil
	}
	var errs []error
	bad := rangeError(*b, n.numType, n.format, what, name)
	if bad != nil {
		errs = append(errs, bad)
	}
	var err error
	switch {
	case x.Kind() != doc.Int:
		err = byFloat(x.Node.Float(), *b)
	case bad == nil:
		err = byInt(x.Node.Int(), int64(*b))
	default:
		err = byFloat(float64(x.Node.Int()), *b)
	}
	if err != nil {
		errs = append(errs, err)
	}
	return errs
}

func multipleError(name string, value, factor any, positive, multiple bool) error {
	switch {
	case !positive:
		return openapi.MultipleOfMustBePositive(name, in, factor)
	case !multiple:
		return openapi.NotMultipleOf(name, in, factor, value)
	}
	return nil
}

func (n *node) explainItems(x doc.Value, name string, c *correlation) findings {
	var f findings
	size := x.Len()
	if n.items != nil {
		for i := range size {
			f.merge(n.items.explain(x.Item(i), fmt.Sprintf("%s[%d]", name, i), c.index(i)))
		}
	}
	if v := n.values; v != nil {
		if v.minItems != none && int64(size) < v.minItems {
			f.add(openapi.TooFewItems(name, in, v.minItems, int64(size)))
		}
		if v.maxItems != none && int64(size) > v.maxItems {
			f.add(openapi.TooManyItems(name, in, v.maxItems, int64(size)))
		}
	}
	return f
}

func (n *node) explainMembers(x doc.Value, name string, c *correlation) findings {
	var f findings
	v := n.values
	if size := int64(x.Len()); v != nil {
		if v.minProps != none && size < v.minProps {
			f.add(openapi.TooFewProperties(name, in, v.minProps, size))
		}
		if v.maxProps != none && size > v.maxProps {
			f.add(openapi.TooManyProperties(name, in, v.maxProps, size))
		}
	}
	for key, m := range x.Members() {
		switch {
		case n.prop(key) != nil:
		case n.noOther:
			f.add(openapi.PropertyNotAllowed(name, in, key))
		case n.additional != nil:
			f.merge(n.additional.explain(m, name+"."+key, c.member(name, key)))
		}
	}
	for _, p := range n.props {
		below := p.name
		if name != "" {
			below = name + "." + p.name
		}
		if m := x.Get(p.name); m.Exists() {
			f.merge(p.node.explain(m, below, c.member(name, p.name)))
		}
	}
	if v != nil {
		for _, r := range v.required {
			if !x.Get(r.name).Exists() {
				f.add(openapi.Required(name+"."+r.name, in))
			}
		}
	}
	return f
}

// explainJunctors checks anyOf, oneOf, allOf and not. Below them nothing is
// correlated.
func (n *node) explainJunctors(x doc.Value, name string) findings {
	f := findings{matched: 1}
	v := n.values
	if v == nil {
		return f
	}
	composite := func(format string, args ...any) {
		f.add(openapi.New(openapi.CompositeErrorCode, format, args...))
	}
	if len(v.anyOf) > 0 {
		valid, best := tryBranches(v.anyOf, x, name, true)
		if valid == 0 {
			composite("%q must validate at least one schema (anyOf)", name)
		}
		f.merge(best)
	}
	if len(v.oneOf) > 0 {
		switch valid, best := tryBranches(v.oneOf, x, name, false); valid {
		case 1:
			f.merge(best)
		case 0:
			composite("%q must validate one and only one schema (oneOf). %s", name, "Found none valid")
			f.merge(best)
		default:
			composite("%q must validate one and only one schema (oneOf). %s", name, fmt.Sprintf("Found %d valid alternatives", valid))
		}
	}
	if len(v.allOf) > 0 {
		valid := 0
		for _, b := range v.allOf {
			r := b.explain(x, name, nil)
			if len(r.errs) == 0 {
				valid++
			}
			f.merge(r)
		}
		if valid < len(v.allOf) {
			suffix := ""
			if valid == 0 {
				suffix = ". None validated"
			}
			composite("%q must validate all the schemas (allOf)%s", name, suffix)
		}
	}
	if v.not != nil && len(v.not.explain(x, name, nil).errs) == 0 {
		composite("%q must not validate the schema (not)", name)
	}
	return f
}

// tryBranches counts the branches that x is valid by, up to the first if first
// is set. It returns the first valid result or else the failure with the most
// checks passed.
func tryBranches(branches []*node, x doc.Value, name string, first bool) (valid int, best findings) {
	chosen := false
	for _, b := range branches {
		r := b.explain(x, name, nil)
		if len(r.errs) == 0 {
			if valid++; valid == 1 {
				best = r
			}
			if first {
				return valid, best
			}
			continue
		}
		if valid == 0 && (!chosen || r.matched > best.matched) {
			chosen, best = true, r
		}
	}
	return valid, best
}

// fieldErrors turns findings into field errors below path; of errors with one
// text the first stays.
func fieldErrors(path *field.Path, errs []error) field.ErrorList {
	var list field.ErrorList
	seen := make(map[string]bool, len(errs))
	for _, err := range errs {
		if text := err.Error(); !seen[text] {
			seen[text] = true
			list = append(list, fieldErrorOf(path, err))
		}
	}
	return list
}

func fieldErrorOf(path *field.Path, err error) *field.Error {
	e, ok := err.(*openapi.Validation)
	if !ok {
		return field.Invalid(path, "", err.Error())
	}
	if e.Name != "" && e.Name != "." {
		path = path.Child(strings.TrimPrefix(e.Name, "."))
	}
	value := e.Value
	if value == nil {
		value = ""
	}
	switch e.Code() {
	case openapi.RequiredFailCode:
		return field.Required(path, "")
	case openapi.EnumFailCode:
		var supported []string
		for _, allowed := range e.Values {
			text, ok := allowed.(string)
			if !ok {
				raw, _ := json.Marshal(allowed)
				text = string(raw)
			}
			supported = append(supported, text)
		}
		return field.NotSupported(path, e.Value, supported)
	case openapi.TooLongFailCode:
		return field.TooLong(path, "", intOf(e.Valid))
	case openapi.MaxItemsFailCode, openapi.TooManyPropertiesCode:
		return field.TooMany(path, intOf(e.Value), intOf(e.Valid))
	case openapi.InvalidTypeCode:
		return field.TypeInvalid(path, value, err.Error())
	}
	return field.Invalid(path, value, err.Error())
}

func intOf(v any) int {
	if i, ok := v.(int64); ok {
		return int(i)
	}
	return -1
}
