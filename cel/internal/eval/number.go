package eval

import "github.com/keelson-io/keelson/cel/internal/val"

// This file computes integers that are sizes, constants and their sums, and durations in
// nanoseconds, without Values.

// numFn computes an integer or a duration. If it cannot, it adds no cost, and the general
// implementation finds the reason.
type numFn func(fr *val.Frame) (int64, bool)

// countFn computes an integer. If it fails, Frame.Fail has the reason, and its cost stays: unlike a
// numFn it may take long and must not be called twice.
type countFn func(fr *val.Frame) (int64, bool)

// numConstant returns a constant.
func numConstant(i int64) numFn { return func(*val.Frame) (int64, bool) { return i, true } }

// numConditional returns cond ? a : b.
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

// numChoice returns cond ? a : b of constants.
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

// numSum returns a + b.
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

// withNum returns the node of an integer or a duration that num computes if it can.
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

// withCount returns a node that is computed once as a number: if it fails, the reason is known.
func withCount(count countFn) *code {
	return &code{count: count, static: val.KindInt, Eval: func(fr *val.Frame) val.Value {
		n, ok := count(fr)
		if !ok {
			return fr.Fail
		}
		return val.IntValue(n)
	}}
}

// countEquality returns the test == or != of a count and a constant.
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

// numberOf returns a function that computes the node without a Value, nil if there is none.
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

// numEquality returns the test == or != of an integer and a constant.
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

// equalNumbers returns the test == or != of two integers or durations, at least one of which is
// computed, nil for other operands.
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
