package cel

import (
	"context"
	"errors"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"

	"github.com/keelson-io/keelson/cel/internal/check"
)

// This file finds the position of an evaluation error in an expression.

// Explain returns the text of failure, an error of Eval with the same vars, with the line of the
// expression and a mark under the part that failed. To find it, it evaluates parts of the
// expression again.
func (x *Expression) Explain(ctx context.Context, vars Vars, failure error) string {
	x.partsOnce.Do(func() { x.parts, x.partsErr = x.compileParts() })
	source := common.NewStringSource(x.source, "<input>")
	at := x.tree.Expr().ID()
	if x.partsErr == nil && !errors.Is(failure, ErrCostLimit) && !errors.Is(failure, ErrInterrupted) {
		r := &residue{ctx: ctx, x: x, vars: vars, limit: maxExplain, macros: x.tree.SourceInfo().MacroCalls()}
		if e := r.culprit(x.tree.Expr(), failure.Error()); e != nil {
			at = e.ID()
		}
	}
	place := x.tree.SourceInfo().GetStartLocation(at)
	return (&common.Error{Location: place, Message: failure.Error()}).ToDisplayString(source)
}

// maxExplain bounds the cost of Explain in units: finding the position should not take much longer
// than the evaluation.
const maxExplain = 10_000_000

// culprit returns the innermost, leftmost part at e or below whose error has the text words, nil if
// there is none.
func (r *residue) culprit(e ast.Expr, words string) ast.Expr {
	part, ok := r.x.parts.nodes[e.ID()]
	if ok {
		if _, err := r.eval(part); err == nil || err.Error() != words {
			return nil
		}
	}
	below := e
	if macro, isMacro := r.macros[e.ID()]; isMacro {
		below = macro
	}
	var found ast.Expr
	_ = check.VisitChildren(below, func(child ast.Expr) error {
		if found == nil {
			found = r.culprit(child, words)
		}
		return nil
	})
	if found == nil && ok {
		return e
	}
	return found
}
