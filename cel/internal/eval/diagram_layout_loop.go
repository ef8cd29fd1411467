package eval

import (
	"github.com/keelson-io/keelson/cel/internal/fast"
	"github.com/keelson-io/keelson/cel/internal/val"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file lays out the parts of diagrams that are about more than one node: loops
// over items, and sums.

// see gives the variable of a loop a view, if no other loop is around it.
func (c *compiler) see(v *variable) {
	if c.loops++; c.loops == 1 {
		v.view = val.FirstLocal
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
	if key.path == nil || key.path.test || len(key.path.steps) > 0 || operand.param == nil || operand.param.Kind != val.Map {
		return nil
	}
	v := c.local(int(key.path.slot))
	d, ok := directData(operand)
	m, also := c.spotOf(operand)
	if v == nil || v.view == 0 || !ok || !also || !v.runsOver(&d) {
		return nil
	}
	return &spot{of: v.view + 1, typ: operand.param.Elem, units: m.units + val.CostSelect}
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
	if k := n.konst; k != nil && k.K == val.KindInt {
		return func(l *layout, minus bool, next target) target {
			if k.Int() == 0 {
				return next
			}
			return l.ask(fast.Question{Asked: fast.AskAddConst, Reach: fast.ReachNone, Slot: fast.Itself, Konst: k, Minus: minus}, 0, next, next)
		}
	}
	if n.sized != nil {
		return n.sized.adding(val.JSONKind[n.sized.typ.Kind], 1)
	}
	m, ok := c.spotOf(n)
	if !ok || n.path.test || m.typ.Kind != val.Int {
		return nil
	}
	if branch {
		m.units -= int(n.path.root)
	}
	return m.adding(jsondoc.Int, 0)
}

// adding adds what is found, or how many items or bytes it has.
func (m spot) adding(want jsondoc.Kind, units int) adding {
	return func(l *layout, minus bool, next target) target {
		return m.ask(fast.Question{Asked: fast.AskAdd, Want: want, Minus: minus}, units)(l, next, next)
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

// askSums compares two numbers that are added up.
func (c *compiler) askSums(a, b *code, rel fast.Relation) asking {
	x, y, k := c.addingOf(a, false), adding(nil), b.konst
	if k == nil || k.K != val.KindInt {
		if y = c.addingOf(b, false); y == nil {
			return nil
		}
		zero := val.IntValue(0)
		k = &zero
	}
	if x == nil {
		return nil
	}
	return func(l *layout, yes, no target) target {
		l.failed = l.failed || l.summing // there is but one sum
		l.summing = true
		t := l.ask(fast.Question{Asked: fast.AskSum, Reach: fast.ReachNone, Slot: fast.Itself, Rel: rel, Konst: k}, 1, yes, no)
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
	if m, found := c.spotOf(over); found && v != nil && v.view != 0 && (m.typ.Kind == val.List || m.typ.Kind == val.Map) {
		q = quantified{over: m, view: v.view, predicate: c.asks(predicate, false)}
	}
	return q, q.predicate != nil
}

// lay writes a loop down, which charges what s says.
func (q *quantified) lay(l *layout, s fast.Scan, count fast.Question, yes, no target) target {
	body, units := layOut(q.predicate)
	if l.failed = l.failed || body == fast.Ends[val.Bad]; l.failed {
		return target{}
	}
	s.View, s.Body.Diagrams, s.Each = q.view, []fast.Diagram{body}, s.Each+uint64(units)
	count.Asked, count.Want, count.Leaf = fast.AskScan, val.JSONKind[q.over.typ.Kind], &fast.Leaf{Scan: &s}
	return q.over.ask(count, 0)(l, yes, no)
}

// askQuantified is all() or exists(), by the outcome that decides it.
func (c *compiler) askQuantified(f *fold, over, predicate *code, decisive val.Tri, condition int) asking {
	q, ok := c.quantifiedOf(f, over, predicate)
	if !ok {
		return nil
	}
	return func(l *layout, yes, no target) target {
		s := fast.Scan{Decisive: decisive, Each: uint64(condition + 1), Again: uint64(condition)}
		return q.lay(l, s, fast.Question{}, yes.plus(1), no.plus(1))
	}
}

// filtered is the number of the items that a predicate is true of.
type filtered struct {
	quantified
	found uint64 // what an item costs that counts
	end   int    // what the end costs
}

// compare compares the number with a constant.
func (n *filtered) compare(rel fast.Relation, k *val.Value, units int) asking {
	return func(l *layout, yes, no target) target {
		units := uint32(n.end + units)
		return n.lay(l, fast.Scan{Decisive: val.Bad, Found: n.found}, fast.Question{Rel: rel, Konst: k}, yes.plus(units), no.plus(units))
	}
}

// adding adds the number.
func (n *filtered) adding(l *layout, minus bool, next target) target {
	next = next.plus(uint32(n.end))
	return n.lay(l, fast.Scan{Decisive: val.Bad, Found: n.found}, fast.Question{Minus: minus}, next, next)
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
	return &filtered{q, val.CostSelect + f.price, 2}
}

// askOne is exists_one().
func (c *compiler) askOne(f *fold, over, predicate *code) asking {
	q, ok := c.quantifiedOf(f, over, predicate)
	if !ok {
		return nil
	}
	one := val.IntValue(1)
	return (&filtered{q, 2, 2}).compare(fast.RelEqual, &one, 0)
}
