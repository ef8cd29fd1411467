package val

import (
	"time"
	"unsafe"

	"k8s.io/kube-openapi/pkg/validation/strfmt"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file converts nodes of a document to Values by their Type. A node that does not fit its type
// becomes an error when it is read, not before.

// Load converts node n, which is not Absent, as a t.
func Load(d *jsondoc.Doc, n jsondoc.Node, t *Type) Value {
	if n.Kind() == jsondoc.Null {
		if t == nil || t.Nullable {
			return NullValue
		}
		return ErrorValue(codeNullData)
	}
	if t == nil {
		return OpaqueValue(preserved{jsondoc.Value{Doc: d, Node: n}})
	}
	switch t.Kind {
	case String:
		if n.Kind() != jsondoc.String {
			return errorData(codeWantString, n)
		}
		return DocString(d, n)
	case Int:
		if n.Kind() != jsondoc.Int {
			return errorData(codeWantInt, n)
		}
		return IntValue(n.Int())
	case Bool:
		if n.Kind() != jsondoc.Bool {
			return errorData(codeWantBool, n)
		}
		return BoolValue(n.Bool())
	case Object, Map:
		if n.Kind() != jsondoc.Object {
			return ErrorValue(codeWantMap)
		}
		return Value{K: KindMap, Flag: FlagFromDoc, Ptr: unsafe.Pointer(d), Typ: t, Node: n}
	case List:
		if n.Kind() != jsondoc.Array {
			return ErrorValue(codeWantArray)
		}
		return Value{K: KindList, Flag: FlagFromDoc, Ptr: unsafe.Pointer(d), Typ: t, Node: n}
	case Double:
		switch n.Kind() {
		case jsondoc.Int:
			return DoubleValue(float64(n.Int()))
		case jsondoc.Float:
			return DoubleValue(n.Float())
		}
		return errorData(codeWantFloat, n)
	case Dyn:
		switch n.Kind() {
		case jsondoc.String:
			return DocString(d, n)
		case jsondoc.Int:
			return IntValue(n.Int())
		}
		return ErrorValue(codeIntOrString)
	}
	if n.Kind() != jsondoc.String {
		return errorData(codeWantString, n)
	}
	return loadFormatted(d.Str(n), t)
}

// DocString converts a string of a document.
func DocString(d *jsondoc.Doc, n jsondoc.Node) Value {
	s := d.Str(n)
	v := Value{K: KindString, Bits: uint64(len(s)), Ptr: unsafe.Pointer(unsafe.StringData(s))}
	if n.ASCII() {
		v.Flag = FlagASCII
	}
	return v
}

// loadFormatted parses a string with a format that has a type of its own.
func loadFormatted(s string, t *Type) Value {
	switch {
	case t.Kind == Duration:
		d, err := strfmt.ParseDuration(s)
		if err != nil {
			return Errorf("Invalid duration %s: %v", s, err)
		}
		return DurationValue(int64(d))
	case t.Kind == Bytes:
		var b strfmt.Base64
		if err := b.UnmarshalText([]byte(s)); err != nil {
			return Errorf("Invalid byte formatted string %s: %v", s, err)
		}
		return BytesValue(b)
	case t.Date:
		d, err := time.Parse(strfmt.RFC3339FullDate, s)
		if err != nil {
			return Errorf("Invalid date formatted string %s: %v", s, err)
		}
		return TimeValue(d)
	}
	d, err := strfmt.ParseDateTime(s)
	if err != nil {
		return Errorf("Invalid date-time formatted string %s: %v", s, err)
	}
	return TimeValue(time.Time(d))
}

// Reads reports whether a string of the type's format can be parsed.
func (t *Type) Reads(text string) bool {
	switch t.Kind {
	case Duration, Bytes, Timestamp:
		v := loadFormatted(text, t)
		return v.K != KindError
	}
	return true
}

// Member returns the member of an object of a document, by its name in the document; Absent if
// there is none. slot is its slot if the object is shaped, -1 if the name is not declared.
func Member(d *jsondoc.Doc, n jsondoc.Node, slot int, name string) jsondoc.Node {
	if n.ShapeIndex() != 0 && slot >= 0 {
		return d.Slot(n, slot)
	}
	return jsondoc.Value{Doc: d, Node: n}.Get(name).Node
}

// Field returns the declared member with that name in the document, nil if there is none.
func (t *Type) Field(name string) *Field {
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

// Find returns the member of an object or map of a document by its CEL key, which is an escaped
// name if members are declared. Undeclared and null members of an object count as missing.
func (v Value) Find(key string) (Value, bool) {
	if v.Typ.Kind == Map {
		n := jsondoc.Value{Doc: v.Doc(), Node: v.Node}.Get(key).Node
		if n.Kind() == jsondoc.Absent {
			return Value{}, false
		}
		return Load(v.Doc(), n, v.Typ.Elem), true
	}
	name, ok := Unescape(key)
	if !ok {
		return Value{}, false
	}
	f := v.Typ.Field(name)
	if f == nil {
		return Value{}, false
	}
	n := Member(v.Doc(), v.Node, int(f.Slot), name)
	if n.Kind() == jsondoc.Absent || n.Kind() == jsondoc.Null {
		return Value{}, false
	}
	return Load(v.Doc(), n, f.Type), true
}

// Size returns the number of items of a list or entries of a map. For an object of a document,
// undeclared members count, too.
func (v Value) Size() int {
	switch {
	case v.FromDoc():
		return v.DocValue().Len()
	case v.K == KindList:
		return len(v.Items())
	}
	return len(v.HeapMap().keys)
}

// Item returns item i of a list. i must be in range.
func (v Value) Item(i int) Value {
	if v.FromDoc() {
		return Load(v.Doc(), v.Doc().Item(v.Node, i), v.Typ.Elem)
	}
	return v.Items()[i]
}

// Bind sets a variable to a value of a document. The most frequent types are written in place.
func Bind(slot *Value, v jsondoc.Value, t *Type) {
	switch kind := v.Node.Kind(); {
	case t.Kind == Object && kind == jsondoc.Object:
		slot.K, slot.Flag, slot.Ptr, slot.Typ, slot.Node = KindMap, FlagFromDoc, unsafe.Pointer(v.Doc), t, v.Node
	case t.Kind == List && kind == jsondoc.Array:
		slot.K, slot.Flag, slot.Ptr, slot.Typ, slot.Node = KindList, FlagFromDoc, unsafe.Pointer(v.Doc), t, v.Node
	case t.Kind == Map && kind == jsondoc.Object:
		slot.K, slot.Flag, slot.Ptr, slot.Typ, slot.Node = KindMap, FlagFromDoc, unsafe.Pointer(v.Doc), t, v.Node
	case t.Kind == String && kind == jsondoc.String:
		text := v.Doc.Str(v.Node)
		slot.K, slot.Flag, slot.Bits, slot.Ptr, slot.Typ = KindString, 0, uint64(len(text)), unsafe.Pointer(unsafe.StringData(text)), nil
		if v.Node.ASCII() {
			slot.Flag = FlagASCII
		}
	default:
		*slot = LoadVariable(v, t)
	}
}

// LoadVariable converts the value of self or oldSelf.
func LoadVariable(v jsondoc.Value, t *Type) Value {
	if !v.Exists() {
		return ErrorValue(codeNullData)
	}
	return Load(v.Doc, v.Node, t)
}

// JSONKind has the kind of node that is always valid for a type.
var JSONKind = [...]jsondoc.Kind{
	Dyn: jsondoc.String, Bool: jsondoc.Bool, Int: jsondoc.Int, Double: jsondoc.Float, String: jsondoc.String,
	List: jsondoc.Array, Map: jsondoc.Object, Object: jsondoc.Object,
}
