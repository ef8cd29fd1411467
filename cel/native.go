package cel

import (
	"slices"
	"strings"
	"unsafe"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/overloads"

	"github.com/keelson-io/keelson/doc"
)

// This file compiles the usual cases of library functions that rules call often
// to code that allocates nothing. Each knows only texts that it is certain of
// and leaves everything else, errors first of all, to the function's general
// implementation.

// textFn computes a text and the number of its code points. If it cannot, what
// it charged is the caller's to take back, and the general way finds out why.
type textFn func(fr *frame) (s string, runes uint64, ok bool)

// textOf reads the text that a node is, where that goes directly or by a textFn;
// else nil. It never evaluates the node: what fails is computed again in the
// general way, and must not have been computed in it before.
//
//go:noinline
func textOf(c *code) textFn {
	if c.str != nil {
		return c.str
	}
	if c.konst != nil && c.konst.kind == KindString {
		s, runes := c.konst.text(), uint64(c.konst.runes())
		return func(*frame) (string, uint64, bool) { return s, runes, true }
	}
	d, ok := directOf(c)
	if !ok || d.want != KindString {
		return nil
	}
	return func(fr *frame) (string, uint64, bool) {
		fr.cost += d.units
		return d.text(fr)
	}
}

// withText is the node of a text that str computes where it can.
//
//go:noinline
func withText(str textFn, general evalFn) *code {
	return &code{str: str, static: KindString, eval: func(fr *frame) Value {
		cost := fr.cost
		if s, runes, ok := str(fr); ok && fr.cost <= fr.limit {
			return partValue(s, s, runes)
		}
		fr.cost = cost
		return general(fr)
	}}
}

// equalTexts is == or != of two texts at least one of which is computed; nil if
// the operands are not that.
func equalTexts(a, b *code, negated bool, general testFn) testFn {
	if a.static != KindString || b.static != KindString || a.str == nil && b.str == nil {
		return nil
	}
	x, y := textOf(a), textOf(b)
	if x == nil || y == nil {
		return nil
	}
	if b.konst != nil {
		return ofText(a, x, equalTo(b.konst, negated), general)
	}
	return func(fr *frame) tri {
		cost := fr.cost
		if s, n, ok := x(fr); ok {
			if t, m, ok := y(fr); ok {
				if fr.cost += tenth(min(n, m)); fr.cost <= fr.limit {
					return truth((s == t) != negated)
				}
			}
		}
		fr.cost = cost
		return general(fr)
	}
}

// textOfMap reads the text in a map of texts of the document under the key that
// a variable is; nil if the operands are not that. A loop over the keys of the
// map leaves the value beside the key.
func (c *compiler) textOfMap(operand, key *code) textFn {
	t := operand.param
	k, ok := directOf(key)
	if t == nil || t.Kind != Map || t.Elem == nil || t.Elem.Kind != String || !ok || k.want != KindString || len(k.slots) > 0 {
		return nil
	}
	m, ok := directData(operand)
	if !ok {
		return nil
	}
	v := c.local(int(k.slot))
	beside := v != nil && v.runsOver(&m)
	units := m.units + costSelect
	return func(fr *frame) (string, uint64, bool) {
		name := &fr.slots[k.slot]
		d, n := m.container(fr)
		switch {
		case name.kind != KindString || n.Kind() != doc.Object:
			return "", 0, false
		case beside && name.node.Kind() == doc.String:
			n = name.node
		default:
			if n = d.Member(n, unsafe.String((*byte)(name.ptr), int(name.bits))); n.Kind() != doc.String {
				return "", 0, false
			}
		}
		fr.cost += units
		s := d.Str(n)
		if n.ASCII() {
			return s, uint64(len(s)), true
		}
		return s, fr.runes(s), true
	}
}

// runsOver reports whether a variable runs over the keys of a map.
func (v *variable) runsOver(m *direct) bool {
	return v.keyOf != nil && v.keyOf.slot == m.slot && slices.Equal(v.keyOf.slots, m.slots)
}

// partValue is a part of a text of that many code points.
func partValue(part, of string, runes uint64) Value {
	v := stringValue(part)
	if uint64(len(of)) == runes {
		v.flag = flagASCII
	}
	return v
}

// usualCall compiles a call of one argument that has a usual case; nil if it has
// none.
func (c *compiler) usualCall(overload string, arg *code, general evalFn) *code {
	if textOf(arg) == nil {
		return nil
	}
	test := func(fr *frame) tri { return fr.verdict(general(fr)) }
	switch overload {
	case "string_lower_ascii":
		return withCase(arg, 'A', 'Z', general)
	case "string_upper_ascii":
		return withCase(arg, 'a', 'z', general)
	case overloads.StringToDuration:
		return textNumberOf(KindDuration, arg, usualDuration, general)
	case overloads.StringToInt:
		return textNumberOf(KindInt, arg, usualInt, general)
	case "is_ip":
		return c.textTestOf(passed(arg), isAddress, test)
	case "is_url_string":
		return c.textTestOf(passed(arg), isAbsolute, test)
	}
	return nil
}

// urlScheme compiles url(x).getScheme() as one; nil if the call is not that.
func (c *compiler) urlScheme(e ast.Expr) *code {
	call := e.AsCall()
	if c.lang != nil || c.overload(e) != "url_get_scheme" || !call.IsMemberFunction() || c.overload(call.Target()) != "string_to_url" {
		return nil
	}
	args := c.arguments(call.Target())
	general := c.plainFunction(e, []*code{c.plainFunction(call.Target(), args)})
	if fast := textPartOf(passed(args[0]), schemeOf, general.eval); fast != nil {
		return fast
	}
	return general
}

// fromPart is text.substring(n) with a constant; nil if the call is not that.
func fromPart(args []*code, general evalFn) *code {
	if args[1].konst == nil || args[1].konst.kind != KindInt || args[1].konst.Int() < 0 {
		return nil
	}
	return textPartOf(args[0], restFrom(uint64(args[1].konst.Int())), general)
}

// constASCII is a text that is known to be ASCII.
func constASCII(s string) Value {
	v := stringValue(s)
	v.flag = flagASCII
	return v
}

// splitItem compiles text.split(separator)[n] with constants as one, which
// makes no list; nil if the call is not that.
func (c *compiler) splitItem(list, index ast.Expr) *code {
	if c.lang != nil || list.Kind() != ast.CallKind || c.overload(list) != "string_split_string" || !list.AsCall().IsMemberFunction() {
		return nil
	}
	call := list.AsCall()
	sep := call.Args()[0]
	if index.Kind() != ast.LiteralKind || sep.Kind() != ast.LiteralKind {
		return nil
	}
	key := fromRef(index.AsLiteral())
	if key.kind != KindInt || key.Int() < 0 {
		return nil
	}
	separator, ok := sep.AsLiteral().Value().(string)
	if !ok || separator == "" {
		return nil
	}
	args := c.arguments(list)
	n := int(key.Int())
	plain := c.extend(c.plainFunction(list, args), step{key: &key}, false)
	out := textPartOf(args[0], itemOfSplit(separator, n, 2*costSelect), plain.path.eval)
	if out == nil {
		return plain
	}
	out.resolve = withText(partOfText(textOf(args[0]), itemOfSplit(separator, n, costSelect)), plain.path.resolve).eval
	return out
}

// runesOf is the number of code points of a part of a text that has so many.
func runesOf(part, of string, runes uint64) uint64 {
	if uint64(len(of)) == runes {
		return uint64(len(part))
	}
	return uint64(stringValue(part).runes())
}

// partOf is strings.Split(s, separator)[n].
func partOf(s, separator string, n int) (string, bool) {
	for ; ; n-- {
		at := strings.Index(s, separator)
		switch {
		case n == 0 && at >= 0:
			return s[:at], true
		case n == 0:
			return s, true
		case at < 0:
			return "", false
		}
		s = s[at+len(separator):]
	}
}

// casing is lowerAscii() or upperAscii(): the letters of a range change their case.
type casing struct{ lo, hi byte }

// withCase compiles lowerAscii() or upperAscii().
func withCase(arg *code, lo, hi byte, general evalFn) *code {
	out := textPartOf(arg, inCase(lo, hi), general)
	out.cased = &casing{lo, hi}
	return out
}

// caseEquality is == or != of lowerAscii() or upperAscii() of a text and a
// constant; nil if the operands are not that.
func caseEquality(a, k *code, negated bool, general testFn) testFn {
	if a.cased == nil || k.konst == nil || k.konst.kind != KindString {
		return nil
	}
	source := a.made.source
	return ofText(source, textOf(source), equalInCase(a.cased.lo, a.cased.hi, k.konst, negated), general)
}
