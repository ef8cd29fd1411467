package schema

import (
	"strconv"
	"strings"
	"time"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file correlates values with their old values, for ratcheting and for oldSelf.

// correlation is a value with its old value. A nil correlation means that there is no old value to
// compare.
type correlation struct {
	n        *node
	new, old jsondoc.Value
	compared bool
	equal    bool
	members  map[string]*correlation
	items    map[int]*correlation
	olds     *oldItems
	took     *time.Duration // time of all comparisons for the object
}

// member returns the correlation of a member of the object at position at. Members without a schema
// are not correlated, nor are apiVersion and kind of the root.
func (c *correlation) member(at *spot, key string) *correlation {
	if c == nil || at == nil && (key == "apiVersion" || key == "kind") {
		return nil
	}
	return c.key(key)
}

// key returns the correlation of a member, which it computes once.
func (c *correlation) key(key string) *correlation {
	if c == nil || c.new.Kind() != jsondoc.Object || c.old.Kind() != jsondoc.Object {
		return nil
	}
	if known, ok := c.members[key]; ok {
		return known
	}
	child := c.n.child(key)
	new, old := c.new.Get(key), c.old.Get(key)
	if child == nil || !new.Exists() || !old.Exists() {
		return nil
	}
	if c.members == nil {
		c.members = make(map[string]*correlation)
	}
	below := &correlation{n: child, new: new, old: old, took: c.took}
	c.members[key] = below
	return below
}

// index returns the correlation of an item. Only items of list maps are correlated.
func (c *correlation) index(i int) *correlation {
	if c == nil || c.n.items == nil || c.new.Kind() != jsondoc.Array || i >= c.new.Len() {
		return nil
	}
	if known, ok := c.items[i]; ok {
		return known
	}
	if c.olds == nil {
		olds := c.n.oldItems(c.old)
		c.olds = &olds
	}
	new := c.new.Item(i)
	old := c.olds.get(new)
	if !old.Exists() {
		return nil
	}
	if c.items == nil {
		c.items = make(map[int]*correlation)
	}
	below := &correlation{n: c.n.items, new: new, old: old, took: c.took}
	c.items[i] = below
	return below
}

// unchanged reports whether the value equals its old value. An object with members that have no
// schema counts as changed; the order of a list map does not matter.
func (c *correlation) unchanged() bool {
	if c == nil {
		return false
	}
	if !c.compared {
		start := time.Now()
		c.same()
		*c.took += time.Since(start)
	}
	return c.equal
}

// same is unchanged without measuring the time, for parts of a comparison.
func (c *correlation) same() bool {
	if c == nil {
		return false
	}
	if !c.compared {
		c.compared, c.equal = true, c.compare()
	}
	return c.equal
}

// compare computes same.
func (c *correlation) compare() bool {
	kind := c.new.Kind()
	if kind != c.old.Kind() {
		return false
	}
	switch kind {
	case jsondoc.Array:
		size := c.new.Len()
		if size != c.old.Len() {
			return false
		}
		if c.n.listType != "map" {
			return size == 0 || jsondoc.Equal(c.new, c.old)
		}
		for i := range size {
			if !c.index(i).same() {
				return false
			}
		}
		return true
	case jsondoc.Object:
		if c.new.Len() != c.old.Len() {
			return false
		}
		for name := range c.new.Members() {
			if !c.key(name).same() {
				return false
			}
		}
		return true
	}
	return jsondoc.Equal(c.new, c.old)
}

// oldItems finds items of an old list by their keys. The zero value finds nothing.
type oldItems struct {
	n     *node
	old   jsondoc.Value
	index map[string]int // for long lists: the index of the first item with these keys
}

// oldItems returns the finder for an old list. Only items of list maps are found.
func (n *node) oldItems(old jsondoc.Value) oldItems {
	if n.listType != "map" || n.typ != "array" || n.items == nil || len(n.mapKeys) == 0 || old.Kind() != jsondoc.Array {
		return oldItems{}
	}
	o := oldItems{n: n, old: old}
	if old.Len() > fewItems {
		o.index = make(map[string]int, old.Len())
		for i := old.Len() - 1; i >= 0; i-- {
			if keys, ok := n.keysOf(old.Item(i)); ok {
				o.index[keys] = i
			}
		}
	}
	return o
}

// get returns the first old item with the keys of item, Absent if there is none.
func (o *oldItems) get(item jsondoc.Value) jsondoc.Value {
	if o.n == nil || item.Kind() != jsondoc.Object {
		return jsondoc.Value{}
	}
	if o.index != nil {
		if keys, ok := o.n.keysOf(item); ok {
			if i, ok := o.index[keys]; ok {
				return o.old.Item(i)
			}
		}
		return jsondoc.Value{}
	}
	for i := range o.old.Len() {
		if was := o.old.Item(i); was.Kind() == jsondoc.Object && o.n.sameKeys(item, was) {
			return was
		}
	}
	return jsondoc.Value{}
}

// keysOf returns a text that is the same for two items if and only if sameKeys is true for them. It
// returns false if the item lacks a key.
func (n *node) keysOf(item jsondoc.Value) (string, bool) {
	if item.Kind() != jsondoc.Object {
		return "", false
	}
	var b []byte
	for _, name := range n.mapKeys {
		key := item.Get(name)
		text, ok := keyText(key)
		if !ok {
			return "", false
		}
		if len(n.mapKeys) == 1 {
			return string(identity(nil, key)), true
		}
		b = append(append(b, text...), 0)
	}
	return string(b), true
}

// sameKeys reports whether two items have the same keys, which must be scalars.
func (n *node) sameKeys(a, b jsondoc.Value) bool {
	for i, name := range n.mapKeys {
		slot := -1
		if i < len(n.keySlots) {
			slot = n.keySlots[i]
		}
		x := jsondoc.Value{Doc: a.Doc, Node: n.items.member(a.Doc, a.Node, name, slot)}
		y := jsondoc.Value{Doc: b.Doc, Node: n.items.member(b.Doc, b.Node, name, slot)}
		if !sameKey(x, y, len(n.mapKeys) > 1) {
			return false
		}
	}
	return true
}

// sameKey reports whether two keys are equal. Upstream compares a single key by value. It joins
// several keys to a text, with six decimals for numbers.
func sameKey(a, b jsondoc.Value, several bool) bool {
	if several {
		x, ok := keyText(a)
		y, ok2 := keyText(b)
		return ok && ok2 && x == y
	}
	switch a.Kind() {
	case jsondoc.Bool, jsondoc.Int, jsondoc.Float, jsondoc.String:
		return a.Kind() == b.Kind() && jsondoc.Equal(a, b)
	}
	return false
}

// keyText returns a key as it appears in such a text, false if it is not a scalar.
func keyText(v jsondoc.Value) (string, bool) {
	switch v.Kind() {
	case jsondoc.Bool:
		return strconv.FormatBool(v.Node.Bool()), true
	case jsondoc.Int:
		return strconv.FormatInt(v.Node.Int(), 10), true
	case jsondoc.Float:
		return strconv.FormatFloat(v.Node.Float(), 'f', 6, 64), true
	case jsondoc.String:
		var b strings.Builder
		b.WriteByte('"')
		b.WriteString(v.Text())
		return b.String(), true
	}
	return "", false
}
