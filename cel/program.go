package cel

import (
	"context"
	"errors"

	"github.com/keelson-io/keelson/doc"
)

// This file defines Program, a compiled expression, and its evaluation.

// Program is a compiled expression. It is immutable and safe for concurrent
// use.
type Program struct{}

// MaxCost is the static estimate of the most that one evaluation costs.
func (p *Program) MaxCost() uint64 { panic("BUG: not built yet") }

// UsesOldSelf reports whether the expression mentions oldSelf.
func (p *Program) UsesOldSelf() bool { panic("BUG: not built yet") }

// String is a dump of the program.
func (p *Program) String() string { panic("BUG: not built yet") }

// Activation is the input of an evaluation and the memory it works in. The
// zero value is ready; reuse one for many evaluations. It is not safe for
// concurrent use.
type Activation struct {
	Self       doc.Value
	OldSelf    doc.Value
	HasOldSelf bool // false: oldSelf is missing, or optional.none() where it is optional
}

// ErrCostLimit is returned (wrapped) when an evaluation costs more than its limit.
var ErrCostLimit = errors.New("operation cancelled: actual cost limit exceeded")

// ErrInterrupted is returned (wrapped) when the context ends during an evaluation.
var ErrInterrupted = errors.New("operation interrupted")

// Eval evaluates the program. It returns the result, what the evaluation cost
// in upstream's units and the error that the expression evaluates to.
func (p *Program) Eval(ctx context.Context, a *Activation, limit uint64) (Value, uint64, error) {
	panic("BUG: not built yet")
}
