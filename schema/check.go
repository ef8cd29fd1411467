package schema

import (
	"math"
	"unicode/utf8"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file is the fast path of validation: it only answers whether a value is valid, without
// reasons and without allocations. It must give the same answers as explain.go, its plain twin.

// ok reports whether x is valid by n, including restrictions below junctors (allOf, anyOf, oneOf,
// not) and the uniqueness of items. It is false if w is used up.
func (n *node) ok(d *jsondoc.Doc, w *work, x jsondoc.Node) bool {
	kind := x.Kind()
	if n.branch && !w.visit(n, kind, x) || !n.typeOK(kind, x) {
		return false
	}
	if n.reads != nil && kind == jsondoc.String {
		w.read(n, d, x)
	}
	if kind == jsondoc.Float && n.integral && x.Float() != math.Trunc(x.Float()) {
		return false // isInteger accepts numbers close to an integer; a later check of the digits refuses them
	}
	if v := n.values; v != nil {
		if kind == jsondoc.Null {
			return len(v.enum) == 0
		}
		if v.junctors && !v.junctorsOK(d, w, x) || !n.valuesOK(d, x, kind) {
			return false
		}
	} else if n.format != "" && !n.formatFits(d, x, kind) {
		return false
	}
	switch kind {
	case jsondoc.Array:
		return n.itemsOK(d, w, x) && (n.listType == "" || n.listOK(d, x))
	case jsondoc.Object:
		return n.membersOK(d, w, x)
	}
	return true
}

// typeOK reports whether x has a type that n allows.
func (n *node) typeOK(kind jsondoc.Kind, x jsondoc.Node) bool {
	return n.kinds.has(kind) && (kind != jsondoc.Float || !n.integral || isInteger(x.Float()))
}

// isInteger reports whether upstream regards f as an integer: it tolerates a relative error of
// 1e-9.
func isInteger(f float64) bool {
	const exact = 1<<53 - 1
	if math.IsNaN(f) || math.IsInf(f, 0) || f < -exact || f > exact {
		return false
	}
	rounded := math.Round(f)
	if f == rounded {
		return true
	}
	return rounded != 0 && math.Abs(f-rounded) < 1e-9*math.Abs(rounded)
}

// itemsOK checks the items of array x.
func (n *node) itemsOK(d *jsondoc.Doc, w *work, x jsondoc.Node) bool {
	if n.items == nil || !n.items.deepChecks {
		return true
	}
	for i := range x.Len() {
		if !n.items.ok(d, w, d.Item(x, i)) {
			return false
		}
	}
	return true
}

// membersOK checks the members of object x, declared or not.
func (n *node) membersOK(d *jsondoc.Doc, w *work, x jsondoc.Node) bool {
	if n.noOther || n.additional != nil && n.additional.deepChecks {
		if !n.othersOK(d, w, x) {
			return false
		}
	}
	if !n.laidOut(x) {
		return n.namedOK(d, w, x)
	}
	for i := range n.checked {
		p := &n.checked[i]
		if p.slot < 0 {
			if m := n.member(d, x, p.name, -1); m.Kind() != jsondoc.Absent && !p.node.ok(d, w, m) {
				return false
			}
			continue
		}
		switch m := d.Slot(x, p.slot); m.Kind() {
		case jsondoc.Absent:
		case jsondoc.String:
			if !p.node.textOK(d, w, m) {
				return false
			}
		default:
			if !p.node.ok(d, w, m) {
				return false
			}
		}
	}
	return true
}

// namedOK checks the declared members of an object that does not have the layout of n. Its time
// depends on the number of members that x has, not on how many are declared: a body may have very
// many small objects.
func (n *node) namedOK(d *jsondoc.Doc, w *work, x jsondoc.Node) bool {
	if len(n.checked) == 0 {
		return true
	}
	for name, m := range (jsondoc.Value{Doc: d, Node: x}).Members() {
		if p := n.prop(name); p != nil && p.deepChecks && !p.ok(d, w, m.Node) {
			return false
		}
	}
	return true
}

// textOK is ok for strings, the most frequent kind of value.
func (n *node) textOK(d *jsondoc.Doc, w *work, x jsondoc.Node) bool {
	v := n.values
	if n.branch || v != nil && v.junctors {
		return n.ok(d, w, x)
	}
	if n.reads != nil {
		w.read(n, d, x)
	}
	if v == nil {
		return n.kinds.has(jsondoc.String) && (n.formatOK == nil || n.formatOK(d.Str(x)))
	}
	return n.kinds.has(jsondoc.String) && (n.formatOK == nil || n.formatOK(d.Str(x))) && v.textOK(d, x) &&
		(len(v.enum) == 0 || v.enumOK(d, x, jsondoc.String))
}

// othersOK checks the members that the schema does not declare.
func (n *node) othersOK(d *jsondoc.Doc, w *work, x jsondoc.Node) bool {
	if x.ShapeIndex() == 0 && len(n.props) == 0 {
		for i := range x.Len() {
			if _, m := d.Pair(x, i); n.noOther || !n.additional.ok(d, w, m) {
				return false
			}
		}
		return true
	}
	for name, m := range (jsondoc.Value{Doc: d, Node: x}).Members() {
		if n.prop(name) == nil && (n.noOther || !n.additional.ok(d, w, m.Node)) {
			return false
		}
	}
	return true
}

// junctorsOK checks allOf, anyOf, oneOf and not.
func (v *values) junctorsOK(d *jsondoc.Doc, w *work, x jsondoc.Node) bool {
	if len(v.anyOf) > 0 && countOK(v.anyOf, d, w, x, 1) == 0 {
		return false
	}
	if len(v.oneOf) > 0 && countOK(v.oneOf, d, w, x, 2) != 1 {
		return false
	}
	for _, b := range v.allOf {
		if !b.ok(d, w, x) {
			return false
		}
	}
	return (v.not == nil || !v.not.ok(d, w, x)) && !w.mustEnd()
}

// countOK returns how many branches accept x. It stops counting at enough.
func countOK(branches []*node, d *jsondoc.Doc, w *work, x jsondoc.Node, enough int) int {
	count := 0
	for _, b := range branches {
		if b.ok(d, w, x) {
			if count++; count == enough {
				break
			}
		}
	}
	return count
}

// valuesOK checks the restrictions of n, except those of junctors. x is not null.
func (n *node) valuesOK(d *jsondoc.Doc, x jsondoc.Node, kind jsondoc.Kind) bool {
	v := n.values
	if !n.formatFits(d, x, kind) {
		return false
	}
	switch kind {
	case jsondoc.String:
		if !v.textOK(d, x) {
			return false
		}
	case jsondoc.Int, jsondoc.Float:
		if !n.numberOK(x, kind) {
			return false
		}
	case jsondoc.Array:
		if !within(x.Len(), v.minItems, v.maxItems) || v.unique && len(setErrors(nil, jsondoc.Value{Doc: d, Node: x})) > 0 {
			return false
		}
	case jsondoc.Object:
		if v.minProps != none || v.maxProps != none {
			if !within(jsondoc.Value{Doc: d, Node: x}.Len(), v.minProps, v.maxProps) {
				return false
			}
		}
		for i := range v.required {
			if r := &v.required[i]; n.member(d, x, r.name, r.slot).Kind() == jsondoc.Absent {
				return false
			}
		}
	}
	return len(v.enum) == 0 || v.enumOK(d, x, kind)
}

// within reports whether size is between two bounds, which may be none.
func within(size int, min, max int64) bool {
	return (min == none || int64(size) >= min) && (max == none || int64(size) <= max)
}

// formatFits checks the format: strings by a function, numbers by range.
func (n *node) formatFits(d *jsondoc.Doc, x jsondoc.Node, kind jsondoc.Kind) bool {
	switch kind {
	case jsondoc.String:
		return n.formatOK == nil || n.formatOK(d.Str(x))
	case jsondoc.Int:
		return intInRange(x.Int(), n.numType, n.format)
	case jsondoc.Float:
		return n.numType == "" || rangeError(x.Float(), n.numType, n.format, "", "") == nil
	}
	return true
}

// textOK checks the length, in characters, and the pattern of a string.
func (v *values) textOK(d *jsondoc.Doc, x jsondoc.Node) bool {
	if v.minLength != none || v.maxLength != none {
		size := x.Len()
		if !x.ASCII() {
			size = utf8.RuneCountInString(d.Str(x))
		}
		if !within(size, v.minLength, v.maxLength) {
			return false
		}
	}
	return v.match == nil || v.match.matches(d.Str(x))
}

// numberOK checks minimum, maximum and multipleOf. Integers are compared as integers, as upstream
// does.
func (n *node) numberOK(x jsondoc.Node, kind jsondoc.Kind) bool {
	v := n.values
	if v.max == nil && v.min == nil && v.multiple == nil {
		return true
	}
	if v.badBound {
		return false
	}
	if kind == jsondoc.Float {
		f := x.Float()
		return (v.max == nil || belowFloat(f, *v.max, v.exclMax)) &&
			(v.min == nil || belowFloat(*v.min, f, v.exclMin)) &&
			(v.multiple == nil || multipleOfFloat(f, *v.multiple))
	}
	i := x.Int()
	return (v.max == nil || belowInt(i, int64(*v.max), v.exclMax)) &&
		(v.min == nil || belowInt(int64(*v.min), i, v.exclMin)) &&
		(v.multiple == nil || multipleOfInt(i, int64(*v.multiple)))
}

// belowInt and belowFloat report whether a is less than b, or equal unless strictly.
func belowInt(a, b int64, strictly bool) bool     { return a < b || a == b && !strictly }
func belowFloat(a, b float64, strictly bool) bool { return a < b || a == b && !strictly }

// multipleOfInt and multipleOfFloat report whether v is a multiple of factor. They must equal
// upstream's functions, which divide by small factors inexactly.
func multipleOfInt(v, factor int64) bool { return factor > 0 && v%factor == 0 }

func multipleOfFloat(v, factor float64) bool {
	if factor <= 0 {
		return false
	}
	if factor < 1 {
		return isInteger(1 / factor * v)
	}
	return isInteger(v / factor)
}
