package jsondoc

import "iter"

// This file defines Value, a node with its document: the convenient way to
// read. Hot paths use Doc and Node directly.

// Value is a Node together with its Doc. The zero Value is Absent.
type Value struct {
	Doc  *Doc
	Node Node
}

// Kind is the kind of the value.
func (v Value) Kind() Kind { return v.Node.Kind() }

// Exists reports whether there is a value at all; null exists.
func (v Value) Exists() bool { return v.Node.Kind() != Absent }

// Text is the string if v is a String, else "". Borrowed.
func (v Value) Text() string {
	if v.Node.Kind() != String {
		return ""
	}
	return v.Doc.Str(v.Node)
}

// Bool reports whether v is true.
func (v Value) Bool() bool { return v.Node.Kind() == Bool && v.Node.bits != 0 }

// Int is the integer if v is an Int, else 0.
func (v Value) Int() int64 {
	if v.Node.Kind() != Int {
		return 0
	}
	return v.Node.Int()
}

// Float is the number if v is a Float or an Int, else 0.
func (v Value) Float() float64 {
	switch v.Node.Kind() {
	case Float:
		return v.Node.Float()
	case Int:
		return float64(v.Node.Int())
	}
	return 0
}

// Len is the number of items of an Array or of present members of an Object,
// else 0.
func (v Value) Len() int {
	switch v.Node.Kind() {
	case Array:
		return v.Node.Len()
	case Object:
		return v.Doc.memberCount(v.Node)
	}
	return 0
}

// Item is item i of an Array.
func (v Value) Item(i int) Value { return Value{v.Doc, v.Doc.Item(v.Node, i)} }

// Items ranges over the items of an Array; over nothing if v is none.
func (v Value) Items() iter.Seq2[int, Value] {
	return func(yield func(int, Value) bool) {
		if v.Node.Kind() != Array {
			return
		}
		for i := range v.Node.Len() {
			if !yield(i, v.Item(i)) {
				return
			}
		}
	}
}

// Get is the member of that name of an Object; Absent if there is none or v is
// no Object.
func (v Value) Get(name string) Value {
	if v.Node.Kind() != Object {
		return Value{}
	}
	return Value{v.Doc, v.Doc.Member(v.Node, name)}
}

// At follows member names from v; Absent as soon as one is missing.
func (v Value) At(path ...string) Value {
	for _, name := range path {
		v = v.Get(name)
	}
	return v
}

// Members ranges over the present members of an Object in key order; over
// nothing if v is none.
func (v Value) Members() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		if v.Node.Kind() != Object {
			return
		}
		for m := v.Doc.members(v.Node); m.next(); {
			if !yield(m.name, Value{v.Doc, m.value}) {
				return
			}
		}
	}
}

// Both ranges over the members that a or b has, in key order, with the values of both, one of which may be Absent.
func Both(a, b Value) iter.Seq2[string, [2]Value] {
	return func(yield func(string, [2]Value) bool) {
		var ma, mb members
		hasA, hasB := a.Node.Kind() == Object, b.Node.Kind() == Object
		if hasA {
			ma = a.Doc.members(a.Node)
			hasA = ma.next()
		}
		if hasB {
			mb = b.Doc.members(b.Node)
			hasB = mb.next()
		}
		for hasA || hasB {
			name, pair := ma.name, [2]Value{}
			fromA := hasA && (!hasB || ma.name <= mb.name)
			fromB := hasB && (!hasA || mb.name <= ma.name)
			if fromB {
				name, pair[1] = mb.name, Value{b.Doc, mb.value}
			}
			if fromA {
				pair[0] = Value{a.Doc, ma.value}
			}
			if !yield(name, pair) {
				return
			}
			if fromA {
				hasA = ma.next()
			}
			if fromB {
				hasB = mb.next()
			}
		}
	}
}

// Interface is v as encoding/json would decode it into an any, integers as
// int64. For tests and slow paths.
func (v Value) Interface() any {
	switch v.Node.Kind() {
	case Bool:
		return v.Bool()
	case Int:
		return v.Int()
	case Float:
		return v.Float()
	case String:
		return string([]byte(v.Text()))
	case Array:
		list := make([]any, 0, v.Len())
		for _, item := range v.Items() {
			list = append(list, item.Interface())
		}
		return list
	case Object:
		m := make(map[string]any, v.Len())
		for name, value := range v.Members() {
			m[string([]byte(name))] = value.Interface()
		}
		return m
	}
	return nil
}

// Clone is v deep-copied into a Doc of its own, with the same shapes.
func (v Value) Clone() Value {
	d := new(Doc)
	if v.Doc != nil {
		d.shapes = v.Doc.shapes
	}
	d.root = d.Import(v)
	return d.Root()
}
