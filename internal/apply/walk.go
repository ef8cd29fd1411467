package apply

import (
	"bytes"
	"sync"

	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file compares two documents by their type and writes what differs as
// FieldsV1 tries, straight into the arena of the new document: no paths, no
// sets, no JSON in between.
//
// A walk steps back (ok is false) wherever SMD's rules are not plain: values
// that do not fit their type, items twice in a list, null beside something
// else, names and texts that do not print as they are. SMD does those.

// walker writes tries into the document d.
type walker struct {
	d     *jsondoc.Doc
	stack []jsondoc.Node // pairs of the tries under construction
	key   []byte         // scratch
	leaf  jsondoc.Node   // the empty map, shared by all leaves
	dot   jsondoc.Node   // the key "."
}

var walkers = sync.Pool{New: func() any { return &walker{stack: make([]jsondoc.Node, 0, 128), key: make([]byte, 0, 64)} }}

// newWalker gets a walker for the new document d from the pool. Call release when it is no longer
// needed.
func newWalker(d *jsondoc.Doc) *walker {
	w := walkers.Get().(*walker)
	w.d, w.stack, w.leaf, w.dot = d, w.stack[:0], d.NewMap(nil), d.NewString(".")
	return w
}

// maxPooled is the capacity of a stack that does not go back to the pool.
const maxPooled = 1 << 14

// release returns the walker to the pool, unless its buffers have become too large to keep.
func (w *walker) release() {
	if w.d = nil; cap(w.stack) <= maxPooled && cap(w.key) <= maxPooled {
		walkers.Put(w)
	}
}

// close makes a map of the pairs from mark on; Absent if there are none.
func (w *walker) close(mark int) jsondoc.Node {
	if len(w.stack) == mark {
		return jsondoc.Node{}
	}
	n := w.d.NewMap(w.stack[mark:])
	w.stack = w.stack[:mark]
	return n
}

// field returns the key of a member.
func (w *walker) field(name string) jsondoc.Node {
	w.key = append(append(w.key[:0], "f:"...), name...)
	return w.d.NewString(string(w.key))
}

// item returns the key of an item of a set or map list; ok is false if it is not
// plain.
func (w *walker) item(l *listType, v jsondoc.Value) (key jsondoc.Node, ok bool) {
	w.key, ok = appendItemKey(w.key[:0], l, v)
	if !ok {
		return jsondoc.Node{}, false
	}
	return w.d.NewString(string(w.key)), true
}

// appendItemKey appends the path element of an item.
func appendItemKey(b []byte, l *listType, v jsondoc.Value) ([]byte, bool) {
	if l.keys == nil {
		return appendScalar(append(b, "v:"...), v)
	}
	if v.Kind() != jsondoc.Object || l.needsSMD {
		return b, false
	}
	b = append(b, "k:{"...)
	sep := false
	for _, name := range l.sortedKeys {
		member := v.Get(name)
		if !member.Exists() {
			if l.hasDefaults {
				return b, false // the default is part of the key
			}
			continue
		}
		if sep {
			b = append(b, ',')
		}
		sep = true
		b = append(append(append(b, '"'), name...), `":`...)
		var ok bool
		if b, ok = appendScalar(b, member); !ok {
			return b, false
		}
	}
	return append(b, '}'), sep
}

// appendScalar appends a text, integer or boolean that prints the same
// wherever it is printed.
func appendScalar(b []byte, v jsondoc.Value) ([]byte, bool) {
	switch v.Kind() {
	case jsondoc.String:
		return v.AppendJSON(b), v.Node.Plain()
	case jsondoc.Int, jsondoc.Bool:
		return v.AppendJSON(b), true
	}
	return b, false
}

// fits reports whether a scalar is of its type. Null is of every type.
func (t *typ) fits(k jsondoc.Kind) bool {
	switch t.scalar {
	case smd.Untyped:
		return k == jsondoc.String || k == jsondoc.Int || k == jsondoc.Float || k == jsondoc.Bool
	case smd.Numeric:
		return k == jsondoc.Int || k == jsondoc.Float
	case smd.String:
		return k == jsondoc.String
	case smd.Boolean:
		return k == jsondoc.Bool
	}
	return false
}

// valid reports whether a value that is not walked into is of its type, as
// SMD's validation sees it.
func (w *walker) valid(t *typ, v jsondoc.Value) bool {
	switch k := v.Kind(); k {
	case jsondoc.Null:
		return t.object != nil || t.scalar != "" || t.list != nil
	case jsondoc.Array:
		if t.list == nil {
			return false
		}
		if t.list.granul && !w.distinct(t.list, v) {
			return false
		}
		for _, item := range v.Items() {
			if !w.valid(t.list.elem, item) {
				return false
			}
		}
		return true
	case jsondoc.Object:
		if t.object == nil {
			return false
		}
		at := 0
		for name, member := range v.Members() {
			var mt *typ
			if mt, at = t.object.field(name, at); mt == nil || !w.valid(mt, member) {
				return false
			}
		}
		return true
	default:
		return t.fits(k)
	}
}

// distinct reports whether the items of a set or map list have plain keys, no two the same.
func (w *walker) distinct(l *listType, v jsondoc.Value) bool {
	var ends [16]int // of the keys in w.key, where they are few
	var seen map[string]bool
	few := v.Len() <= len(ends)
	if !few {
		seen = make(map[string]bool, v.Len())
	}
	w.key = w.key[:0]
	for i, item := range v.Items() {
		start, ok := len(w.key), false
		if w.key, ok = appendItemKey(w.key, l, item); !ok {
			return false
		}
		key := w.key[start:]
		if !few {
			if seen[string(key)] {
				return false
			}
			seen[string(key)], w.key = true, w.key[:0]
			continue
		}
		from := 0
		for _, end := range ends[:i] {
			if bytes.Equal(w.key[from:end], key) {
				return false
			}
			from = end
		}
		ends[i] = len(w.key)
	}
	return true
}

// all returns the trie of a value and everything in it, for a value that only one
// of the two documents has.
func (w *walker) all(t *typ, v jsondoc.Value) (n jsondoc.Node, ok bool) {
	switch k := v.Kind(); {
	case k == jsondoc.Array && t.list != nil && t.list.granul && v.Len() > 0:
		return w.allItems(t.list, v)
	case k == jsondoc.Object && t.object != nil && !t.object.atomic && v.Len() > 0:
		return w.allMembers(t.object, v)
	}
	return w.leaf, w.valid(t, v)
}

// allItems is all for a list whose items have owners of their own.
func (w *walker) allItems(l *listType, v jsondoc.Value) (jsondoc.Node, bool) {
	mark := len(w.stack)
	w.stack = append(w.stack, w.dot, w.leaf)
	for _, item := range v.Items() {
		key, ok := w.item(l, item)
		if !ok {
			return jsondoc.Node{}, false
		}
		n, ok := w.all(l.elem, item)
		if !ok {
			return jsondoc.Node{}, false
		}
		w.stack = append(w.stack, key, n)
	}
	return w.closeSorted(mark)
}

// closeSorted is close for items, which come in any order. No item may be
// there twice.
func (w *walker) closeSorted(mark int) (jsondoc.Node, bool) {
	if _, twice := w.d.SortPairs(w.stack[mark:]); twice {
		return jsondoc.Node{}, false
	}
	return w.close(mark), true
}

// allMembers is all for an object.
func (w *walker) allMembers(m *mapType, v jsondoc.Value) (jsondoc.Node, bool) {
	mark := len(w.stack)
	w.stack = append(w.stack, w.dot, w.leaf)
	at := 0
	for name, member := range v.Members() {
		var t *typ
		if t, at = m.field(name, at); t == nil {
			return jsondoc.Node{}, false
		}
		n, ok := w.all(t, member)
		if !ok {
			return jsondoc.Node{}, false
		}
		w.stack = append(w.stack, w.field(name), n)
	}
	return w.close(mark), true
}

// diff is what differs between two values: changed is what new added or
// modified, removed what it removed. Absent is nothing.
type diff struct{ changed, removed jsondoc.Node }

// isEmpty reports whether the two values are the same.
func (f diff) isEmpty() bool {
	return f.changed.Kind() == jsondoc.Absent && f.removed.Kind() == jsondoc.Absent
}

// compare compares two values that both documents have.
func (w *walker) compare(t *typ, live, new jsondoc.Value) (f diff, ok bool) {
	lk, nk := live.Kind(), new.Kind()
	switch {
	case lk == jsondoc.Null && nk == jsondoc.Null:
		return f, w.valid(t, new)
	case lk == jsondoc.Null || nk == jsondoc.Null:
		return f, false
	case lk == jsondoc.Object && nk == jsondoc.Object && t.object != nil && !t.object.atomic:
		return w.compareMembers(t.object, live, new)
	case lk == jsondoc.Array && nk == jsondoc.Array && t.list != nil && t.list.granul:
		return w.compareItems(t.list, live, new)
	case (lk == jsondoc.Object) != (nk == jsondoc.Object) || (lk == jsondoc.Array) != (nk == jsondoc.Array):
		return f, false
	}
	if jsondoc.Equal(live, new) {
		return f, w.valid(t, new)
	}
	if !w.valid(t, live) || !w.valid(t, new) {
		return f, false
	}
	if !equalNumbers(live, new) {
		f.changed = w.leaf
	}
	return f, true
}

// equalNumbers reports whether two values that are not equal are so to SMD, to
// which 1 and 1.0 are the same.
func equalNumbers(a, b jsondoc.Value) bool {
	return (hasFloat(a) || hasFloat(b)) && value.Equals(node{a}, node{b})
}

// hasFloat reports whether there is a number with a fraction or exponent in the value.
func hasFloat(v jsondoc.Value) bool {
	switch v.Kind() {
	case jsondoc.Float:
		return true
	case jsondoc.Array:
		for _, item := range v.Items() {
			if hasFloat(item) {
				return true
			}
		}
	case jsondoc.Object:
		for _, member := range v.Members() {
			if hasFloat(member) {
				return true
			}
		}
	}
	return false
}

// compareMembers compares objects member by member.
func (w *walker) compareMembers(m *mapType, live, new jsondoc.Value) (diff, bool) {
	c := collector{w: w}
	at := 0
	for name, v := range jsondoc.Both(live, new) {
		var t *typ
		if t, at = m.field(name, at); t == nil || !c.member(t, name, v[0], v[1]) {
			return diff{}, false
		}
	}
	return c.close(false)
}

// compareItems compares lists item by item; the order of items is nothing that
// anybody owns.
func (w *walker) compareItems(l *listType, live, new jsondoc.Value) (diff, bool) {
	was, ok := w.itemKeys(l, live)
	if !ok {
		return diff{}, false
	}
	is, ok := w.itemKeys(l, new)
	if !ok {
		return diff{}, false
	}
	c := collector{w: w}
	for i, key := range is.keys {
		var lv jsondoc.Value
		if at := w.indexOf(was, key, i); at >= 0 {
			lv = live.Item(at)
		}
		if !c.item(l.elem, key, lv, new.Item(i)) {
			return diff{}, false
		}
	}
	for i, key := range was.keys {
		if w.indexOf(is, key, i) < 0 && !c.item(l.elem, key, live.Item(i), jsondoc.Value{}) {
			return diff{}, false
		}
	}
	return c.close(true)
}

// itemKeys is the keys of a list's items, none twice.
type itemKeys struct {
	keys  []jsondoc.Node
	index map[string]int // where each key is; nil if there are few, which are looked through
}

// fewItems is how many keys are looked through without an index.
const fewItems = 64

// itemKeys returns the keys of a list's items; ok is false if they are not plain or not distinct.
func (w *walker) itemKeys(l *listType, v jsondoc.Value) (k itemKeys, ok bool) {
	k.keys = make([]jsondoc.Node, v.Len())
	if len(k.keys) > fewItems {
		k.index = make(map[string]int, len(k.keys))
	}
	for i, item := range v.Items() {
		key, ok := w.item(l, item)
		if !ok || w.indexOf(itemKeys{k.keys[:i], k.index}, key, i-1) >= 0 {
			return k, false
		}
		k.keys[i] = key
		if k.index != nil {
			k.index[w.d.Str(key)] = i
		}
	}
	return k, true
}

// indexOf returns where key is among keys, most likely at guess; -1 if it is not among them.
func (w *walker) indexOf(k itemKeys, key jsondoc.Node, guess int) int {
	text := w.d.Str(key)
	if guess >= 0 && guess < len(k.keys) && w.d.Str(k.keys[guess]) == text {
		return guess
	}
	if k.index != nil {
		if i, ok := k.index[text]; ok {
			return i
		}
		return -1
	}
	for i, have := range k.keys {
		if w.d.Str(have) == text {
			return i
		}
	}
	return -1
}

// collector collects the differences of the members or items of one value.
type collector struct {
	w                *walker
	changed, removed []jsondoc.Node // pairs
}

// member compares a member that both objects have.
func (c *collector) member(t *typ, name string, live, new jsondoc.Value) bool {
	return c.pair(t, jsondoc.Node{}, name, live, new)
}

// item compares an item that both lists have.
func (c *collector) item(t *typ, key jsondoc.Node, live, new jsondoc.Value) bool {
	return c.pair(t, key, "", live, new)
}

// pair compares one member or item; its key is made of name unless it is
// given.
func (c *collector) pair(t *typ, key jsondoc.Node, name string, live, new jsondoc.Value) bool {
	var f diff
	var ok bool
	switch {
	case !live.Exists():
		f.changed, ok = c.w.all(t, new)
	case !new.Exists():
		f.removed, ok = c.w.all(t, live)
	default:
		f, ok = c.w.compare(t, live, new)
	}
	if !ok || f.isEmpty() {
		return ok
	}
	if key.Kind() == jsondoc.Absent {
		key = c.w.field(name)
	}
	if f.changed.Kind() != jsondoc.Absent {
		c.changed = append(c.changed, key, f.changed)
	}
	if f.removed.Kind() != jsondoc.Absent {
		c.removed = append(c.removed, key, f.removed)
	}
	return true
}

// close makes the tries of what was collected, sorting it unless it came in
// the order of its keys.
func (c *collector) close(sort bool) (f diff, ok bool) {
	for _, side := range []struct {
		pairs []jsondoc.Node
		out   *jsondoc.Node
	}{{c.changed, &f.changed}, {c.removed, &f.removed}} {
		if len(side.pairs) == 0 {
			continue
		}
		if sort {
			c.w.d.SortPairs(side.pairs)
		}
		*side.out = c.w.d.NewMap(side.pairs)
	}
	return f, true
}
