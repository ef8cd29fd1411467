package cel

import (
	"math"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/parser"
)

// This file writes expressions as text, such as residuals, that are compiled again. The text must have the same value and the same
// errors as the expression, for all values of its variables.
//
// cel-go writes a negation in a negation without parentheses, and its grammar reads an even number of operators as none:
//
//	-(-x)                       --x                       x, which is no error if x is the least integer
//	-(-9223372036854775808)     --9223372036854775808     not an integer
//	!(!x)                       !!x                       x, which is no error if x is not a boolean
//
// So dyn() separates the operators: -dyn(-x). It returns its argument.

// unparse returns an expression as text. info has the macros of the expression as they were written.
func unparse(e ast.Expr, info *ast.SourceInfo) (string, error) {
	// Both are rare: the copy is made only if it must be changed.
	if hasDoubles(e) || anyDoubles(info.MacroCalls()) {
		fac := ast.NewExprFactory()
		e = separated(fac, e)
		info = ast.CopySourceInfo(info)
		for id, call := range info.MacroCalls() {
			info.SetMacroCall(id, separated(fac, call))
		}
	}
	return parser.Unparse(e, info, parser.WrapOnColumn(math.MaxInt32))
}

// anyDoubles reports whether one of the macros has a negation in a negation.
func anyDoubles(macros map[int64]ast.Expr) bool {
	for _, call := range macros {
		if hasDoubles(call) {
			return true
		}
	}
	return false
}

// hasDoubles reports whether an expression has a negation in a negation.
func hasDoubles(e ast.Expr) (found bool) {
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) { found = found || isDouble(e) }))
	return found
}

// isDouble reports whether an expression is the negation of a negation, or of a negative number.
func isDouble(e ast.Expr) bool {
	fn, arg, ok := negation(e)
	if !ok {
		return false
	}
	if inner, _, ok := negation(arg); ok {
		return inner == fn
	}
	if fn != operators.Negate || arg.Kind() != ast.LiteralKind {
		return false
	}
	switch v := arg.AsLiteral().(type) {
	case types.Int:
		return v < 0
	case types.Double:
		return math.Signbit(float64(v))
	}
	return false
}

// negation returns the operator, - or !, and the operand of a negation.
func negation(e ast.Expr) (fn string, arg ast.Expr, ok bool) {
	if e.Kind() != ast.CallKind {
		return "", nil, false
	}
	call := e.AsCall()
	fn = call.FunctionName()
	if fn != operators.Negate && fn != operators.LogicalNot {
		return "", nil, false
	}
	return fn, call.Args()[0], true
}

// separated returns a copy of an expression with dyn() around what a negation negates again.
func separated(fac ast.ExprFactory, e ast.Expr) ast.Expr {
	e = fac.CopyExpr(e)
	ast.PostOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		if isDouble(e) {
			fn, arg, _ := negation(e)
			e.SetKindCase(fac.NewCall(e.ID(), fn, fac.NewCall(0, "dyn", fac.CopyExpr(arg))))
		}
	}))
	return e
}
