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

// forecast works out what the predicate of a filter is for false and for true, and
// what that costs with collecting the element; false if one of them fails.
func (f *fold) forecast(slots int) bool {
	for _, outcome := range []tri{no, yes} {
		fr := &frame{slots: make([]Value, slots), limit: math.MaxUint64 - 1}
		fr.slots[f.iter] = boolValue(outcome == yes)
		switch f.predicate(fr) {
		case yes:
			f.counts[outcome], f.spent[outcome] = 1, fr.cost+costSelect+f.price
		case no:
			f.spent[outcome] = fr.cost
		default:
			return false
		}
	}
	return true
}

// countPresent is counted for a range of has(). If one of those fails there is no
// list, and no predicate was evaluated.
func (f *fold) countPresent(fr *frame) (n int64, ok bool) {
	cost := uint64(costList)
	for _, test := range f.present {
		t := test(fr)
		if t == bad {
			fr.cost += costList
			return 0, false
		}
		cost += f.spent[t]
		n += f.counts[t]
	}
	fr.cost += cost + 1
	return n, true
}
