package jsondoc

// This file changes documents. Text and nodes are only ever appended to; what
// an edit replaces stays behind as garbage until the Doc is released.

// place is where a node is held: index i of the arena, or the root if i is -1.
type place int

const atRoot place = -1

func (d *Doc) load(p place) Node {
	if p == atRoot {
		return d.root
	}
	return d.nodes[p]
}

func (d *Doc) store(p place, n Node) {
	if p == atRoot {
		d.root = n
	} else {
		d.nodes[p] = n
	}
}

// Set makes n the value at the path of member names below the root; without a
// path it becomes the root. Parents that are missing or no objects are
// created, shaped where the shape above them says so. n must not be part of
// the document yet.
func (d *Doc) Set(n Node, path ...string) {
	at := atRoot
	var kid uint16 // shape for the object at the place, should it be created
	for _, name := range path {
		at, kid = d.slotFor(at, kid, name)
	}
	d.store(at, n)
}

// slotFor is the place of a member of the object at p, which is made an object
// if it is none, and the shape for an object in that place.
func (d *Doc) slotFor(p place, kid uint16, name string) (place, uint16) {
	n := d.load(p)
	if n.Kind() != Object {
		if n = makeNode(Object, 0, 0, len(d.nodes)); kid != 0 {
			n = d.NewShaped(kid)
		}
		d.store(p, n)
	}
	if n.ShapeIndex() == 0 {
		return d.pairFor(p, name), 0
	}
	s := d.shapes[n.ShapeIndex()]
	if i := s.Slot(name); i >= 0 {
		return place(n.bits) + place(i), s.Kid(i)
	}
	if s.Open {
		return d.slotFor(place(n.bits)+place(len(s.Names)), 0, name)
	}
	// A member that the shape has no place for: the object becomes a map.
	d.store(p, d.asMap(n))
	return d.pairFor(p, name), 0
}

// pairFor is the place of the value of a key in the map at p. A new key gets
// an Absent value, which the caller replaces.
func (d *Doc) pairFor(p place, name string) place {
	n := d.load(p)
	i, found := d.find(n, name)
	if !found {
		key := d.NewString(name)
		from, to := n.bits, len(d.nodes)
		d.nodes = growNodes(d.nodes, int(2*n.Len()+2))
		copy(d.nodes[to:], d.nodes[from:from+2*uint64(i)])
		d.nodes[to+2*i] = key
		copy(d.nodes[to+2*i+2:], d.nodes[from+2*uint64(i):from+2*uint64(n.Len())])
		n = n.withBlock(n.Len()+1, to)
		d.store(p, n)
	}
	return place(n.bits) + place(2*i+1)
}

// asMap is the shaped object n as a map of the same members.
func (d *Doc) asMap(n Node) Node {
	var pairs []Node
	for m := d.members(n); m.next(); {
		pairs = append(pairs, d.NewString(m.name), m.value)
	}
	return d.NewMap(pairs)
}

// Remove removes the member at the path of names below the root, if it is
// there; without a path the document becomes empty.
func (d *Doc) Remove(path ...string) {
	if len(path) == 0 {
		d.root = Node{}
		return
	}
	at := atRoot
	for i, name := range path {
		n := d.load(at)
		if n.Kind() != Object {
			return
		}
		if n.ShapeIndex() != 0 {
			s := d.shapes[n.ShapeIndex()]
			if slot := s.Slot(name); slot >= 0 {
				at = place(n.bits) + place(slot)
				if i == len(path)-1 {
					d.store(at, Node{})
				}
				continue
			}
			if !s.Open {
				return
			}
			at = place(n.bits) + place(len(s.Names))
			if n = d.load(at); n.Kind() != Object {
				return
			}
		}
		pair, found := d.find(n, name)
		if !found {
			return
		}
		if i == len(path)-1 {
			d.removePair(at, n, pair)
			return
		}
		at = place(n.bits) + place(2*pair+1)
	}
}

// removePair takes pair i out of the map n, which is at p.
func (d *Doc) removePair(p place, n Node, i int) {
	pairs := d.nodes[n.bits : n.bits+2*uint64(n.Len())]
	copy(pairs[2*i:], pairs[2*i+2:])
	d.store(p, n.withBlock(n.Len()-1, int(n.bits)))
}

// NewStrings appends an array of strings.
func (d *Doc) NewStrings(items []string) Node {
	at := len(d.nodes)
	d.nodes = growNodes(d.nodes, len(items))
	for i, s := range items {
		d.nodes[at+i] = d.NewString(s)
	}
	return makeNode(Array, 0, len(items), at)
}

// Import deep-copies v, which may be of another Doc or of d itself, to the end
// of d. Shapes stay if both have the same table of shapes, else objects become
// maps: see [Doc.ImportAs].
func (d *Doc) Import(v Value) Node {
	same := v.Doc == d || v.Doc != nil && len(v.Doc.shapes) == len(d.shapes) &&
		(len(d.shapes) == 0 || &v.Doc.shapes[0] == &d.shapes[0])
	return d.copyFrom(v.Doc, v.Node, same)
}

func (d *Doc) copyFrom(from *Doc, n Node, same bool) Node {
	switch n.Kind() {
	case String:
		return d.copyString(from, n)
	case Array:
		return d.copyBlock(from, n, n.Len(), same)
	case Object:
		switch {
		case n.ShapeIndex() == 0:
			return d.copyBlock(from, n, 2*n.Len(), same)
		case same:
			return d.copyBlock(from, n, n.Len(), same)
		}
		return d.copyAsMap(from, n, 0)
	}
	return n
}

func (d *Doc) copyString(from *Doc, n Node) Node {
	if from == d {
		return n
	}
	at := len(d.text)
	d.text = append(d.text, from.text[n.bits:n.bits+uint64(n.Len())]...)
	n.bits = uint64(at)
	return n
}

// copyBlock copies n and the count nodes that are its children.
func (d *Doc) copyBlock(from *Doc, n Node, count int, same bool) Node {
	at := len(d.nodes)
	d.nodes = growNodes(d.nodes, count)
	for i := range count {
		kid := d.copyFrom(from, from.nodes[n.bits+uint64(i)], same)
		d.nodes[at+i] = kid
	}
	n.bits = uint64(at)
	return n
}

// copyAsMap copies the members of an object into a map; their own objects, if
// kid is not 0, into that shape.
func (d *Doc) copyAsMap(from *Doc, n Node, kid uint16) Node {
	count, at := from.memberCount(n), len(d.nodes)
	d.nodes = growNodes(d.nodes, 2*count)
	i := at
	for m := from.members(n); m.next(); i += 2 {
		d.nodes[i] = d.NewString(m.name)
		value := d.importAs(from, m.value, kid)
		d.nodes[i+1] = value
	}
	return makeNode(Object, 0, count, at)
}

// ImportAs deep-copies v to the end of d, giving objects the layout of the
// shape and below it of its Kids, member by name. The shape of an array is
// that of its items. An object with a member for which a closed shape has no
// place becomes a map.
func (d *Doc) ImportAs(v Value, shape uint16) Node { return d.importAs(v.Doc, v.Node, shape) }

func (d *Doc) importAs(from *Doc, n Node, shape uint16) Node {
	switch n.Kind() {
	case String:
		return d.copyString(from, n)
	case Array:
		at := len(d.nodes)
		d.nodes = growNodes(d.nodes, n.Len())
		for i := range n.Len() {
			item := d.importAs(from, from.Item(n, i), shape)
			d.nodes[at+i] = item
		}
		return makeNode(Array, 0, n.Len(), at)
	case Object:
		if shape == 0 {
			return d.copyAsMap(from, n, 0)
		}
		return d.importShaped(from, n, shape)
	}
	return n
}

func (d *Doc) importShaped(from *Doc, n Node, shape uint16) Node {
	s := d.shapes[shape]
	extra := 0
	for m := from.members(n); m.next(); {
		if s.Slot(m.name) < 0 {
			extra++
		}
	}
	if extra > 0 && !s.Open {
		return d.copyAsMap(from, n, 0)
	}
	out := d.NewShaped(shape)
	at := len(d.nodes)
	if extra > 0 {
		d.nodes = growNodes(d.nodes, 2*extra)
		d.SetSlot(out, len(s.Names), makeNode(Object, 0, extra, at))
	}
	guess := 0
	for m := from.members(n); m.next(); {
		if i := s.SlotAfter(m.name, guess); i >= 0 {
			value := d.importAs(from, m.value, s.Kid(i))
			d.SetSlot(out, i, value)
			guess = i + 1
			continue
		}
		d.nodes[at] = d.NewString(m.name)
		value := d.importAs(from, m.value, 0)
		d.nodes[at+1] = value
		at += 2
	}
	return out
}
