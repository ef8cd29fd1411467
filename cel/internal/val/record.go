package val

import "unsafe"

// This file defines values that a host fills in again and again, so that
// binding the data of one request after the other allocates nothing.

// StringValue is a string in the language.
func StringValue(s string) Value { return ConstString(s) }

// Record is an object whose members the host sets before an evaluation. It
// belongs to one evaluation at a time; its zero value is empty.
type Record struct{ m MapBox }

// Reset takes all members out.
func (r *Record) Reset() { r.m.keys, r.m.vals = r.m.keys[:0], r.m.vals[:0] }

// Put adds a member. Its name, a string of the language, must not be there yet.
func (r *Record) Put(name, v Value) {
	r.m.keys, r.m.vals = append(r.m.keys, name), append(r.m.vals, v)
}

// Value is the object, as long as nobody changes it.
func (r *Record) Value() Value { return MapValue(&r.m) }

// Items is a list whose items the host sets before an evaluation. It belongs to
// one evaluation at a time; its zero value is empty.
type Items struct{ box ListBox }

// Reset takes all items out.
func (l *Items) Reset() { l.box.Items = l.box.Items[:0] }

// Add adds an item.
func (l *Items) Add(v Value) { l.box.Items = append(l.box.Items, v) }

// Len is the number of items.
func (l *Items) Len() int { return len(l.box.Items) }

// Value is the list, as long as nobody changes it.
func (l *Items) Value() Value { return Value{K: KindList, Ptr: unsafe.Pointer(&l.box)} }
