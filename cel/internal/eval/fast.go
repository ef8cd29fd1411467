package eval

import (
	"strings"

	"github.com/keelson-io/keelson/internal/fastpath"

	"github.com/keelson-io/keelson/cel/internal/fast"
	"github.com/keelson-io/keelson/cel/internal/val"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file compiles the most frequent calls to closures of their own.

// fastEquality returns the test == or != with a constant scalar as one operand, nil for other
// operands.
//
//go:noinline
func fastEquality(a, b *code, negated bool) val.TestFn {
	if b.konst == nil || !fastpath.Closures.On() {
		return nil
	}
	k, eval := b.konst, a.Eval
	if a.count != nil && k.K == val.KindInt {
		return countEquality(a.count, k.Int(), negated)
	}
	switch k.K {
	case val.KindString:
		if a.static != val.KindString {
			return nil
		}
		return func(fr *val.Frame) val.Tri {
			v := eval(fr)
			fr.Cost += val.CostCompare(v, *k)
			if v.K != val.KindString {
				return fr.EqualTest(v, *k, negated)
			}
			return val.Truth((v.Text() == k.Text()) != negated)
		}
	case val.KindInt, val.KindBool, val.KindDuration:
		if a.static != k.K {
			return nil
		}
		if a.num != nil {
			return numEquality(a.num, k.Int(), negated, func(fr *val.Frame) val.Tri {
				v := eval(fr)
				fr.Cost++
				return fr.EqualTest(v, *k, negated)
			})
		}
		return func(fr *val.Frame) val.Tri {
			v := eval(fr)
			fr.Cost++
			if v.K != k.K {
				return fr.EqualTest(v, *k, negated)
			}
			return val.Truth((v.Bits == k.Bits) != negated)
		}
	}
	return nil
}

// setMembership compiles `x in [constants]`, which costs only x.
func (c *compiler) setMembership(x *code, set *fast.ValueSet) *code {
	eval := x.Eval
	general := func(fr *val.Frame) val.Tri {
		v := eval(fr)
		if v.Failed() {
			fr.Fail = v
			return val.Bad
		}
		return val.Truth(set.Has(v))
	}
	return c.textTestOf(x, fast.OneOf(set), general)
}

// patternCall compiles matches(), find() and findAll() with a constant pattern. If the text fails,
// the call costs nothing.
func (c *compiler) patternCall(name string, args []*code) *code {
	pattern := args[1].konst
	re, err := val.NewRegexp(pattern.Text())
	if err != nil {
		c.fail("%w", err)
	}
	c.patterns += re.Size
	price := val.PatternPrice(uint64(pattern.Runes()))
	switch name {
	case "matches":
		return c.matchesCall(args[0], re, price)
	case "find":
		return findCall(args[0], re, price)
	}
	limit := constant(val.IntValue(-1)).Eval
	if len(args) > 2 {
		limit = args[2].Eval
	}
	return findAllCall(args[0].Eval, limit, re, price)
}

// matchesCall compiles matches().
func (c *compiler) matchesCall(arg *code, re *val.Regexp, price uint64) *code {
	text := arg.Eval
	general := func(fr *val.Frame) val.Tri {
		v := text(fr)
		if v.Failed() {
			fr.Fail = v
			return val.Bad
		}
		units := val.Tenth(val.SizeOf(v)+1) * price
		fr.Cost += units
		if v = held(v); v.K != val.KindString {
			fr.Fail = val.ErrorValue(val.CodeNoOverload)
			return val.Bad
		}
		match, known := re.Match(v.Text(), units)
		if !known {
			if !fr.MayTake(re.Steps(v.Text()), units) {
				fr.Fail = fr.Exhausted()
				return val.Bad
			}
			match = re.Re().MatchString(v.Text())
		}
		return val.Truth(match)
	}
	return c.textTestOf(arg, fast.Matching(re, price), general)
}

// findCall compiles find().
func findCall(arg *code, re *val.Regexp, price uint64) *code {
	text := arg.Eval
	general := func(fr *val.Frame) val.Value {
		v := text(fr)
		if v.Failed() {
			return v
		}
		units := val.Tenth(val.PlainSize(v)+1) * price
		fr.Cost += units
		if v = held(v); v.K != val.KindString {
			return val.ErrorValue(val.CodeNoOverload)
		}
		found, known := re.Find(v.Text(), units)
		if !known {
			if !fr.MayTake(re.Steps(v.Text()), units) {
				return fr.Exhausted()
			}
			found = re.Re().FindString(v.Text())
		}
		return val.TextValue(found)
	}
	if fast := textPartOf(arg, fast.Found(re, price), general); fast != nil {
		return fast
	}
	return &code{Eval: general}
}

// findAllCall compiles findAll(), with at most limit matches.
func findAllCall(text, limit val.EvalFn, re *val.Regexp, price uint64) *code {
	return &code{Eval: func(fr *val.Frame) val.Value {
		v := text(fr)
		if v.Failed() {
			return v
		}
		n := limit(fr)
		units := val.Tenth(val.PlainSize(v)+1) * price
		fr.Cost += units
		v, n = held(v), held(n)
		switch {
		case n.Failed():
			return n
		case v.K != val.KindString || n.K != val.KindInt:
			return val.ErrorValue(val.CodeNoOverload)
		}
		found, ok := re.FindAll(fr, v.Text(), int(n.Int()), units)
		if !ok {
			return fr.Exhausted()
		}
		return stringList(found)
	}}
}

// held returns the value of an optional: upstream's functions of regular expressions read the Go
// value of their arguments, which is the same for an optional.
func held(v val.Value) val.Value {
	for v.K == val.KindOptional && v.Ptr != nil {
		v = *v.Optional()
	}
	return v
}

// fastCall compiles calls of one or two arguments that need no list of arguments, nil for other
// calls.
func (c *compiler) fastCall(name, overload string, args []*code) *code {
	switch {
	case name == "size" && len(args) == 1:
		out := sizeOfNode(args[0])
		out.sized, out.tally = c.sizedSpot(args[0]), args[0].counts
		return out
	case name == "startsWith" && overload == "starts_with_string" && len(args) == 2:
		return c.affix(args, strings.HasPrefix, fast.WithPrefix)
	case name == "endsWith" && overload == "ends_with_string" && len(args) == 2:
		return c.affix(args, strings.HasSuffix, fast.WithSuffix)
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
	eval := arg.Eval
	general := func(fr *val.Frame) val.Value {
		v := eval(fr)
		fr.Cost++
		switch {
		case v.Failed():
			return v
		case v.K != val.KindOptional:
			return val.ErrorWith(val.CodeNoOverloadFn, "hasValue("+v.TypeName()+")")
		}
		return val.BoolValue(v.Ptr != nil)
	}
	none := arg.none
	if none == nil {
		return &code{Eval: general}
	}
	return c.textTestOf(arg.made.source, func(s string, runes uint64) (val.Tri, uint64) {
		answer, units := none(s, runes)
		if answer != val.Yes {
			return val.Bad, 0
		}
		return val.No, units + 1
	}, func(fr *val.Frame) val.Tri { return fr.Verdict(general(fr)) })
}

// sizeOfNode compiles size().
//
//go:noinline
func sizeOfNode(arg *code) *code {
	if counted := arg.counted; counted != nil {
		return withCount(func(fr *val.Frame) (int64, bool) {
			n, ok := counted(fr)
			fr.Cost++
			return n, ok
		})
	}
	eval := arg.Eval
	general := func(fr *val.Frame) val.Value {
		v := eval(fr)
		fr.Cost++
		if v.K == val.KindString && v.Flag != val.FlagASCII && v.Bits > val.MaxUsual && !fr.MayTake(v.Bits, 1) {
			return fr.Exhausted()
		}
		return sizeCall(v)
	}
	if arg.static == val.KindString && arg.konst == nil {
		if fast := textNumberOf(val.KindInt, arg, fast.RunesOfText, general); fast != nil {
			return fast
		}
	}
	if d, ok := directList(arg); ok {
		return withNum(val.KindInt, func(fr *val.Frame) (int64, bool) {
			_, n := d.container(fr)
			if n.Kind() != jsondoc.Array {
				return 0, false
			}
			fr.Cost += d.units + 1
			return int64(n.Len()), true
		}, general)
	}
	d, ok := directContainer(arg)
	if !ok {
		return &code{Eval: general}
	}
	return withNum(val.KindInt, func(fr *val.Frame) (int64, bool) {
		text, n := d.node(fr)
		switch {
		case n.Kind() == jsondoc.Object && d.want == val.KindMap:
			fr.Cost += d.units + 1
			return int64(jsondoc.Value{Doc: text, Node: n}.Len()), true
		case n.Kind() == jsondoc.String && d.want == val.KindString && n.ASCII():
			fr.Cost += d.units + 1
			return int64(n.Len()), true
		}
		return 0, false
	}, general)
}

// sizeCall returns size(v).
func sizeCall(v val.Value) val.Value {
	switch v.K {
	case val.KindString, val.KindBytes, val.KindList, val.KindMap:
		return val.IntValue(int64(val.SizeOf(v)))
	case val.KindUnknown, val.KindError:
		return v
	case val.KindOpaque:
		return val.FromRef(val.SizeRef(v.Opaque()))
	}
	return val.TraitError("size", v)
}

// containsText compiles contains() of strings.
//
//go:noinline
func (c *compiler) containsText(args []*code) *code {
	a, b := args[0].Eval, args[1].Eval
	general := func(fr *val.Frame) val.Tri {
		l, r := a(fr), b(fr)
		fr.Cost += val.CostContains(l, r)
		switch {
		case l.Failed():
			fr.Fail = l
		case r.Failed():
			fr.Fail = r
		case l.K != val.KindString || r.K != val.KindString:
			fr.Fail = val.ErrorValue(val.CodeNoOverload)
		default:
			return val.Truth(strings.Contains(l.Text(), r.Text()))
		}
		return val.Bad
	}
	k := args[1].konst
	if k == nil || k.K != val.KindString {
		return testCode(general)
	}
	return c.textTestOf(args[0], fast.WithInfix(k.Text(), val.Tenth(uint64(k.Runes()))), general)
}

// affix compiles startsWith() or endsWith().
//
//go:noinline
func (c *compiler) affix(args []*code, has func(s, affix string) bool, test func(affix string, price uint64) fast.TextTest) *code {
	a, b := args[0].Eval, args[1].Eval
	general := func(fr *val.Frame) val.Tri {
		l, r := a(fr), b(fr)
		fr.Cost += val.Tenth(val.SizeOf(r))
		switch {
		case l.Failed():
			fr.Fail = l
		case r.Failed():
			fr.Fail = r
		case l.K != val.KindString || r.K != val.KindString:
			fr.Fail = val.ErrorValue(val.CodeNoOverload)
		default:
			return val.Truth(has(l.Text(), r.Text()))
		}
		return val.Bad
	}
	k := args[1].konst
	if k == nil || k.K != val.KindString {
		return testCode(general)
	}
	return c.textTestOf(args[0], test(k.Text(), val.Tenth(uint64(k.Runes()))), general)
}
