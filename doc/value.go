package doc

// This file defines Value, a node with its document: the convenient way to
// read. Hot paths use Doc and Node directly.

// Value is a Node together with its Doc. The zero Value is Absent.
type Value struct {
	Doc  *Doc
	Node Node
}

// Kind is the kind of the value.
func (v Value) Kind() Kind { return v.Node.kind }

// Exists reports whether there is a value at all; null exists.
func (v Value) Exists() bool { return v.Node.kind != Absent }

// Text is the string if v is a String, else "". Borrowed.
func (v Value) Text() string {
	if v.Node.kind != String {
		return ""
	}
	return v.Doc.Str(v.Node)
}

// Len is the number of items of an Array or of present members of an Object,
// else 0.
func (v Value) Len() int {
	switch {
	case v.Node.kind == Array, v.Node.kind == Object && v.Node.shape == 0:
		return int(v.Node.n)
	case v.Node.kind == Object:
		n := 0
		for range v.Members() {
			n++
		}
		return n
	}
	return 0
}

// Item is item i of an Array.
func (v Value) Item(i int) Value { return Value{v.Doc, v.Doc.Item(v.Node, i)} }

// Get is the member of that name of an Object; Absent if there is none or v is
// no Object.
func (v Value) Get(name string) Value {
	if v.Node.kind != Object {
		return Value{}
	}
	return Value{v.Doc, v.Doc.member(v.Node, name)}
}

// At follows member names from v; Absent as soon as one is missing.
func (v Value) At(path ...string) Value {
	for _, name := range path {
		v = v.Get(name)
	}
	return v
}

// Members ranges over the present members of an Object in key order.
func (v Value) Members() func(yield func(string, Value) bool) {
	return func(yield func(string, Value) bool) { v.Doc.members(v.Node, yield) }
}
