package jsondoc

// This file finds and enumerates the members of objects in both layouts.

// Member is the member of that name of an Object node; Absent if there is
// none.
func (d *Doc) Member(n Node, name string) Node {
	if n.ShapeIndex() == 0 {
		if i, ok := d.find(n, name); ok {
			return d.nodes[n.bits+2*uint64(i)+1]
		}
		return Node{}
	}
	s := d.shapes[n.ShapeIndex()]
	if i := s.Slot(name); i >= 0 {
		return d.Slot(n, i)
	}
	if extra := d.extra(n, s); extra.Len() > 0 {
		return d.Member(extra, name)
	}
	return Node{}
}

// extra is the overflow map of an object of shape s; Absent if there is none.
func (d *Doc) extra(n Node, s *Shape) Node {
	if !s.Open {
		return Node{}
	}
	return d.Slot(n, len(s.Names))
}

// find is the pair of a map that has the key, or else where it belongs.
func (d *Doc) find(n Node, name string) (i int, found bool) {
	lo, hi := 0, n.Len()
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		key := d.Str(d.nodes[n.bits+2*uint64(mid)])
		if key == name {
			return mid, true
		}
		if key < name {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, false
}

func (d *Doc) memberCount(n Node) int {
	if n.ShapeIndex() == 0 {
		return n.Len()
	}
	s := d.shapes[n.ShapeIndex()]
	return present(d.nodes[n.bits:][:len(s.Names)]) + d.extra(n, s).Len()
}

// members is a walk over an object's present members in key order.
type members struct {
	d     *Doc
	n     Node
	shape *Shape // nil if n is a map
	slot  int    // next named slot
	extra Node   // the overflow map, or n itself
	pair  int    // next pair of extra

	name  string
	value Node
}

// members starts a walk over the members of an Object node.
func (d *Doc) members(n Node) members {
	if n.ShapeIndex() == 0 {
		return members{d: d, n: n, extra: n}
	}
	s := d.shapes[n.ShapeIndex()]
	return members{d: d, n: n, shape: s, extra: d.extra(n, s)}
}

// next sets name and value to the next member; false if there is none.
func (m *members) next() bool {
	if m.shape != nil {
		names := m.shape.Names
		for m.slot < len(names) && m.d.Slot(m.n, m.slot).Kind() == Absent {
			m.slot++
		}
		if m.slot < len(names) && !m.extraBefore(names[m.slot]) {
			m.name, m.value = names[m.slot], m.d.Slot(m.n, m.slot)
			m.slot++
			return true
		}
	}
	if m.pair >= m.extra.Len() {
		return false
	}
	var key Node
	key, m.value = m.d.Pair(m.extra, m.pair)
	m.name = m.d.Str(key)
	m.pair++
	return true
}

// extraBefore reports whether the next pair of extra sorts before name.
func (m *members) extraBefore(name string) bool {
	if m.pair >= m.extra.Len() {
		return false
	}
	key, _ := m.d.Pair(m.extra, m.pair)
	return m.d.Str(key) < name
}
