// Package conditions evaluates CEL over a request for admission: the match
// conditions of webhooks, and all expressions of policies.
//
// # Model
//
// An [Expression] is one of the language of package cel/requests. An [Input] is
// one request as expressions see it, in the version that a rule asked for: its
// variables are made when an expression mentions them, once for all expressions.
// A [Budget] is what the evaluations for one webhook or binding may cost
// together.
//
// A [Matcher] is a list of match conditions: all must be true.
//
// The texts of errors are upstream's.
package conditions

import (
	"context"
	"errors"
	"fmt"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/cel/requests"
)

// Limits in units of CEL cost.
const (
	PerCall         = 1_000_000  // of one expression
	MatchBudget     = 2_500_000  // of the match conditions of one webhook or binding
	EvaluateBudget  = 10_000_000 // of the other expressions of one binding
	MaxMessageBytes = 5 * 1024   // of what a message expression gives
)

// Expression is a compiled expression with what it reads.
type Expression struct {
	*requests.Expression
	inputs []string
}

// Compile compiles a text that must be of one of the types; with none, of any.
func Compile(l *requests.Language, text string, types ...string) *Expression {
	x := &Expression{Expression: l.Compile(text, types...)}
	if x.Err == nil {
		x.inputs = x.X.Inputs()
	}
	return x
}

// Budget is what evaluations may still cost.
type Budget struct{ left uint64 }

// NewBudget is a budget of so many units.
func NewBudget(units uint64) *Budget { return &Budget{units} }

// ErrOutOfBudget ends the evaluation of everything that shares the budget.
var ErrOutOfBudget = errors.New("validation failed due to running out of cost budget, no further validation rules will be run")

// Spend takes units from the budget.
func (b *Budget) Spend(units uint64) error {
	if units > b.left {
		b.left = 0
		return ErrOutOfBudget
	}
	b.left -= units
	return nil
}

// Run evaluates the expression, which compiled, without a budget. It returns
// what that cost, too.
func (x *Expression) Run(ctx context.Context, in *Input) (cel.Value, uint64, error) {
	vars, err := in.vars(ctx, x.inputs)
	if err != nil {
		return cel.Value{}, 0, err
	}
	return x.X.EvalOn(ctx, vars, PerCall, in.Account)
}

// Eval evaluates the expression. failed is an error of the expression, err one
// that ends the evaluation of everything that shares the budget.
func (x *Expression) Eval(ctx context.Context, in *Input, b *Budget) (v cel.Value, failed, err error) {
	if x.Err != nil {
		return v, fmt.Errorf("compilation error: %w", x.Err), nil
	}
	v, cost, failed := x.Run(ctx, in)
	composed := in.composed
	in.composed, in.spent = 0, in.spent+composed+cost
	if err := b.Spend(composed); err != nil {
		return v, nil, err
	}
	if err := b.Spend(cost); err != nil {
		return v, nil, err
	}
	if in.Account != nil && in.Account.Overdrawn() {
		return v, nil, ErrOutOfBudget
	}
	if failed != nil {
		return v, fmt.Errorf("expression '%s' resulted in error: %w", x.Source, failed), nil
	}
	return v, nil, nil
}
