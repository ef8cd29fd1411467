package cel

import (
	"unsafe"

	"github.com/keelson-io/keelson/doc"
)

// This file runs tests that are laid out as decision diagrams. Most rules ask a
// few things about members of one object: is it there, is it this text. Laid out,
// such a rule is a list of questions, each of which says for both answers what it
// costs and which question is next: no calls, no frame, no Values. A diagram
// either answers or knows nothing: what does not fit its type, texts that are not
// ASCII and whatever fails is evaluated again from the beginning the general way.

// diagram is a test of one or two views: its questions, the first one last.
type diagram []question

// view is what a diagram looks at: a variable that is a value of the document.
// The zero value is no view.
type view struct {
	typ  *Type
	slot int
}

// asked is what a question is about.
type asked uint8

const (
	askPresent asked = iota // is the member there?
	askTrue                 // is the member true?
	askText                 // is the member this text?
	askOneOf                // is the member one of these texts?
	askNumber               // how does the integer compare with this one?
	askSize                 // how does the number of items or bytes compare with this integer?
	askSame                 // is the member the same text as one of the other view?
)

// question is a step of a diagram.
type question struct {
	asked asked
	want  doc.Kind // of the member
	of    uint8    // the view
	rel   relation
	slot  uint16    // of the member
	and   uint16    // askSame: the slot of the member of the other view
	next  [2]int16  // after no and yes: a question, or an end
	units [2]uint16 // what no and yes cost
	via   *[]uint16 // the slots of the objects that lead to the one that has the member
	konst *Value    // what the member is compared with
}

// Ends of a diagram, in place of a question.
const (
	endNo  = -1
	endYes = -2
)

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

// sight is what is seen of a view: the slots of an object, or the one node that it
// is if it is none.
type sight struct {
	doc   *doc.Doc
	nodes []doc.Node
}

// show sets what is seen to a value. The value must stay where it is.
func (s *sight) show(t *Type, of *doc.Value) {
	if s.doc = of.Doc; t.Kind == Object {
		s.nodes = of.Doc.SlotNodes(of.Node)
	} else {
		s.nodes = unsafe.Slice(&of.Node, 1)
	}
}

// run answers the test and says what it costs; bad if it is not decided here.
func (g diagram) run(at *[2]sight) (tri, uint64) {
	var cost uint64
	i := len(g) - 1
	for uint(i) < uint(len(g)) {
		q := &g[i]
		seen := &at[q.of&1]
		members := seen.nodes
		if q.via != nil {
			members = enter(seen, *q.via)
		}
		if int(q.slot) >= len(members) {
			return bad, 0
		}
		n := members[q.slot]
		answer := no
		switch q.asked {
		case askPresent:
			switch kind := n.Kind(); {
			case kind == q.want:
				answer = yes
			case kind > doc.Null:
				return bad, 0
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
			cost += tenths[uint8(min(size, k.bits))]
			answer = truth(size == k.bits && seen.doc.Str(n) == unsafe.String((*byte)(k.ptr), int(size)))
		case askNumber:
			if n.Kind() != doc.Int {
				return bad, 0
			}
			answer = truth(q.rel.of(n.Int(), int64(q.konst.bits)))
		default:
			var units uint64
			if answer, units = q.ask(at, n); answer == bad {
				return bad, 0
			}
			cost += units
		}
		if answer == yes { // a branch is predicted; an index would have to wait for the answer
			cost, i = cost+uint64(q.units[yes]), int(q.next[yes])
		} else {
			cost, i = cost+uint64(q.units[no]), int(q.next[no])
		}
	}
	return tri(endNo - i), cost
}

// enter goes into objects, by the slots of the objects that hold them.
func enter(in *sight, via []uint16) []doc.Node {
	members := in.nodes
	for _, slot := range via {
		if int(slot) >= len(members) {
			return nil
		}
		members = in.doc.SlotNodes(members[slot])
	}
	return members
}

// ask asks a question of those that take longer, of the member n, and says what it
// cost beside what its answers do.
func (q *question) ask(at *[2]sight, n doc.Node) (tri, uint64) {
	seen := &at[q.of&1]
	switch q.asked {
	case askOneOf:
		if n.Kind() == doc.String {
			return hasText(q.konst.items(), seen.doc.Str(n)), 0
		}
	case askSize:
		if n.Kind() == q.want && n.ShapeIndex() == 0 && (n.Kind() != doc.String || n.ASCII()) {
			return truth(q.rel.of(int64(n.Len()), q.konst.Int())), 0
		}
	case askSame:
		other := &at[1-q.of&1]
		if int(q.and) >= len(other.nodes) {
			return bad, 0
		}
		m := other.nodes[q.and]
		if n.Kind() == doc.String && m.Kind() == doc.String && n.ASCII() && m.ASCII() {
			return truth(n.Len() == m.Len() && seen.doc.Str(n) == other.doc.Str(m)), tenth(uint64(min(n.Len(), m.Len())))
		}
	}
	return bad, 0
}
