package cel

import (
	"math"

	"github.com/keelson-io/keelson/doc"
)

// This file runs and lays out the parts of diagrams that are about more than one
// node: loops over items, and sums. A loop is a question that has the diagram of its
// predicate, which sees the items one after the other.

// maxItems is how many views a loop may have: of its items or, over a map, of the keys
// and of the values. A loop inside a loop is a matter of frames, which are faster at it.
const maxItems = 2

// see gives the variable of a loop a view, if no other loop is around it.
func (c *compiler) see(v *variable) {
	if c.loops++; c.loops == 1 {
		v.view = firstLocal
	}
}

// local is the variable in a slot; nil if there is none.
func (c *compiler) local(slot int) *variable {
	for v := c.scope; v != nil; v = v.next {
		if v.slot == slot {
			return v
		}
	}
	return nil
}

// besideKey is what a map has under a key, if a loop over the keys of that map sees
// it beside the key; else nil.
func (c *compiler) besideKey(operand, key *code) *spot {
	if key.path == nil || key.path.test || len(key.path.steps) > 0 || operand.param == nil || operand.param.Kind != Map {
		return nil
	}
	v := c.local(int(key.path.slot))
	d, ok := directData(operand)
	m, also := c.spotOf(operand)
	if v == nil || v.view == 0 || !ok || !also || !v.runsOver(&d) {
		return nil
	}
	return &spot{of: v.view + 1, typ: operand.param.Elem, units: m.units + costSelect}
}

// scan is a loop.
type scan struct {
	view     uint8  // of the items
	body     Tests  // the predicate
	decisive tri    // all() and exists(): the outcome that ends the loop; bad: items are counted
	each     uint64 // what an item costs beside the predicate
	again    uint64 // what it costs to end before the last item
	found    uint64 // what an item costs that counts
}

// scan runs a loop over the items of n, and says what it is: a count is compared, or
// added to the sum if there is no relation.
func (a *Activation) scan(q *question, d *doc.Doc, n doc.Node, cost uint64) (tri, uint64) {
	if n.Kind() != q.want || n.ShapeIndex() != 0 {
		return bad, 0
	}
	s, fr, nodes, start, count, stride := q.leaf.scan, &a.fr, d.Children(n), cost, 0, 1
	item, value := a.seen(s.view), a.seen(s.view)
	item.Doc = d
	sum := a.sum // that this loop is part of, beside those of its predicate
	a.sum = 0
	if n.Kind() == doc.Object {
		stride, value = 2, a.seen(s.view+1)
		value.Doc = d
	}
	c := a.alone(s)
	for i := 0; i < len(nodes); i += stride {
		if fr.ticks--; (fr.ticks <= 0 || cost > fr.limit) && !fr.mayScan(cost) {
			return bad, 0
		}
		var answer tri
		var units uint64
		switch n := nodes[i]; {
		case c.q == nil:
			value.Node, item.Node = nodes[i+stride-1], n
			units, answer = s.body.run(fr.ctx, a, math.MaxUint64, math.MaxUint64)
		case c.numbers:
			if n.Kind() != doc.Int {
				return bad, 0
			}
			of := truth(c.q.rel.of(n.Int(), c.number)) & yes
			answer, units = c.answers[of], uint64(c.q.units[of])
		default:
			answer, units = c.ask(d, n)
		}
		if answer == bad {
			return bad, 0
		}
		cost += units + s.each
		if answer == s.decisive {
			if i+stride < len(nodes) {
				cost += s.again
			}
			a.sum = sum
			return answer, cost - start
		}
		if answer == yes && s.decisive == bad {
			cost += s.found
			count++
		}
	}
	a.sum = sum
	switch {
	case s.decisive != bad:
		return yes - s.decisive, cost - start
	case q.rel == 0:
		return a.add(q, int64(count)), cost - start
	}
	return truth(q.rel.of(int64(count), q.konst.Int())), cost - start
}

// alone is the predicate of a loop, if that is a single question about the item or a
// member of it. What it is compared with need not be looked for again.
type alone struct {
	q       *question // nil: another predicate
	slot    uint16    // of the member of the item, or itself
	turned  bool      // the item is on the right
	numbers bool      // the item is compared with a number
	number  int64
	answers [2]tri    // of the predicate, by that of the question
	m       doc.Node  // what the item is compared with
	d       *doc.Doc  // of m
	known   knowledge // of the item and m, if they are compared
}

// alone looks at what does not depend on the item.
func (a *Activation) alone(s *scan) (c alone) {
	q := s.body.diagrams[0]
	if q.next[no] == nil || q.next[no].asked != askNothing || q.next[yes].asked != askNothing {
		return c
	}
	ok := q.of == s.view && q.via == nil
	c.slot = q.slot
	switch l := q.leaf; q.asked {
	case askPresent, askTrue, askText, askDuration, askOf:
	case askNumber:
		c.number, c.numbers = int64(q.konst.bits), c.slot == itself
	case askAlike:
		switch {
		case q.of == s.view && l.of != s.view:
			c.m, c.d, ok = l.other(a)
			ok = ok && q.via == nil
		case q.of != s.view && l.of == s.view && len(l.via) == 0 && q.via == nil:
			in := a.seen(q.of)
			if ok = in != nil; ok {
				c.slot, c.turned, c.d, c.m = l.slot, true, in.Doc, in.Node
				if q.slot != itself {
					c.m, ok = enter(in, nil, q.slot)
				}
			}
		default:
			ok = false
		}
	default:
		ok = false
	}
	if ok {
		if q.asked == askAlike {
			c.known = a.knows(c.d, a.seen(s.view).Doc)
		}
		c.q, c.answers = q, [2]tri{no: q.next[no].answer, yes: q.next[yes].answer}
	}
	return c
}

// ask asks the question of an item, and says what the predicate is.
func (c *alone) ask(d *doc.Doc, n doc.Node) (answer tri, units uint64) {
	q := c.q
	if c.slot != itself {
		if n.ShapeIndex() == 0 || c.slot&listItem != 0 {
			return bad, 0
		}
		n = d.Slot(n, int(c.slot))
	}
	switch {
	case q.asked == askAlike && c.turned:
		answer, units = q.leaf.alike(c.d, c.m, d, n, c.known)
	case q.asked == askAlike:
		answer, units = q.leaf.alike(d, n, c.d, c.m, c.known)
	default:
		answer, units = q.plain(d, n)
	}
	if answer == bad {
		return bad, 0
	}
	return c.answers[answer&yes], units + uint64(q.units[answer&yes])
}

// mayScan reports whether the loop of a diagram may have another iteration: it may cost
// so much, and the context has not ended.
func (fr *frame) mayScan(cost uint64) bool {
	if cost > fr.limit {
		return false
	}
	fr.ticks = checkFrequency
	select {
	case <-fr.ctx.Done():
		return false
	default:
		return true
	}
}

// maxAddend bounds what is added, so that no sum of a diagram overflows.
const maxAddend = 1 << 53

// add adds to the sum, or takes away from it.
func (a *Activation) add(q *question, n int64) tri {
	switch {
	case n > maxAddend || n < -maxAddend:
		return bad
	case q.minus:
		a.sum -= n
	default:
		a.sum += n
	}
	return yes
}

// adding writes down the questions that add a number to the sum, or take it away.
type adding func(l *layout, minus bool, next target) target

// addingOf is a node as a number that is added; nil if it is none. As a branch of ?:
// the root of a path is free.
func (c *compiler) addingOf(n *code, branch bool) adding {
	switch {
	case n.adds != nil || c.lang != nil:
		return n.adds
	case n.tally != nil:
		return n.tally.adding
	}
	if k := n.konst; k != nil && k.kind == KindInt {
		return func(l *layout, minus bool, next target) target {
			if k.Int() == 0 {
				return next
			}
			return l.ask(question{asked: askAddConst, reach: reachNone, slot: itself, konst: k, minus: minus}, 0, next, next)
		}
	}
	if n.sized != nil {
		return n.sized.adding(jsonKind[n.sized.typ.Kind], 1)
	}
	m, ok := c.spotOf(n)
	if !ok || n.path.test || m.typ.Kind != Int {
		return nil
	}
	if branch {
		m.units -= int(n.path.root)
	}
	return m.adding(doc.Int, 0)
}

// adding adds what is found, or how many items or bytes it has.
func (m spot) adding(want doc.Kind, units int) adding {
	return func(l *layout, minus bool, next target) target {
		return m.ask(question{asked: askAdd, want: want, minus: minus}, units)(l, next, next)
	}
}

// addChoice is cond ? a : b.
func (c *compiler) addChoice(cond, a, b *code) adding {
	x, y, z := c.asks(cond, false), c.addingOf(a, true), c.addingOf(b, true)
	if x == nil || y == nil || z == nil {
		return nil
	}
	return func(l *layout, minus bool, next target) target { return x(l, y(l, minus, next), z(l, minus, next)) }
}

// addBoth is a + b.
func (c *compiler) addBoth(a, b *code) adding {
	x, y := c.addingOf(a, false), c.addingOf(b, false)
	if x == nil || y == nil {
		return nil
	}
	return func(l *layout, minus bool, next target) target { return x(l, minus, y(l, minus, next.plus(1))) }
}

var zero, one = intValue(0), intValue(1)

// askSums compares two numbers that are added up.
func (c *compiler) askSums(a, b *code, rel relation) asking {
	x, y, k := c.addingOf(a, false), adding(nil), b.konst
	if k == nil || k.kind != KindInt {
		k, y = &zero, c.addingOf(b, false)
	}
	if x == nil || y == nil && k == &zero {
		return nil
	}
	return func(l *layout, yes, no target) target {
		l.failed = l.failed || l.summing // there is but one sum
		l.summing = true
		t := l.ask(question{asked: askSum, reach: reachNone, slot: itself, rel: rel, konst: k}, 1, yes, no)
		if y != nil {
			t = y(l, true, t)
		}
		t = x(l, false, t)
		l.summing = false
		return t
	}
}

// quantified is a loop that is to be laid out.
type quantified struct {
	over      spot
	view      uint8 // of the items
	predicate asking
}

// quantifiedOf is what a comprehension loops over; false if no diagram does.
func (c *compiler) quantifiedOf(f *fold, over, predicate *code) (q quantified, ok bool) {
	v := c.local(f.iter)
	if m, found := c.spotOf(over); found && v != nil && v.view != 0 && (m.typ.Kind == List || m.typ.Kind == Map) {
		q = quantified{over: m, view: v.view, predicate: c.asks(predicate, false)}
	}
	return q, q.predicate != nil
}

// lay writes a loop down, which charges what s says.
func (q *quantified) lay(l *layout, s scan, count question, yes, no target) target {
	body, units := layOut(q.predicate)
	if l.failed = l.failed || body == &ends[bad]; l.failed {
		return target{}
	}
	s.view, s.body.diagrams, s.each = q.view, []diagram{body}, s.each+uint64(units)
	count.asked, count.want, count.leaf = askScan, jsonKind[q.over.typ.Kind], &leaf{scan: &s}
	return q.over.ask(count, 0)(l, yes, no)
}

// askQuantified is all() or exists(), by the outcome that decides it.
func (c *compiler) askQuantified(f *fold, over, predicate *code, decisive tri, condition int) asking {
	q, ok := c.quantifiedOf(f, over, predicate)
	if !ok {
		return nil
	}
	return func(l *layout, yes, no target) target {
		s := scan{decisive: decisive, each: uint64(condition + 1), again: uint64(condition)}
		return q.lay(l, s, question{}, yes.plus(1), no.plus(1))
	}
}

// filtered is the number of the items that a predicate is true of.
type filtered struct {
	quantified
	found uint64 // what an item costs that counts
	end   int    // what the end costs
}

// compare compares the number with a constant.
func (n *filtered) compare(rel relation, k *Value, units int) asking {
	return func(l *layout, yes, no target) target {
		units := uint32(n.end + units)
		return n.lay(l, scan{decisive: bad, found: n.found}, question{rel: rel, konst: k}, yes.plus(units), no.plus(units))
	}
}

// adding adds the number.
func (n *filtered) adding(l *layout, minus bool, next target) target {
	next = next.plus(uint32(n.end))
	return n.lay(l, scan{decisive: bad, found: n.found}, question{minus: minus}, next, next)
}

// countOf is the size() of what filter() collects; nil if it is not that.
func (c *compiler) countOf(f *fold, over, predicate *code) *filtered {
	if !f.same || predicate == nil {
		return nil
	}
	q, ok := c.quantifiedOf(f, over, predicate)
	if !ok {
		return nil
	}
	return &filtered{q, costSelect + f.price, 2}
}

// askOne is exists_one().
func (c *compiler) askOne(f *fold, over, predicate *code) asking {
	q, ok := c.quantifiedOf(f, over, predicate)
	if !ok {
		return nil
	}
	return (&filtered{q, 2, 2}).compare(relEqual, &one, 0)
}
