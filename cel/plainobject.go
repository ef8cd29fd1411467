package cel

import "unsafe"

// This file reads members of objects that are data without a schema: those that
// a host fills in for one request after the other. As with documents, a direct
// read either succeeds and charges, or does nothing at all, and the general way
// finds out why.

// plainPath is a variable and the members selected from it, by their names.
type plainPath struct {
	slot  int
	names []Value
	units uint64 // the price
}

// plainPathOf is the plain form of a node of a [Language]; false if it has none.
func (c *compiler) plainPathOf(p *path) (plainPath, bool) {
	if c.lang == nil || p == nil || p.slot < 0 || p.init != nil || len(p.steps) == 0 || p.root != costSelect && !p.test {
		return plainPath{}, false
	}
	out := plainPath{slot: int(p.slot), units: p.root + uint64(len(p.steps))*costSelect}
	for i := range p.steps {
		s := &p.steps[i]
		if s.field != nil || s.item || s.index != nil || s.optional || s.key.kind != KindString {
			return plainPath{}, false
		}
		out.names = append(out.names, *s.key)
	}
	return out, true
}

// plainParent is what the variable and the given members of members lead to; nil if a
// direct read fails.
func plainParent(v *Value, names []Value) *mapBox {
	for i := range names {
		m := plainObject(v)
		if m == nil {
			return nil
		}
		if v = m.member(&names[i]); v == nil {
			return nil
		}
	}
	return plainObject(v)
}

// plainObject is a value that is an object with nothing to be computed, whose
// members are found by their names; else nil.
func plainObject(v *Value) *mapBox {
	if v.kind != KindMap || v.flag != 0 {
		return nil
	}
	m := (*mapBox)(v.ptr)
	if m.get != nil || m.unescape || m.index != nil {
		return nil
	}
	return m
}

// member is the member of that name, nil if there is none. The map has no index.
func (m *mapBox) member(name *Value) *Value {
	text := unsafe.String((*byte)(name.ptr), int(name.bits))
	for i := range m.keys {
		key := &m.keys[i]
		if key.bits == name.bits && key.kind == KindString && unsafe.String((*byte)(key.ptr), int(key.bits)) == text {
			return &m.vals[i]
		}
	}
	return nil
}

// value is what the path leads to; nil if a direct read fails.
func (p *plainPath) value(fr *frame) *Value {
	last := len(p.names) - 1
	m := plainParent(&fr.slots[p.slot], p.names[:last])
	if m == nil {
		return nil
	}
	return m.member(&p.names[last])
}

// plainText reads a text that is a member; nil if the node is no such path.
//
//go:noinline
func (c *compiler) plainText(node *path) textFn {
	p, ok := c.plainPathOf(node)
	if !ok {
		return nil
	}
	return func(fr *frame) (string, uint64, bool) {
		v := p.value(fr)
		if v == nil || v.kind != KindString {
			return "", 0, false
		}
		fr.cost += p.units
		s := unsafe.String((*byte)(v.ptr), int(v.bits))
		if v.flag == flagASCII {
			return s, v.bits, true
		}
		return s, fr.runes(s), true
	}
}

// plainPresence is has() of a member; nil if the node is no such path.
//
//go:noinline
func (c *compiler) plainPresence(node *path, general testFn) testFn {
	p, ok := c.plainPathOf(node)
	if !ok {
		return nil
	}
	last := len(p.names) - 1
	return func(fr *frame) tri {
		m := plainParent(&fr.slots[p.slot], p.names[:last])
		if m == nil {
			return general(fr)
		}
		v := m.member(&p.names[last])
		if v != nil && v.failed() {
			return general(fr)
		}
		fr.cost += p.units
		return truth(v != nil)
	}
}

// plainMembership is `text in x` of a list of texts that is a member; nil if the
// operands are not that.
//
//go:noinline
func (c *compiler) plainMembership(x, in *code, general testFn) testFn {
	text := textOf(x)
	p, ok := c.plainPathOf(in.path)
	if !ok || text == nil || x.static != KindString || in.path.test {
		return nil
	}
	return func(fr *frame) tri {
		cost := fr.cost
		if s, _, ok := text(fr); ok {
			if list := p.value(fr); list != nil && list.kind == KindList && list.flag == 0 {
				items := (*listBox)(list.ptr).items
				fr.cost += p.units + uint64(len(items))
				if t := hasText(items, s); t != bad && fr.cost <= fr.limit {
					return t
				}
			}
		}
		fr.cost = cost
		return general(fr)
	}
}

// hasText looks for a text among items; bad if one before it is no text.
func hasText(items []Value, text string) tri {
	for i := range items {
		item := &items[i]
		switch {
		case item.kind != KindString:
			return bad
		case int(item.bits) == len(text) && unsafe.String((*byte)(item.ptr), int(item.bits)) == text:
			return yes
		}
	}
	return no
}
