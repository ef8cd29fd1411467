package cel

import (
	"context"
	"errors"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"

	"github.com/keelson-io/keelson/cel/internal/check"
)

// This file finds the place of an error in an expression.

// Explain describes an error that evaluating the expression with vars gave,
// with the line of the expression and a mark under the part that failed. It
// evaluates parts of the expression again.
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

// maxExplain bounds what Explain spends: finding the place is no reason to work
// much longer than the evaluation did.
const maxExplain = 10_000_000

// culprit is the innermost part at or below e that fails in these words, the
// leftmost if there are several; nil if none does.
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
