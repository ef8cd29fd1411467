package cel

import (
	"context"

	"github.com/keelson-io/keelson/cel/internal/eval"
	"github.com/keelson-io/keelson/cel/internal/fast"
	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file bounds, over several evaluations, the work that cost units do not cover. A bound for
// each evaluation is not enough for a request that makes ten thousand of them.

// Account sums up the steps of evaluations that cost units do not cover, such as comparing a long
// text for one unit. The zero value is ready. An Account belongs to one goroutine.
type Account struct{ work int }

// Overdrawn reports whether the evaluations took more steps than four evaluations may take.
func (a *Account) Overdrawn() bool { return a.work > fast.Accounted*val.MaxWork }

// EvalOn is [Expression.Eval] with an account. If the account is overdrawn, before or by this
// evaluation, the error is [ErrCostLimit]. If a is nil, only the bound for one evaluation holds.
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
