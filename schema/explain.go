package schema

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"
	openapi "k8s.io/kube-openapi/pkg/validation/errors"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file is the plain path of value validation: it lists the errors in upstream's order. Their
// texts come from upstream's package of errors.

// in is the location of values in the texts of errors.
const in = "body"

// findings are the errors of one node. matched counts the checks that passed: upstream shows the
// errors of the branch of an anyOf or oneOf with the most of them.
type findings struct {
	errs    []error
	matched int
}

// merge adds the errors and checks of other.
func (f *findings) merge(other findings) {
	f.errs = append(f.errs, other.errs...)
	f.matched += other.matched
}

// maxText bounds the bytes of errors for one object. A short object can be wrong in very many
// places, and one error may list a whole enum.
const maxText = 1 << 20

// explainer builds the list of errors. It stops when the list is long enough, or when its work is
// used up.
type explainer struct {
	work
	text int // bytes of errors so far
}

// add appends errors to f.
func (e *explainer) add(f *findings, errs ...error) {
	f.errs = append(f.errs, errs...)
	e.charge(errs)
}

// charge counts the bytes of errors.
func (e *explainer) charge(errs []error) {
	for _, err := range errs {
		e.text += len(err.Error())
	}
}

// enough reports whether the walk must stop.
func (e *explainer) enough() bool { return e.text > maxText || e.mustEnd() }

// spot is the position of a value. Its path is built only for errors.
type spot struct {
	up   *spot // nil for the root
	sort step
	name string // of a member
	item int
}

// step is the kind of the last step of a path. Upstream writes a dot before additional members even
// at the root.
type step uint8

const (
	toProp step = iota
	toOther
	toItem
)

// String returns the path.
func (p *spot) String() string {
	if p == nil {
		return ""
	}
	return string(p.append(nil))
}

// append appends the path to b.
func (p *spot) append(b []byte) []byte {
	if p == nil {
		return b
	}
	b = p.up.append(b)
	if p.sort == toItem {
		return append(strconv.AppendInt(append(b, '['), int64(p.item), 10), ']')
	}
	if p.sort == toOther || len(b) > 0 {
		b = append(b, '.')
	}
	return append(b, p.name...)
}

// value returns the errors of x by n. at is the position of x. c correlates x with its old value,
// nil if there is none; errors of unchanged values are dropped.
func (e *explainer) value(n *node, x jsondoc.Value, at *spot, c *correlation) findings {
	listed := e.text
	f := e.node(n, x, at, c)
	if len(f.errs) > 0 && c.unchanged() {
		f.errs, e.text = nil, listed
	}
	return f
}

// branch is value for a branch of a junctor. Its errors count as work, because they may be dropped.
func (e *explainer) branch(n *node, x jsondoc.Value, at *spot) findings {
	listed := e.text
	f := e.value(n, x, at, nil)
	e.spend(int64(perError*len(f.errs) + (e.text-listed)/perStep))
	e.text = listed
	return f
}

// mergeBranch adds the errors of a branch to f.
func (e *explainer) mergeBranch(f *findings, branch findings) {
	f.merge(branch)
	e.charge(branch.errs)
}

// node is value without ratcheting. The counts of matched follow upstream's validators.
func (e *explainer) node(n *node, x jsondoc.Value, at *spot, c *correlation) findings {
	var f findings
	if e.enough() || n.branch && !e.visit(n, x.Kind(), x.Node) {
		return f
	}
	typed := n.types != "" || n.format != ""
	if err := n.typeError(x, at); err != nil {
		e.add(&f, err)
	} else if typed || x.Kind() == jsondoc.Null {
		f.matched++
	}
	if x.Kind() == jsondoc.Null {
		e.add(&f, n.enumError(x, at)...)
		return f
	}
	if typed {
		f.matched++
	}
	f.merge(e.junctors(n, x, at))
	f.matched++
	switch x.Kind() {
	case jsondoc.String:
		e.add(&f, n.textErrors(x, at)...)
		f.matched++
		if n.formatOK != nil {
			if !n.formatOK(x.Text()) {
				e.add(&f, openapi.InvalidType(at.String(), in, n.format, x.Text()))
			}
			f.matched++
		}
	case jsondoc.Int, jsondoc.Float:
		e.add(&f, n.numberErrors(x, at)...)
		f.matched += 2
	case jsondoc.Array:
		f.merge(e.items(n, x, at, c))
		f.matched += 2
	}
	e.add(&f, n.enumError(x, at)...)
	f.matched++
	if x.Kind() == jsondoc.Object {
		f.merge(e.members(n, x, at, c))
		f.matched++
	}
	f.matched++
	return f
}

// typeError returns the error of a value with a wrong type. If only the format excludes the value,
// the error names the format.
func (n *node) typeError(x jsondoc.Value, at *spot) error {
	if n.typeOK(x.Kind(), x.Node) {
		return nil
	}
	found, format := x.Kind().String(), ""
	switch x.Kind() {
	case jsondoc.Int:
		format = "int64"
	case jsondoc.Float:
		format = "float64"
	}
	if n.format != "" && n.format != format && x.Kind() != jsondoc.String && x.Kind() != jsondoc.Array && x.Kind() != jsondoc.Null {
		return openapi.InvalidType(at.String(), in, n.format, format)
	}
	return openapi.InvalidType(at.String(), in, n.types, found)
}

// enumError returns the error of a value that is not in the enum.
func (n *node) enumError(x jsondoc.Value, at *spot) []error {
	if n.values == nil || len(n.values.enum) == 0 || x.Kind() != jsondoc.Null && n.values.enumOK(x.Doc, x.Node, x.Kind()) {
		return nil
	}
	return []error{openapi.EnumFail(at.String(), in, x.Interface(), n.values.enum)}
}

// textErrors returns the first error of a string's length or pattern.
func (n *node) textErrors(x jsondoc.Value, at *spot) []error {
	v := n.values
	if v == nil {
		return nil
	}
	s := x.Text()
	size := int64(utf8.RuneCountInString(s))
	switch {
	case v.maxLength != none && size > v.maxLength:
		return []error{openapi.TooLong(at.String(), in, v.maxLength, s)}
	case v.minLength != none && size < v.minLength:
		return []error{openapi.TooShort(at.String(), in, v.minLength, s)}
	case v.match != nil && v.match.err() != nil:
		return []error{openapi.FailedPattern(at.String(), in, fmt.Sprintf("%s, but pattern is invalid: %s", v.match.text, v.match.err()), s)}
	case v.match != nil && !v.match.matches(s):
		return []error{openapi.FailedPattern(at.String(), in, v.match.text, s)}
	}
	return nil
}

// numberErrors checks the range of the format, then multipleOf, maximum and minimum. A bound that
// is not a value of the type is an error, too.
func (n *node) numberErrors(x jsondoc.Value, at *spot) []error {
	var errs []error
	digits := ""
	if x.Kind() == jsondoc.Int {
		digits = strconv.FormatInt(x.Node.Int(), 10)
	} else {
		digits = strconv.FormatFloat(x.Node.Float(), 'f', -1, 64)
	}
	if format := n.rangeFormat(); !inRange(digits, n.numType, format) {
		errs = append(errs, errRange{n.numType, format, "Checked", at.String()})
	}
	v := n.values
	if v == nil {
		return errs
	}
	check := func(b *float64, what string, byInt func(v, b int64) error, byFloat func(v, b float64) error) {
		errs = append(errs, n.boundErrors(x, b, what, at, byInt, byFloat)...)
	}
	check(v.multiple, "MultipleOf", func(v, b int64) error {
		return multipleError(at, v, b, b > 0, multipleOfInt(v, b))
	}, func(v, b float64) error {
		return multipleError(at, v, b, b > 0, multipleOfFloat(v, b))
	})
	check(v.max, "Maximum boundary", func(i, b int64) error {
		if belowInt(i, b, v.exclMax) {
			return nil
		}
		return openapi.ExceedsMaximumInt(at.String(), in, b, v.exclMax, i)
	}, func(f, b float64) error {
		if belowFloat(f, b, v.exclMax) {
			return nil
		}
		return openapi.ExceedsMaximum(at.String(), in, b, v.exclMax, f)
	})
	check(v.min, "Minimum boundary", func(i, b int64) error {
		if belowInt(b, i, v.exclMin) {
			return nil
		}
		return openapi.ExceedsMinimumInt(at.String(), in, b, v.exclMin, i)
	}, func(f, b float64) error {
		if belowFloat(b, f, v.exclMin) {
			return nil
		}
		return openapi.ExceedsMinimum(at.String(), in, b, v.exclMin, f)
	})
	return errs
}

// boundErrors checks the bound b itself, and then x by it: as integers if both are integers.
func (n *node) boundErrors(x jsondoc.Value, b *float64, what string, at *spot, byInt func(v, b int64) error, byFloat func(v, b float64) error) []error {
	if b == nil {
		return nil
	}
	var errs []error
	bad := rangeError(*b, n.numType, n.rangeFormat(), "", "")
	if bad != nil {
		errs = append(errs, errRange{n.numType, n.rangeFormat(), what, at.String()})
	}
	var err error
	switch {
	case x.Kind() != jsondoc.Int:
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

// multipleError returns the error of multipleOf, if there is one.
func multipleError(at *spot, value, factor any, positive, multiple bool) error {
	switch {
	case !positive:
		return openapi.MultipleOfMustBePositive(at.String(), in, factor)
	case !multiple:
		return openapi.NotMultipleOf(at.String(), in, factor, value)
	}
	return nil
}

// items checks the items and the length of array x.
func (e *explainer) items(n *node, x jsondoc.Value, at *spot, c *correlation) findings {
	var f findings
	size := x.Len()
	if n.items != nil {
		for i := 0; i < size && !e.enough(); i++ {
			f.merge(e.value(n.items, x.Item(i), &spot{up: at, sort: toItem, item: i}, c.index(i)))
		}
	}
	if v := n.values; v != nil {
		if v.minItems != none && int64(size) < v.minItems {
			e.add(&f, openapi.TooFewItems(at.String(), in, v.minItems, int64(size)))
		}
		if v.maxItems != none && int64(size) > v.maxItems {
			e.add(&f, openapi.TooManyItems(at.String(), in, v.maxItems, int64(size)))
		}
		if v.unique && len(setErrors(nil, x)) > 0 {
			e.add(&f, openapi.DuplicateItems(at.String(), in))
		}
	}
	return f
}

// members checks the members of object x.
func (e *explainer) members(n *node, x jsondoc.Value, at *spot, c *correlation) findings {
	var f findings
	v := n.values
	if size := int64(x.Len()); v != nil {
		if v.minProps != none && size < v.minProps {
			e.add(&f, openapi.TooFewProperties(at.String(), in, v.minProps, size))
		}
		if v.maxProps != none && size > v.maxProps {
			e.add(&f, openapi.TooManyProperties(at.String(), in, v.maxProps, size))
		}
	}
	for key, m := range x.Members() {
		switch {
		case e.enough():
			return f
		case n.prop(key) != nil:
		case n.noOther:
			e.add(&f, openapi.PropertyNotAllowed(at.String(), in, key))
		case n.additional != nil:
			f.merge(e.value(n.additional, m, &spot{up: at, sort: toOther, name: key}, c.member(at, key)))
		}
	}
	for p := range n.present(x.Doc, x.Node) {
		if m := x.Get(p.name); m.Exists() {
			f.merge(e.value(p.node, m, &spot{up: at, name: p.name}, c.member(at, p.name)))
		}
	}
	if v != nil {
		for _, r := range v.required {
			if !e.enough() && !x.Get(r.name).Exists() {
				missing := spot{up: at, sort: toOther, name: r.name}
				e.add(&f, openapi.Required(missing.String(), in))
			}
		}
	}
	return f
}

// junctors checks anyOf, oneOf, allOf and not. Values below them are not correlated, as upstream.
func (e *explainer) junctors(n *node, x jsondoc.Value, at *spot) findings {
	f := findings{matched: 1}
	v := n.values
	if v == nil {
		return f
	}
	composite := func(format string, args ...any) {
		e.add(&f, openapi.New(openapi.CompositeErrorCode, format, args...))
	}
	if len(v.anyOf) > 0 {
		valid, best := e.branches(v.anyOf, x, at, true)
		if valid == 0 {
			composite("%q must validate at least one schema (anyOf)", at.String())
		}
		e.mergeBranch(&f, best)
	}
	if len(v.oneOf) > 0 {
		switch valid, best := e.branches(v.oneOf, x, at, false); valid {
		case 1:
			e.mergeBranch(&f, best)
		case 0:
			composite("%q must validate one and only one schema (oneOf). %s", at.String(), "Found none valid")
			e.mergeBranch(&f, best)
		default:
			composite("%q must validate one and only one schema (oneOf). %s", at.String(), fmt.Sprintf("Found %d valid alternatives", valid))
		}
	}
	if len(v.allOf) > 0 {
		valid := 0
		for _, b := range v.allOf {
			r := e.branch(b, x, at)
			if len(r.errs) == 0 {
				valid++
			}
			e.mergeBranch(&f, r)
		}
		if valid < len(v.allOf) {
			suffix := ""
			if valid == 0 {
				suffix = ". None validated"
			}
			composite("%q must validate all the schemas (allOf)%s", at.String(), suffix)
		}
	}
	if v.not != nil && len(e.branch(v.not, x, at).errs) == 0 {
		composite("%q must not validate the schema (not)", at.String())
	}
	if e.mustEnd() { // work was used up before all branches were checked
		return findings{}
	}
	return f
}

// branches returns the number of branches that accept x, and the findings of the first such branch;
// if there is none, those of the branch with the most passed checks. If first is set, it stops at
// the first such branch.
func (e *explainer) branches(branches []*node, x jsondoc.Value, at *spot, first bool) (valid int, best findings) {
	chosen := false
	for _, b := range branches {
		r := e.branch(b, x, at)
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

// fieldErrors converts errors to field errors below path. It drops errors whose text occurred
// before.
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

// fieldErrorOf converts one error, as upstream's function of the same purpose does.
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

// intOf returns an int64 as an int, -1 for other values.
func intOf(v any) int {
	if i, ok := v.(int64); ok {
		return int(i)
	}
	return -1
}
