package fast

import (
	"math"

	"github.com/keelson-io/keelson/cel/internal/val"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file runs the parts of diagrams that concern several nodes: loops over items, and sums. A
// loop is a question with the diagram of its predicate, which is evaluated for each item.

// maxItems is the number of variables of a loop: one for items, or two for the keys and values of a
// map. Nested loops have no diagram, because frames are faster for them.
const maxItems = 2

// Scan is a loop.
type Scan struct {
	View     uint8   // the variable for the items
	Body     Tests   // the predicate
	Decisive val.Tri // the result of all() or exists() that ends the loop; Bad if items are counted
	Each     uint64  // the cost of an item besides the predicate
	Again    uint64  // the cost of ending before the last item
	Found    uint64  // the cost of an item that is counted
}

// scan runs a loop over the items of n and returns its answer. A count is compared with the
// constant, or added to the sum if there is no relation.
func (a *Activation) scan(q *Question, d *jsondoc.Doc, n jsondoc.Node, cost uint64) (val.Tri, uint64) {
	if n.Kind() != q.Want || n.ShapeIndex() != 0 {
		return val.Bad, 0
	}
	s, fr, nodes, start, count, stride := q.Leaf.Scan, &a.fr, d.Children(n), cost, 0, 1
	item, value := a.seen(s.View), a.seen(s.View)
	item.Doc = d
	sum := a.sum // of which this loop is a part; the predicate may compute sums of its own
	a.sum = 0
	if n.Kind() == jsondoc.Object {
		stride, value = 2, a.seen(s.View+1)
		value.Doc = d
	}
	c := a.alone(s)
	for i := 0; i < len(nodes); i += stride {
		if fr.Ticks--; (fr.Ticks <= 0 || cost > fr.Limit) && !fr.MayScan(cost) {
			return val.Bad, 0
		}
		var answer val.Tri
		var units uint64
		switch n := nodes[i]; {
		case c.q == nil:
			value.Node, item.Node = nodes[i+stride-1], n
			units, answer = s.Body.run(fr.Ctx, a, math.MaxUint64, math.MaxUint64)
		case c.numbers:
			if n.Kind() != jsondoc.Int {
				return val.Bad, 0
			}
			of := val.Truth(c.q.Rel.Of(n.Int(), c.number)) & val.Yes
			answer, units = c.answers[of], uint64(c.q.Units[of])
		default:
			answer, units = c.ask(d, n)
		}
		if answer == val.Bad {
			return val.Bad, 0
		}
		cost += units + s.Each
		if answer == s.Decisive {
			if i+stride < len(nodes) {
				cost += s.Again
			}
			a.sum = sum
			return answer, cost - start
		}
		if answer == val.Yes && s.Decisive == val.Bad {
			cost += s.Found
			count++
		}
	}
	a.sum = sum
	switch {
	case s.Decisive != val.Bad:
		return val.Yes - s.Decisive, cost - start
	case q.Rel == 0:
		return a.add(q, int64(count)), cost - start
	}
	return val.Truth(q.Rel.Of(int64(count), q.Konst.Int())), cost - start
}

// alone is the predicate of a loop if it is a single question about the item or a member of it. The
// operand of a comparison is then looked up only once.
type alone struct {
	q       *Question // nil for another predicate
	slot    uint16    // of the member of the item, or Itself
	turned  bool      // the item is the right operand
	numbers bool      // the item is compared with a number
	number  int64
	answers [2]val.Tri    // of the predicate, by the answer of the question
	m       jsondoc.Node  // the other operand
	d       *jsondoc.Doc  // of m
	known   val.Knowledge // of the item and m, if they are compared
}

// alone evaluates the parts of the predicate that do not depend on the item.
func (a *Activation) alone(s *Scan) (c alone) {
	q := s.Body.Diagrams[0]
	if q.Next[val.No] == nil || q.Next[val.No].Asked != askNothing || q.Next[val.Yes].Asked != askNothing {
		return c
	}
	ok := q.Of == s.View && q.Via == nil
	c.slot = q.Slot
	switch l := q.Leaf; q.Asked {
	case AskPresent, AskTrue, AskText, AskDuration, AskOf:
	case AskNumber:
		c.number, c.numbers = int64(q.Konst.Bits), c.slot == Itself
	case AskAlike:
		switch {
		case q.Of == s.View && l.Of != s.View:
			c.m, c.d, ok = l.other(a)
			ok = ok && q.Via == nil
		case q.Of != s.View && l.Of == s.View && len(l.Via) == 0 && q.Via == nil:
			in := a.seen(q.Of)
			if ok = in != nil; ok {
				c.slot, c.turned, c.d, c.m = l.Slot, true, in.Doc, in.Node
				if q.Slot != Itself {
					c.m, ok = enter(in, nil, q.Slot)
				}
			}
		default:
			ok = false
		}
	default:
		ok = false
	}
	if ok {
		if q.Asked == AskAlike {
			c.known = a.knows(c.d, a.seen(s.View).Doc)
		}
		c.q, c.answers = q, [2]val.Tri{val.No: q.Next[val.No].answer, val.Yes: q.Next[val.Yes].answer}
	}
	return c
}

// ask answers the question for an item, and returns the answer of the predicate.
func (c *alone) ask(d *jsondoc.Doc, n jsondoc.Node) (answer val.Tri, units uint64) {
	q := c.q
	if c.slot != Itself {
		if n.ShapeIndex() == 0 || c.slot&ListItem != 0 {
			return val.Bad, 0
		}
		n = d.Slot(n, int(c.slot))
	}
	switch {
	case q.Asked == AskAlike && c.turned:
		answer, units = q.Leaf.alike(c.d, c.m, d, n, c.known)
	case q.Asked == AskAlike:
		answer, units = q.Leaf.alike(d, n, c.d, c.m, c.known)
	default:
		answer, units = q.plain(d, n)
	}
	if answer == val.Bad {
		return val.Bad, 0
	}
	return c.answers[answer&val.Yes], units + uint64(q.Units[answer&val.Yes])
}

// maxAddend bounds each addend, so that no sum of a diagram overflows.
const maxAddend = 1 << 53

// add adds to the sum, or subtracts from it.
func (a *Activation) add(q *Question, n int64) val.Tri {
	switch {
	case n > maxAddend || n < -maxAddend:
		return val.Bad
	case q.Minus:
		a.sum -= n
	default:
		a.sum += n
	}
	return val.Yes
}
