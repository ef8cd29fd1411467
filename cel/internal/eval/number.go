package eval

import "github.com/keelson-io/keelson/cel/internal/val"

// This file computes integers that are sizes, constants and sums of them, and
// durations in nanoseconds, without Values in between.

// numFn computes an integer or a duration. If it cannot, it charges nothing and the general
// way finds out why.
type numFn func(fr *val.Frame) (int64, bool)

// countFn computes an integer. If it cannot, frame.fail says why, and what was
// spent on it stays charged: unlike a numFn it may run for long, and must not be
// run twice.
type countFn func(fr *val.Frame) (int64, bool)

func numConstant(i int64) numFn { return func(*val.Frame) (int64, bool) { return i, true } }

// numConditional is cond ? a : b.
//
//go:noinline
func numConditional(cond val.TestFn, x, y *code) numFn {
	a, b := x.num, y.num
	if a == nil || b == nil {
		return nil
	}
	if x.konst != nil && y.konst != nil {
		return numChoice(cond, x.konst.Int(), y.konst.Int())
	}
	return func(fr *val.Frame) (int64, bool) {
		cost := fr.Cost
		branch := b
		switch cond(fr) {
		case val.Yes:
			branch = a
		case val.Bad:
			fr.Cost = cost
			return 0, false
		}
		i, ok := branch(fr)
		if !ok {
			fr.Cost = cost
		}
		return i, ok
	}
}

// numChoice is cond ? a : b of constants.
//
//go:noinline
func numChoice(cond val.TestFn, a, b int64) numFn {
	return func(fr *val.Frame) (int64, bool) {
		cost := fr.Cost
		switch cond(fr) {
		case val.Yes:
			return a, true
		case val.No:
			return b, true
		}
		fr.Cost = cost
		return 0, false
	}
}

// numSum is a + b.
//
//go:noinline
func numSum(a, b numFn) numFn {
	if a == nil || b == nil {
		return nil
	}
	return func(fr *val.Frame) (int64, bool) {
		cost := fr.Cost
		i, ok := a(fr)
		if !ok {
			return 0, false
		}
		j, ok := b(fr)
		sum := i + j
		if !ok || (sum > i) != (j > 0) && j != 0 {
			fr.Cost = cost
			return 0, false
		}
		fr.Cost++
		return sum, true
	}
}

// withNum is the node of an integer or a duration that num computes where it can.
//
//go:noinline
func withNum(kind val.Kind, num numFn, general val.EvalFn) *code {
	return &code{num: num, static: kind, Eval: func(fr *val.Frame) val.Value {
		if i, ok := num(fr); ok {
			return val.Value{K: kind, Bits: uint64(i)}
		}
		return general(fr)
	}}
}

// withCount is a node that is computed as a number once: what it fails with is
// known then.
func withCount(count countFn) *code {
	return &code{count: count, static: val.KindInt, Eval: func(fr *val.Frame) val.Value {
		n, ok := count(fr)
		if !ok {
			return fr.Fail
		}
		return val.IntValue(n)
	}}
}

// countEquality is == or != of a count and a constant.
//
//go:noinline
func countEquality(count countFn, k int64, negated bool) val.TestFn {
	return func(fr *val.Frame) val.Tri {
		n, ok := count(fr)
		fr.Cost++
		if !ok {
			return val.Bad
		}
		return val.Truth((n == k) != negated)
	}
}

// numberOf computes the node without a Value; nil if there is no such way.
//
//go:noinline
func numberOf(c *code) numFn {
	if c.num != nil {
		return c.num
	}
	d, ok := directOf(c)
	if !ok || d.want != val.KindInt {
		return nil
	}
	return func(fr *val.Frame) (int64, bool) {
		bits, ok := d.bits(fr)
		if ok {
			fr.Cost += d.units
		}
		return int64(bits), ok
	}
}

// numEquality is == or != of an integer and a constant.
//
//go:noinline
func numEquality(num numFn, k int64, negated bool, general val.TestFn) val.TestFn {
	return func(fr *val.Frame) val.Tri {
		i, ok := num(fr)
		if !ok {
			return general(fr)
		}
		fr.Cost++
		return val.Truth((i == k) != negated)
	}
}

// equalNumbers is == or != of two integers or durations, at least one of which
// is computed; nil if the operands are not that.
func equalNumbers(a, b *code, negated bool, general val.TestFn) val.TestFn {
	if a.static != b.static || a.static != val.KindInt && a.static != val.KindDuration {
		return nil
	}
	x, y := numberOf(a), numberOf(b)
	if x == nil || y == nil {
		return nil
	}
	return func(fr *val.Frame) val.Tri {
		cost := fr.Cost
		if i, ok := x(fr); ok {
			if j, ok := y(fr); ok {
				fr.Cost++
				return val.Truth((i == j) != negated)
			}
		}
		fr.Cost = cost
		return general(fr)
	}
}
