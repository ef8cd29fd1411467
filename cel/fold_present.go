package cel

import (
	"math"

	"github.com/google/cel-go/common/ast"
)

// This file counts which members are there: [has(self.a), has(self.b)].filter(x, x).size(),
// as rules say that exactly one of several must be.

// onlyNames reports whether an expression is small, has no loops, and mentions no
// variable but one.
func onlyNames(e ast.Expr, name string) bool {
	n, only := 0, true
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		n++
		only = only && e.Kind() != ast.ComprehensionKind && (e.Kind() != ast.IdentKind || e.AsIdent() == name)
	}))
	return only && n < maxTwice
}

// tally counts the outcomes of tests.
type tally struct {
	tests  []testFn
	counts [2]int64 // what no and yes count
	spent  [2]uint64
}

// forecast works out what the predicate of a filter is for the false and the true
// outcomes of tests, and what that costs with collecting the element; nil if one of
// them fails.
func (f *fold) forecast(slots int, tests []testFn) *tally {
	y := &tally{tests: tests}
	for _, outcome := range []tri{no, yes} {
		fr := &frame{slots: make([]Value, slots), limit: math.MaxUint64 - 1}
		fr.slots[f.iter] = boolValue(outcome == yes)
		switch f.predicate(fr) {
		case yes:
			y.counts[outcome], y.spent[outcome] = 1, fr.cost+costSelect+f.price
		case no:
			y.spent[outcome] = fr.cost
		default:
			return nil
		}
	}
	return y
}

// count is counted for the range. If one of the tests fails there is no list, and no
// predicate was evaluated.
func (y *tally) count(fr *frame) (n int64, ok bool) {
	cost := uint64(costList)
	for _, test := range y.tests {
		t := test(fr)
		if t == bad {
			fr.cost += costList
			return 0, false
		}
		cost += y.spent[t]
		n += y.counts[t]
	}
	fr.cost += cost + 1
	return n, true
}
