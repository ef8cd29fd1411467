package cel

import (
	"context"
	"fmt"

	"github.com/keelson-io/keelson/cel/internal/fast"
)

// This file defines Program and Tests, compiled rules.

// Program is a compiled expression over self. It is immutable and safe for
// concurrent use.
type Program struct {
	source  string
	code    *fast.Program
	maxCost uint64
	want    ResultKind
}

// Eval evaluates the program. It returns the result, what the evaluation cost
// in upstream's units, and the error that the expression evaluates to or that
// ended the evaluation. An unknown result is no error.
func (p *Program) Eval(ctx context.Context, a *Activation, limit uint64) (Value, uint64, error) {
	return p.code.Eval(ctx, a, limit)
}

// MaxCost is the static estimate of the most that one evaluation costs.
func (p *Program) MaxCost() uint64 { return p.maxCost }

// PatternSize is how large the constant patterns of the expression are, in instructions
// of the machines that they may be compiled to, of which each takes some 50 bytes.
func (p *Program) PatternSize() int { return p.code.Patterns }

// UsesOldSelf reports whether the expression mentions oldSelf.
func (p *Program) UsesOldSelf() bool { return p.code.UsesOldSelf }

// OptionalOldSelf reports whether oldSelf is an optional value.
func (p *Program) OptionalOldSelf() bool { return p.code.Optional }

// Source is the text that the program was compiled from.
func (p *Program) Source() string { return p.source }

// String describes the program: its text and figures.
func (p *Program) String() string {
	return fmt.Sprintf("%s ; estimate %d, slots %d, oldSelf %t", p.source, p.maxCost, p.code.Slots, p.code.UsesOldSelf)
}

// Tests are expressions with a bool result over the same self. The zero value
// holds. It is immutable once it is in use.
type Tests struct{ code fast.Tests }

// NewTests returns the tests that the programs are, in their order.
func NewTests(programs []*Program) Tests {
	list := make([]*fast.Program, len(programs))
	for i, p := range programs {
		list[i] = p.code
	}
	return Tests{fast.NewTests(list)}
}

// Len is the number of tests.
func (t *Tests) Len() int { return t.code.Len() }

// Hold evaluates the tests until one does not hold, fails, exceeds limit, or
// leaves nothing of budget or of the account. It returns what all of them cost.
func (t *Tests) Hold(ctx context.Context, a *Activation, limit, budget uint64) (cost uint64, ok bool) {
	return t.code.Hold(ctx, a, limit, budget)
}
