// Package conditions evaluates CEL expressions over an admission request: the match conditions of
// webhooks, and all expressions of policies.
//
// # Model
//
// An [Expression] is compiled in the language of package internal/requests. An [Input] presents one
// request, in the version that a rule asked for. It makes the value of a variable when an
// expression first reads it, and shares it among all expressions. A [Budget] bounds the cost of the
// evaluations for one webhook or binding together. A [Matcher] is a list of match conditions, all
// of which must be true.
//
// Error texts are upstream's.
package conditions

import (
	"context"
	"errors"
	"fmt"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/internal/requests"
)

// Limits, in CEL cost units unless a line has another unit.
const (
	PerCall         = 1_000_000  // for one expression
	MatchBudget     = 2_500_000  // for the match conditions of one webhook or binding
	EvaluateBudget  = 10_000_000 // for the other expressions of one binding
	MaxMessageBytes = 5 * 1024   // bytes of a message expression's result
)

// Expression is a compiled expression with the names of the variables that it reads.
type Expression struct {
	*requests.Expression
	inputs []string
}

// Compile compiles an expression whose result must have one of the types, or any type if none are
// given.
func Compile(l *requests.Language, text string, types ...string) *Expression {
	x := &Expression{Expression: l.Compile(text, types...)}
	if x.Err == nil {
		x.inputs = x.X.Inputs()
	}
	return x
}

// Budget is the remaining cost of a group of evaluations.
type Budget struct{ left uint64 }

// NewBudget returns a budget of the given units.
func NewBudget(units uint64) *Budget { return &Budget{units} }

// ErrOutOfBudget ends all evaluations that share a budget.
var ErrOutOfBudget = errors.New("validation failed due to running out of cost budget, no further validation rules will be run")

// Spend deducts units from the budget.
func (b *Budget) Spend(units uint64) error {
	if units > b.left {
		b.left = 0
		return ErrOutOfBudget
	}
	b.left -= units
	return nil
}

// Run evaluates an expression that compiled, without a budget. It also returns the cost.
func (x *Expression) Run(ctx context.Context, in *Input) (cel.Value, uint64, error) {
	vars, err := in.vars(ctx, x.inputs)
	if err != nil {
		return cel.Value{}, 0, err
	}
	return x.X.EvalOn(ctx, vars, PerCall, in.Account)
}

// CompilationError is the result of evaluating an expression that does not compile.
type CompilationError struct{ Err error }

// Error returns the message of the compiler behind upstream's prefix.
func (e *CompilationError) Error() string { return "compilation error: " + e.Err.Error() }

// Unwrap returns the error of the compiler.
func (e *CompilationError) Unwrap() error { return e.Err }

// Eval evaluates an expression. failed is an error of this expression alone. err ends the
// evaluation of all expressions that share the budget.
func (x *Expression) Eval(ctx context.Context, in *Input, b *Budget) (v cel.Value, failed, err error) {
	if x.Err != nil {
		return v, &CompilationError{x.Err}, nil
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
