package apply

import (
	"bytes"
	"sync"

	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/keelson-io/keelson/doc"
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
	d     *doc.Doc
	stack []doc.Node // pairs of the tries under construction
	key   []byte     // scratch
	leaf  doc.Node   // the empty map, shared by all leaves
	dot   doc.Node   // the key "."
}

var walkers = sync.Pool{New: func() any { return &walker{stack: make([]doc.Node, 0, 128), key: make([]byte, 0, 64)} }}

// newWalker takes a walker from the pool, to which release gives it back.
func newWalker(d *doc.Doc) *walker {
	w := walkers.Get().(*walker)
	w.d, w.stack, w.leaf, w.dot = d, w.stack[:0], d.NewMap(nil), d.NewString(".")
	return w
}

// maxPooled is the capacity of a stack that does not go back to the pool.
const maxPooled = 1 << 14

func (w *walker) release() {
	if w.d = nil; cap(w.stack) <= maxPooled && cap(w.key) <= maxPooled {
		walkers.Put(w)
	}
}

// close makes a map of the pairs from mark on; Absent if there are none.
func (w *walker) close(mark int) doc.Node {
	if len(w.stack) == mark {
		return doc.Node{}
	}
	n := w.d.NewMap(w.stack[mark:])
	w.stack = w.stack[:mark]
	return n
}

// field is the key of a member.
func (w *walker) field(name string) doc.Node {
	w.key = append(append(w.key[:0], "f:"...), name...)
	return w.d.NewString(string(w.key))
}

// item is the key of an item of a set or map list; ok is false if it is not
// plain.
func (w *walker) item(l *listType, v doc.Value) (key doc.Node, ok bool) {
	w.key, ok = appendItemKey(w.key[:0], l, v)
	if !ok {
		return doc.Node{}, false
	}
	return w.d.NewString(string(w.key)), true
}

// appendItemKey appends the path element of an item.
func appendItemKey(b []byte, l *listType, v doc.Value) ([]byte, bool) {
	if l.keys == nil {
		return appendScalar(append(b, "v:"...), v)
	}
	if v.Kind() != doc.Object || l.odd {
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
func appendScalar(b []byte, v doc.Value) ([]byte, bool) {
	switch v.Kind() {
	case doc.String:
		return v.AppendJSON(b), v.Node.Plain()
	case doc.Int, doc.Bool:
		return v.AppendJSON(b), true
	}
	return b, false
}

// fits reports whether a scalar is of its type. Null is of every type.
func (t *typ) fits(k doc.Kind) bool {
	switch t.scalar {
	case smd.Untyped:
		return k == doc.String || k == doc.Int || k == doc.Float || k == doc.Bool
	case smd.Numeric:
		return k == doc.Int || k == doc.Float
	case smd.String:
		return k == doc.String
	case smd.Boolean:
		return k == doc.Bool
	}
	return false
}

// valid reports whether a value that is not walked into is of its type, as
// SMD's validation sees it.
func (w *walker) valid(t *typ, v doc.Value) bool {
	switch k := v.Kind(); k {
	case doc.Null:
		return t.object != nil || t.scalar != "" || t.list != nil
	case doc.Array:
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
	case doc.Object:
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
func (w *walker) distinct(l *listType, v doc.Value) bool {
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

// all is the trie of a value and everything in it, for a value that only one
// of the two documents has.
func (w *walker) all(t *typ, v doc.Value) (n doc.Node, ok bool) {
	switch k := v.Kind(); {
	case k == doc.Array && t.list != nil && t.list.granul && v.Len() > 0:
		return w.allItems(t.list, v)
	case k == doc.Object && t.object != nil && !t.object.atomic && v.Len() > 0:
		return w.allMembers(t.object, v)
	}
	return w.leaf, w.valid(t, v)
}

func (w *walker) allItems(l *listType, v doc.Value) (doc.Node, bool) {
	mark := len(w.stack)
	w.stack = append(w.stack, w.dot, w.leaf)
	for _, item := range v.Items() {
		key, ok := w.item(l, item)
		if !ok {
			return doc.Node{}, false
		}
		n, ok := w.all(l.elem, item)
		if !ok {
			return doc.Node{}, false
		}
		w.stack = append(w.stack, key, n)
	}
	return w.closeSorted(mark)
}

// closeSorted is close for items, which come in any order. No item may be
// there twice.
func (w *walker) closeSorted(mark int) (doc.Node, bool) {
	if _, twice := w.d.SortPairs(w.stack[mark:]); twice {
		return doc.Node{}, false
	}
	return w.close(mark), true
}

func (w *walker) allMembers(m *mapType, v doc.Value) (doc.Node, bool) {
	mark := len(w.stack)
	w.stack = append(w.stack, w.dot, w.leaf)
	at := 0
	for name, member := range v.Members() {
		var t *typ
		if t, at = m.field(name, at); t == nil {
			return doc.Node{}, false
		}
		n, ok := w.all(t, member)
		if !ok {
			return doc.Node{}, false
		}
		w.stack = append(w.stack, w.field(name), n)
	}
	return w.close(mark), true
}

// diff is what differs between two values: changed is what new added or
// modified, removed what it removed. Absent is nothing.
type diff struct{ changed, removed doc.Node }

func (f diff) none() bool {
	return f.changed.Kind() == doc.Absent && f.removed.Kind() == doc.Absent
}

// compare compares two values that both documents have.
func (w *walker) compare(t *typ, live, new doc.Value) (f diff, ok bool) {
	lk, nk := live.Kind(), new.Kind()
	switch {
	case lk == doc.Null && nk == doc.Null:
		return f, w.valid(t, new)
	case lk == doc.Null || nk == doc.Null:
		return f, false
	case lk == doc.Object && nk == doc.Object && t.object != nil && !t.object.atomic:
		return w.compareMembers(t.object, live, new)
	case lk == doc.Array && nk == doc.Array && t.list != nil && t.list.granul:
		return w.compareItems(t.list, live, new)
	case (lk == doc.Object) != (nk == doc.Object) || (lk == doc.Array) != (nk == doc.Array):
		return f, false
	}
	if doc.Equal(live, new) {
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
func equalNumbers(a, b doc.Value) bool {
	return (hasFloat(a) || hasFloat(b)) && value.Equals(node{a}, node{b})
}

func hasFloat(v doc.Value) bool {
	switch v.Kind() {
	case doc.Float:
		return true
	case doc.Array:
		for _, item := range v.Items() {
			if hasFloat(item) {
				return true
			}
		}
	case doc.Object:
		for _, member := range v.Members() {
			if hasFloat(member) {
				return true
			}
		}
	}
	return false
}

// compareMembers compares objects member by member.
func (w *walker) compareMembers(m *mapType, live, new doc.Value) (diff, bool) {
	c := collector{w: w}
	at := 0
	for name, v := range doc.Both(live, new) {
		var t *typ
		if t, at = m.field(name, at); t == nil || !c.member(t, name, v[0], v[1]) {
			return diff{}, false
		}
	}
	return c.close(false)
}

// compareItems compares lists item by item; the order of items is nothing that
// anybody owns.
func (w *walker) compareItems(l *listType, live, new doc.Value) (diff, bool) {
	was, ok := w.itemKeys(l, live)
	if !ok {
		return diff{}, false
	}
	is, ok := w.itemKeys(l, new)
	if !ok {
		return diff{}, false
	}
	c := collector{w: w}
	for i, key := range is {
		var lv doc.Value
		if at := w.indexOf(was, key, i); at >= 0 {
			lv = live.Item(at)
		}
		if !c.item(l.elem, key, lv, new.Item(i)) {
			return diff{}, false
		}
	}
	for i, key := range was {
		if w.indexOf(is, key, i) < 0 && !c.item(l.elem, key, live.Item(i), doc.Value{}) {
			return diff{}, false
		}
	}
	return c.close(true)
}

// maxItems is how many items a list may have: each is looked for among all.
const maxItems = 64

// itemKeys are the keys of a list's items, none twice.
func (w *walker) itemKeys(l *listType, v doc.Value) ([]doc.Node, bool) {
	if v.Len() > maxItems {
		return nil, false
	}
	keys := make([]doc.Node, v.Len())
	for i := range keys {
		var ok bool
		if keys[i], ok = w.item(l, v.Item(i)); !ok || w.indexOf(keys[:i], keys[i], i-1) >= 0 {
			return nil, false
		}
	}
	return keys, true
}

// indexOf is where key is among keys, most likely at guess.
func (w *walker) indexOf(keys []doc.Node, key doc.Node, guess int) int {
	text := w.d.Str(key)
	if guess >= 0 && guess < len(keys) && w.d.Str(keys[guess]) == text {
		return guess
	}
	for i, k := range keys {
		if w.d.Str(k) == text {
			return i
		}
	}
	return -1
}

// collector collects the differences of the members or items of one value.
type collector struct {
	w                *walker
	changed, removed []doc.Node // pairs
}

func (c *collector) member(t *typ, name string, live, new doc.Value) bool {
	return c.pair(t, doc.Node{}, name, live, new)
}

func (c *collector) item(t *typ, key doc.Node, live, new doc.Value) bool {
	return c.pair(t, key, "", live, new)
}

// pair compares one member or item; its key is made of name unless it is
// given.
func (c *collector) pair(t *typ, key doc.Node, name string, live, new doc.Value) bool {
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
	if !ok || f.none() {
		return ok
	}
	if key.Kind() == doc.Absent {
		key = c.w.field(name)
	}
	if f.changed.Kind() != doc.Absent {
		c.changed = append(c.changed, key, f.changed)
	}
	if f.removed.Kind() != doc.Absent {
		c.removed = append(c.removed, key, f.removed)
	}
	return true
}

// close makes the tries of what was collected, sorting it unless it came in
// the order of its keys.
func (c *collector) close(sort bool) (f diff, ok bool) {
	for _, side := range []struct {
		pairs []doc.Node
		out   *doc.Node
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
