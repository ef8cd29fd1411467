package cel

import (
	"strings"

	"github.com/keelson-io/keelson/doc"
)

// This file compiles the commonest calls to closures of their own.

// fastEquality is == or != where one side is a constant scalar; nil if it is
// not of that form.
//
//go:noinline
func fastEquality(a, b *code, negated bool) testFn {
	if b.konst == nil {
		return nil
	}
	k, eval := b.konst, a.eval
	if a.count != nil && k.kind == KindInt {
		return countEquality(a.count, k.Int(), negated)
	}
	switch k.kind {
	case KindString:
		if a.static != KindString {
			return nil
		}
		return func(fr *frame) tri {
			v := eval(fr)
			fr.cost += costCompare(v, *k)
			if v.kind != KindString {
				return fr.equalTest(v, *k, negated)
			}
			return truth((v.text() == k.text()) != negated)
		}
	case KindInt, KindBool, KindDuration:
		if a.static != k.kind {
			return nil
		}
		if a.num != nil {
			return numEquality(a.num, k.Int(), negated, func(fr *frame) tri {
				v := eval(fr)
				fr.cost++
				return fr.equalTest(v, *k, negated)
			})
		}
		return func(fr *frame) tri {
			v := eval(fr)
			fr.cost++
			if v.kind != k.kind {
				return fr.equalTest(v, *k, negated)
			}
			return truth((v.bits == k.bits) != negated)
		}
	}
	return nil
}

// linearSet is the number of texts up to which they are compared one by one: that
// is quick, since texts of other lengths are not looked at.
const linearSet = 24

// valueSet is a constant list that `in` looks values up in.
type valueSet struct {
	texts  []string // up to a few
	text   map[string]bool
	scalar map[scalarKey]bool
}

// constSet is the set of a constant list of plain scalars, nil if it holds
// anything else. A number is in the set as every type that can hold it.
func constSet(items []Value) *valueSet {
	s := &valueSet{text: map[string]bool{}, scalar: map[scalarKey]bool{}}
	put := func(v Value) {
		if k, ok := keyOf(v); ok {
			s.scalar[k] = true
		}
	}
	for _, v := range items {
		switch v.kind {
		case KindString:
			s.text[v.text()] = true
			s.texts = append(s.texts, v.text())
			continue
		case KindBool:
		case KindInt:
			put(doubleValue(float64(v.Int())))
			if v.Int() >= 0 {
				put(uintValue(v.bits))
			}
		case KindUint:
			put(doubleValue(float64(v.bits)))
			if int64(v.bits) >= 0 {
				put(intValue(v.Int()))
			}
		case KindDouble:
			if i, ok := exactInt(v.Float()); ok {
				put(intValue(i))
			}
			if u, ok := exactUint(v.Float()); ok {
				put(uintValue(u))
			}
		default:
			return nil
		}
		put(v)
	}
	return s
}

func (s *valueSet) has(v Value) bool {
	if v.kind == KindString {
		return s.hasText(v.text())
	}
	k, ok := keyOf(v)
	return ok && s.scalar[k]
}

func (s *valueSet) hasText(text string) bool {
	if len(s.texts) > linearSet {
		return s.text[text]
	}
	for _, t := range s.texts {
		if t == text {
			return true
		}
	}
	return false
}

// setMembership is `x in [constants]`, which costs only x.
func (c *compiler) setMembership(x *code, set *valueSet) *code {
	eval := x.eval
	general := func(fr *frame) tri {
		v := eval(fr)
		if v.failed() {
			fr.fail = v
			return bad
		}
		return truth(set.has(v))
	}
	return c.textTestOf(x, oneOf(set), general)
}

// patternCall compiles matches(), find() and findAll() with a constant
// pattern. If the text fails, the call is not charged.
func (c *compiler) patternCall(name, overload string, args []*code) *code {
	pattern := args[1].konst
	re, err := newPattern(pattern.text())
	if err != nil {
		c.fail("%w", err)
	}
	c.patterns += re.size
	text, m := args[0].eval, uint64(pattern.runes())
	price := patternPrice(m)
	if name == "matches" {
		general := func(fr *frame) tri {
			v := text(fr)
			if v.failed() {
				fr.fail = v
				return bad
			}
			units := tenth(sizeOf(v)+1) * price
			fr.cost += units
			if v = held(v); v.kind != KindString {
				fr.fail = errorValue(errNoOverload)
				return bad
			}
			match, known := re.match(v.text(), units)
			if !known {
				if !fr.mayTake(re.steps(v.text()), units) {
					fr.fail = fr.exhausted()
					return bad
				}
				match = re.re().MatchString(v.text())
			}
			return truth(match)
		}
		return c.textTestOf(args[0], matching(re, price), general)
	}
	if name == "find" {
		general := func(fr *frame) Value {
			v := text(fr)
			if v.failed() {
				return v
			}
			units := tenth(plainSize(v)+1) * price
			fr.cost += units
			if v = held(v); v.kind != KindString {
				return errorValue(errNoOverload)
			}
			found, known := re.find(v.text(), units)
			if !known {
				if !fr.mayTake(re.steps(v.text()), units) {
					return fr.exhausted()
				}
				found = re.re().FindString(v.text())
			}
			return stringValue(found)
		}
		if fast := textPartOf(args[0], found(re, price), general); fast != nil {
			return fast
		}
		return &code{eval: general}
	}
	limit := constant(intValue(-1)).eval
	if len(args) > 2 {
		limit = args[2].eval
	}
	return &code{eval: func(fr *frame) Value {
		v := text(fr)
		if v.failed() {
			return v
		}
		n := limit(fr)
		units := tenth(plainSize(v)+1) * price
		fr.cost += units
		v, n = held(v), held(n)
		switch {
		case n.failed():
			return n
		case v.kind != KindString || n.kind != KindInt:
			return errorValue(errNoOverload)
		}
		found, ok := re.findAll(fr, v.text(), int(n.Int()), units)
		if !ok {
			return fr.exhausted()
		}
		return stringList(found)
	}}
}

// held is what an optional holds: upstream's functions of regular expressions
// look at the Go value of their arguments, which is the same.
func held(v Value) Value {
	for v.kind == KindOptional && v.ptr != nil {
		v = *v.optional()
	}
	return v
}

func stringList(texts []string) Value {
	items := make([]Value, len(texts))
	for i, s := range texts {
		items[i] = stringValue(s)
	}
	return listValue(items)
}

// fastCall compiles calls of one or two arguments that need no list of them;
// nil for all others.
func (c *compiler) fastCall(name, overload string, args []*code) *code {
	switch {
	case name == "size" && len(args) == 1:
		out := sizeOfNode(args[0])
		out.sized, out.tally = c.sizedSpot(args[0]), args[0].counts
		return out
	case name == "startsWith" && overload == "starts_with_string" && len(args) == 2:
		return c.affix(args, strings.HasPrefix, withPrefix)
	case name == "endsWith" && overload == "ends_with_string" && len(args) == 2:
		return c.affix(args, strings.HasSuffix, withSuffix)
	case name == "contains" && overload == "contains_string" && len(args) == 2:
		return c.containsText(args)
	case name == "hasValue" && overload == "optional_hasValue" && len(args) == 1:
		return c.hasValue(args[0])
	}
	return nil
}

// hasValue compiles hasValue() of an optional.
//
//go:noinline
func (c *compiler) hasValue(arg *code) *code {
	eval := arg.eval
	general := func(fr *frame) Value {
		v := eval(fr)
		fr.cost++
		switch {
		case v.failed():
			return v
		case v.kind != KindOptional:
			return errorWith(errNoOverloadFn, "hasValue("+v.typeName()+")")
		}
		return boolValue(v.ptr != nil)
	}
	none := arg.none
	if none == nil {
		return &code{eval: general}
	}
	return c.textTestOf(arg.made.source, func(s string, runes uint64) (tri, uint64) {
		answer, units := none(s, runes)
		if answer != yes {
			return bad, 0
		}
		return no, units + 1
	}, func(fr *frame) tri { return fr.verdict(general(fr)) })
}

// sizeOfNode compiles size().
//
//go:noinline
func sizeOfNode(arg *code) *code {
	if counted := arg.counted; counted != nil {
		return withCount(func(fr *frame) (int64, bool) {
			n, ok := counted(fr)
			fr.cost++
			return n, ok
		})
	}
	eval := arg.eval
	general := func(fr *frame) Value {
		v := eval(fr)
		fr.cost++
		if v.kind == KindString && v.flag != flagASCII && v.bits > maxUsual && !fr.mayTake(v.bits, 1) {
			return fr.exhausted()
		}
		return sizeCall(v)
	}
	if arg.static == KindString && arg.konst == nil {
		if fast := textNumberOf(KindInt, arg, runesOfText, general); fast != nil {
			return fast
		}
	}
	if d, ok := directList(arg); ok {
		return withNum(KindInt, func(fr *frame) (int64, bool) {
			_, n := d.container(fr)
			if n.Kind() != doc.Array {
				return 0, false
			}
			fr.cost += d.units + 1
			return int64(n.Len()), true
		}, general)
	}
	d, ok := directContainer(arg)
	if !ok {
		return &code{eval: general}
	}
	return withNum(KindInt, func(fr *frame) (int64, bool) {
		text, n := d.node(fr)
		switch {
		case n.Kind() == doc.Object && d.want == KindMap:
			fr.cost += d.units + 1
			return int64(doc.Value{Doc: text, Node: n}.Len()), true
		case n.Kind() == doc.String && d.want == KindString && n.ASCII():
			fr.cost += d.units + 1
			return int64(n.Len()), true
		}
		return 0, false
	}, general)
}

// sizeCall is size(v).
func sizeCall(v Value) Value {
	switch v.kind {
	case KindString, KindBytes, KindList, KindMap:
		return intValue(int64(sizeOf(v)))
	case KindUnknown, KindError:
		return v
	case KindOpaque:
		return fromRef(sizeRef(v.opaque()))
	}
	return traitError("size", v)
}

// containsText is contains() of texts.
//
//go:noinline
func (c *compiler) containsText(args []*code) *code {
	a, b := args[0].eval, args[1].eval
	general := func(fr *frame) tri {
		l, r := a(fr), b(fr)
		fr.cost += costContains(l, r)
		switch {
		case l.failed():
			fr.fail = l
		case r.failed():
			fr.fail = r
		case l.kind != KindString || r.kind != KindString:
			fr.fail = errorValue(errNoOverload)
		default:
			return truth(strings.Contains(l.text(), r.text()))
		}
		return bad
	}
	k := args[1].konst
	if k == nil || k.kind != KindString {
		return testCode(general)
	}
	return c.textTestOf(args[0], withInfix(k.text(), tenth(uint64(k.runes()))), general)
}

// affix is startsWith or endsWith.
//
//go:noinline
func (c *compiler) affix(args []*code, has func(s, affix string) bool, test func(affix string, price uint64) textTest) *code {
	a, b := args[0].eval, args[1].eval
	general := func(fr *frame) tri {
		l, r := a(fr), b(fr)
		fr.cost += tenth(sizeOf(r))
		switch {
		case l.failed():
			fr.fail = l
		case r.failed():
			fr.fail = r
		case l.kind != KindString || r.kind != KindString:
			fr.fail = errorValue(errNoOverload)
		default:
			return truth(has(l.text(), r.text()))
		}
		return bad
	}
	k := args[1].konst
	if k == nil || k.kind != KindString {
		return testCode(general)
	}
	return c.textTestOf(args[0], test(k.text(), tenth(uint64(k.runes()))), general)
}
