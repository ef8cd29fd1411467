package eval

import (
	"math"

	"github.com/google/cel-go/common/ast"

	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file counts which members are present: [has(self.a), has(self.b)].filter(x, x).size(), with
// which rules require exactly one of several members.

// onlyNames reports whether an expression is small, has no loops, and uses only one variable.
func onlyNames(e ast.Expr, name string) bool {
	n, only := 0, true
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		n++
		only = only && e.Kind() != ast.ComprehensionKind && (e.Kind() != ast.IdentKind || e.AsIdent() == name)
	}))
	return only && n < maxTwice
}

// tally counts the results of tests.
type tally struct {
	tests  []val.TestFn
	counts [2]int64 // what a false and a true result count
	// spent has the cost of a false and of a true result.
	spent [2]uint64
}

// forecast computes the predicate of a filter for false and for true, with its cost. It returns nil
// if it fails for one of them.
func (f *fold) forecast(slots int, tests []val.TestFn) *tally {
	y := &tally{tests: tests}
	for _, outcome := range []val.Tri{val.No, val.Yes} {
		fr := &val.Frame{Slots: make([]val.Value, slots), Limit: math.MaxUint64 - 1}
		fr.Slots[f.iter] = val.BoolValue(outcome == val.Yes)
		switch f.predicate(fr) {
		case val.Yes:
			y.counts[outcome], y.spent[outcome] = 1, fr.Cost+val.CostSelect+f.price
		case val.No:
			y.spent[outcome] = fr.Cost
		default:
			return nil
		}
	}
	return y
}

// count is counted for this range. If one of the tests fails, there is no list, and the predicate
// is not evaluated.
func (y *tally) count(fr *val.Frame) (n int64, ok bool) {
	cost := uint64(val.CostList)
	for _, test := range y.tests {
		t := test(fr)
		if t == val.Bad {
			fr.Cost += val.CostList
			return 0, false
		}
		cost += y.spent[t]
		n += y.counts[t]
	}
	fr.Cost += cost + 1
	return n, true
}
