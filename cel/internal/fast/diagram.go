package fast

import (
	"context"
	"unsafe"

	"github.com/keelson-io/keelson/cel/internal/val"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file runs tests that are laid out as decision diagrams. Most rules ask a
// few things about members of one object, or about one text: is it there, is it
// this text, does it match. Laid out, such a rule is a list of questions, each of
// which says for both answers what it costs and which question is next: no frame,
// no Values. A diagram either answers or knows nothing: what does not fit its type,
// texts that are not ASCII and whatever fails is evaluated again from the beginning
// the general way.

// Diagram is a test of self and oldSelf: its first question.
type Diagram = *Question

// asked is what a question is about.
type asked uint8

const (
	askNothing  asked = iota // an end: the answer is known
	AskPresent               // is the member there?
	AskTrue                  // is the member true?
	AskText                  // is the member this text?
	AskDuration              // how does the duration that the text is compare with this one?
	AskOf                    // what does a test of texts say of the member?
	AskSame                  // is the member the same text as one of oldSelf?
	AskBoth                  // what does a test of two texts say of the member and another one?
	AskAround                // what does a test of texts say of the member with constants around it?
	AskNumber                // how does the integer compare with this one?
	AskSize                  // how does the number of items or bytes compare with this integer?
	AskAlike                 // is the member the same as another one of its type?
	AskScan                  // what is the loop over the member?
	AskAdd                   // nothing: the integer, or the number of items or bytes, is added to the sum
	AskAddConst              // nothing: the constant is added to the sum
	AskSum                   // how does the sum compare with this integer? It is 0 from then on
)

// reach is how far it is to a member.
type reach uint8

const (
	reachSlot reach = iota // it has a slot
	ReachNone              // it is what is seen itself
	ReachFar               // it is inside of members
)

// Question is a step of a diagram.
type Question struct {
	Asked  asked
	Reach  reach
	answer val.Tri      // of an end
	Want   jsondoc.Kind // of the member
	Of     uint8        // SlotSelf, SlotOldSelf, or the view of the variable of a loop
	Rel    Relation
	Slot   uint16       // of the member, or itself
	And    uint16       // AskSame: the slot of the member of oldSelf, or itself
	Minus  bool         // what is added is taken away
	Near   bool         // of the first: Hold asks all questions itself
	Units  [2]uint16    // what no and yes cost
	Next   [2]*Question // after no and yes
	Via    *[]uint16    // the slots of the objects, and indexes of the lists, that lead to what has the member
	Konst  *val.Value   // what the member is compared with
	Leaf   *Leaf        // AskOf, AskAround, AskBoth, AskAlike, AskScan: the test
}

// Leaf is a test of one text, or of two and where the second is.
type Leaf struct {
	One    TextTest
	Around Around
	Two    PairTest
	Typ    *val.Type // AskAlike: of both
	Scan   *Scan

	Of   uint8
	Slot uint16
	Via  []uint16
}

const (
	Itself   = 1<<16 - 1 // the slot of a variable
	ListItem = 1 << 15   // added to an index of a list, in place of a slot
)

// Ends are the ends of diagrams by their answer. They never change. A diagram that
// is Ends[val.Bad] stands for a test that has no diagram.
var Ends = [...]*Question{val.No: {answer: val.No}, val.Yes: {answer: val.Yes}, val.Bad: {answer: val.Bad}}

// Relation is a set of outcomes of a comparison.
type Relation uint8

// The outcomes of a comparison.
const (
	RelLess Relation = 1 << iota
	RelEqual
	RelGreater
)

// Of reports whether i and j are related so.
func (r Relation) Of(i, j int64) bool {
	switch {
	case i < j:
		return r&RelLess != 0
	case i > j:
		return r&RelGreater != 0
	}
	return r&RelEqual != 0
}

// run runs diagrams until one is not true, costs more than limit, or leaves nothing of
// budget, and says what all of them cost. From the one on that does not know, or costs
// more, the tests run in a frame; if there are no programs for that, the answer is bad.
func (t *Tests) run(ctx context.Context, a *Activation, limit, budget uint64) (cost uint64, answer val.Tri) {
	if t.scans {
		a.fr.Limit, a.fr.Ticks, a.fr.Ctx = limit, val.CheckFrequency, ctx
	}
	for i, q := range t.Diagrams {
		units := uint64(0)
		for q.Asked != askNothing {
			seen := &a.Self
			if q.Of != val.SlotSelf {
				if seen = a.seen(q.Of); seen == nil {
					return t.holdInFrame(ctx, a, limit, budget, i, cost)
				}
			}
			n := seen.Node
			switch q.Reach {
			case reachSlot:
				if n.ShapeIndex() == 0 {
					return t.holdInFrame(ctx, a, limit, budget, i, cost)
				}
				n = seen.Doc.Slot(n, int(q.Slot))
			case ReachFar:
				var ok bool
				if n, ok = enter(seen, *q.Via, q.Slot); !ok {
					return t.holdInFrame(ctx, a, limit, budget, i, cost)
				}
			}
			answer = val.Bad
			switch q.Asked {
			case AskPresent:
				answer = q.present(n)
			case AskOf:
				if n.ASCIIString() {
					var more uint64
					answer, more = q.Leaf.One(seen.Doc.Str(n), uint64(n.Len()))
					units += more
				}
			case AskText:
				if n.ASCIIString() {
					units += q.compared(n)
					answer = val.Truth(q.same(seen.Doc, n))
				}
			case AskSame:
				var more uint64
				answer, more = q.unchanged(a, seen.Doc, n)
				units += more
			case AskTrue, AskNumber, AskDuration:
				var more uint64
				answer, more = q.plain(seen.Doc, n)
				units += more
			case AskSize, AskAdd, AskAddConst, AskSum:
				answer = q.tally(a, n)
			default:
				var more uint64
				answer, more = q.rest(a, seen.Doc, n, units)
				units += more
			}
			if answer == val.Yes { // a branch is predicted; an index would have to wait for the answer
				units, q = units+uint64(q.Units[val.Yes]), q.Next[val.Yes]
			} else if answer == val.No {
				units, q = units+uint64(q.Units[val.No]), q.Next[val.No]
			} else {
				return t.holdInFrame(ctx, a, limit, budget, i, cost)
			}
		}
		if q.answer == val.Bad || units > limit {
			return t.holdInFrame(ctx, a, limit, budget, i, cost)
		}
		if cost += units; q.answer != val.Yes || cost >= budget {
			return cost, val.No
		}
	}
	return cost, val.Yes
}

// IsFar reports whether the question is about something other than self, oldSelf and
// members of them, or about a sum.
func (q Question) IsFar() bool {
	switch q.Asked {
	case AskScan, AskSize, AskAdd, AskAddConst, AskSum:
		return true
	}
	return q.Of > val.SlotOldSelf || q.Reach == ReachFar
}

// seen is what is seen of a view; nil if there is nothing.
func (a *Activation) seen(view uint8) *jsondoc.Value {
	switch {
	case view >= val.FirstLocal:
		return &a.items[(view-val.FirstLocal)%maxItems]
	case view == val.SlotSelf:
		return &a.Self
	case a.HasOldSelf:
		return &a.OldSelf
	}
	return nil
}

// present is whether the member is there.
func (q *Question) present(n jsondoc.Node) val.Tri {
	switch kind := n.Kind(); {
	case kind == q.Want:
		return val.Yes
	case kind <= jsondoc.Null:
		return val.No
	}
	return val.Bad
}

// same is whether the member is the text that it is compared with.
func (q *Question) same(d *jsondoc.Doc, n jsondoc.Node) bool {
	k := q.Konst
	return uint64(n.Len()) == k.Bits && d.Str(n) == unsafe.String((*byte)(k.Ptr), n.Len())
}

// compared is what it costs to compare the member with a text.
func (q *Question) compared(n jsondoc.Node) uint64 {
	return val.Tenths[uint8(min(uint64(n.Len()), q.Konst.Bits))]
}

// related is how a number compares with the constant; bad if it is not known.
func (q *Question) related(i int64, ok bool) val.Tri {
	if !ok {
		return val.Bad
	}
	return val.Truth(q.Rel.Of(i, int64(q.Konst.Bits)))
}

// plain asks a question that is about the member n alone.
func (q *Question) plain(d *jsondoc.Doc, n jsondoc.Node) (answer val.Tri, units uint64) {
	switch q.Asked {
	case AskPresent:
		return q.present(n), 0
	case AskTrue:
		if n.Kind() == jsondoc.Bool {
			return val.Truth(n.Bool()), 0
		}
	case AskText:
		if n.ASCIIString() {
			return val.Truth(q.same(d, n)), q.compared(n)
		}
	case AskOf:
		if n.ASCIIString() {
			return q.Leaf.One(d.Str(n), uint64(n.Len()))
		}
	case AskDuration:
		if n.ASCIIString() {
			i, units, ok := UsualDuration(d.Str(n), uint64(n.Len()))
			return q.related(i, ok), units
		}
	case AskNumber:
		if n.Kind() == jsondoc.Int {
			return val.Truth(q.Rel.Of(n.Int(), int64(q.Konst.Bits))), 0
		}
	}
	return val.Bad, 0
}

// unchanged is whether the member is the same text as one of oldSelf.
func (q *Question) unchanged(a *Activation, d *jsondoc.Doc, n jsondoc.Node) (val.Tri, uint64) {
	old, m := a.OldSelf.Doc, a.OldSelf.Node
	switch {
	case !a.HasOldSelf:
		return val.Bad, 0
	case q.And == Itself:
	case m.ShapeIndex() == 0:
		return val.Bad, 0
	default:
		m = old.Slot(m, int(q.And))
	}
	if !n.ASCIIString() || !m.ASCIIString() {
		return val.Bad, 0
	}
	return val.Truth(jsondoc.SameText(d, n, old, m)), val.Tenth(uint64(min(n.Len(), m.Len())))
}

// rest asks the questions that are asked less often, of the member n; cost is what was
// spent before.
func (q *Question) rest(a *Activation, d *jsondoc.Doc, n jsondoc.Node, cost uint64) (val.Tri, uint64) {
	switch q.Asked {
	case AskAlike:
		return q.Leaf.same(a, d, n)
	case AskBoth:
		return q.Leaf.both(d, n, a)
	case AskAround:
		if n.ASCIIString() {
			return q.Leaf.put(&a.fr, d.Str(n))
		}
	case AskScan:
		return a.scan(q, d, n, cost)
	}
	return val.Bad, 0
}

// tally asks about sizes and sums.
func (q *Question) tally(a *Activation, n jsondoc.Node) val.Tri {
	switch q.Asked {
	case AskAddConst:
		return a.add(q, int64(q.Konst.Bits))
	case AskSum:
		answer := val.Truth(q.Rel.Of(a.sum, int64(q.Konst.Bits)))
		a.sum = 0
		return answer
	}
	size, ok := q.size(n)
	switch {
	case !ok:
		return val.Bad
	case q.Asked == AskAdd:
		return a.add(q, size)
	}
	return val.Truth(q.Rel.Of(size, int64(q.Konst.Bits)))
}

// size is a number, or how many items or bytes there are; false if n is not what is wanted.
func (q *Question) size(n jsondoc.Node) (int64, bool) {
	switch {
	case n.Kind() != q.Want || n.ShapeIndex() != 0 || n.Kind() == jsondoc.String && !n.ASCII():
		return 0, false
	case n.Kind() == jsondoc.Int:
		return n.Int(), true
	}
	return int64(n.Len()), true
}

// enter is a member that is found by the slots and indexes that lead to what has it;
// false if there is none.
func enter(in *jsondoc.Value, via []uint16, slot uint16) (n jsondoc.Node, ok bool) {
	n = in.Node
	for i := 0; ; i++ {
		at := slot
		if i < len(via) {
			at = via[i]
		}
		switch {
		case at&ListItem == 0 && n.ShapeIndex() != 0:
			n = in.Doc.Slot(n, int(at))
		case at&ListItem != 0 && n.Kind() == jsondoc.Array && int(at&^ListItem) < n.Len():
			n = in.Doc.Item(n, int(at&^ListItem))
		default:
			return n, false
		}
		if i == len(via) {
			return n, true
		}
	}
}

// other is the member that one is compared with; false if there is none.
func (l *Leaf) other(a *Activation) (jsondoc.Node, *jsondoc.Doc, bool) {
	in := a.seen(l.Of)
	switch {
	case in == nil:
		return jsondoc.Node{}, nil, false
	case l.Slot == Itself:
		return in.Node, in.Doc, true
	}
	n, ok := enter(in, l.Via, l.Slot)
	return n, in.Doc, ok
}

// same compares the member n with another one of its type.
func (l *Leaf) same(a *Activation, d *jsondoc.Doc, n jsondoc.Node) (val.Tri, uint64) {
	in := a.seen(l.Of)
	if in == nil {
		return val.Bad, 0
	}
	m, other := in.Node, in.Doc
	if a.Kept && l.Slot == Itself && n == m && l.Typ.Lasts && n.Kind() == jsondoc.Object {
		return val.Yes, val.Tenth(uint64(val.FewMembers(d, n)))
	}
	if l.Slot != Itself {
		var ok bool
		if m, ok = enter(in, l.Via, l.Slot); !ok {
			return val.Bad, 0
		}
	}
	return l.alike(d, n, other, m, a.knows(d, other))
}

// alike compares two members of one type.
func (l *Leaf) alike(a *jsondoc.Doc, n jsondoc.Node, b *jsondoc.Doc, m jsondoc.Node, known val.Knowledge) (val.Tri, uint64) {
	kind := val.JSONKind[l.Typ.Kind]
	switch {
	case n.Kind() != kind || m.Kind() != kind:
	case kind == jsondoc.Int:
		return val.Truth(n.Int() == m.Int()), 1
	case kind == jsondoc.Bool:
		return val.Truth(n.Bool() == m.Bool()), 1
	case kind == jsondoc.String:
		return sameText(a, n, b, m)
	default:
		same, size := val.Sides{A: a, B: b, Known: known}.Sized(n, m, l.Typ)
		return same, val.Tenth(uint64(size))
	}
	return val.Bad, 0
}

// both says what the test of two texts does of a member and the other one.
func (l *Leaf) both(d *jsondoc.Doc, n jsondoc.Node, a *Activation) (val.Tri, uint64) {
	m, other, ok := l.other(a)
	if !ok || !n.ASCIIString() || !m.ASCIIString() {
		return val.Bad, 0
	}
	return l.Two(d.Str(n), uint64(n.Len()), other.Str(m), uint64(m.Len()))
}

// sameText compares two texts.
func sameText(a *jsondoc.Doc, n jsondoc.Node, b *jsondoc.Doc, m jsondoc.Node) (val.Tri, uint64) {
	if !n.ASCIIString() || !m.ASCIIString() {
		return val.Bad, 0
	}
	return val.Truth(jsondoc.SameText(a, n, b, m)), val.Tenth(uint64(min(n.Len(), m.Len())))
}

// put says what the test does of an ASCII text with constants around it.
func (l *Leaf) put(fr *val.Frame, s string) (val.Tri, uint64) {
	s, ok := l.Around.put(fr, s)
	if !ok {
		return val.Bad, 0
	}
	runes := uint64(len(s))
	answer, units := l.One(s, runes)
	return answer, units + val.Tenth(runes)
}
