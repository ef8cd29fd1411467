package val

import (
	"math"
	"strings"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file defines Value, the union to which expressions evaluate.

// Kind is the kind of a Value.
type Kind uint8

// The kinds of Value. KindNone is the absence of a value. A KindOpaque is a value of a library
// type, such as a quantity or an IP address.
const (
	KindNone Kind = iota
	KindNull
	KindBool
	KindInt
	KindUint
	KindDouble
	KindString
	KindBytes
	KindTimestamp
	KindDuration
	KindList
	KindMap
	KindType
	KindOptional
	KindOpaque
	KindUnknown
	KindError
)

// Value is a value of the language, an error or an unknown. Values may be copied. A value of a
// document refers to the document's memory.
//
//	kind        flag     bits          ptr              typ    node
//	Bool        -        0 or 1        -                -      -
//	Int, Uint   -        the number    -                -      -
//	Double      -        float bits    -                -      -
//	String      ascii    bytes         first byte       -      -
//	Bytes       -        bytes         first byte       -      -
//	Timestamp   -        unix seconds  *time.Location   -      nanoseconds
//	Duration    -        nanoseconds   -                -      -
//	List, Map   FromDoc  -             *jsondoc.Doc         type   the node
//	List        0        -             *ListBox         -      -
//	Map         0        -             *MapBox          -      -
//	Type        -        -             *types.Type      -      -
//	Optional    -        -             *Value or nil    -      -
//	Opaque      -        -             *refBox          -      -
//	Unknown     -        -             *Unknown         -      -
//	Error       code     by code       by code          -      by code
type Value struct {
	K    Kind
	Flag uint8
	Bits uint64
	Ptr  unsafe.Pointer
	Typ  *Type
	Node jsondoc.Node
}

// Flags of strings and containers.
const (
	FlagASCII   uint8 = 1 // a string with only ASCII bytes
	FlagFromDoc uint8 = 1 // a container that is a node of a document
	FlagOwn     uint8 = 2 // the container of an accumulator: adding to it changes it in place
	flagConcat  uint8 = 4 // a list whose end came from a document: items that are errors count in a search
)

// ListBox is a list on the heap.
type ListBox struct{ Items []Value }

// refBox is a value of a library type.
type refBox struct{ val ref.Val }

// Unknown has the sorted paths of the unknown inputs on which a result depends.
type Unknown struct{ Paths []string }

// NullValue is null.
var NullValue = Value{K: KindNull}

// BoolValue returns a Bool.
func BoolValue(b bool) Value {
	if b {
		return Value{K: KindBool, Bits: 1}
	}
	return Value{K: KindBool}
}

// IntValue returns an Int.
func IntValue(i int64) Value { return Value{K: KindInt, Bits: uint64(i)} }

// UintValue returns a Uint.
func UintValue(u uint64) Value { return Value{K: KindUint, Bits: u} }

// DoubleValue returns a Double.
func DoubleValue(f float64) Value { return Value{K: KindDouble, Bits: math.Float64bits(f)} }

// DurationValue returns a Duration of d nanoseconds.
func DurationValue(d int64) Value { return Value{K: KindDuration, Bits: uint64(d)} }

// TypeValue returns a Type.
func TypeValue(t *types.Type) Value { return Value{K: KindType, Ptr: unsafe.Pointer(t)} }

// TextValue returns a String that refers to the bytes of s. It does not set the flag for ASCII: see
// ConstString.
func TextValue(s string) Value {
	return Value{K: KindString, Bits: uint64(len(s)), Ptr: unsafe.Pointer(unsafe.StringData(s))}
}

// ConstString returns a String that is used often: it sets the flag for ASCII.
func ConstString(s string) Value {
	v := TextValue(s)
	if isASCII(s) {
		v.Flag = FlagASCII
	}
	return v
}

// isASCII reports whether all bytes are ASCII.
func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// BytesValue returns Bytes that refer to b.
func BytesValue(b []byte) Value {
	return Value{K: KindBytes, Bits: uint64(len(b)), Ptr: unsafe.Pointer(unsafe.SliceData(b))}
}

// TimeValue returns a Timestamp.
func TimeValue(t time.Time) Value {
	return Value{K: KindTimestamp, Bits: uint64(t.Unix()), Ptr: unsafe.Pointer(t.Location()), Node: jsondoc.IntNode(int64(t.Nanosecond()))}
}

// ListValue returns a List on the heap.
func ListValue(items []Value) Value {
	return Value{K: KindList, Ptr: unsafe.Pointer(&ListBox{items})}
}

// MapValue returns a Map on the heap.
func MapValue(m *MapBox) Value { return Value{K: KindMap, Ptr: unsafe.Pointer(m)} }

// OpaqueValue returns a value of a library type.
func OpaqueValue(v ref.Val) Value {
	return Value{K: KindOpaque, Ptr: unsafe.Pointer(&refBox{v})}
}

// OptionalOf returns an optional with a value.
func OptionalOf(v Value) Value { return Value{K: KindOptional, Ptr: unsafe.Pointer(&v)} }

// OptionalNone is an optional without a value.
var OptionalNone = Value{K: KindOptional}

// Kind returns the kind of v.
func (v Value) Kind() Kind { return v.K }

// Bool returns the value of a KindBool.
func (v Value) Bool() bool { return v.K == KindBool && v.Bits != 0 }

// Int returns the value of a KindInt.
func (v Value) Int() int64 { return int64(v.Bits) }

// Uint returns the value of a KindUint.
func (v Value) Uint() uint64 { return v.Bits }

// Float returns the value of a KindDouble.
func (v Value) Float() float64 { return math.Float64frombits(v.Bits) }

// Duration returns the value of a KindDuration.
func (v Value) Duration() time.Duration { return time.Duration(v.Bits) }

// Time returns the value of a KindTimestamp.
func (v Value) Time() time.Time {
	return time.Unix(int64(v.Bits), v.Node.Int()).In((*time.Location)(v.Ptr))
}

// Str returns the value of a KindString, "" for other kinds. It may refer to the text of a
// document.
func (v Value) Str() string {
	if v.K != KindString {
		return ""
	}
	return v.Text()
}

// Text returns the bytes of a String or Bytes as a string.
func (v Value) Text() string { return unsafe.String((*byte)(v.Ptr), int(v.Bits)) }

func (v Value) bytes() []byte { return unsafe.Slice((*byte)(v.Ptr), int(v.Bits)) }

// Unknown returns the paths on which a KindUnknown depends, nil for other kinds.
func (v Value) Unknown() *Unknown {
	if v.K != KindUnknown {
		return nil
	}
	return (*Unknown)(v.Ptr)
}

// Failed reports whether v is an error or unknown.
func (v Value) Failed() bool { return v.K >= KindUnknown }

// Doc returns the document of a container that is a node of one.
func (v Value) Doc() *jsondoc.Doc { return (*jsondoc.Doc)(v.Ptr) }

// DocValue returns such a container as a value of its document.
func (v Value) DocValue() jsondoc.Value { return jsondoc.Value{Doc: v.Doc(), Node: v.Node} }

// FromDoc reports whether a container is a node of a document.
func (v Value) FromDoc() bool { return v.Flag == FlagFromDoc }

// Items returns the items of a List on the heap.
func (v Value) Items() []Value { return (*ListBox)(v.Ptr).Items }

// HeapMap returns the map of a Map on the heap.
func (v Value) HeapMap() *MapBox { return (*MapBox)(v.Ptr) }

// Opaque returns the value of a library type, in cel-go's representation.
func (v Value) Opaque() ref.Val      { return (*refBox)(v.Ptr).val }
func (v Value) celType() *types.Type { return (*types.Type)(v.Ptr) }

// Optional returns the value of an Optional, nil if it has none.
func (v Value) Optional() *Value { return (*Value)(v.Ptr) }

// Runes returns the number of code points of a String.
func (v Value) Runes() int64 {
	if v.Flag == FlagASCII {
		return int64(v.Bits)
	}
	return int64(utf8.RuneCountInString(v.Text()))
}

// typeNames are the names of the types that are the same for all values of a kind.
var typeNames = [...]string{
	KindNull: "null_type", KindBool: "bool", KindInt: "int", KindUint: "uint", KindDouble: "double",
	KindString: "string", KindBytes: "bytes", KindTimestamp: "google.protobuf.Timestamp",
	KindDuration: "google.protobuf.Duration", KindList: "list", KindMap: "map", KindType: "type",
	KindOptional: "optional_type", KindUnknown: "unknown", KindError: "error",
}

// TypeName returns the name of the type of v as the language prints it, as in "no such overload:
// f(int)".
func (v Value) TypeName() string {
	if v.K == KindOpaque {
		return v.Opaque().Type().TypeName()
	}
	return typeNames[v.K]
}

// TypeOf returns the result of type(v).
func (v Value) TypeOf() *types.Type {
	switch v.K {
	case KindNull:
		return types.NullType
	case KindBool:
		return types.BoolType
	case KindInt:
		return types.IntType
	case KindUint:
		return types.UintType
	case KindDouble:
		return types.DoubleType
	case KindString:
		return types.StringType
	case KindBytes:
		return types.BytesType
	case KindTimestamp:
		return types.TimestampType
	case KindDuration:
		return types.DurationType
	case KindList:
		return types.ListType
	case KindMap:
		return types.MapType
	case KindType:
		return types.TypeType
	case KindOptional:
		return types.OptionalType
	case KindOpaque:
		if m, ok := v.made(); ok {
			return types.NewTypeTypeWithParam(m.T)
		}
		if t, ok := v.Opaque().Type().(*types.Type); ok {
			return t
		}
		return types.NewObjectType(v.Opaque().Type().TypeName())
	}
	return types.UnknownType
}

// String returns v as cel-go prints it with %v, for messages and tests.
func (v Value) String() string {
	switch v.K {
	case KindError:
		return v.Err().Error()
	case KindUnknown:
		return "unknown " + strings.Join(v.Unknown().Paths, ", ")
	case KindNone:
		return "none"
	}
	return formatRef(v.Ref())
}

// OptionalPointer returns an optional with the value to which v points.
func OptionalPointer(v *Value) Value { return Value{K: KindOptional, Ptr: unsafe.Pointer(v)} }

// SetText sets a variable that is a String to the text of a node.
func (v *Value) SetText(d *jsondoc.Doc, n jsondoc.Node) {
	text := d.Str(n)
	v.Bits, v.Ptr, v.Flag = uint64(len(text)), unsafe.Pointer(unsafe.StringData(text)), 0
	if n.ASCII() {
		v.Flag = FlagASCII
	}
}
