package declared

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file has the result of a conversion while it is made: a tree over the source, of which only
// the changed parts are nodes. The rest is printed from the source.

// Bounds of one conversion: nodes, each of which takes some 100 bytes, visits of list items by steps,
// and bytes of the values of expressions.
const (
	maxTree   = 1 << 20
	maxVisits = 8 << 20
	maxValues = MaxObject
)

// node is a value of the tree. If it is not open, it is value with everything below.
type node struct {
	value   jsondoc.Value
	open    bool // members or items, as kind says, are used in place of value
	isList  bool
	members []member // sorted by name
	items   []*node
}

// member is a member of an open object.
type member struct {
	name string
	node *node
}

// work is the memory of one conversion.
type work struct {
	slab    []node
	used    int // nodes of slab
	count   int // nodes of all slabs
	visits  int // of items
	bytes   int // of the values of expressions
	ctx     context.Context
	pairs   []member     // members of objects are taken from its end
	scratch *jsondoc.Doc // holds new scalars
	docs    []*jsondoc.Doc
	b       []byte
}

// works has the memory of conversions that have ended.
var works = sync.Pool{New: func() any { return &work{slab: make([]node, 64)} }}

// getWork returns memory for a conversion, to be released.
func getWork(ctx context.Context) *work {
	w := works.Get().(*work)
	w.ctx = ctx
	w.scratch = w.doc()
	return w
}

// doc returns a document that is released with w.
func (w *work) doc() *jsondoc.Doc {
	d := jsondoc.Get()
	w.docs = append(w.docs, d)
	return d
}

// release returns the memory. All nodes and documents of w are invalid afterwards.
func (w *work) release() {
	for _, d := range w.docs {
		d.Release()
	}
	clear(w.slab[:w.used])
	clear(w.pairs)
	w.pairs = w.pairs[:0]
	w.docs, w.scratch, w.ctx = w.docs[:0], nil, nil
	w.used, w.count, w.visits, w.bytes = 0, 0, 0, 0
	if cap(w.b) > 1<<20 {
		w.b = nil
	}
	works.Put(w)
}

// errTree is the error of a conversion that takes too much work.
var errTree = fmt.Errorf("the conversion changes more than %d values, or visits more than %d items", maxTree, maxVisits)

// full returns an error if the tree is too large, or if the context ended.
func (w *work) full() error {
	if w.count > maxTree || w.visits > maxVisits {
		return errTree
	}
	return w.ctx.Err()
}

// new returns a node for a value.
func (w *work) new(v jsondoc.Value) *node {
	w.count++
	if w.used == len(w.slab) {
		w.slab, w.used = make([]node, min(2*len(w.slab), 4096)), 0
	}
	n := &w.slab[w.used]
	w.used++
	n.value = v
	return n
}

// room returns an empty list with room for n members.
func (w *work) room(n int) []member {
	if n > cap(w.pairs)-len(w.pairs) {
		w.pairs = make([]member, 0, max(n, min(2*cap(w.pairs), 4096), 128))
	}
	at := len(w.pairs)
	w.pairs = w.pairs[:at+n]
	return w.pairs[at : at : at+n]
}

// text returns a node for a string.
func (w *work) text(s string) *node {
	return w.new(jsondoc.Value{Doc: w.scratch, Node: w.scratch.NewString(s)})
}

// parse returns a node for JSON.
func (w *work) parse(text []byte) (*node, error) {
	d := w.doc()
	if err := jsondoc.Parse(d, text); err != nil {
		return nil, err
	}
	return w.new(d.Root()), nil
}

// isObject reports whether n is an object.
func (n *node) isObject() bool {
	return n.open && !n.isList || !n.open && n.value.Kind() == jsondoc.Object
}

// isArray reports whether n is a list.
func (n *node) isArray() bool {
	return n.open && n.isList || !n.open && n.value.Kind() == jsondoc.Array
}

// kind returns the kind of n as a word.
func (n *node) kind() string {
	switch {
	case n.isArray():
		return "a list"
	case n.isObject():
		return "an object"
	}
	return n.value.Kind().String()
}

// openObject makes the members of an object nodes. It returns false for any other value.
func (w *work) openObject(n *node) bool {
	if !n.isObject() {
		return false
	}
	if !n.open {
		n.open, n.members = true, w.room(n.value.Len()+1)
		for name, v := range n.value.Members() {
			n.members = append(n.members, member{name, w.new(v)})
		}
	}
	return true
}

// openList makes the items of a list nodes. It returns false for any other value.
func (w *work) openList(n *node) bool {
	if !n.isArray() {
		return false
	}
	if !n.open {
		n.open, n.isList, n.items = true, true, make([]*node, 0, n.value.Len()+1)
		for _, v := range n.value.Items() {
			n.items = append(n.items, w.new(v))
		}
	}
	return true
}

// search returns the place of a member in an open object.
func (n *node) search(name string) (int, bool) {
	return slices.BinarySearchFunc(n.members, name, func(m member, name string) int { return strings.Compare(m.name, name) })
}

// get returns the value at a path without [*], nil if it is absent. It does not open lists and
// objects that are not open.
func (w *work) get(n *node, p path) *node {
	for _, e := range p {
		if n == nil || n.isArray() == (e.kind == memberOf) || !n.isArray() && !n.isObject() {
			return nil
		}
		n = w.below(n, e)
	}
	return n
}

// below returns what an element selects of an object or list, nil if it is absent.
func (w *work) below(n *node, e element) *node {
	switch {
	case e.kind == memberOf && n.open:
		if i, ok := n.search(e.name); ok {
			return n.members[i].node
		}
	case e.kind == memberOf:
		if v := n.value.Get(e.name); v.Exists() {
			return w.new(v)
		}
	case n.open && len(n.items) > 0:
		return n.items[0]
	case !n.open && n.value.Len() > 0:
		return w.new(n.value.Item(0))
	}
	return nil
}

// detach removes the value at a path without [*] and returns it, nil if it is absent. Objects and
// lists that become empty are removed, too, but not n itself.
func (w *work) detach(n *node, p path) *node {
	if p[0].kind != memberOf {
		if !w.openList(n) || len(n.items) == 0 {
			return nil
		}
		out := n.items[0]
		if len(p) > 1 {
			if out = w.detach(out, p[1:]); out == nil || !n.items[0].isEmpty() {
				return out
			}
		}
		n.items = n.items[1:]
		return out
	}
	if !n.open && !n.value.Get(p[0].name).Exists() || !w.openObject(n) {
		return nil
	}
	i, ok := n.search(p[0].name)
	if !ok {
		return nil
	}
	out := n.members[i].node
	if len(p) > 1 {
		if out = w.detach(out, p[1:]); out == nil || !n.members[i].node.isEmpty() {
			return out
		}
	}
	n.members = slices.Delete(n.members, i, i+1)
	return out
}

// isEmpty reports whether n is an open object or list without values.
func (n *node) isEmpty() bool { return n.open && len(n.members) == 0 && len(n.items) == 0 }

// attach puts a value at a path without [*], and creates missing objects and lists on the way.
func (w *work) attach(n *node, p path, v *node) error {
	for i, e := range p {
		if e.kind == memberOf && !w.openObject(n) {
			return fmt.Errorf("%s: got %s, want an object", path(p[:i]), n.kind())
		}
		if e.kind != memberOf && !w.openList(n) {
			return fmt.Errorf("%s: got %s, want a list", path(p[:i]), n.kind())
		}
		last := i == len(p)-1
		if e.kind != memberOf {
			if len(n.items) == 0 {
				n.items = append(n.items, w.missing(p[i+1:]))
			}
			if last {
				n.items[0] = v
			}
			n = n.items[0]
			continue
		}
		at, ok := n.search(e.name)
		if !ok {
			n.members = slices.Insert(n.members, at, member{e.name, w.missing(p[i+1:])})
		}
		if child := n.members[at].node; !last && !child.open && child.value.Kind() == jsondoc.Null {
			n.members[at].node = w.missing(p[i+1:])
		}
		if last {
			n.members[at].node = v
		}
		n = n.members[at].node
	}
	return w.full()
}

// missing returns the empty object or list to which the path rest applies.
func (w *work) missing(rest path) *node {
	n := w.new(jsondoc.Value{})
	n.open = true
	n.isList = len(rest) > 0 && rest[0].kind != memberOf
	return n
}

// items calls f with each value that a path, which ends in [*], selects, in order. An empty path
// selects n.
func (w *work) items(n *node, p path, f func(*node) error) error {
	if len(p) == 0 {
		return f(n)
	}
	for i, e := range p {
		if e.kind != each {
			continue
		}
		list := n
		for _, e := range p[:i] {
			// Lists on the way are opened, so that f changes what is printed.
			if e.kind == memberOf && !w.openObject(list) || e.kind == first && !w.openList(list) {
				return nil
			}
			if list = w.below(list, e); list == nil {
				return nil
			}
		}
		if !w.openList(list) {
			return nil
		}
		if err := w.full(); err != nil {
			return err
		}
		for _, item := range list.items {
			if w.visits++; w.visits%1024 == 0 {
				if err := w.full(); err != nil {
					return err
				}
			}
			if err := w.items(item, p[i+1:], f); err != nil {
				return err
			}
		}
		return w.full()
	}
	panic("BUG: the path of items does not end in [*]")
}

// appendJSON appends n as JSON. It stops when b is longer than an object may be: the same constant may
// be in very many items.
func (n *node) appendJSON(b []byte) []byte {
	switch {
	case len(b) > MaxObject:
		return b
	case !n.open:
		return n.value.Doc.AppendJSON(b, n.value.Node)
	case n.isList:
		b = append(b, '[')
		for i, item := range n.items {
			if i > 0 {
				b = append(b, ',')
			}
			b = item.appendJSON(b)
		}
		return append(b, ']')
	}
	b = append(b, '{')
	for i, m := range n.members {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(jsondoc.AppendQuoted(b, m.name), ':')
		b = m.node.appendJSON(b)
	}
	return append(b, '}')
}
