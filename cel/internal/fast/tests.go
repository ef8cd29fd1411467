package fast

import (
	"context"
	"math"

	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file evaluates the rules of one place together, for callers that only need to know whether
// all of them hold: self is bound once, and no result is built.

// Tests are expressions with a bool result over the same self. The zero value always holds. Tests
// do not change once they are in use.
type Tests struct {
	self     *val.Type
	slots    int
	loops    bool // there are loops, which check the context
	scans    bool // there are diagrams with loops
	list     []*Program
	Diagrams []Diagram // of the programs
	only     Diagram   // the only diagram, if Hold evaluates its questions itself; otherwise nil
}

// NewTests returns the tests of the programs, in their order.
func NewTests(programs []*Program) Tests {
	t := Tests{list: append(make([]*Program, 0, len(programs)), programs...), Diagrams: make([]Diagram, len(programs))}
	for i, p := range programs {
		if i > 0 && p.Self != t.self {
			panic("BUG: the rules of one place are of several types")
		}
		t.self, t.slots, t.loops = p.Self, max(t.slots, p.Slots), t.loops || p.Loops
		t.Diagrams[i] = p.Diagram
		t.scans = t.scans || p.Loops && p.Diagram != Ends[val.Bad]
	}
	if len(t.Diagrams) == 1 && t.Diagrams[0].Near {
		t.only = t.Diagrams[0]
	}
	return t
}

// Len returns the number of tests.
func (t *Tests) Len() int { return len(t.list) }

// Hold evaluates the tests until one fails, is false, exceeds limit, or exhausts the budget or the
// account. It returns the cost of all of them.
func (t *Tests) Hold(ctx context.Context, a *Activation, limit, budget uint64) (cost uint64, ok bool) {
	q := t.only
	if q == nil {
		q = Ends[val.Bad]
	}
	for q.Asked != askNothing { // calling a function for a near diagram would take as long as a question
		seen := &a.Self
		if q.Of != val.SlotSelf {
			if seen = &a.OldSelf; !a.HasOldSelf {
				break
			}
		}
		d, n, answer, more := seen.Doc, seen.Node, val.Bad, uint64(0)
		if q.Reach == reachSlot {
			if n.ShapeIndex() == 0 {
				break
			}
			n = d.Slot(n, int(q.Slot))
		}
		switch q.Asked {
		case AskPresent:
			answer = q.present(n)
		case AskOf:
			if n.ASCIIString() {
				answer, more = q.Leaf.One(d.Str(n), uint64(n.Len()))
			}
		case AskDuration:
			if n.ASCIIString() {
				i, units, ok := UsualDuration(d.Str(n), uint64(n.Len()))
				answer, more = q.related(i, ok), units
			}
		case AskSame:
			answer, more = q.unchanged(a, d, n)
		case AskAlike:
			answer, more = q.Leaf.same(a, d, n)
		case AskBoth, AskAround:
			answer, more = q.rest(a, d, n, 0)
		default:
			answer, more = q.plain(d, n)
		}
		if answer == val.Yes { // a branch is predicted; with an index the processor would wait for the answer
			cost, q = cost+more+uint64(q.Units[val.Yes]), q.Next[val.Yes]
		} else if answer == val.No {
			cost, q = cost+more+uint64(q.Units[val.No]), q.Next[val.No]
		} else {
			break
		}
	}
	if q.Asked == askNothing && q.answer != val.Bad && cost <= limit {
		return cost, q.answer == val.Yes && cost < budget
	}
	cost, answer := t.run(ctx, a, limit, budget)
	return cost, answer == val.Yes
}

// holdInFrame evaluates the tests from index held on, the first of them in a frame. The earlier
// ones hold, and their cost is cost. Without programs the answer is Bad.
func (t *Tests) holdInFrame(ctx context.Context, a *Activation, limit, budget uint64, held int, cost uint64) (uint64, val.Tri) {
	if len(t.list) == 0 {
		return 0, val.Bad
	}
	t.frame(ctx, a, limit)
	a.sum = 0
	for i, p := range t.list[held:] {
		units, answer := uint64(0), val.Bad
		if i > 0 {
			a.one.Diagrams = t.Diagrams[held+i:][:1]
			units, answer = a.one.run(ctx, a, limit, math.MaxUint64)
		}
		if answer == val.Bad {
			a.sum = 0
			answer, units = p.inFrame(a, limit)
			if (units >= MuchWork || a.fr.Work > MuchWork) && ctx.Err() != nil {
				return cost + units, val.No
			}
		}
		if cost += units; answer != val.Yes || cost >= budget || a.Overdrawn() {
			return cost, val.No
		}
	}
	return cost, val.Yes
}

// MuchWork is the number of uncounted steps of one expression after which the context is checked
// before the next one.
const MuchWork = 1 << 14

// inFrame evaluates the expression as a test in a prepared frame.
func (p *Program) inFrame(a *Activation, limit uint64) (answer val.Tri, units uint64) {
	fr := &a.fr
	if p.UsesOldSelf {
		p.bindOldSelf(a)
	}
	fr.Before += fr.Work
	fr.Cost, fr.Work, fr.Compared.Done = 0, 0, 0
	if p.Test != nil {
		answer = p.Test(fr)
	} else {
		answer = fr.Verdict(p.Value(fr))
	}
	if answer != val.Yes || fr.Cost > limit {
		fr.Fail = val.Value{}
		return val.No, fr.Cost
	}
	return val.Yes, fr.Cost
}

// frame prepares the frame for tests.
func (t *Tests) frame(ctx context.Context, a *Activation, limit uint64) {
	fr := &a.fr
	if len(fr.Slots) < t.slots {
		fr.Slots = make([]val.Value, t.slots+8)
	}
	fr.Limit, fr.Ticks, fr.Stop = min(limit, math.MaxUint64-1), val.CheckFrequency, false
	if fr.Looks = t.loops; t.loops {
		fr.Ctx, fr.Done = ctx, ctx.Done()
	}
	fr.Valid, fr.Kept = a.valid(), a.Kept
	val.Bind(&fr.Slots[val.SlotSelf], a.Self, t.self)
}

// HasDiagram reports whether the test, or a part of it, is compiled to a diagram.
func (p *Program) HasDiagram() bool { return p.Diagram != Ends[val.Bad] }

// IsNear reports whether Hold evaluates the questions of the only diagram itself.
func (t *Tests) IsNear() bool { return t.only != nil }

// Answered reports whether the diagrams of the tests know the outcome without a frame.
func (t *Tests) Answered(ctx context.Context, a *Activation) bool {
	a.fr.Limit, a.fr.Ticks, a.fr.Ctx = math.MaxUint64, val.CheckFrequency, ctx
	_, answer := (&Tests{Diagrams: t.Diagrams}).run(ctx, a, math.MaxUint64, math.MaxUint64)
	return answer != val.Bad
}
