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
	self     *Type
	slots    int
	loops    bool // the context is looked at
	scans    bool // there are diagrams with loops
	list     []*Program
	diagrams []diagram // of the programs
	only     diagram   // that they are, whose questions are near; nil if there are more
}

// NewTests returns the tests that the programs are, in their order.
func NewTests(programs []*Program) Tests {
	t := Tests{list: append(make([]*Program, 0, len(programs)), programs...), diagrams: make([]diagram, len(programs))}
	for i, p := range programs {
		if i > 0 && p.self != t.self {
			panic("BUG: the rules of one place are of several types")
		}
		t.self, t.slots, t.loops = p.self, max(t.slots, p.slots), t.loops || p.loops
		t.diagrams[i] = p.diagram
		t.scans = t.scans || p.loops && p.diagram != &ends[bad]
	}
	if len(t.diagrams) == 1 && t.diagrams[0].near {
		t.only = t.diagrams[0]
	}
	return t
}

// Len is the number of tests.
func (t *Tests) Len() int { return len(t.list) }

// Hold evaluates the tests until one does not hold, fails, exceeds limit, or
// leaves nothing of budget or of the account. It returns what all of them cost.
func (t *Tests) Hold(ctx context.Context, a *Activation, limit, budget uint64) (cost uint64, ok bool) {
	q := t.only
	if q == nil {
		q = &ends[bad]
	}
	for q.asked != askNothing { // a call for that would take as long as a question
		seen := &a.Self
		if q.of != slotSelf {
			if seen = &a.OldSelf; !a.HasOldSelf {
				break
			}
		}
		d, n, answer, more := seen.Doc, seen.Node, bad, uint64(0)
		if q.reach == reachSlot {
			if n.ShapeIndex() == 0 {
				break
			}
			n = d.Slot(n, int(q.slot))
		}
		switch q.asked {
		case askPresent:
			answer = q.present(n)
		case askOf:
			if n.ASCIIString() {
				answer, more = q.leaf.one(d.Str(n), uint64(n.Len()))
			}
		case askDuration:
			if n.ASCIIString() {
				i, units, ok := usualDuration(d.Str(n), uint64(n.Len()))
				answer, more = q.related(i, ok), units
			}
		case askSame:
			answer, more = q.unchanged(a, d, n)
		case askAlike:
			answer, more = q.leaf.same(a, d, n)
		case askBoth, askAround:
			answer, more = q.rest(a, d, n, 0)
		default:
			answer, more = q.plain(d, n)
		}
		if answer == yes { // a branch is predicted; an index would have to wait for the answer
			cost, q = cost+more+uint64(q.units[yes]), q.next[yes]
		} else if answer == no {
			cost, q = cost+more+uint64(q.units[no]), q.next[no]
		} else {
			break
		}
	}
	if q.asked == askNothing && q.answer != bad && cost <= limit {
		return cost, q.answer == yes && cost < budget
	}
	cost, answer := t.run(ctx, a, limit, budget)
	return cost, answer == yes
}

// holdInFrame is Hold where the first tests are known to hold and what they cost, and the
// next one needs a frame. Without programs, it is not known.
func (t *Tests) holdInFrame(ctx context.Context, a *Activation, limit, budget uint64, held int, cost uint64) (uint64, tri) {
	if len(t.list) == 0 {
		return 0, bad
	}
	t.frame(ctx, a, limit)
	a.sum = 0
	for i, p := range t.list[held:] {
		units, answer := uint64(0), bad
		if i > 0 {
			one := Tests{diagrams: t.diagrams[held+i:][:1]}
			units, answer = one.run(ctx, a, limit, math.MaxUint64)
		}
		if answer == bad {
			a.sum = 0
			answer, units = p.inFrame(a, limit)
			if (units >= muchWork || a.fr.work > muchWork) && ctx.Err() != nil {
				return cost + units, no
			}
		}
		if cost += units; answer != yes || cost >= budget || a.Overdrawn() {
			return cost, no
		}
	}
	return cost, yes
}

// muchWork is how much one expression does before the context is asked whether
// there is to be another.
const muchWork = 1 << 14

// inFrame evaluates the expression as a test in a frame that is prepared.
func (p *Program) inFrame(a *Activation, limit uint64) (answer tri, units uint64) {
	fr := &a.fr
	if p.usesOldSelf {
		p.bindOldSelf(a)
	}
	fr.before += fr.work
	fr.cost, fr.work, fr.compared.done = 0, 0, 0
	if p.test != nil {
		answer = p.test(fr)
	} else {
		answer = fr.verdict(p.value(fr))
	}
	if answer != yes || fr.cost > limit {
		fr.fail = Value{}
		return no, fr.cost
	}
	return yes, fr.cost
}

// frame prepares the frame for tests that need one.
func (t *Tests) frame(ctx context.Context, a *Activation, limit uint64) {
	fr := &a.fr
	if len(fr.slots) < t.slots {
		fr.slots = make([]Value, t.slots+8)
	}
	fr.limit, fr.ticks, fr.stop = min(limit, math.MaxUint64-1), checkFrequency, false
	if fr.looks = t.loops; t.loops {
		fr.ctx, fr.done = ctx, ctx.Done()
	}
	fr.valid, fr.kept = a.valid(), a.Kept
	bind(&fr.slots[slotSelf], a.Self, t.self)
}
