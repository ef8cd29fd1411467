package cel

import (
	"math"
	"strings"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/keelson-io/keelson/doc"
)

// This file defines Value, the by-value union that expressions evaluate to.

// Kind says what a Value is.
type Kind uint8

// The kinds of Value. KindNone is no value at all. A KindOpaque is a value of a
// library type: a quantity, an IP address and so on.
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

// Value is a value of the language, an error or an unknown. Values are copied
// freely; one that comes from a document borrows the document's memory.
//
//	kind        flag     bits          ptr              typ    node
//	Bool        -        0 or 1        -                -      -
//	Int, Uint   -        the number    -                -      -
//	Double      -        float bits    -                -      -
//	String      ascii    bytes         first byte       -      -
//	Bytes       -        bytes         first byte       -      -
//	Timestamp   -        unix seconds  *time.Location   -      nanoseconds
//	Duration    -        nanoseconds   -                -      -
//	List, Map   fromDoc  -             *doc.Doc         type   the node
//	List        0        -             *listBox         -      -
//	Map         0        -             *mapBox          -      -
//	Type        -        -             *types.Type      -      -
//	Optional    -        -             *Value or nil    -      -
//	Opaque      -        -             *refBox          -      -
//	Unknown     -        -             *Unknown         -      -
//	Error       code     by code       by code          -      by code
type Value struct {
	kind Kind
	flag uint8
	bits uint64
	ptr  unsafe.Pointer
	typ  *Type
	node doc.Node
}

// Flags of strings and containers.
const (
	flagASCII   uint8 = 1 // a string of ASCII bytes only
	flagFromDoc uint8 = 1 // a container that is a node of a document
	flagOwn     uint8 = 2 // a container of one accumulator: adding to it changes it in place
	flagConcat  uint8 = 4 // a list whose tail came from a document: items that are errors count in a search
)

// listBox is a list on the heap.
type listBox struct{ items []Value }

// refBox is a value of a library type.
type refBox struct{ val ref.Val }

// Unknown says what an unknown result depends on: the paths of the inputs that
// were marked unknown, sorted.
type Unknown struct{ Paths []string }

var nullValue = Value{kind: KindNull}

func boolValue(b bool) Value {
	if b {
		return Value{kind: KindBool, bits: 1}
	}
	return Value{kind: KindBool}
}

func intValue(i int64) Value        { return Value{kind: KindInt, bits: uint64(i)} }
func uintValue(u uint64) Value      { return Value{kind: KindUint, bits: u} }
func doubleValue(f float64) Value   { return Value{kind: KindDouble, bits: math.Float64bits(f)} }
func durationValue(d int64) Value   { return Value{kind: KindDuration, bits: uint64(d)} }
func typeValue(t *types.Type) Value { return Value{kind: KindType, ptr: unsafe.Pointer(t)} }

func stringValue(s string) Value {
	return Value{kind: KindString, bits: uint64(len(s)), ptr: unsafe.Pointer(unsafe.StringData(s))}
}

// constString is a string known to be used often: its flag is worked out.
func constString(s string) Value {
	v := stringValue(s)
	if isASCII(s) {
		v.flag = flagASCII
	}
	return v
}

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func bytesValue(b []byte) Value {
	return Value{kind: KindBytes, bits: uint64(len(b)), ptr: unsafe.Pointer(unsafe.SliceData(b))}
}

func timeValue(t time.Time) Value {
	return Value{kind: KindTimestamp, bits: uint64(t.Unix()), ptr: unsafe.Pointer(t.Location()), node: doc.IntNode(int64(t.Nanosecond()))}
}

func listValue(items []Value) Value {
	return Value{kind: KindList, ptr: unsafe.Pointer(&listBox{items})}
}

func mapValue(m *mapBox) Value { return Value{kind: KindMap, ptr: unsafe.Pointer(m)} }

func opaqueValue(v ref.Val) Value {
	return Value{kind: KindOpaque, ptr: unsafe.Pointer(&refBox{v})}
}

// optionalOf is an optional with a value, optionalNone one without.
func optionalOf(v Value) Value { return Value{kind: KindOptional, ptr: unsafe.Pointer(&v)} }

var optionalNone = Value{kind: KindOptional}

// Kind is the kind of v.
func (v Value) Kind() Kind { return v.kind }

// Bool is the value of a KindBool.
func (v Value) Bool() bool { return v.kind == KindBool && v.bits != 0 }

// Int is the value of a KindInt.
func (v Value) Int() int64 { return int64(v.bits) }

// Uint is the value of a KindUint.
func (v Value) Uint() uint64 { return v.bits }

// Float is the value of a KindDouble.
func (v Value) Float() float64 { return math.Float64frombits(v.bits) }

// Duration is the value of a KindDuration.
func (v Value) Duration() time.Duration { return time.Duration(v.bits) }

// Time is the value of a KindTimestamp.
func (v Value) Time() time.Time {
	return time.Unix(int64(v.bits), v.node.Int()).In((*time.Location)(v.ptr))
}

// Str is the value of a KindString, "" for other kinds. It may borrow the
// text of a document.
func (v Value) Str() string {
	if v.kind != KindString {
		return ""
	}
	return v.text()
}

// text is the bytes of a String or Bytes as a string.
func (v Value) text() string { return unsafe.String((*byte)(v.ptr), int(v.bits)) }

func (v Value) bytes() []byte { return unsafe.Slice((*byte)(v.ptr), int(v.bits)) }

// Unknown says what a KindUnknown depends on, nil for other kinds.
func (v Value) Unknown() *Unknown {
	if v.kind != KindUnknown {
		return nil
	}
	return (*Unknown)(v.ptr)
}

// failed reports whether v is an error or unknown.
func (v Value) failed() bool { return v.kind >= KindUnknown }

func (v Value) doc() *doc.Doc        { return (*doc.Doc)(v.ptr) }
func (v Value) docValue() doc.Value  { return doc.Value{Doc: v.doc(), Node: v.node} }
func (v Value) fromDoc() bool        { return v.flag == flagFromDoc }
func (v Value) items() []Value       { return (*listBox)(v.ptr).items }
func (v Value) heapMap() *mapBox     { return (*mapBox)(v.ptr) }
func (v Value) opaque() ref.Val      { return (*refBox)(v.ptr).val }
func (v Value) celType() *types.Type { return (*types.Type)(v.ptr) }

// optional is what an Optional holds, nil if nothing.
func (v Value) optional() *Value { return (*Value)(v.ptr) }

// runes is the number of code points of a String, as cel-go counts them.
func (v Value) runes() int64 {
	if v.flag == flagASCII {
		return int64(v.bits)
	}
	return int64(utf8.RuneCountInString(v.text()))
}

// typeNames are the names of the types that are the same for all values of a kind.
var typeNames = [...]string{
	KindNull: "null_type", KindBool: "bool", KindInt: "int", KindUint: "uint", KindDouble: "double",
	KindString: "string", KindBytes: "bytes", KindTimestamp: "google.protobuf.Timestamp",
	KindDuration: "google.protobuf.Duration", KindList: "list", KindMap: "map", KindType: "type",
	KindOptional: "optional_type", KindUnknown: "unknown", KindError: "error",
}

// typeName is the name of the type of v, as in "no such overload: f(int)".
func (v Value) typeName() string {
	if v.kind == KindOpaque {
		return v.opaque().Type().TypeName()
	}
	return typeNames[v.kind]
}

// typeOf is what type(v) evaluates to.
func (v Value) typeOf() *types.Type {
	switch v.kind {
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
			return types.NewTypeTypeWithParam(m.t)
		}
		if t, ok := v.opaque().Type().(*types.Type); ok {
			return t
		}
		return types.NewObjectType(v.opaque().Type().TypeName())
	}
	return types.UnknownType
}

// String is v as %v prints it in cel-go: for messages and tests.
func (v Value) String() string {
	switch v.kind {
	case KindError:
		return v.err().Error()
	case KindUnknown:
		return "unknown " + strings.Join(v.Unknown().Paths, ", ")
	case KindNone:
		return "none"
	}
	return formatRef(v.ref())
}

// optionalPointer is an optional whose value the caller keeps alive.
func optionalPointer(v *Value) Value { return Value{kind: KindOptional, ptr: unsafe.Pointer(v)} }
