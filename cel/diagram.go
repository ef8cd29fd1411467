package cel

import (
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
	askNothing asked = iota // an end: the answer is known
	askPresent              // is the member there?
	askTrue                 // is the member true?
	askText                 // is the member this text?
	askOf                   // what does a test of texts say of the member?
	askSame                 // is the member the same text as one of oldSelf?
	askBoth                 // what does a test of two texts say of the member and another one?
	askAround               // what does a test of texts say of the member with constants around it?
	askNumber               // how does the integer compare with this one?
	askSize                 // how does the number of items or bytes compare with this integer?
)

// question is a step of a diagram.
type question struct {
	asked  asked
	answer tri      // of an end
	want   doc.Kind // of the member
	of     uint8    // slotSelf or slotOldSelf
	rel    relation
	slot   uint16       // of the member, or itself
	and    uint16       // askSame: the slot of the member of oldSelf, or itself
	units  [2]uint16    // what no and yes cost
	next   [2]*question // after no and yes
	via    *[]uint16    // the slots of the objects that lead to the one that has the member
	konst  *Value       // what the member is compared with
	leaf   *leaf        // askOf, askAround, askBoth: the test
}

// leaf is a test of one text, or of two and where the second is.
type leaf struct {
	one    textTest
	around around
	two    pairTest

	of   uint8
	slot uint16
	via  []uint16
}

// itself is the slot of a variable that is no object.
const itself = 1<<16 - 1

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

// run answers the test and says what it costs; bad if it is not decided here.
func (q *question) run(a *Activation) (answer tri, units uint64) {
	for q.asked != askNothing {
		seen := &a.Self
		if q.of != slotSelf {
			if seen = &a.OldSelf; !a.HasOldSelf {
				return bad, 0
			}
		}
		n := seen.Node
		switch {
		case q.slot == itself:
		case q.via != nil:
			var ok bool
			if n, ok = enter(seen, *q.via, q.slot); !ok {
				return bad, 0
			}
		case n.ShapeIndex() == 0:
			return bad, 0
		default:
			n = seen.Doc.Slot(n, int(q.slot))
		}
		switch q.asked {
		case askPresent:
			switch kind := n.Kind(); {
			case kind == q.want:
				answer = yes
			case kind > doc.Null:
				return bad, 0
			default:
				answer = no
			}
		case askTrue:
			if n.Kind() != doc.Bool {
				return bad, 0
			}
			answer = truth(n.Bool())
		case askText:
			if n.Kind() != doc.String || !n.ASCII() {
				return bad, 0
			}
			size, k := uint64(n.Len()), q.konst
			units += tenths[uint8(min(size, k.bits))]
			answer = truth(size == k.bits && seen.Doc.Str(n) == unsafe.String((*byte)(k.ptr), int(size)))
		case askOf:
			if n.Kind() != doc.String || !n.ASCII() {
				return bad, 0
			}
			var more uint64
			if answer, more = q.leaf.one(seen.Doc.Str(n), uint64(n.Len())); answer == bad {
				return bad, 0
			}
			units += more
		case askSame:
			other := &a.OldSelf
			m := other.Node
			if q.and != itself {
				if m.ShapeIndex() == 0 {
					return bad, 0
				}
				m = other.Doc.Slot(m, int(q.and))
			}
			if !a.HasOldSelf || n.Kind() != doc.String || m.Kind() != doc.String || !n.ASCII() || !m.ASCII() {
				return bad, 0
			}
			units += tenth(uint64(min(n.Len(), m.Len())))
			answer = truth(n.Len() == m.Len() && seen.Doc.Str(n) == other.Doc.Str(m))
		case askBoth:
			var more uint64
			if answer, more = q.leaf.both(seen.Doc, n, a); answer == bad {
				return bad, 0
			}
			units += more
		case askAround:
			if n.Kind() != doc.String || !n.ASCII() {
				return bad, 0
			}
			var more uint64
			if answer, more = q.leaf.put(&a.fr, seen.Doc.Str(n)); answer == bad {
				return bad, 0
			}
			units += more
		default:
			if answer = q.compare(n); answer == bad {
				return bad, 0
			}
		}
		if answer == yes { // a branch is predicted; an index would have to wait for the answer
			units, q = units+uint64(q.units[yes]), q.next[yes]
		} else {
			units, q = units+uint64(q.units[no]), q.next[no]
		}
	}
	return q.answer, units
}

// compare compares a number or a size.
func (q *question) compare(n doc.Node) tri {
	switch {
	case q.asked == askNumber && n.Kind() == doc.Int:
		return truth(q.rel.of(n.Int(), q.konst.Int()))
	case q.asked == askSize && n.Kind() == q.want && n.ShapeIndex() == 0 && (n.Kind() != doc.String || n.ASCII()):
		return truth(q.rel.of(int64(n.Len()), q.konst.Int()))
	}
	return bad
}

// enter is a member of an object that is found by the slots of the objects that hold
// it; false if one of them is not there.
func enter(in *doc.Value, via []uint16, slot uint16) (n doc.Node, ok bool) {
	n = in.Node
	for _, at := range via {
		if n.ShapeIndex() == 0 {
			return n, false
		}
		n = in.Doc.Slot(n, int(at))
	}
	if n.ShapeIndex() == 0 {
		return n, false
	}
	return in.Doc.Slot(n, int(slot)), true
}

// both says what the test of two texts does of a member and the other one.
func (l *leaf) both(d *doc.Doc, n doc.Node, a *Activation) (tri, uint64) {
	other := &a.Self
	if l.of != slotSelf {
		if other = &a.OldSelf; !a.HasOldSelf {
			return bad, 0
		}
	}
	m, ok := other.Node, true
	if l.slot != itself {
		m, ok = enter(other, l.via, l.slot)
	}
	if !ok || n.Kind() != doc.String || m.Kind() != doc.String || !n.ASCII() || !m.ASCII() {
		return bad, 0
	}
	return l.two(d.Str(n), uint64(n.Len()), other.Doc.Str(m), uint64(m.Len()))
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
