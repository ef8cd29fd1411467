package fast

import (
	"context"
	"unsafe"

	"github.com/keelson-io/keelson/cel/internal/val"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file runs tests that are compiled to decision diagrams. Most rules ask a few questions about
// members of one object, or about one text: is it present, does it equal this text, does it match.
// Such a rule becomes a list of questions, each of which has, for both answers, its cost and the
// next question. This needs no frame and no Values. A diagram either answers, or it does not know:
// for a value that does not fit its type, a text that is not ASCII, and any error, the rule is
// evaluated again in a frame.

// Diagram is a test of self and oldSelf: its first question.
type Diagram = *Question

// asked is the kind of a question.
type asked uint8

const (
	askNothing  asked = iota // the end: the answer is known
	AskPresent               // is the member present?
	AskTrue                  // is the member true?
	AskText                  // does the member equal this text?
	AskDuration              // how does the duration that the text denotes compare with this one?
	AskOf                    // what is the result of a test of texts for the member?
	AskSame                  // does the member equal a text of oldSelf?
	AskBoth                  // what is the result of a test of two texts for the member and another one?
	AskAround                // what is the result of a test of texts for the member with constants around it?
	AskNumber                // how does the integer compare with this one?
	AskSize                  // how does the number of items or bytes compare with this integer?
	AskAlike                 // does the member equal another one of its type?
	AskScan                  // what is the result of a loop over the member?
	AskAdd                   // no question: the integer, or the number of items or bytes, is added to the sum
	AskAddConst              // no question: the constant is added to the sum
	AskSum                   // how does the sum compare with this integer? The sum is 0 afterwards
)

// reach says how a member is found.
type reach uint8

const ( // in a slot of the value
	reachSlot reach = iota // it is the value itself
	ReachNone              // through other members
	ReachFar               // it is inside of members
)

// Question is a step of a diagram.
type Question struct {
	Asked  asked
	Reach  reach
	answer val.Tri      // if this is an end
	Want   jsondoc.Kind // of the member
	Of     uint8        // SlotSelf, SlotOldSelf, or the variable of a loop
	Rel    Relation
	Slot   uint16       // of the member, or Itself
	And    uint16       // AskSame: the slot of the member of oldSelf, or Itself
	Minus  bool         // the value is subtracted instead of added
	Near   bool         // only in the first question: Hold evaluates all questions itself
	Units  [2]uint16    // the cost of the answers no and yes
	Next   [2]*Question // after the answers no and yes
	Via    *[]uint16    // the slots and list indexes on the way to the object that has the member
	Konst  *val.Value   // the constant with which the member is compared
	Leaf   *Leaf        // AskOf, AskAround, AskBoth, AskAlike, AskScan: the test
}

// Leaf is a test of one text, or of two texts with the position of the second.
type Leaf struct {
	One    TextTest
	Around Around
	Two    PairTest
	Typ    *val.Type // AskAlike: the type of both
	Scan   *Scan

	Of   uint8
	Slot uint16
	Via  []uint16
}

const (
	Itself   = 1<<16 - 1 // instead of a slot: the variable itself
	ListItem = 1 << 15   // added to an index of a list, where an index stands for a slot
)

// Ends has the ends of diagrams by their answer. They never change. Ends[val.Bad] is the diagram of
// a test that has none.
var Ends = [...]*Question{val.No: {answer: val.No}, val.Yes: {answer: val.Yes}, val.Bad: {answer: val.Bad}}

// Relation is a set of results of a comparison.
type Relation uint8

// The results of a comparison.
const (
	RelLess Relation = 1 << iota
	RelEqual
	RelGreater
)

// Of reports whether the relation of i and j is in r.
func (r Relation) Of(i, j int64) bool {
	switch {
	case i < j:
		return r&RelLess != 0
	case i > j:
		return r&RelGreater != 0
	}
	return r&RelEqual != 0
}

// run evaluates diagrams until one is not true, costs more than limit, or exhausts the budget, and
// returns the cost of all. If one does not know or costs more than limit, it and the following ones
// are evaluated in a frame. Without programs for that, the answer is Bad.
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
			if answer == val.Yes { // a branch is predicted; with an index the processor would wait for the answer
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

// IsFar reports whether the question is about something other than self, oldSelf and their members,
// or about a sum.
func (q Question) IsFar() bool {
	switch q.Asked {
	case AskScan, AskSize, AskAdd, AskAddConst, AskSum:
		return true
	}
	return q.Of > val.SlotOldSelf || q.Reach == ReachFar
}

// seen returns the value of a variable, nil if it has none.
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

// present answers whether the member is present.
func (q *Question) present(n jsondoc.Node) val.Tri {
	switch kind := n.Kind(); {
	case kind == q.Want:
		return val.Yes
	case kind <= jsondoc.Null:
		return val.No
	}
	return val.Bad
}

// same reports whether the member equals the constant text.
func (q *Question) same(d *jsondoc.Doc, n jsondoc.Node) bool {
	k := q.Konst
	return uint64(n.Len()) == k.Bits && d.Str(n) == unsafe.String((*byte)(k.Ptr), n.Len())
}

// compared returns the cost of comparing the member with a text.
func (q *Question) compared(n jsondoc.Node) uint64 {
	return val.Tenths[uint8(min(uint64(n.Len()), q.Konst.Bits))]
}

// related returns the answer for a number that is compared with the constant, Bad if it is not
// known.
func (q *Question) related(i int64, ok bool) val.Tri {
	if !ok {
		return val.Bad
	}
	return val.Truth(q.Rel.Of(i, int64(q.Konst.Bits)))
}

// plain answers a question about the member n alone.
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

// unchanged answers whether the member equals a text of oldSelf.
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

// rest answers the less frequent questions about the member n. cost is the cost so far.
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

// tally answers questions about sizes and sums.
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

// size returns an integer, or the number of items or bytes. It returns false if n has another type.
func (q *Question) size(n jsondoc.Node) (int64, bool) {
	switch {
	case n.Kind() != q.Want || n.ShapeIndex() != 0 || n.Kind() == jsondoc.String && !n.ASCII():
		return 0, false
	case n.Kind() == jsondoc.Int:
		return n.Int(), true
	}
	return int64(n.Len()), true
}

// enter follows slots and indexes to a member. It returns false if a step is missing.
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

// other returns the member with which another one is compared. It returns false if there is none.
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

// both returns the result of a test of two texts for the member and the other one.
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

// put returns the result of the test for an ASCII text with constants around it.
func (l *Leaf) put(fr *val.Frame, s string) (val.Tri, uint64) {
	s, ok := l.Around.put(fr, s)
	if !ok {
		return val.Bad, 0
	}
	runes := uint64(len(s))
	answer, units := l.One(s, runes)
	return answer, units + val.Tenth(runes)
}
