package cel

import (
	"context"
	"unsafe"

	"github.com/keelson-io/keelson/doc"
)

// This file runs tests that are laid out as decision diagrams. Most rules ask a
// few things about members of one object, or about one text: is it there, is it
// this text, does it match. Laid out, such a rule is a list of questions, each of
// which says for both answers what it costs and which question is next: no frame,
// no Values. A diagram either answers or knows nothing: what does not fit its type,
// texts that are not ASCII and whatever fails is evaluated again from the beginning
// the general way.

// diagram is a test of self and oldSelf: its first question.
type diagram = *question

// asked is what a question is about.
type asked uint8

const (
	askNothing  asked = iota // an end: the answer is known
	askPresent               // is the member there?
	askTrue                  // is the member true?
	askText                  // is the member this text?
	askDuration              // how does the duration that the text is compare with this one?
	askOf                    // what does a test of texts say of the member?
	askSame                  // is the member the same text as one of oldSelf?
	askBoth                  // what does a test of two texts say of the member and another one?
	askAround                // what does a test of texts say of the member with constants around it?
	askNumber                // how does the integer compare with this one?
	askSize                  // how does the number of items or bytes compare with this integer?
	askAlike                 // is the member the same as another one of its type?
	askScan                  // what is the loop over the member?
	askAdd                   // nothing: the integer, or the number of items or bytes, is added to the sum
	askAddConst              // nothing: the constant is added to the sum
	askSum                   // how does the sum compare with this integer? It is 0 from then on
)

// reach is how far it is to a member.
type reach uint8

const (
	reachSlot reach = iota // it has a slot
	reachNone              // it is what is seen itself
	reachFar               // it is inside of members
)

// question is a step of a diagram.
type question struct {
	asked  asked
	reach  reach
	answer tri      // of an end
	want   doc.Kind // of the member
	of     uint8    // slotSelf, slotOldSelf, or the view of the variable of a loop
	rel    relation
	slot   uint16       // of the member, or itself
	and    uint16       // askSame: the slot of the member of oldSelf, or itself
	minus  bool         // what is added is taken away
	near   bool         // of the first: Hold asks all questions itself
	units  [2]uint16    // what no and yes cost
	next   [2]*question // after no and yes
	via    *[]uint16    // the slots of the objects, and indexes of the lists, that lead to what has the member
	konst  *Value       // what the member is compared with
	leaf   *leaf        // askOf, askAround, askBoth, askAlike, askScan: the test
}

// leaf is a test of one text, or of two and where the second is.
type leaf struct {
	one    textTest
	around around
	two    pairTest
	typ    *Type // askAlike: of both
	scan   *scan

	of   uint8
	slot uint16
	via  []uint16
}

const (
	itself   = 1<<16 - 1 // the slot of a variable
	listItem = 1 << 15   // added to an index of a list, in place of a slot
)

// ends are the ends of diagrams by their answer. One that is bad at once stands for a
// test that has no diagram.
var ends = [...]question{no: {answer: no}, yes: {answer: yes}, bad: {answer: bad}}

// relation is a set of outcomes of a comparison.
type relation uint8

const (
	relLess relation = 1 << iota
	relEqual
	relGreater
)

// of reports whether i and j are related so.
func (r relation) of(i, j int64) bool {
	switch {
	case i < j:
		return r&relLess != 0
	case i > j:
		return r&relGreater != 0
	}
	return r&relEqual != 0
}

// run runs diagrams until one is not true, costs more than limit, or leaves nothing of
// budget, and says what all of them cost. From the one on that does not know, or costs
// more, the tests run in a frame; if there are no programs for that, the answer is bad.
func (t *Tests) run(ctx context.Context, a *Activation, limit, budget uint64) (cost uint64, answer tri) {
	if t.scans {
		a.fr.limit, a.fr.ticks, a.fr.ctx = limit, checkFrequency, ctx
	}
	for i, q := range t.diagrams {
		units := uint64(0)
		for q.asked != askNothing {
			seen := &a.Self
			if q.of != slotSelf {
				if seen = a.seen(q.of); seen == nil {
					return t.holdInFrame(ctx, a, limit, budget, i, cost)
				}
			}
			n := seen.Node
			switch q.reach {
			case reachSlot:
				if n.ShapeIndex() == 0 {
					return t.holdInFrame(ctx, a, limit, budget, i, cost)
				}
				n = seen.Doc.Slot(n, int(q.slot))
			case reachFar:
				var ok bool
				if n, ok = enter(seen, *q.via, q.slot); !ok {
					return t.holdInFrame(ctx, a, limit, budget, i, cost)
				}
			}
			answer = bad
			switch q.asked {
			case askPresent:
				answer = q.present(n)
			case askOf:
				if n.ASCIIString() {
					var more uint64
					answer, more = q.leaf.one(seen.Doc.Str(n), uint64(n.Len()))
					units += more
				}
			case askText:
				if n.ASCIIString() {
					units += q.compared(n)
					answer = truth(q.same(seen.Doc, n))
				}
			case askSame:
				var more uint64
				answer, more = q.unchanged(a, seen.Doc, n)
				units += more
			case askTrue, askNumber, askDuration:
				var more uint64
				answer, more = q.plain(seen.Doc, n)
				units += more
			case askSize, askAdd, askAddConst, askSum:
				answer = q.tally(a, n)
			default:
				var more uint64
				answer, more = q.rest(a, seen.Doc, n, units)
				units += more
			}
			if answer == yes { // a branch is predicted; an index would have to wait for the answer
				units, q = units+uint64(q.units[yes]), q.next[yes]
			} else if answer == no {
				units, q = units+uint64(q.units[no]), q.next[no]
			} else {
				return t.holdInFrame(ctx, a, limit, budget, i, cost)
			}
		}
		if q.answer == bad || units > limit {
			return t.holdInFrame(ctx, a, limit, budget, i, cost)
		}
		if cost += units; q.answer != yes || cost >= budget {
			return cost, no
		}
	}
	return cost, yes
}

// isFar reports whether the question is about something other than self, oldSelf and
// members of them, or about a sum.
func (q question) isFar() bool {
	switch q.asked {
	case askScan, askSize, askAdd, askAddConst, askSum:
		return true
	}
	return q.of > slotOldSelf || q.reach == reachFar
}

// seen is what is seen of a view; nil if there is nothing.
func (a *Activation) seen(view uint8) *doc.Value {
	switch {
	case view >= firstLocal:
		return &a.items[(view-firstLocal)%maxItems]
	case view == slotSelf:
		return &a.Self
	case a.HasOldSelf:
		return &a.OldSelf
	}
	return nil
}

// present is whether the member is there.
func (q *question) present(n doc.Node) tri {
	switch kind := n.Kind(); {
	case kind == q.want:
		return yes
	case kind <= doc.Null:
		return no
	}
	return bad
}

// same is whether the member is the text that it is compared with.
func (q *question) same(d *doc.Doc, n doc.Node) bool {
	k := q.konst
	return uint64(n.Len()) == k.bits && d.Str(n) == unsafe.String((*byte)(k.ptr), n.Len())
}

// compared is what it costs to compare the member with a text.
func (q *question) compared(n doc.Node) uint64 {
	return tenths[uint8(min(uint64(n.Len()), q.konst.bits))]
}

// related is how a number compares with the constant; bad if it is not known.
func (q *question) related(i int64, ok bool) tri {
	if !ok {
		return bad
	}
	return truth(q.rel.of(i, int64(q.konst.bits)))
}

// plain asks a question that is about the member n alone.
func (q *question) plain(d *doc.Doc, n doc.Node) (answer tri, units uint64) {
	switch q.asked {
	case askPresent:
		return q.present(n), 0
	case askTrue:
		if n.Kind() == doc.Bool {
			return truth(n.Bool()), 0
		}
	case askText:
		if n.ASCIIString() {
			return truth(q.same(d, n)), q.compared(n)
		}
	case askOf:
		if n.ASCIIString() {
			return q.leaf.one(d.Str(n), uint64(n.Len()))
		}
	case askDuration:
		if n.ASCIIString() {
			i, units, ok := usualDuration(d.Str(n), uint64(n.Len()))
			return q.related(i, ok), units
		}
	case askNumber:
		if n.Kind() == doc.Int {
			return truth(q.rel.of(n.Int(), int64(q.konst.bits))), 0
		}
	}
	return bad, 0
}

// unchanged is whether the member is the same text as one of oldSelf.
func (q *question) unchanged(a *Activation, d *doc.Doc, n doc.Node) (tri, uint64) {
	old, m := a.OldSelf.Doc, a.OldSelf.Node
	switch {
	case !a.HasOldSelf:
		return bad, 0
	case q.and == itself:
	case m.ShapeIndex() == 0:
		return bad, 0
	default:
		m = old.Slot(m, int(q.and))
	}
	if !n.ASCIIString() || !m.ASCIIString() {
		return bad, 0
	}
	return truth(doc.SameText(d, n, old, m)), tenth(uint64(min(n.Len(), m.Len())))
}

// rest asks the questions that are asked less often, of the member n; cost is what was
// spent before.
func (q *question) rest(a *Activation, d *doc.Doc, n doc.Node, cost uint64) (tri, uint64) {
	switch q.asked {
	case askAlike:
		return q.leaf.same(a, d, n)
	case askBoth:
		return q.leaf.both(d, n, a)
	case askAround:
		if n.ASCIIString() {
			return q.leaf.put(&a.fr, d.Str(n))
		}
	case askScan:
		return a.scan(q, d, n, cost)
	}
	return bad, 0
}

// tally asks about sizes and sums.
func (q *question) tally(a *Activation, n doc.Node) tri {
	switch q.asked {
	case askAddConst:
		return a.add(q, int64(q.konst.bits))
	case askSum:
		answer := truth(q.rel.of(a.sum, int64(q.konst.bits)))
		a.sum = 0
		return answer
	}
	size, ok := q.size(n)
	switch {
	case !ok:
		return bad
	case q.asked == askAdd:
		return a.add(q, size)
	}
	return truth(q.rel.of(size, int64(q.konst.bits)))
}

// size is a number, or how many items or bytes there are; false if n is not what is wanted.
func (q *question) size(n doc.Node) (int64, bool) {
	switch {
	case n.Kind() != q.want || n.ShapeIndex() != 0 || n.Kind() == doc.String && !n.ASCII():
		return 0, false
	case n.Kind() == doc.Int:
		return n.Int(), true
	}
	return int64(n.Len()), true
}

// enter is a member that is found by the slots and indexes that lead to what has it;
// false if there is none.
func enter(in *doc.Value, via []uint16, slot uint16) (n doc.Node, ok bool) {
	n = in.Node
	for i := 0; ; i++ {
		at := slot
		if i < len(via) {
			at = via[i]
		}
		switch {
		case at&listItem == 0 && n.ShapeIndex() != 0:
			n = in.Doc.Slot(n, int(at))
		case at&listItem != 0 && n.Kind() == doc.Array && int(at&^listItem) < n.Len():
			n = in.Doc.Item(n, int(at&^listItem))
		default:
			return n, false
		}
		if i == len(via) {
			return n, true
		}
	}
}

// other is the member that one is compared with; false if there is none.
func (l *leaf) other(a *Activation) (doc.Node, *doc.Doc, bool) {
	in := a.seen(l.of)
	switch {
	case in == nil:
		return doc.Node{}, nil, false
	case l.slot == itself:
		return in.Node, in.Doc, true
	}
	n, ok := enter(in, l.via, l.slot)
	return n, in.Doc, ok
}

// same compares the member n with another one of its type.
func (l *leaf) same(a *Activation, d *doc.Doc, n doc.Node) (tri, uint64) {
	in := a.seen(l.of)
	if in == nil {
		return bad, 0
	}
	m, other := in.Node, in.Doc
	if a.Kept && l.slot == itself && n == m && l.typ.lasts && n.Kind() == doc.Object {
		return yes, tenth(uint64(fewMembers(d, n)))
	}
	if l.slot != itself {
		var ok bool
		if m, ok = enter(in, l.via, l.slot); !ok {
			return bad, 0
		}
	}
	return l.alike(d, n, other, m, a.knows(d, other))
}

// alike compares two members of one type.
func (l *leaf) alike(a *doc.Doc, n doc.Node, b *doc.Doc, m doc.Node, known knowledge) (tri, uint64) {
	kind := jsonKind[l.typ.Kind]
	switch {
	case n.Kind() != kind || m.Kind() != kind:
	case kind == doc.Int:
		return truth(n.Int() == m.Int()), 1
	case kind == doc.Bool:
		return truth(n.Bool() == m.Bool()), 1
	case kind == doc.String:
		return sameText(a, n, b, m)
	default:
		same, size := sides{a, b, known}.sized(n, m, l.typ)
		return same, tenth(uint64(size))
	}
	return bad, 0
}

// both says what the test of two texts does of a member and the other one.
func (l *leaf) both(d *doc.Doc, n doc.Node, a *Activation) (tri, uint64) {
	m, other, ok := l.other(a)
	if !ok || !n.ASCIIString() || !m.ASCIIString() {
		return bad, 0
	}
	return l.two(d.Str(n), uint64(n.Len()), other.Str(m), uint64(m.Len()))
}

// sameText compares two texts.
func sameText(a *doc.Doc, n doc.Node, b *doc.Doc, m doc.Node) (tri, uint64) {
	if !n.ASCIIString() || !m.ASCIIString() {
		return bad, 0
	}
	return truth(doc.SameText(a, n, b, m)), tenth(uint64(min(n.Len(), m.Len())))
}

// put says what the test does of an ASCII text with constants around it.
func (l *leaf) put(fr *frame, s string) (tri, uint64) {
	s, ok := l.around.put(fr, s)
	if !ok {
		return bad, 0
	}
	runes := uint64(len(s))
	answer, units := l.one(s, runes)
	return answer, units + tenth(runes)
}
