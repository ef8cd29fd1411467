package cache

// This file implements the ordered map of objects by key: a B+ tree with immutable nodes. A change
// makes new nodes along one path and shares the others, so that every root is a state that stays
// valid.
//
// The project has its own tree because it counts keys in logarithmic time, and takes one word for
// each object. BenchmarkTree compares it, with 100,000 objects, with tidwall/btree's Map and a Copy
// for each change.

import "sort"

// node is a leaf, with objects, or an inner node, with kids. The nil node is the empty tree.
type node struct {
	objs []*Object // leaf: sorted by key
	kids []*node   // inner
	keys []string  // inner: keys[i] is after all keys under kids[i-1], and not after the first key under kids[i]; keys[0] is unused
	size int       // number of objects below
}

const (
	fanout  = 32             // greatest number of objects of a leaf, and of kids of an inner node
	mergeAt = fanout * 3 / 4 // neighbours with at most so many entries together are merged
)

// len returns the number of objects.
func (n *node) len() int {
	if n == nil {
		return 0
	}
	return n.size
}

// kid returns the index of the kid in which key belongs.
func (n *node) kid(key string) int {
	lo, hi := 1, len(n.keys) // the first of keys[1:] after key
	for lo < hi {
		if m := int(uint(lo+hi) >> 1); n.keys[m] <= key {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo - 1
}

// find returns the index of the first object of a leaf that is not before key, and whether its key
// is key.
func (n *node) find(key string) (int, bool) {
	lo, hi := 0, len(n.objs)
	for lo < hi {
		if m := int(uint(lo+hi) >> 1); n.objs[m].Key < key {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo, lo < len(n.objs) && n.objs[lo].Key == key
}

// get returns the object at key, nil if there is none.
func (n *node) get(key string) *Object {
	if n == nil {
		return nil
	}
	for n.kids != nil {
		n = n.kids[n.kid(key)]
	}
	if i, ok := n.find(key); ok {
		return n.objs[i]
	}
	return nil
}

// rank returns how many keys are before key.
func (n *node) rank(key string) int {
	if n == nil {
		return 0
	}
	before := 0
	for n.kids != nil {
		i := n.kid(key)
		for _, k := range n.kids[:i] {
			before += k.size
		}
		n = n.kids[i]
	}
	i, _ := n.find(key)
	return before + i
}

// ascend calls fn for each object from a key on, and reports whether fn always returned true.
func (n *node) ascend(from string, fn func(*Object) bool) bool {
	if n == nil {
		return true
	}
	if n.kids == nil {
		i, _ := n.find(from)
		for _, o := range n.objs[i:] {
			if !fn(o) {
				return false
			}
		}
		return true
	}
	i := n.kid(from)
	if !n.kids[i].ascend(from, fn) {
		return false
	}
	for _, k := range n.kids[i+1:] {
		if !k.ascend("", fn) {
			return false
		}
	}
	return true
}

// insert returns the tree with o, and the replaced object, or nil.
func (n *node) insert(o *Object) (*node, *Object) {
	if n == nil {
		return &node{objs: []*Object{o}, size: 1}, nil
	}
	left, right, key, old := n.put(o)
	if right == nil {
		return left, old
	}
	return &node{kids: []*node{left, right}, keys: []string{"", key}, size: left.size + right.size}, old
}

// put returns the node with o. If that needs two nodes, it returns both, and the key that separates
// them.
func (n *node) put(o *Object) (left, right *node, key string, old *Object) {
	if n.kids == nil {
		i, ok := n.find(o.Key)
		if ok {
			objs := append([]*Object(nil), n.objs...)
			old, objs[i] = objs[i], o
			return &node{objs: objs, size: n.size}, nil, "", old
		}
		return splitLeaf(inserted(n.objs, i, o), i)
	}
	i := n.kid(o.Key)
	l, r, k, old := n.kids[i].put(o)
	kids, keys := n.kids, n.keys
	if r == nil {
		kids = append([]*node(nil), kids...)
		kids[i] = l
		return &node{kids: kids, keys: keys, size: n.size - n.kids[i].size + l.size}, nil, "", old
	}
	kids = inserted(kids, i+1, r)
	kids[i] = l
	keys = inserted(keys, i+1, k)
	if len(kids) <= fanout {
		return &node{kids: kids, keys: keys, size: n.size + 1}, nil, "", old
	}
	at := splitAt(i, len(kids))
	return newInner(kids[:at:at], keys[:at:at]), newInner(kids[at:], keys[at:]), keys[at], old
}

// splitLeaf returns one or two leaves with objs. The object at i was just inserted.
func splitLeaf(objs []*Object, i int) (left, right *node, key string, old *Object) {
	if len(objs) <= fanout {
		return &node{objs: objs, size: len(objs)}, nil, "", nil
	}
	at := splitAt(i, len(objs))
	left = &node{objs: append([]*Object(nil), objs[:at]...), size: at}
	right = &node{objs: append([]*Object(nil), objs[at:]...), size: len(objs) - at}
	return left, right, objs[at].Key, nil
}

// splitAt returns where to split: in the middle, unless keys are inserted in ascending order, which
// would leave half-empty nodes.
func splitAt(i, n int) int {
	if i >= n-2 {
		return n - 2
	}
	return n / 2
}

// newInner returns an inner node.
func newInner(kids []*node, keys []string) *node {
	n := &node{kids: kids, keys: keys}
	for _, k := range kids {
		n.size += k.size
	}
	return n
}

// remove returns the tree without key, and the removed object, or nil.
func (n *node) remove(key string) (*node, *Object) {
	if n == nil {
		return nil, nil
	}
	if n.get(key) == nil {
		return n, nil
	}
	n, old := n.cut(key)
	for n != nil && n.kids != nil && len(n.kids) == 1 {
		n = n.kids[0]
	}
	return n, old
}

// cut returns the node without key, which it must have; nil if nothing remains.
func (n *node) cut(key string) (*node, *Object) {
	if n.size == 1 {
		return nil, n.get(key)
	}
	if n.kids == nil {
		i, _ := n.find(key)
		return &node{objs: removed(n.objs, i), size: n.size - 1}, n.objs[i]
	}
	i := n.kid(key)
	kid, old := n.kids[i].cut(key)
	m := &node{size: n.size - 1}
	switch {
	case kid == nil:
		m.kids, m.keys = removed(n.kids, i), removed(n.keys, i)
	case i > 0 && n.kids[i-1].width()+kid.width() <= mergeAt:
		m.kids, m.keys = removed(n.kids, i), removed(n.keys, i)
		m.kids[i-1] = merged(n.kids[i-1], kid, n.keys[i])
	default:
		m.kids, m.keys = append([]*node(nil), n.kids...), n.keys
		m.kids[i] = kid
	}
	return m, old
}

// width returns the number of entries of a node.
func (n *node) width() int { return len(n.objs) + len(n.kids) }

// merged joins neighbours of the same height. key separates them.
func merged(a, b *node, key string) *node {
	m := &node{size: a.size + b.size}
	if a.kids == nil {
		m.objs = append(append([]*Object(nil), a.objs...), b.objs...)
		return m
	}
	m.kids = append(append([]*node(nil), a.kids...), b.kids...)
	m.keys = append(append(append([]string(nil), a.keys...), key), b.keys[1:]...)
	return m
}

// inserted returns a copy of s with v inserted at i.
func inserted[T any](s []T, i int, v T) []T {
	out := make([]T, len(s)+1)
	copy(out, s[:i])
	out[i] = v
	copy(out[i+1:], s[i:])
	return out
}

// removed returns a copy of s without element i.
func removed[T any](s []T, i int) []T {
	out := make([]T, len(s)-1)
	copy(out, s[:i])
	copy(out[i:], s[i+1:])
	return out
}

// builder makes a tree of objects that are added in order.
type builder struct{ leaves []*node }

// add adds an object, whose key is after all others.
func (b *builder) add(o *Object) {
	if n := len(b.leaves); n == 0 || len(b.leaves[n-1].objs) == fanout {
		b.leaves = append(b.leaves, &node{objs: make([]*Object, 0, fanout)})
	}
	leaf := b.leaves[len(b.leaves)-1]
	leaf.objs = append(leaf.objs, o)
	leaf.size++
}

// tree returns the tree of all added objects.
func (b *builder) tree() *node {
	level := b.leaves
	for len(level) > 1 {
		var up []*node
		for len(level) > 0 {
			n := min(fanout, len(level))
			keys := make([]string, n)
			for i, k := range level[:n] {
				keys[i] = k.first()
			}
			up = append(up, newInner(append([]*node(nil), level[:n]...), keys))
			level = level[n:]
		}
		level = up
	}
	if len(level) == 0 {
		return nil
	}
	return level[0]
}

// first returns the first key.
func (n *node) first() string {
	for n.kids != nil {
		n = n.kids[0]
	}
	return n.objs[0].Key
}

// check reports whether the invariants hold. Tests call it.
func (n *node) check() bool {
	last, count := "", 0
	ok := n.ascend("", func(o *Object) bool {
		good := count == 0 || o.Key > last
		last = o.Key
		count++
		return good && n.get(o.Key) == o
	})
	return ok && count == n.len() && n.sane()
}

// sane reports whether the sizes of the node and those below are right.
func (n *node) sane() bool {
	if n == nil || n.kids == nil {
		return n == nil || len(n.objs) > 0 && len(n.objs) <= fanout && n.size == len(n.objs)
	}
	size := 0
	for _, k := range n.kids {
		if !k.sane() {
			return false
		}
		size += k.size
	}
	return size == n.size && len(n.kids) == len(n.keys) && len(n.kids) <= fanout &&
		sort.StringsAreSorted(n.keys[1:])
}
