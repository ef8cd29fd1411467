package cel

import (
	"time"
	"unsafe"

	"k8s.io/kube-openapi/pkg/validation/strfmt"

	"github.com/keelson-io/keelson/doc"
)

// This file turns nodes of a document into Values by their Type. A datum that
// does not fit its type becomes an error where it is read, not before.

// load is the Value of node n, which is not Absent, read as a t.
func load(d *doc.Doc, n doc.Node, t *Type) Value {
	if n.Kind() == doc.Null {
		if t == nil || t.Nullable {
			return nullValue
		}
		return errorValue(errNullData)
	}
	if t == nil {
		return opaqueValue(preserved{doc.Value{Doc: d, Node: n}})
	}
	switch t.Kind {
	case String:
		if n.Kind() != doc.String {
			return errorData(errWantString, n)
		}
		return docString(d, n)
	case Int:
		if n.Kind() != doc.Int {
			return errorData(errWantInt, n)
		}
		return intValue(n.Int())
	case Bool:
		if n.Kind() != doc.Bool {
			return errorData(errWantBool, n)
		}
		return boolValue(n.Bool())
	case Object, Map:
		if n.Kind() != doc.Object {
			return errorValue(errWantMap)
		}
		return Value{kind: KindMap, flag: flagFromDoc, ptr: unsafe.Pointer(d), typ: t, node: n}
	case List:
		if n.Kind() != doc.Array {
			return errorValue(errWantArray)
		}
		return Value{kind: KindList, flag: flagFromDoc, ptr: unsafe.Pointer(d), typ: t, node: n}
	case Double:
		switch n.Kind() {
		case doc.Int:
			return doubleValue(float64(n.Int()))
		case doc.Float:
			return doubleValue(n.Float())
		}
		return errorData(errWantFloat, n)
	case Dyn:
		switch n.Kind() {
		case doc.String:
			return docString(d, n)
		case doc.Int:
			return intValue(n.Int())
		}
		return errorValue(errIntOrString)
	}
	if n.Kind() != doc.String {
		return errorData(errWantString, n)
	}
	return loadFormatted(d.Str(n), t)
}

func docString(d *doc.Doc, n doc.Node) Value {
	s := d.Str(n)
	v := Value{kind: KindString, bits: uint64(len(s)), ptr: unsafe.Pointer(unsafe.StringData(s))}
	if n.ASCII() {
		v.flag = flagASCII
	}
	return v
}

// loadFormatted parses a string of a format that is a type of its own.
func loadFormatted(s string, t *Type) Value {
	switch {
	case t.Kind == Duration:
		d, err := strfmt.ParseDuration(s)
		if err != nil {
			return errorf("Invalid duration %s: %v", s, err)
		}
		return durationValue(int64(d))
	case t.Kind == Bytes:
		var b strfmt.Base64
		if err := b.UnmarshalText([]byte(s)); err != nil {
			return errorf("Invalid byte formatted string %s: %v", s, err)
		}
		return bytesValue(b)
	case t.Date:
		d, err := time.Parse(strfmt.RFC3339FullDate, s)
		if err != nil {
			return errorf("Invalid date formatted string %s: %v", s, err)
		}
		return timeValue(d)
	}
	d, err := strfmt.ParseDateTime(s)
	if err != nil {
		return errorf("Invalid date-time formatted string %s: %v", s, err)
	}
	return timeValue(time.Time(d))
}

// Reads reports whether a value of the type can be read from a text that is to be of its format.
func (t *Type) Reads(text string) bool {
	switch t.Kind {
	case Duration, Bytes, Timestamp:
		v := loadFormatted(text, t)
		return v.kind != KindError
	}
	return true
}

// member is the node of the member of a document object that has this name in
// the document; Absent if there is none. slot is its slot if the object is
// shaped, -1 if the name is not declared.
func member(d *doc.Doc, n doc.Node, slot int, name string) doc.Node {
	if n.ShapeIndex() != 0 && slot >= 0 {
		return d.Slot(n, slot)
	}
	return doc.Value{Doc: d, Node: n}.Get(name).Node
}

// field finds the declared member of that document name.
func (t *Type) field(name string) *Field {
	lo, hi := 0, len(t.Fields)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if t.Fields[mid].Name < name {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(t.Fields) && t.Fields[lo].Name == name {
		return &t.Fields[lo]
	}
	return nil
}

// find is the member of a document object or map under a CEL key: an escaped
// name if the container declares members. Undeclared and null members of an
// object are missing.
func (v Value) find(key string) (Value, bool) {
	if v.typ.Kind == Map {
		n := doc.Value{Doc: v.doc(), Node: v.node}.Get(key).Node
		if n.Kind() == doc.Absent {
			return Value{}, false
		}
		return load(v.doc(), n, v.typ.Elem), true
	}
	name, ok := Unescape(key)
	if !ok {
		return Value{}, false
	}
	f := v.typ.field(name)
	if f == nil {
		return Value{}, false
	}
	n := member(v.doc(), v.node, int(f.Slot), name)
	if n.Kind() == doc.Absent || n.Kind() == doc.Null {
		return Value{}, false
	}
	return load(v.doc(), n, f.Type), true
}

// size is the number of items of a list or entries of a map. A document object
// counts every member it has, undeclared ones too.
func (v Value) size() int {
	switch {
	case v.fromDoc():
		return v.docValue().Len()
	case v.kind == KindList:
		return len(v.items())
	}
	return len(v.heapMap().keys)
}

// item is item i, in range, of a list.
func (v Value) item(i int) Value {
	if v.fromDoc() {
		return load(v.doc(), v.doc().Item(v.node, i), v.typ.Elem)
	}
	return v.items()[i]
}
