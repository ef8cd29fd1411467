// Package conditions evaluates CEL over a request for admission: the match
// conditions of webhooks, and all expressions of policies.
//
// # Model
//
// A [Language] says which variables there are; [Language.Compile] makes an
// [Expression] of a text, or one that carries the error that upstream gives for
// it. An [Input] is one request as expressions see it, in the version that a
// rule asked for: its variables are made when an expression mentions them, once
// for all expressions. A [Budget] is what the evaluations for one webhook or
// binding may cost together.
//
// A [Matcher] is a list of match conditions: all must be true.
//
// The texts of errors are upstream's.
package conditions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/keelson-io/keelson/cel"
)

// Limits in units of CEL cost.
const (
	PerCall         = 1_000_000  // of one expression
	MatchBudget     = 2_500_000  // of the match conditions of one webhook or binding
	EvaluateBudget  = 10_000_000 // of the other expressions of one binding
	MaxMessageBytes = 5 * 1024   // of what a message expression gives
)

// Language is the language of expressions over requests.
type Language struct{ l *cel.Language }

var languages struct {
	sync.Mutex
	made map[cel.AdmissionVariables]*Language
}

// For returns the language with the given variables.
func For(has cel.AdmissionVariables) *Language {
	languages.Lock()
	defer languages.Unlock()
	if l := languages.made[has]; l != nil {
		return l
	}
	l, err := cel.NewLanguage(cel.AdmissionConditions(has))
	if err != nil {
		panic("BUG: language of admission: " + err.Error())
	}
	if languages.made == nil {
		languages.made = map[cel.AdmissionVariables]*Language{}
	}
	languages.made[has] = &Language{l}
	return languages.made[has]
}

// With is the language in which these expressions are members of variable
// variables.
func (l *Language) With(named map[string]*Expression) (*Language, error) {
	types := map[string]*cel.Expression{}
	for name, x := range named {
		types[name] = x.x
	}
	extended, err := l.l.Extend(nil, []cel.ObjectType{cel.ComposedVariables(types)})
	return &Language{extended}, err
}

// Expression is a compiled expression, or why it did not compile.
type Expression struct {
	Source string
	// Err is set if the text does not compile, or not to a wanted type.
	Err error

	x      *cel.Expression
	inputs []string
}

// Compile compiles a text that must be of one of the types; with none, of any.
func (l *Language) Compile(text string, types ...string) *Expression {
	e := &Expression{Source: text}
	x, err := l.l.CompileExpression(text)
	var instantiation *cel.InstantiationError
	switch {
	case errors.As(err, &instantiation):
		e.Err = fmt.Errorf("program instantiation failed: %w", err)
	case err != nil:
		e.Err = fmt.Errorf("compilation failed: %w", err)
	case len(types) == 1 && x.Type() != types[0]:
		e.Err = fmt.Errorf("must evaluate to %s but got %s", types[0], x.Type())
	case len(types) > 1 && !slices.Contains(types, x.Type()):
		e.Err = fmt.Errorf("must evaluate to one of [%s] but got %s", strings.Join(types, " "), x.Type())
	default:
		e.x, e.inputs = x, x.Inputs()
	}
	return e
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
	return x.x.Eval(ctx, vars, PerCall)
}

// Eval evaluates the expression. failed is an error of the expression, err one
// that ends the evaluation of everything that shares the budget.
func (x *Expression) Eval(ctx context.Context, in *Input, b *Budget) (v cel.Value, failed, err error) {
	if x.Err != nil {
		return v, fmt.Errorf("compilation error: %w", x.Err), nil
	}
	v, cost, failed := x.Run(ctx, in)
	composed := in.composed
	in.composed = 0
	if err := b.Spend(composed); err != nil {
		return v, nil, err
	}
	if err := b.Spend(cost); err != nil {
		return v, nil, err
	}
	if failed != nil {
		return v, fmt.Errorf("expression '%s' resulted in error: %w", x.Source, failed), nil
	}
	return v, nil, nil
}
