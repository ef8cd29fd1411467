package jsondoc

import (
	"encoding/binary"
	"unsafe"
)

// This file compares values.

// Equal reports whether a and b are the same JSON value. Types are exact (the
// Int 1 is not the Float 1), layouts and documents do not matter. Two absent
// values are equal.
func Equal(a, b Value) bool { return equal(a.Doc, a.Node, b.Doc, b.Node) }

func equal(da *Doc, a Node, db *Doc, b Node) bool {
	if a.Kind() != b.Kind() {
		return false
	}
	switch a.Kind() {
	case Absent, Null:
		return true
	case Bool, Int:
		return a.bits == b.bits
	case Float:
		return a.Float() == b.Float()
	case String:
		return da.Str(a) == db.Str(b)
	case Array:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !equal(da, da.Item(a, i), db, db.Item(b, i)) {
				return false
			}
		}
		return true
	}
	switch sa, sb := da.Shape(a), db.Shape(b); {
	case sa != sb:
		return equalMembers(da, a, db, b)
	case sa == nil:
		return equalMaps(da, a, db, b)
	default:
		return equalSlots(da, a, db, b)
	}
}

func equalMaps(da *Doc, a Node, db *Doc, b Node) bool {
	if a.Len() != b.Len() {
		return false
	}
	for i := range a.Len() {
		ka, va := da.Pair(a, i)
		kb, vb := db.Pair(b, i)
		if da.Str(ka) != db.Str(kb) || !equal(da, va, db, vb) {
			return false
		}
	}
	return true
}

// equalSlots compares objects of one shape. An overflow map without pairs is
// as good as none.
func equalSlots(da *Doc, a Node, db *Doc, b Node) bool {
	named := len(da.Shape(a).Names)
	for i := range named {
		if !equal(da, da.Slot(a, i), db, db.Slot(b, i)) {
			return false
		}
	}
	return a.Len() == named || equalMaps(da, da.Slot(a, named), db, db.Slot(b, named))
}

// equalMembers compares objects whatever their layouts.
func equalMembers(da *Doc, a Node, db *Doc, b Node) bool {
	ma, mb := da.members(a), db.members(b)
	for ma.next() {
		if !mb.next() || ma.name != mb.name || !equal(da, ma.value, db, mb.value) {
			return false
		}
	}
	return !mb.next()
}

// SameText reports whether two String nodes are the same text. Most texts are short: up to 32 bytes are compared as
// words, some of which overlap, without a loop.
func SameText(da *Doc, a Node, db *Doc, b Node) bool {
	n := a.head >> 32
	if n != b.head>>32 {
		return false
	}
	if n > 32 || a.bits+max(n, 8) > uint64(len(da.text)) || b.bits+max(n, 8) > uint64(len(db.text)) {
		return sameLongText(da, a, db, b)
	}
	p, q := unsafe.Pointer(&da.text[a.bits]), unsafe.Pointer(&db.text[b.bits])
	switch {
	case n < 8:
		return differences(p, q, 0)<<(64-8*n) == 0
	case n <= 16:
		return differences(p, q, 0)|differences(p, q, n-8) == 0
	}
	return differences(p, q, 0)|differences(p, q, 8)|differences(p, q, n-16)|differences(p, q, n-8) == 0
}

// sameLongText is SameText for what a loop compares.
//
//go:noinline
func sameLongText(da *Doc, a Node, db *Doc, b Node) bool { return da.Str(a) == db.Str(b) }

// differences are the bits in which the eight bytes at p+i and at q+i differ, those of the first byte lowest.
func differences(p, q unsafe.Pointer, i uint64) uint64 {
	return binary.LittleEndian.Uint64((*[8]byte)(unsafe.Add(p, i))[:]) ^ binary.LittleEndian.Uint64((*[8]byte)(unsafe.Add(q, i))[:])
}

// textPerNode bounds how much text Congruent compares.
const textPerNode = 64

// Congruent reports whether two objects of one shape certainly are the same JSON value since they lie alike in memory: the
// same nodes follow them, each as far from its children and its text as its counterpart, around the same text. That is so
// of what two Docs decoded of the same text, wherever in the documents it stood. Otherwise, and if there is a Null or a
// Float, or their shape is Open, nothing is said. It also says how many items or members either of a and b has.
func Congruent(da *Doc, a Node, db *Doc, b Node) (m, n int, ok bool) {
	if a.head != b.head || a.ShapeIndex() == 0 || &da.shapes[0] != &db.shapes[0] || da.shapes[a.ShapeIndex()].Open {
		return Value{da, a}.Len(), Value{db, b}.Len(), false
	}
	xs, ys := da.nodes[a.bits:], db.nodes[b.bits:]
	m, n, ok = a.Len(), a.Len(), true
	for i := range xs[:a.Len()] {
		switch x, y := xs[i].head, ys[i].head; {
		case x == y && x == 0:
			m, n = m-1, n-1
		case x == y:
		case x == 0:
			m, ok = m-1, false
		case y == 0:
			n, ok = n-1, false
		default:
			ok = false
		}
	}
	if !ok {
		return m, n, false
	}
	const size = unsafe.Sizeof(Node{})
	px, py := unsafe.Pointer(unsafe.SliceData(xs)), unsafe.Pointer(unsafe.SliceData(ys))
	limit, end := uintptr(min(len(xs), len(ys)))*size, uintptr(a.Len())*size // end of what is compared
	from, to, shift := ^uint64(0), uint64(0), uint64(0)                      // the text
	for i := uintptr(0); i < end; i += size {
		x, y := (*Node)(unsafe.Add(px, i)), (*Node)(unsafe.Add(py, i))
		head, at := x.head, x.bits
		if head != y.head {
			return m, n, false
		}
		switch d := y.bits - at; Kind(head) {
		case String:
			if d != shift {
				if to != 0 {
					return m, n, false
				}
				shift = d
			}
			from, to = min(from, at), max(to, at+head>>32)
		case Absent:
		case Array, Object:
			past := uintptr(at-a.bits+uint64(x.children())) * size
			if d != b.bits-a.bits || at < a.bits || past > limit {
				return m, n, false
			}
			end = max(end, past)
		case Bool, Int:
			if d != 0 {
				return m, n, false
			}
		default:
			return m, n, false
		}
	}
	return m, n, from >= to || to-from <= textPerNode*uint64(end/size) && string(da.text[from:to]) == string(db.text[from+shift:to+shift])
}

// present is how many of nodes are not absent.
func present(nodes []Node) (n int) {
	for i := range nodes {
		if nodes[i].Kind() != Absent {
			n++
		}
	}
	return n
}

// children is how many nodes the children of an Array or Object are.
func (n *Node) children() int {
	if n.Kind() == Object && n.ShapeIndex() == 0 {
		return 2 * n.Len()
	}
	return n.Len()
}
