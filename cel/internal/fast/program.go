package fast

import (
	"context"
	"math"

	"github.com/keelson-io/keelson/cel/internal/val"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file evaluates one program.

// Program is a compiled expression over self.
type Program struct {
	Value       val.EvalFn
	Test        val.TestFn // nil if the result is not a bool
	Diagram     Diagram    // the test as a diagram, as far as it has one
	Slots       int        // number of variables of the frame
	Patterns    int        // size of the constant patterns, in instructions
	UsesOldSelf bool
	Optional    bool // oldSelf is an optional value
	Loops       bool // there are loops, which check the context
	Self        *val.Type
}

// Eval evaluates the program. It returns the result, its cost in upstream's units, and the error:
// the result of the expression, or the reason why the evaluation ended. An unknown result is not an
// error.
func (p *Program) Eval(ctx context.Context, a *Activation, limit uint64) (val.Value, uint64, error) {
	fr := &a.fr
	if len(fr.Slots) < p.Slots {
		fr.Slots = make([]val.Value, p.Slots+8)
	}
	fr.Before += fr.Work
	fr.Cost, fr.Limit, fr.Ticks, fr.Work, fr.Stop, fr.Valid, fr.Kept = 0, min(limit, math.MaxUint64-1), val.CheckFrequency, 0, false, a.valid(), a.Kept
	if fr.Looks = p.Loops; p.Loops {
		fr.Ctx, fr.Done, fr.Compared.Done = ctx, ctx.Done(), 0
	}
	p.bindSelf(fr, a.Self)
	if p.UsesOldSelf {
		p.bindOldSelf(a)
	}
	var v val.Value
	if p.Test != nil {
		t := p.Test(fr)
		if t != val.Bad && fr.Cost <= limit {
			return val.Value{K: val.KindBool, Bits: uint64(t)}, fr.Cost, nil
		}
		v = fr.Outcome(t)
	} else {
		v = p.Value(fr)
	}
	cost := fr.Cost
	fr.Fail = val.Value{}
	switch {
	case cost > limit:
		return val.Value{}, cost, val.ErrCostLimit
	case v.K == val.KindError:
		if v.Flag == val.CodeInterrupted {
			return val.Interruption(ctx, cost, fr.Limit)
		}
		return val.Value{}, cost, v.Err()
	}
	return v, cost, nil
}

// EvalRecorded is Eval for an instrumented program, which records into rec.
func (p *Program) EvalRecorded(ctx context.Context, a *Activation, limit uint64, rec *val.Recording) (val.Value, uint64, error) {
	a.fr.Rec = rec
	defer func() { a.fr.Rec = nil }()
	return p.Eval(ctx, a, limit)
}

// bindSelf sets the variable self.
func (p *Program) bindSelf(fr *val.Frame, self jsondoc.Value) {
	val.Bind(&fr.Slots[val.SlotSelf], self, p.Self)
}

// bindOldSelf sets the variable oldSelf.
func (p *Program) bindOldSelf(a *Activation) {
	slot := &a.fr.Slots[val.SlotOldSelf]
	switch {
	case !a.HasOldSelf && p.Optional && !a.PlainOldSelf:
		*slot = val.OptionalNone
	case !a.HasOldSelf:
		*slot = val.ErrorValue(val.CodeNoOldSelf)
	case p.Optional && !a.PlainOldSelf:
		a.old = val.LoadVariable(a.OldSelf, p.Self)
		*slot = val.OptionalPointer(&a.old)
	default:
		val.Bind(slot, a.OldSelf, p.Self)
	}
}
