// Package jsondoc is the document model: JSON documents as a flat arena of nodes.
//
// # Model
//
// A [Doc] owns one text buffer and one slice of [Node]s. A Node is 16 bytes and
// holds no pointer: a scalar carries its value (or, a string, where its bytes
// are in the text), an array or object carries where its children start. The
// children of one array or object stand side by side. A Doc is therefore a
// handful of allocations however large the document is, and none when it comes
// from the pool ([Get], [Doc.Release]).
//
// # Objects have one of two layouts
//
//   - A map (shape 0): Len pairs, key node then value node, sorted by key
//     (bytewise), no key twice.
//   - A shaped object: its schema declares the member names, so the members
//     live in slots, slot i holding the value of Shape.Names[i], an [Absent]
//     node where the member is missing. Names are sorted, hence printing slots
//     in order prints sorted keys. A shape that is Open has one more slot after
//     the named ones: a map with the undeclared members that are kept, or
//     Absent.
//
// The shapes of a Doc are a table shared with the schema program that decoded
// it; a Node names its shape by index. Index 0 is always "a map".
//
// # Use
//
// [Parse] a text into a Doc from [Get], read it through [Doc.Root]
// and the methods of [Value], change it with [Doc.Set] and [Doc.Remove], print
// it with [Doc.AppendJSON], compare with [Equal], and [Doc.Release] it.
// [MergePatch] and [JSONPatch] patch texts.
//
// # Terms
//
// Decode is bytes to nodes, print is nodes to bytes. Plain decoding knows no
// schema and makes maps only; package schema drives the same [Scanner] by a
// schema and makes shaped objects.
//
// # Invariants
//
//   - Keys are unique and sorted; a printed document has sorted keys.
//   - Every number is an int64 ([Int]) or else a float64 ([Float]), as
//     Kubernetes decodes JSON numbers.
//   - Strings are valid UTF-8.
//   - Offsets fit 32 bits: a text is at most 4 GiB, inputs are far smaller
//     ([MaxBytes]), nesting at most [MaxDepth].
//   - Strings and bytes handed out borrow the Doc's text: they are valid until
//     Release. A caller that keeps one longer must clone it.
package jsondoc

import (
	"sync"
	"unicode/utf8"
	"unsafe"

	"github.com/keelson-io/keelson/internal/poison"
)

// MaxDepth is how deep arrays and objects may nest, encoding/json's limit.
const MaxDepth = 10000

// MaxBytes is the longest source that a Doc takes.
const MaxBytes = 1 << 30

// Doc is one JSON document. The zero value is an empty document ready to use.
// A Doc is not safe for concurrent change; concurrent reads are safe.
type Doc struct {
	text   []byte
	nodes  []Node
	stack  []Node   // children of the arrays and objects being decoded
	shapes []*Shape // shapes[0] is nil: a map
	root   Node

	released bool // set by Release in the poison mode only
}

var pool = sync.Pool{New: func() any { return new(Doc) }}

// Get returns an empty Doc from the pool.
func Get() *Doc { return pool.Get().(*Doc) }

// maxPooled is the largest text or node capacity that goes back to the pool,
// so that one huge request does not hold its memory for ever.
const maxPooled = 1 << 20

// Release empties d and gives it back to the pool. Every Node, Value, string
// and byte slice taken from d is invalid from here on.
func (d *Doc) Release() {
	if d == nil {
		return
	}
	if poison.On {
		d.poison()
		return
	}
	if cap(d.text) > maxPooled || cap(d.nodes) > maxPooled/16 || cap(d.stack) > maxPooled/16 {
		return
	}
	d.Reset(nil)
	pool.Put(d)
}

// poison overwrites the memory of a released document and keeps it out of the pool, so that a use of it after Release panics or
// reads garbage.
func (d *Doc) poison() {
	d.mustBeHeld()
	poison.Fill(d.text)
	for _, nodes := range [][]Node{d.nodes[:cap(d.nodes)], d.stack[:cap(d.stack)]} {
		for i := range nodes {
			nodes[i] = poisonedNode
		}
	}
	*d = Doc{root: poisonedNode, released: true}
}

// poisonedNode is a string that lies beyond every text.
var poisonedNode = Node{uint64(String) | (1<<32-1)<<32, 1 << 62}

// mustBeHeld panics if d was released. Only the poison mode notices.
func (d *Doc) mustBeHeld() {
	if poison.On && d.released {
		panic("BUG: document used after its release")
	}
}

// Reset empties d, keeps its memory, and sets its table of shapes.
// shapes[0] must be nil.
func (d *Doc) Reset(shapes []*Shape) {
	d.mustBeHeld()
	d.text = d.text[:0]
	d.nodes = d.nodes[:0]
	d.stack = d.stack[:0]
	d.shapes = shapes
	d.root = Node{}
}

// CopyOf makes d a copy of another Doc. It is faster than importing its root, and what edits left behind comes along.
func (d *Doc) CopyOf(o *Doc) {
	d.text = append(d.text[:0], o.text...)
	d.nodes = append(d.nodes[:0], o.nodes...)
	d.stack, d.shapes, d.root = d.stack[:0], o.shapes, o.root
}

// MayHaveFloats reports whether a Float is in d, or was. The Float 1 reads back as an Int once it has been printed; any other document
// reads back as it is.
func (d *Doc) MayHaveFloats() bool {
	for _, n := range d.nodes {
		if n.Kind() == Float {
			return true
		}
	}
	return d.root.Kind() == Float
}

// Root is the root value; Absent in an empty document.
func (d *Doc) Root() Value {
	d.mustBeHeld()
	return Value{d, d.root}
}

// SetRoot makes n the root.
func (d *Doc) SetRoot(n Node) { d.root = n }

// Shape returns the shape of an object node, nil if n is a map.
func (d *Doc) Shape(n Node) *Shape {
	if n.ShapeIndex() == 0 {
		return nil
	}
	return d.shapes[n.ShapeIndex()]
}

// Shapes is the table of shapes, shared: read only.
func (d *Doc) Shapes() []*Shape { return d.shapes }

// Size returns the number of nodes in d, 16 bytes each. It can be large for a short text, because an
// empty object takes all slots of its shape. Decoders of hostile input should bound it.
func (d *Doc) Size() int { return len(d.nodes) }

// Bytes is the memory that d's text and nodes take.
func (d *Doc) Bytes() int { return len(d.text) + 16*len(d.nodes) }

// Str is the text of a String node, borrowed.
func (d *Doc) Str(n Node) string {
	if n.Len() == 0 {
		return ""
	}
	return unsafe.String(&d.text[n.bits], n.Len())
}

// Item is child i of an Array node.
func (d *Doc) Item(n Node, i int) Node { return d.nodes[n.bits+uint64(i)] }

// Items are the children of an Array node, borrowed: not to be changed.
func (d *Doc) Items(n Node) []Node { return d.nodes[n.bits : n.bits+uint64(n.Len())] }

// Slot is the member in slot i of a shaped Object node; Absent if missing.
func (d *Doc) Slot(n Node, i int) Node { return d.nodes[n.bits+uint64(i)] }

// SlotNodes are the members of a shaped Object node by slot, borrowed: not to be
// changed; none if n is anything else.
func (d *Doc) SlotNodes(n Node) []Node {
	if n.ShapeIndex() == 0 {
		return nil
	}
	return d.nodes[n.bits : n.bits+uint64(n.Len())]
}

// Children are the items of an Array node, the keys and values, one after the other, of
// a map, or the members of a shaped Object by slot, borrowed: not to be changed.
func (d *Doc) Children(n Node) []Node {
	count := uint64(n.Len())
	if n.Kind() == Object && n.ShapeIndex() == 0 {
		count *= 2
	}
	return d.nodes[n.bits : n.bits+count]
}

// SetSlot replaces the member in slot i of a shaped Object node.
func (d *Doc) SetSlot(n Node, i int, v Node) { d.nodes[n.bits+uint64(i)] = v }

// Pair is key and value i of a map node.
func (d *Doc) Pair(n Node, i int) (key, value Node) {
	at := n.bits + 2*uint64(i)
	return d.nodes[at], d.nodes[at+1]
}

// NewString appends s to the text and returns a String node for it. What is not
// UTF-8 in s becomes U+FFFD.
func (d *Doc) NewString(s string) Node {
	at, flags := len(d.text), scanString(s)
	if flags&flagASCII != 0 || utf8.ValidString(s) {
		d.text = append(d.text, s...)
	} else {
		for _, r := range s {
			d.text = utf8.AppendRune(d.text, r)
		}
	}
	return stringNode(uint64(at), uint32(len(d.text)-at), flags)
}

// NewShaped appends an object of the given shape (an index into Shapes, not 0)
// whose slots are all Absent.
func (d *Doc) NewShaped(shape uint16) Node {
	n := d.shapes[shape].Slots()
	at := len(d.nodes)
	d.nodes = growNodes(d.nodes, n)
	return makeNode(Object, shape, n, at)
}

// growNodes appends n Absent nodes.
func growNodes(nodes []Node, n int) []Node {
	at := len(nodes)
	if cap(nodes)-at < n {
		grown := make([]Node, at, 2*cap(nodes)+n)
		copy(grown, nodes)
		nodes = grown
	}
	nodes = nodes[:at+n]
	clear(nodes[at:])
	return nodes
}

// NewArray appends the items side by side and returns their Array node.
func (d *Doc) NewArray(items []Node) Node {
	at := len(d.nodes)
	d.nodes = append(d.nodes, items...)
	return makeNode(Array, 0, len(items), at)
}

// NewMap appends a map from pairs (key node, value node, key node, …) that are
// sorted by key and free of duplicates.
func (d *Doc) NewMap(pairs []Node) Node {
	at := len(d.nodes)
	d.nodes = append(d.nodes, pairs...)
	return makeNode(Object, 0, len(pairs)/2, at)
}
