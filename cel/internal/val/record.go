package val

import "unsafe"

// This file defines values that a host fills in repeatedly, so that the data of each request is
// bound without allocation.

// StringValue converts a string.
func StringValue(s string) Value { return ConstString(s) }

// Record is an object whose members the host sets before an evaluation. It belongs to one
// evaluation at a time. The zero value is empty.
type Record struct{ m MapBox }

// Reset removes all members.
func (r *Record) Reset() { r.m.keys, r.m.vals = r.m.keys[:0], r.m.vals[:0] }

// Put adds a member. Its name, a string of the language, must be new.
func (r *Record) Put(name, v Value) {
	r.m.keys, r.m.vals = append(r.m.keys, name), append(r.m.vals, v)
}

// Value returns the object. It is valid until the Record changes.
func (r *Record) Value() Value { return MapValue(&r.m) }

// Items is a list whose items the host sets before an evaluation. It belongs to one evaluation at a
// time. The zero value is empty.
type Items struct{ box ListBox }

// Reset removes all items.
func (l *Items) Reset() { l.box.Items = l.box.Items[:0] }

// Add adds an item.
func (l *Items) Add(v Value) { l.box.Items = append(l.box.Items, v) }

// Len returns the number of items.
func (l *Items) Len() int { return len(l.box.Items) }

// Value returns the list. It is valid until the Items change.
func (l *Items) Value() Value { return Value{K: KindList, Ptr: unsafe.Pointer(&l.box)} }
