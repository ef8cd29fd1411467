package eval

import (
	"slices"
	"unsafe"

	"github.com/keelson-io/keelson/internal/fastpath"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/overloads"

	"github.com/keelson-io/keelson/cel/internal/fast"
	"github.com/keelson-io/keelson/cel/internal/val"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file compiles the common cases of frequent library functions to code that allocates nothing.
// Each case answers only for texts of which it is certain, and leaves everything else, including
// all errors, to the function's general implementation.

// textFn computes a text and the number of its code points. If it cannot, the caller must undo its
// cost, and call the general implementation.
type textFn func(fr *val.Frame) (s string, runes uint64, ok bool)

// textOf returns a textFn for the text that a node is, nil if it can neither be read directly nor
// computed. It must not evaluate the node by Eval: after a failure the general implementation
// evaluates it, which must not happen twice.
//
//go:noinline
func textOf(c *code) textFn {
	if c.str != nil {
		return c.str
	}
	if c.konst != nil && c.konst.K == val.KindString {
		s, runes := c.konst.Text(), uint64(c.konst.Runes())
		return func(*val.Frame) (string, uint64, bool) { return s, runes, true }
	}
	d, ok := directOf(c)
	if !ok || d.want != val.KindString {
		return nil
	}
	return func(fr *val.Frame) (string, uint64, bool) {
		fr.Cost += d.units
		return d.text(fr)
	}
}

// withText returns the node of a text that str computes if it can.
//
//go:noinline
func withText(str textFn, general val.EvalFn) *code {
	return &code{str: str, static: val.KindString, Eval: func(fr *val.Frame) val.Value {
		cost := fr.Cost
		if s, runes, ok := str(fr); ok && fr.Cost <= fr.Limit {
			return fast.PartValue(s, s, runes)
		}
		fr.Cost = cost
		return general(fr)
	}}
}

// equalTexts returns the test == or != of two texts, at least one of which is computed, nil for
// other operands.
func equalTexts(a, b *code, negated bool, general val.TestFn) val.TestFn {
	if a.static != val.KindString || b.static != val.KindString || a.str == nil && b.str == nil {
		return nil
	}
	x, y := textOf(a), textOf(b)
	if x == nil || y == nil {
		return nil
	}
	if b.konst != nil {
		return ofText(a, x, fast.EqualTo(b.konst, negated), general)
	}
	return func(fr *val.Frame) val.Tri {
		cost := fr.Cost
		if s, n, ok := x(fr); ok {
			if t, m, ok := y(fr); ok {
				if fr.Cost += val.Tenth(min(n, m)); fr.Cost <= fr.Limit {
					return val.Truth((s == t) != negated)
				}
			}
		}
		fr.Cost = cost
		return general(fr)
	}
}

// textOfMap returns a textFn for the text in a map of the document whose key is a variable, nil for
// other operands. A loop over the keys of the map has the value beside the key.
func (c *compiler) textOfMap(operand, key *code) textFn {
	t := operand.param
	k, ok := directOf(key)
	if t == nil || t.Kind != val.Map || t.Elem == nil || t.Elem.Kind != val.String || !ok || k.want != val.KindString || len(k.slots) > 0 {
		return nil
	}
	m, ok := directData(operand)
	if !ok {
		return nil
	}
	v := c.local(int(k.slot))
	beside := v != nil && v.runsOver(&m)
	units := m.units + val.CostSelect
	return func(fr *val.Frame) (string, uint64, bool) {
		name := &fr.Slots[k.slot]
		d, n := m.container(fr)
		switch {
		case name.K != val.KindString || n.Kind() != jsondoc.Object:
			return "", 0, false
		case beside && name.Node.Kind() == jsondoc.String:
			n = name.Node
		default:
			if n = d.Member(n, unsafe.String((*byte)(name.Ptr), int(name.Bits))); n.Kind() != jsondoc.String {
				return "", 0, false
			}
		}
		fr.Cost += units
		s := d.Str(n)
		if n.ASCII() {
			return s, uint64(len(s)), true
		}
		return s, fr.Runes(s), true
	}
}

// runsOver reports whether a variable runs over the keys of a map.
func (v *variable) runsOver(m *direct) bool {
	return v.keyOf != nil && v.keyOf.slot == m.slot && slices.Equal(v.keyOf.slots, m.slots)
}

// usualCall compiles a call of one argument that has a fast implementation, nil for others.
func (c *compiler) usualCall(overload string, arg *code, general val.EvalFn) *code {
	if textOf(arg) == nil || !fastpath.Closures.On() {
		return nil
	}
	test := func(fr *val.Frame) val.Tri { return fr.Verdict(general(fr)) }
	switch overload {
	case "string_lower_ascii":
		return withCase(arg, 'A', 'Z', general)
	case "string_upper_ascii":
		return withCase(arg, 'a', 'z', general)
	case overloads.StringToDuration:
		return textNumberOf(val.KindDuration, arg, fast.UsualDuration, general)
	case overloads.StringToInt:
		return textNumberOf(val.KindInt, arg, fast.UsualInt, general)
	case "is_ip":
		return c.textTestOf(passed(arg), fast.IsAddress, test)
	case "is_url_string":
		return c.textTestOf(passed(arg), fast.IsAbsolute, test)
	}
	return nil
}

// urlScheme compiles url(x).getScheme() as one operation, nil for other calls.
func (c *compiler) urlScheme(e ast.Expr) *code {
	call := e.AsCall()
	if !c.fuses() || c.overload(e) != "url_get_scheme" || !call.IsMemberFunction() || c.overload(call.Target()) != "string_to_url" {
		return nil
	}
	args := c.arguments(call.Target())
	general := c.plainFunction(e, []*code{c.plainFunction(call.Target(), args)})
	if fast := textPartOf(passed(args[0]), fast.SchemeOf, general.Eval); fast != nil {
		return fast
	}
	return general
}

// fromPart compiles text.substring(n) with a constant, nil for other calls.
func fromPart(args []*code, general val.EvalFn) *code {
	if args[1].konst == nil || args[1].konst.K != val.KindInt || args[1].konst.Int() < 0 {
		return nil
	}
	return textPartOf(args[0], fast.RestFrom(uint64(args[1].konst.Int())), general)
}

// splitItem compiles text.split(separator)[n] with constants as one operation that makes no list,
// nil for other calls.
func (c *compiler) splitItem(list, index ast.Expr) *code {
	if !c.fuses() || list.Kind() != ast.CallKind || c.overload(list) != "string_split_string" || !list.AsCall().IsMemberFunction() {
		return nil
	}
	call := list.AsCall()
	sep := call.Args()[0]
	if index.Kind() != ast.LiteralKind || sep.Kind() != ast.LiteralKind {
		return nil
	}
	key := val.FromRef(index.AsLiteral())
	if key.K != val.KindInt || key.Int() < 0 {
		return nil
	}
	separator, ok := sep.AsLiteral().Value().(string)
	if !ok || separator == "" {
		return nil
	}
	args := c.arguments(list)
	n := int(key.Int())
	plain := c.extend(c.plainFunction(list, args), step{key: &key}, false)
	out := textPartOf(args[0], fast.ItemOfSplit(separator, n, 2*val.CostSelect), plain.path.eval)
	if out == nil {
		return plain
	}
	out.resolve = withText(partOfText(textOf(args[0]), fast.ItemOfSplit(separator, n, val.CostSelect)), plain.path.resolve).Eval
	return out
}

// casing is lowerAscii() or upperAscii(): the range of letters that it changes.
type casing struct{ lo, hi byte }

// withCase compiles lowerAscii() or upperAscii().
func withCase(arg *code, lo, hi byte, general val.EvalFn) *code {
	out := textPartOf(arg, fast.InCase(lo, hi), general)
	out.cased = &casing{lo, hi}
	return out
}

// caseEquality returns the test == or != of lowerAscii() or upperAscii() of a text and a constant,
// nil for other operands.
func caseEquality(a, k *code, negated bool, general val.TestFn) val.TestFn {
	if a.cased == nil || k.konst == nil || k.konst.K != val.KindString {
		return nil
	}
	source := a.made.source
	return ofText(source, textOf(source), fast.EqualInCase(a.cased.lo, a.cased.hi, k.konst, negated), general)
}
