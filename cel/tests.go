package cel

import (
	"context"
	"math"
)

// This file evaluates the rules of one place together, for whoever asks only
// whether all of them hold: self is bound once, and no result is made.

// Tests are expressions with a bool result over the same self. The zero value
// holds. It is immutable once it is in use.
type Tests struct {
	self  *Type
	slots int
	loops bool // the context is looked at
	list  []test
}

// test is one expression. program is there only if oldSelf has to be bound for
// it, which is done differently for different programs.
type test struct {
	holds   testFn
	program *Program
}

// NewTests returns the tests that the programs are, in their order.
func NewTests(programs []*Program) Tests {
	t := Tests{list: make([]test, len(programs))}
	for i, p := range programs {
		if i > 0 && p.self != t.self {
			panic("BUG: the rules of one place are of several types")
		}
		t.self, t.slots, t.loops = p.self, max(t.slots, p.slots), t.loops || p.loops
		t.list[i].holds = p.test
		if p.test == nil {
			value := p.value
			t.list[i].holds = func(fr *frame) tri { return fr.verdict(value(fr)) }
		}
		if p.usesOldSelf {
			t.list[i].program = p
		}
	}
	return t
}

// Len is the number of tests.
func (t *Tests) Len() int { return len(t.list) }

// Hold evaluates the tests until one does not hold, fails, exceeds limit, or
// leaves nothing of budget. It returns what all of them cost.
func (t *Tests) Hold(ctx context.Context, a *Activation, limit, budget uint64) (cost uint64, ok bool) {
	if len(t.list) == 0 {
		return 0, true
	}
	fr := &a.fr
	if len(fr.slots) < t.slots {
		fr.slots = make([]Value, t.slots+8)
	}
	fr.limit, fr.ticks, fr.stop = min(limit, math.MaxUint64-1), checkFrequency, false
	if fr.looks = t.loops; t.loops {
		fr.ctx, fr.done = ctx, ctx.Done()
	}
	bind(&fr.slots[slotSelf], a.Self, t.self)
	for i := range t.list {
		test := &t.list[i]
		if test.program != nil {
			test.program.bindOldSelf(a)
		}
		fr.cost, fr.work, fr.compared.done = 0, 0, 0
		if test.holds(fr) != yes || fr.cost > limit {
			fr.fail = Value{}
			return cost + fr.cost, false
		}
		if cost += fr.cost; cost >= budget {
			return cost, false
		}
	}
	return cost, true
}
