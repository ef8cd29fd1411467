package cel

import (
	"context"

	"github.com/keelson-io/keelson/cel/internal/eval"
	"github.com/keelson-io/keelson/cel/internal/fast"
	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file adds up, over several evaluations, the work that no price pays for: what bounds it in one evaluation bounds
// nothing where there are ten thousand.

// Account adds up the work of evaluations that their cost does not pay for, such as reading a long text for a unit. The
// zero value is ready. It belongs to one goroutine.
type Account struct{ work int }

// Overdrawn reports whether the evaluations did more such work than four may that each do all they may.
func (a *Account) Overdrawn() bool { return a.work > fast.Accounted*val.MaxWork }

// EvalOn is [Expression.Eval] with an account. Where that is overdrawn, already or by this evaluation, the error is
// [ErrCostLimit]. Without an account (nil) each evaluation stands alone.
func (x *Expression) EvalOn(ctx context.Context, vars Vars, limit uint64, a *Account) (Value, uint64, error) {
	switch {
	case a == nil:
		return x.Eval(ctx, vars, limit)
	case a.Overdrawn():
		return Value{}, 0, ErrCostLimit
	case a.work > fast.MuchWork && ctx.Err() != nil:
		return val.Interruption(ctx, 0, 0)
	}
	fr := x.frame()
	v, cost, err := eval.RunIn(ctx, fr, x.value, x.slots, limit, x.inputs, vars)
	a.work += fr.Work
	x.frames.Put(fr)
	if a.Overdrawn() {
		return Value{}, cost, ErrCostLimit
	}
	return v, cost, err
}
