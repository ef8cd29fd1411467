package cel

import (
	"context"
	"fmt"

	"github.com/keelson-io/keelson/cel/internal/fast"
)

// This file defines Program and Tests, the compiled rules.

// Program is a compiled expression over self. It is immutable and safe for concurrent use.
type Program struct {
	source  string
	code    *fast.Program
	maxCost uint64
	want    ResultKind
}

// Eval evaluates the program. It returns the result, its cost in upstream's units, and the error:
// the result of the expression, or the reason why the evaluation ended. An unknown result is not an
// error.
func (p *Program) Eval(ctx context.Context, a *Activation, limit uint64) (Value, uint64, error) {
	return p.code.Eval(ctx, a, limit)
}

// MaxCost returns the static estimate of the greatest cost of one evaluation.
func (p *Program) MaxCost() uint64 { return p.maxCost }

// PatternSize returns the size of the constant patterns of the expression, in instructions of the
// automata to which they may be compiled. An instruction takes some 50 bytes.
func (p *Program) PatternSize() int { return p.code.Patterns }

// UsesOldSelf reports whether the expression uses oldSelf.
func (p *Program) UsesOldSelf() bool { return p.code.UsesOldSelf }

// OptionalOldSelf reports whether oldSelf is an optional value.
func (p *Program) OptionalOldSelf() bool { return p.code.Optional }

// Source returns the text of the program.
func (p *Program) Source() string { return p.source }

// String returns the text and the figures of the program.
func (p *Program) String() string {
	return fmt.Sprintf("%s ; estimate %d, slots %d, oldSelf %t", p.source, p.maxCost, p.code.Slots, p.code.UsesOldSelf)
}

// Tests are expressions with a bool result over the same self. The zero value always holds. Tests
// do not change once they are in use.
type Tests struct{ code fast.Tests }

// NewTests returns the tests of the programs, in their order.
func NewTests(programs []*Program) Tests {
	list := make([]*fast.Program, len(programs))
	for i, p := range programs {
		list[i] = p.code
	}
	return Tests{fast.NewTests(list)}
}

// Len returns the number of tests.
func (t *Tests) Len() int { return t.code.Len() }

// Hold evaluates the tests until one fails, is false, exceeds limit, or exhausts the budget or the
// account. It returns the cost of all of them.
func (t *Tests) Hold(ctx context.Context, a *Activation, limit, budget uint64) (cost uint64, ok bool) {
	return t.code.Hold(ctx, a, limit, budget)
}
