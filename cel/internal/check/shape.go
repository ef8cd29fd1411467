package check

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// This file recognises common macros by the form of their expansion.

// Shape is the macro from which a comprehension was expanded.
type Shape uint8

// The macros. Any other comprehension is general.
const (
	shapeGeneral Shape = iota
	ShapeAll
	ShapeExists
	ShapeExistsOne
	ShapeMap
)

// Recognise returns the macro of a comprehension and its arguments: the predicate, and the
// expression that map() collects.
func Recognise(comp ast.ComprehensionExpr) (Shape, [2]ast.Expr) {
	accu := comp.AccuVar()
	cond, step := comp.LoopCondition(), comp.LoopStep()
	init := comp.AccuInit()
	isAccu := func(e ast.Expr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == accu }
	switch {
	case isLiteral(init, types.True) && isAccu(comp.Result()):
		if args, ok := callOf(cond, operators.NotStrictlyFalse, 1); ok && isAccu(args[0]) {
			if args, ok := callOf(step, operators.LogicalAnd, 2); ok && isAccu(args[0]) {
				return ShapeAll, [2]ast.Expr{args[1]}
			}
		}
	case isLiteral(init, types.False) && isAccu(comp.Result()):
		args, ok := callOf(cond, operators.NotStrictlyFalse, 1)
		if !ok {
			break
		}
		if not, ok := callOf(args[0], operators.LogicalNot, 1); ok && isAccu(not[0]) {
			if args, ok := callOf(step, operators.LogicalOr, 2); ok && isAccu(args[0]) {
				return ShapeExists, [2]ast.Expr{args[1]}
			}
		}
	case isLiteral(init, types.Int(0)) && isLiteral(cond, types.True):
		return recogniseOne(comp, isAccu)
	case init.Kind() == ast.ListKind && init.AsList().Size() == 0 && isLiteral(cond, types.True) && isAccu(comp.Result()):
		var predicate ast.Expr
		if args, ok := callOf(step, operators.Conditional, 3); ok && isAccu(args[2]) {
			predicate, step = args[0], args[1]
		}
		if args, ok := callOf(step, operators.Add, 2); ok && isAccu(args[0]) && args[1].Kind() == ast.ListKind {
			if l := args[1].AsList(); l.Size() == 1 && len(l.OptionalIndices()) == 0 {
				return ShapeMap, [2]ast.Expr{predicate, l.Elements()[0]}
			}
		}
	}
	return shapeGeneral, [2]ast.Expr{}
}

// recogniseOne recognises exists_one(), which counts.
func recogniseOne(comp ast.ComprehensionExpr, isAccu func(ast.Expr) bool) (Shape, [2]ast.Expr) {
	args, ok := callOf(comp.LoopStep(), operators.Conditional, 3)
	if !ok || !isAccu(args[2]) {
		return shapeGeneral, [2]ast.Expr{}
	}
	inc, ok := callOf(args[1], operators.Add, 2)
	if !ok || !isAccu(inc[0]) || !isLiteral(inc[1], types.Int(1)) {
		return shapeGeneral, [2]ast.Expr{}
	}
	eq, ok := callOf(comp.Result(), operators.Equals, 2)
	if !ok || !isAccu(eq[0]) || !isLiteral(eq[1], types.Int(1)) {
		return shapeGeneral, [2]ast.Expr{}
	}
	return ShapeExistsOne, [2]ast.Expr{args[0]}
}

// isLiteral reports whether e is the literal v.
func isLiteral(e ast.Expr, v any) bool { return e.Kind() == ast.LiteralKind && any(e.AsLiteral()) == v }

// callOf returns the arguments of e if it is a call of fn with n arguments.
func callOf(e ast.Expr, fn string, n int) ([]ast.Expr, bool) {
	if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != fn || e.AsCall().IsMemberFunction() {
		return nil, false
	}
	args := e.AsCall().Args()
	return args, len(args) == n
}
