package eval

import (
	"github.com/keelson-io/keelson/cel/internal/fast"
	"github.com/keelson-io/keelson/cel/internal/val"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file compiles the parts of diagrams that concern several nodes: loops over items, and sums.

// see gives the variable of a loop a number for diagrams, unless there is another loop around it.
func (c *compiler) see(v *variable) {
	if c.loops++; c.loops == 1 {
		v.view = val.FirstLocal
	}
}

// local returns the variable in a slot, nil if there is none.
func (c *compiler) local(slot int) *variable {
	for v := c.scope; v != nil; v = v.next {
		if v.slot == slot {
			return v
		}
	}
	return nil
}

// besideKey returns the spot of the value of a map for a key, if a loop over the keys of that map
// has the value beside the key; otherwise nil.
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

// adding adds the questions that add a number to the sum of the diagram, or subtract it.
type adding func(l *layout, minus bool, next target) target

// addingOf returns a node as a number to add, nil if it has no such form. In a branch of ?: the
// root of a path costs nothing.
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

// adding adds the value, or its number of items or bytes.
func (m spot) adding(want jsondoc.Kind, units int) adding {
	return func(l *layout, minus bool, next target) target {
		return m.ask(fast.Question{Asked: fast.AskAdd, Want: want, Minus: minus}, units)(l, next, next)
	}
}

// addChoice returns cond ? a : b as a number to add.
func (c *compiler) addChoice(cond, a, b *code) adding {
	x, y, z := c.asks(cond, false), c.addingOf(a, true), c.addingOf(b, true)
	if x == nil || y == nil || z == nil {
		return nil
	}
	return func(l *layout, minus bool, next target) target { return x(l, y(l, minus, next), z(l, minus, next)) }
}

// addBoth returns a + b as a number to add.
func (c *compiler) addBoth(a, b *code) adding {
	x, y := c.addingOf(a, false), c.addingOf(b, false)
	if x == nil || y == nil {
		return nil
	}
	return func(l *layout, minus bool, next target) target { return x(l, minus, y(l, minus, next.plus(1))) }
}

// askSums returns the comparison of two sums.
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
		l.failed = l.failed || l.summing // a diagram has only one sum
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

// quantified is a loop of a diagram.
type quantified struct {
	over      spot
	view      uint8 // the variable for the items
	predicate asking
}

// quantifiedOf returns the loop of a comprehension, false if it has no diagram.
func (c *compiler) quantifiedOf(f *fold, over, predicate *code) (q quantified, ok bool) {
	v := c.local(f.iter)
	if m, found := c.spotOf(over); found && v != nil && v.view != 0 && (m.typ.Kind == val.List || m.typ.Kind == val.Map) {
		q = quantified{over: m, view: v.view, predicate: c.asks(predicate, false)}
	}
	return q, q.predicate != nil
}

// lay adds a loop, with the costs in s.
func (q *quantified) lay(l *layout, s fast.Scan, count fast.Question, yes, no target) target {
	body, units := layOut(q.predicate)
	if l.failed = l.failed || body == fast.Ends[val.Bad]; l.failed {
		return target{}
	}
	s.View, s.Body.Diagrams, s.Each = q.view, []fast.Diagram{body}, s.Each+uint64(units)
	count.Asked, count.Want, count.Leaf = fast.AskScan, val.JSONKind[q.over.typ.Kind], &fast.Leaf{Scan: &s}
	return q.over.ask(count, 0)(l, yes, no)
}

// askQuantified returns the test all() or exists(). decisive is the result that ends the loop,
// condition the cost of its condition.
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

// filtered is the number of the items for which a predicate is true.
type filtered struct {
	quantified
	found uint64 // the cost of an item that counts
	end   int    // the cost of the end
}

// compare returns the comparison of the number with a constant.
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

// countOf returns the size() of the result of filter(), nil for other comprehensions.
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

// askOne returns the test exists_one().
func (c *compiler) askOne(f *fold, over, predicate *code) asking {
	q, ok := c.quantifiedOf(f, over, predicate)
	if !ok {
		return nil
	}
	one := val.IntValue(1)
	return (&filtered{q, 2, 2}).compare(fast.RelEqual, &one, 0)
}
