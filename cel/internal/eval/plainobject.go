package eval

import (
	"unsafe"

	"github.com/keelson-io/keelson/internal/fastpath"

	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file reads members of objects without a schema, such as the data of requests that a host
// fills in. As for documents, a direct read either succeeds and adds its cost, or has no effect,
// and the general implementation finds the reason.

// plainPath is a variable with the names of the selected members.
type plainPath struct {
	slot  int
	names []val.Value
	units uint64 // the cost
}

// plainPathOf returns the plain form of a path in an expression of a language, false if it has
// none.
func (c *compiler) plainPathOf(p *path) (plainPath, bool) {
	if c.lang == nil || p == nil || !fastpath.Closures.On() || p.slot < 0 || p.init != nil || len(p.steps) == 0 || p.root != val.CostSelect && !p.test {
		return plainPath{}, false
	}
	out := plainPath{slot: int(p.slot), units: p.root + uint64(len(p.steps))*val.CostSelect}
	for i := range p.steps {
		s := &p.steps[i]
		if s.field != nil || s.item || s.index != nil || s.optional || s.key.K != val.KindString {
			return plainPath{}, false
		}
		out.names = append(out.names, *s.key)
	}
	return out, true
}

// plainParent returns the object at the end of a path from v, nil if it cannot be read directly.
func plainParent(v *val.Value, names []val.Value) *val.MapBox {
	for i := range names {
		m := plainObject(v)
		if m == nil {
			return nil
		}
		if v = m.Member(&names[i]); v == nil {
			return nil
		}
	}
	return plainObject(v)
}

// plainObject returns a value as an object whose members are neither computed nor indexed, nil for
// other values.
func plainObject(v *val.Value) *val.MapBox {
	if v.K != val.KindMap || v.Flag != 0 {
		return nil
	}
	m := (*val.MapBox)(v.Ptr)
	if m.Get != nil || m.Unescape || m.Index != nil {
		return nil
	}
	return m
}

// value returns the value of the path, nil if it cannot be read directly.
func (p *plainPath) value(fr *val.Frame) *val.Value {
	last := len(p.names) - 1
	m := plainParent(&fr.Slots[p.slot], p.names[:last])
	if m == nil {
		return nil
	}
	return m.Member(&p.names[last])
}

// plainText returns a textFn for a member, nil for other paths.
//
//go:noinline
func (c *compiler) plainText(node *path) textFn {
	p, ok := c.plainPathOf(node)
	if !ok {
		return nil
	}
	return func(fr *val.Frame) (string, uint64, bool) {
		v := p.value(fr)
		if v == nil || v.K != val.KindString {
			return "", 0, false
		}
		fr.Cost += p.units
		s := unsafe.String((*byte)(v.Ptr), int(v.Bits))
		if v.Flag == val.FlagASCII {
			return s, v.Bits, true
		}
		return s, fr.Runes(s), true
	}
}

// plainPresence returns has() of a member, nil for other paths.
//
//go:noinline
func (c *compiler) plainPresence(node *path, general val.TestFn) val.TestFn {
	p, ok := c.plainPathOf(node)
	if !ok {
		return nil
	}
	last := len(p.names) - 1
	return func(fr *val.Frame) val.Tri {
		m := plainParent(&fr.Slots[p.slot], p.names[:last])
		if m == nil {
			return general(fr)
		}
		v := m.Member(&p.names[last])
		if v != nil && v.Failed() {
			return general(fr)
		}
		fr.Cost += p.units
		return val.Truth(v != nil)
	}
}

// plainMembership returns `text in x` for a list of texts that is a member, nil for other operands.
//
//go:noinline
func (c *compiler) plainMembership(x, in *code, general val.TestFn) val.TestFn {
	text := textOf(x)
	p, ok := c.plainPathOf(in.path)
	if !ok || text == nil || x.static != val.KindString || in.path.test {
		return nil
	}
	return func(fr *val.Frame) val.Tri {
		cost := fr.Cost
		if s, _, ok := text(fr); ok {
			if list := p.value(fr); list != nil && list.K == val.KindList && list.Flag == 0 {
				items := (*val.ListBox)(list.Ptr).Items
				fr.Cost += p.units + uint64(len(items))
				if t := hasText(items, s); t != val.Bad && fr.Cost <= fr.Limit {
					return t
				}
			}
		}
		fr.Cost = cost
		return general(fr)
	}
}

// hasText searches a text among items. It returns Bad if an item before it is not a text.
func hasText(items []val.Value, text string) val.Tri {
	for i := range items {
		item := &items[i]
		switch {
		case item.K != val.KindString:
			return val.Bad
		case int(item.Bits) == len(text) && unsafe.String((*byte)(item.Ptr), int(item.Bits)) == text:
			return val.Yes
		}
	}
	return val.No
}
