package cel

import "context"

// This file adds up, over several evaluations, the work that no price pays for: what bounds it in one evaluation bounds
// nothing where there are ten thousand.

// accounted is how many evaluations may together do as much work as one may.
const accounted = 4

// Account adds up the work of evaluations that their cost does not pay for, such as reading a long text for a unit. The
// zero value is ready. It belongs to one goroutine.
type Account struct{ work int }

// Overdrawn reports whether the evaluations did more such work than four may that each do all they may.
func (a *Account) Overdrawn() bool { return a.work > accounted*maxWork }

// EvalOn is [Expression.Eval] with an account. Where that is overdrawn, already or by this evaluation, the error is
// [ErrCostLimit]. Without an account (nil) each evaluation stands alone.
func (x *Expression) EvalOn(ctx context.Context, vars Vars, limit uint64, a *Account) (Value, uint64, error) {
	switch {
	case a == nil:
		return x.Eval(ctx, vars, limit)
	case a.Overdrawn():
		return Value{}, 0, ErrCostLimit
	case a.work > muchWork && ctx.Err() != nil:
		return interruption(ctx, 0, 0)
	}
	fr := x.frame()
	v, cost, err := fr.run(ctx, x.value, x.slots, limit, x.inputs, vars)
	a.work += fr.work
	x.frames.Put(fr)
	if a.Overdrawn() {
		return Value{}, cost, ErrCostLimit
	}
	return v, cost, err
}

// Settle begins a new account of the work of this activation.
func (a *Activation) Settle() { a.fr.before, a.fr.work = 0, 0 }

// Overdrawn reports whether the evaluations since Settle overdrew their account ([Account]).
func (a *Activation) Overdrawn() bool {
	account := Account{a.fr.before + a.fr.work}
	return account.Overdrawn()
}
