package eval

import (
	"math"
	"slices"

	"github.com/keelson-io/keelson/cel/internal/check"
	"github.com/keelson-io/keelson/cel/internal/fast"
	"github.com/keelson-io/keelson/cel/internal/val"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file compiles tests to decision diagrams, from their ends to their start: when a question is
// added, the questions that follow its answers exist already.

// asking adds the questions of a test to a layout, and returns the first one. yes and no are what
// follows the answers. A node of an expression that is a test has such a function.
type asking func(l *layout, yes, no target) target

// summing adds the questions on which a sum of constants depends. next returns what follows for
// each value of the sum.
type summing func(l *layout, next func(sum int64) target) target

// target is a question or an end, with the cost of getting there.
type target struct {
	at    int16
	units uint32
}

// plus returns t with a higher cost.
func (t target) plus(units uint32) target { return target{t.at, t.units + units} }

// Ends, as numbers of questions.
const (
	endYes = -1
	endNo  = -2
)

// maxQuestions bounds the size of a diagram. Longer tests run in a frame.
const maxQuestions = 64

// layout is a diagram under construction.
type layout struct {
	questions []fast.Question
	next      [][2]int16 // after no and yes: the number of a question, or an end
	summing   bool       // a sum is being added
	failed    bool       // the test has no diagram
}

// lay returns the diagram of a test. It is an end with the answer Bad if the test has none.
func lay(ask asking) fast.Diagram {
	if ask == nil {
		return fast.Ends[val.Bad]
	}
	first, units := layOut(ask)
	if units != 0 {
		return fast.Ends[val.Bad]
	}
	return first
}

// layOut returns the diagram of a test, and the cost of getting to its first question.
func layOut(ask asking) (fast.Diagram, uint32) {
	var l layout
	first := ask(&l, target{at: endYes}, target{at: endNo})
	if l.failed || first.at < 0 || int(first.at) != len(l.questions)-1 {
		return fast.Ends[val.Bad], 0
	}
	out := append(make([]fast.Question, 0, len(l.questions)), l.questions...)
	out[first.at].Near = !slices.ContainsFunc(out, fast.Question.IsFar)
	for i, next := range l.next {
		for answer, at := range next {
			switch at {
			case endYes:
				out[i].Next[answer] = fast.Ends[val.Yes]
			case endNo:
				out[i].Next[answer] = fast.Ends[val.No]
			default:
				out[i].Next[answer] = &out[at]
			}
		}
	}
	return &out[first.at], first.units
}

// ask adds a question.
func (l *layout) ask(q fast.Question, units int, yes, no target) target {
	if l.failed = l.failed || len(l.questions) >= maxQuestions; l.failed {
		return target{}
	}
	var next [2]int16
	for i, t := range []target{no, yes} {
		t.units += uint32(units)
		l.failed = l.failed || t.units > math.MaxUint16
		next[i], q.Units[i] = t.at, uint16(t.units)
	}
	l.questions, l.next = append(l.questions, q), append(l.next, next)
	return target{at: int16(len(l.questions) - 1)}
}

// spot is where a diagram finds the value of a path.
type spot struct {
	of    uint8     // SlotSelf, SlotOldSelf, or the number of a variable
	slots []uint16  // or list indexes, one for each step
	typ   *val.Type // the type of the value
	units int       // the cost of the path

	around fast.Around // constants that are put around the text
}

// spotOf returns the spot of a path, false if a diagram cannot find it.
func (c *compiler) spotOf(n *code) (spot, bool) {
	if n.beside != nil {
		return *n.beside, true
	}
	p := n.path
	if c.lang != nil || p == nil || p.slot < 0 || p.init != nil || p.root == discount || c.opt && p.slot == val.SlotOldSelf {
		return spot{}, false
	}
	m := spot{of: uint8(p.slot), typ: c.self, units: int(p.root) + len(p.steps)*val.CostSelect}
	if p.slot > val.SlotOldSelf {
		v := c.local(int(p.slot))
		if v == nil || v.view == 0 {
			return spot{}, false
		}
		if m.of, m.typ = v.view, v.param; v.keyOf != nil {
			m.typ = check.KeyType
		}
	}
	for i := range p.steps {
		s := &p.steps[i]
		switch {
		case s.optional || m.typ == nil || s.typ != m.typ:
			return spot{}, false
		case s.item && s.key.Int() < fast.Itself&^fast.ListItem:
			m.slots, m.typ = append(m.slots, fast.ListItem|uint16(s.key.Int())), m.typ.Elem
		case s.field != nil && s.field.Slot >= 0 && s.field.Slot < fast.ListItem:
			m.slots, m.typ = append(m.slots, uint16(s.field.Slot)), s.field.Type
		default:
			return spot{}, false
		}
	}
	return m, m.typ != nil
}

// slot returns the last slot, and the slots that lead to it.
func (m spot) slot() (slot uint16, via []uint16) {
	last := len(m.slots) - 1
	if last < 0 {
		return fast.Itself, nil
	}
	return m.slots[last], m.slots[:last]
}

// ask returns a question about the value.
func (m spot) ask(q fast.Question, units int) asking {
	var via []uint16
	switch q.Slot, via = m.slot(); {
	case q.Slot == fast.Itself:
		q.Reach = fast.ReachNone
	case len(via) > 0 || q.Slot&fast.ListItem != 0:
		q.Reach, q.Via = fast.ReachFar, &via
	}
	q.Of = m.of
	return func(l *layout, yes, no target) target { return l.ask(q, m.units+units, yes, no) }
}

// askOf returns a test of the text that a node is, nil if a diagram cannot find it.
func (c *compiler) askOf(n *code, test fast.TextTest) asking {
	m, part, ok := c.textSpot(n)
	if !ok {
		return nil
	}
	q := fast.Question{Asked: fast.AskOf, Leaf: &fast.Leaf{One: part.Before(test), Around: m.around}}
	if m.around != (fast.Around{}) {
		q.Asked = fast.AskAround
	}
	return m.ask(q, 0)
}

// askBoth returns a test of the texts that two nodes are, nil if a diagram cannot find them.
func (c *compiler) askBoth(a, b *code, test fast.PairTest) asking {
	m, part, ok := c.textSpot(a)
	n, also, found := c.textSpot(b)
	if !ok || !found || m.around != (fast.Around{}) || n.around != (fast.Around{}) {
		return nil
	}
	if test = fast.BeforeBoth(part, also, test); m.of == n.of && slices.Equal(m.slots, n.slots) {
		return m.ask(fast.Question{Asked: fast.AskOf, Leaf: &fast.Leaf{One: func(s string, runes uint64) (val.Tri, uint64) { return test(s, runes, s, runes) }}}, n.units)
	}
	f := fast.Leaf{Two: test, Of: n.of}
	f.Slot, f.Via = n.slot()
	return m.ask(fast.Question{Asked: fast.AskBoth, Leaf: &f}, n.units)
}

// textSpot returns the spot of the text that a node is, or from which it is computed, and the
// function that computes it.
func (c *compiler) textSpot(n *code) (spot, fast.TextPart, bool) {
	if made := n.made; made != nil {
		m, part, ok := c.textSpot(made.source)
		switch {
		case made.part != nil:
			return m, part.Then(made.part), ok
		case made.around != (fast.Around{}):
			ok = ok && part == nil && m.around == (fast.Around{})
			m.around = made.around
			return m, nil, ok
		}
	}
	m, ok := c.spotOf(n)
	return m, nil, ok && !n.path.test && m.typ.Kind == val.String
}

// opposite returns a test with its answers exchanged.
func opposite(a asking) asking {
	return func(l *layout, yes, no target) target { return a(l, no, yes) }
}

// opposed returns the opposite of a if negated, otherwise a.
func opposed(a asking, negated bool) asking {
	if a == nil || !negated {
		return a
	}
	return opposite(a)
}

// askConstant returns the test true or false.
func askConstant(outcome val.Tri) asking {
	return func(_ *layout, then, otherwise target) target {
		if outcome == val.Yes {
			return then
		}
		return otherwise
	}
}

// askHas returns the test has().
func (c *compiler) askHas(n *code) asking {
	m, ok := c.spotOf(n)
	if !ok || int(m.typ.Kind) >= len(val.JSONKind) || val.JSONKind[m.typ.Kind] == jsondoc.Absent {
		return nil
	}
	return m.ask(fast.Question{Asked: fast.AskPresent, Want: val.JSONKind[m.typ.Kind]}, 0)
}

// asks returns a node as a test of a diagram, nil if it has no such form. In a branch of ?: the
// root of a path costs nothing.
func (c *compiler) asks(n *code, branch bool) asking {
	if n.asks != nil || n.path == nil || n.path.test {
		return n.asks
	}
	m, ok := c.spotOf(n)
	if !ok || m.typ.Kind != val.Bool {
		return nil
	}
	if branch {
		m.units -= int(n.path.root)
	}
	return m.ask(fast.Question{Asked: fast.AskTrue}, 0)
}

// askAll returns the test && of terms, askAny the test ||.
func (c *compiler) askAll(terms []*code) asking { return c.askChain(terms, false) }
func (c *compiler) askAny(terms []*code) asking { return c.askChain(terms, true) }

// askChain returns either. decisive is the result that ends the chain.
func (c *compiler) askChain(terms []*code, decisive bool) asking {
	asks := make([]asking, len(terms))
	for i, t := range terms {
		if asks[i] = c.asks(t, false); asks[i] == nil {
			return nil
		}
	}
	return func(l *layout, yes, no target) target {
		t := no
		if !decisive {
			t = yes
		}
		for i := len(asks) - 1; i >= 0; i-- {
			if decisive {
				t = asks[i](l, yes, t)
			} else {
				t = asks[i](l, t, no)
			}
		}
		return t
	}
}

// askNot returns the test !a.
func askNot(a asking) asking {
	if a == nil {
		return nil
	}
	return func(l *layout, yes, no target) target { return a(l, no.plus(1), yes.plus(1)) }
}

// askChoice returns the test cond ? a : b.
func (c *compiler) askChoice(cond, a, b *code) asking {
	x, y, z := c.asks(cond, false), c.asks(a, true), c.asks(b, true)
	if x == nil || y == nil || z == nil {
		return nil
	}
	return func(l *layout, yes, no target) target { return x(l, y(l, yes, no), z(l, yes, no)) }
}

// askEqual returns the test == or != of two nodes.
func (c *compiler) askEqual(a, b *code, negated bool) asking {
	k := b.konst
	if k == nil || k.K == val.KindInt || k.K == val.KindDuration {
		if made := a.number(); made != nil || k != nil && k.K == val.KindInt {
			rel := fast.RelEqual
			if negated {
				rel = fast.RelLess | fast.RelGreater
			}
			return c.askOrder(a, b, rel)
		}
		return c.askSame(a, b, negated)
	}
	m, ok := c.spotOf(a)
	switch {
	case k.K == val.KindString && a.cased != nil:
		return c.askOf(a.made.source, fast.EqualInCase(a.cased.lo, a.cased.hi, k, negated))
	case k.K == val.KindString && ok && !a.path.test && k.Flag == val.FlagASCII && k.Bits < uint64(len(val.Tenths)) && m.typ.Kind == val.String:
		return opposed(m.ask(fast.Question{Asked: fast.AskText, Konst: k}, 0), negated)
	case k.K == val.KindString && a.static == val.KindString:
		return c.askOf(a, fast.EqualTo(k, negated))
	case k.K == val.KindBool && ok && !a.path.test && m.typ.Kind == val.Bool:
		return opposed(m.ask(fast.Question{Asked: fast.AskTrue}, 1), negated != (k.Bits == 0))
	}
	return nil
}

// number returns how the node is computed from a text as a number, nil if it is not.
func (c *code) number() fast.TextNumber {
	if c.made == nil {
		return nil
	}
	return c.made.number
}

// askSame returns the test == or != of two nodes that are not constants.
func (c *compiler) askSame(a, b *code, negated bool) asking {
	same := c.askTests(a, b)
	switch {
	case same != nil:
	case a.static == val.KindString && b.static == val.KindString:
		if same = c.askAlike(a, b); same == nil {
			same = c.askBoth(a, b, fast.EqualPair)
		}
	default:
		if same = c.askAlike(a, b); same == nil {
			same = c.askSums(a, b, fast.RelEqual)
		}
	}
	return opposed(same, negated)
}

// askTests returns the test == of two tests. The second one is added twice, once for each answer of
// the first: it must be a single question.
func (c *compiler) askTests(a, b *code) asking {
	if b.path == nil {
		a, b = b, a
	}
	x, y := c.asks(a, false), c.asks(b, false)
	if x == nil || y == nil || b.path == nil {
		return nil
	}
	return func(l *layout, yes, no target) target {
		yes, no = yes.plus(1), no.plus(1)
		return x(l, y(l, yes, no), y(l, no, yes))
	}
}

// askAlike returns the test == of two members of one type.
func (c *compiler) askAlike(a, b *code) asking {
	m, ok := c.spotOf(a)
	n, also := c.spotOf(b)
	if !ok || !also || a.path != nil && a.path.test || b.path != nil && b.path.test {
		return nil
	}
	switch m.typ.Kind {
	case val.String, val.Int, val.Bool:
		ok = m.typ.Kind == n.typ.Kind
	case val.List, val.Map, val.Object:
		ok = m.typ == n.typ
	default:
		ok = false
	}
	if !ok {
		return nil
	}
	if m.typ.Kind == val.String && m.of+n.of == val.SlotOldSelf && len(m.slots) <= 1 && len(n.slots) <= 1 && c.self.Kind != val.List {
		if m.of != val.SlotSelf {
			m, n = n, m
		}
		q := fast.Question{Asked: fast.AskSame}
		q.And, _ = n.slot()
		return m.ask(q, n.units)
	}
	f := fast.Leaf{Typ: m.typ, Of: n.of}
	f.Slot, f.Via = n.slot()
	return m.ask(fast.Question{Asked: fast.AskAlike, Leaf: &f}, n.units)
}

// askOrder returns the comparison of a number with a constant or another number.
func (c *compiler) askOrder(a, k *code, rel fast.Relation) asking {
	if made := a.number(); made != nil {
		switch other := k.number(); {
		case other != nil && a.static == k.static:
			return c.askBoth(a.made.source, k.made.source, fast.RelatedNumbers(made, other, rel))
		case k.konst != nil && k.konst.K == a.static && a.sized == nil:
			if m, part, ok := c.textSpot(a.made.source); ok && part == nil && m.around == (fast.Around{}) && a.static == val.KindDuration {
				return m.ask(fast.Question{Asked: fast.AskDuration, Rel: rel, Konst: k.konst}, 1)
			}
			return c.askOf(a.made.source, made.RelatedTo(k.konst.Int(), rel))
		}
	}
	if k.konst == nil {
		return c.askSums(a, k, rel)
	}
	if k.konst.K != val.KindInt || c.lang != nil {
		return nil
	}
	if a.tally != nil {
		return a.tally.compare(rel, k.konst, 1)
	}
	if sum := a.sum; sum != nil {
		return func(l *layout, yes, no target) target {
			return sum(l, func(i int64) target {
				if rel.Of(i, k.konst.Int()) {
					return yes.plus(1)
				}
				return no.plus(1)
			})
		}
	}
	if a.sized != nil {
		return a.sized.ask(fast.Question{Asked: fast.AskSize, Want: val.JSONKind[a.sized.typ.Kind], Rel: rel, Konst: k.konst}, 2)
	}
	if m, ok := c.spotOf(a); ok && !a.path.test && m.typ.Kind == val.Int {
		return m.ask(fast.Question{Asked: fast.AskNumber, Rel: rel, Konst: k.konst}, 1)
	}
	return c.askSums(a, k, rel)
}

// sizedSpot returns the spot of the argument of size(), nil if a diagram cannot find it.
func (c *compiler) sizedSpot(arg *code) *spot {
	m, ok := c.spotOf(arg)
	if !ok || arg.path.test || m.typ.Kind != val.String && m.typ.Kind != val.List && m.typ.Kind != val.Map {
		return nil
	}
	return &m
}

// sumOf returns a node as a sum of constants, with choices between them, nil if it is not one.
func sumOf(n *code) summing {
	if n.konst != nil && n.konst.K == val.KindInt && n.konst.Int() == int64(int16(n.konst.Int())) {
		k := n.konst.Int()
		return func(_ *layout, next func(int64) target) target { return next(k) }
	}
	return n.sum
}

// sumChoice returns cond ? a : b as a sum.
func (c *compiler) sumChoice(cond, a, b *code) summing {
	x, y, z := c.asks(cond, false), sumOf(a), sumOf(b)
	if x == nil || y == nil || z == nil {
		return nil
	}
	return func(l *layout, next func(int64) target) target { return x(l, y(l, next), z(l, next)) }
}

// sumBoth returns a + b as a sum.
func sumBoth(a, b *code) summing {
	x, y := sumOf(a), sumOf(b)
	if x == nil || y == nil {
		return nil
	}
	return func(l *layout, next func(int64) target) target {
		return x(l, once(func(i int64) target {
			return y(l, func(j int64) target { return next(i + j).plus(1) })
		}))
	}
}

// once returns next with a cache, so that what follows a sum is added once for each value.
func once(next func(int64) target) func(int64) target {
	known := map[int64]target{}
	return func(sum int64) target {
		t, ok := known[sum]
		if !ok {
			t = next(sum)
			known[sum] = t
		}
		return t
	}
}
