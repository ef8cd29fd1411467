package cel

// This file computes integers that are sizes, constants and sums of them, and
// durations in nanoseconds, without Values in between.

// numFn computes an integer or a duration. If it cannot, it charges nothing and the general
// way finds out why.
type numFn func(fr *frame) (int64, bool)

// countFn computes an integer. If it cannot, frame.fail says why, and what was
// spent on it stays charged: unlike a numFn it may run for long, and must not be
// run twice.
type countFn func(fr *frame) (int64, bool)

func numConstant(i int64) numFn { return func(*frame) (int64, bool) { return i, true } }

// numConditional is cond ? a : b.
//
//go:noinline
func numConditional(cond testFn, x, y *code) numFn {
	a, b := x.num, y.num
	if a == nil || b == nil {
		return nil
	}
	if x.konst != nil && y.konst != nil {
		return numChoice(cond, x.konst.Int(), y.konst.Int())
	}
	return func(fr *frame) (int64, bool) {
		cost := fr.cost
		branch := b
		switch cond(fr) {
		case yes:
			branch = a
		case bad:
			fr.cost = cost
			return 0, false
		}
		i, ok := branch(fr)
		if !ok {
			fr.cost = cost
		}
		return i, ok
	}
}

// numChoice is cond ? a : b of constants.
//
//go:noinline
func numChoice(cond testFn, a, b int64) numFn {
	return func(fr *frame) (int64, bool) {
		cost := fr.cost
		switch cond(fr) {
		case yes:
			return a, true
		case no:
			return b, true
		}
		fr.cost = cost
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
	return func(fr *frame) (int64, bool) {
		cost := fr.cost
		i, ok := a(fr)
		if !ok {
			return 0, false
		}
		j, ok := b(fr)
		sum := i + j
		if !ok || (sum > i) != (j > 0) && j != 0 {
			fr.cost = cost
			return 0, false
		}
		fr.cost++
		return sum, true
	}
}

// withNum is the node of an integer or a duration that num computes where it can.
//
//go:noinline
func withNum(kind Kind, num numFn, general evalFn) *code {
	return &code{num: num, static: kind, eval: func(fr *frame) Value {
		if i, ok := num(fr); ok {
			return Value{kind: kind, bits: uint64(i)}
		}
		return general(fr)
	}}
}

// withCount is a node that is computed as a number once: what it fails with is
// known then.
func withCount(count countFn) *code {
	return &code{count: count, static: KindInt, eval: func(fr *frame) Value {
		n, ok := count(fr)
		if !ok {
			return fr.fail
		}
		return intValue(n)
	}}
}

// countEquality is == or != of a count and a constant.
//
//go:noinline
func countEquality(count countFn, k int64, negated bool) testFn {
	return func(fr *frame) tri {
		n, ok := count(fr)
		fr.cost++
		if !ok {
			return bad
		}
		return truth((n == k) != negated)
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
	if !ok || d.want != KindInt {
		return nil
	}
	return func(fr *frame) (int64, bool) {
		bits, ok := d.bits(fr)
		if ok {
			fr.cost += d.units
		}
		return int64(bits), ok
	}
}

// numEquality is == or != of an integer and a constant.
//
//go:noinline
func numEquality(num numFn, k int64, negated bool, general testFn) testFn {
	return func(fr *frame) tri {
		i, ok := num(fr)
		if !ok {
			return general(fr)
		}
		fr.cost++
		return truth((i == k) != negated)
	}
}

// equalNumbers is == or != of two integers or durations, at least one of which
// is computed; nil if the operands are not that.
func equalNumbers(a, b *code, negated bool, general testFn) testFn {
	if a.static != b.static || a.static != KindInt && a.static != KindDuration {
		return nil
	}
	x, y := numberOf(a), numberOf(b)
	if x == nil || y == nil {
		return nil
	}
	return func(fr *frame) tri {
		cost := fr.cost
		if i, ok := x(fr); ok {
			if j, ok := y(fr); ok {
				fr.cost++
				return truth((i == j) != negated)
			}
		}
		fr.cost = cost
		return general(fr)
	}
}
