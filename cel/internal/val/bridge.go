package val

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file converts values to cel-go's representation and back. This is the plain path on which
// rarely used functions run upstream's implementation, or one of package lib. Containers are
// wrapped, not copied.

// Ref returns v in cel-go's representation.
func (v Value) Ref() ref.Val { return v.RefIn(nil) }

// RefIn is Ref within an evaluation, which bounds the sum of its comparisons.
func (v Value) RefIn(c *comparison) ref.Val {
	switch v.K {
	case KindNull:
		return types.NullValue
	case KindBool:
		return types.Bool(v.Bits != 0)
	case KindInt:
		return types.Int(v.Int())
	case KindUint:
		return types.Uint(v.Bits)
	case KindDouble:
		return types.Double(v.Float())
	case KindString:
		return types.String(v.Text())
	case KindBytes:
		return types.Bytes(v.bytes())
	case KindTimestamp:
		return types.Timestamp{Time: v.Time()}
	case KindDuration:
		return types.Duration{Duration: v.Duration()}
	case KindList:
		return &listRef{v, c}
	case KindMap:
		return &mapRef{v, c}
	case KindType:
		return v.celType()
	case KindOptional:
		if v.Ptr == nil {
			return types.OptionalNone
		}
		return types.OptionalOf(v.Optional().RefIn(c))
	case KindOpaque:
		if m, ok := v.made(); ok && c != nil {
			return &madeRef{m, c}
		}
		return v.Opaque()
	case KindError:
		return types.WrapErr(v.Err())
	}
	return types.NewErr("unexpected value of kind %d", v.K)
}

// FromRef converts a value from cel-go's representation.
func FromRef(r ref.Val) Value {
	switch r := r.(type) {
	case types.Null:
		return NullValue
	case types.Bool:
		return BoolValue(bool(r))
	case types.Int:
		return IntValue(int64(r))
	case types.Uint:
		return UintValue(uint64(r))
	case types.Double:
		return DoubleValue(float64(r))
	case types.String:
		return TextValue(string(r))
	case types.Bytes:
		return BytesValue(r)
	case types.Timestamp:
		return TimeValue(r.Time)
	case types.Duration:
		return DurationValue(int64(r.Duration))
	case *types.Type:
		return TypeValue(r)
	case *types.Optional:
		if !r.HasValue() {
			return OptionalNone
		}
		return OptionalOf(FromRef(r.GetValue()))
	case *types.Err:
		return ErrorOf(plainError(r))
	case *listRef:
		return r.v
	case *mapRef:
		return r.v
	case *madeRef:
		return OpaqueValue(r.made)
	case traits.Lister:
		items := make([]Value, 0, int(r.Size().(types.Int)))
		for it := r.Iterator(); it.HasNext() == types.True; {
			items = append(items, FromRef(it.Next()))
		}
		return ListValue(items)
	case traits.Mapper:
		m := &MapBox{}
		for it := r.Iterator(); it.HasNext() == types.True; {
			k := it.Next()
			m.Put(FromRef(k), FromRef(r.Get(k)))
		}
		return MapValue(m)
	}
	return OpaqueValue(r)
}

// plainError returns the error within one of cel-go's, so that it does not keep cel-go's data
// alive. cel-go has no type for calls that match no overload: only here such errors are recognised
// by their text.
func plainError(e *types.Err) error {
	if strings.HasPrefix(e.Error(), errTexts[CodeNoOverload]) {
		return &OverloadError{e.Error()}
	}
	if inner := errors.Unwrap(e); inner != nil {
		return inner
	}
	return e
}

// formatRef returns r as cel-go formats it in messages (%v).
func formatRef(r ref.Val) string { return types.Format(r) }

// conversionError returns the error of a wrapper that is converted to a Go value.
func conversionError(t ref.Val, to any) error {
	return fmt.Errorf("type conversion error from '%s' to '%v'", t.Type().TypeName(), to)
}

// listRef wraps a list for cel-go's functions.
type listRef struct {
	v Value
	c *comparison // nil outside of an evaluation
}

var _ traits.Lister = (*listRef)(nil)

func (l *listRef) Type() ref.Type              { return types.ListType }
func (l *listRef) Size() ref.Val               { return types.Int(l.v.Size()) }
func (l *listRef) Equal(other ref.Val) ref.Val { return equalIn(l.c, l.v, FromRef(other)).Ref() }
func (l *listRef) Contains(x ref.Val) ref.Val  { return Contains(l.c, FromRef(x), l.v).Ref() }
func (l *listRef) Iterator() traits.Iterator   { return &listIterator{l: l.v, c: l.c, n: l.v.Size()} }

// IsZeroValue returns false for lists of documents, and for sums that are sets or map lists, as
// upstream does.
func (l *listRef) IsZeroValue() bool { return !l.v.FromDoc() && l.v.Typ == nil && l.v.Size() == 0 }

func (l *listRef) Value() any {
	out := make([]ref.Val, l.v.Size())
	for i := range out {
		out[i] = l.v.Item(i).RefIn(l.c)
	}
	return out
}

func (l *listRef) Get(index ref.Val) ref.Val {
	got, _ := Qualify(l.v, FromRef(index), false)
	return got.RefIn(l.c)
}

func (l *listRef) Add(other ref.Val) ref.Val { return Add(l.v, FromRef(other)).Ref() }

func (l *listRef) ConvertToNative(t reflect.Type) (any, error) {
	if t.Kind() == reflect.Slice {
		out := reflect.MakeSlice(t, l.v.Size(), l.v.Size())
		for i := 0; i < l.v.Size(); i++ {
			item, err := l.v.Item(i).Ref().ConvertToNative(t.Elem())
			if err != nil {
				return nil, err
			}
			out.Index(i).Set(reflect.ValueOf(item))
		}
		return out.Interface(), nil
	}
	return nil, conversionError(l, t)
}

func (l *listRef) ConvertToType(t ref.Type) ref.Val { return containerToType(l, t) }

// containerToType converts a list or map to its own type or to type.
func containerToType(v ref.Val, t ref.Type) ref.Val {
	switch t {
	case v.Type():
		return v
	case types.TypeType:
		return v.Type().(*types.Type)
	}
	return types.WrapErr(conversionError(v, t.TypeName()))
}

// listIterator iterates over the items of a list.
type listIterator struct {
	baseIterator
	l    Value
	c    *comparison
	i, n int
}

func (it *listIterator) HasNext() ref.Val { return types.Bool(it.i < it.n) }
func (it *listIterator) Next() ref.Val {
	it.i++
	return it.l.Item(it.i - 1).RefIn(it.c)
}

// baseIterator has the methods of cel-go's iterators that are never called.
type baseIterator struct{}

func (baseIterator) ConvertToNative(reflect.Type) (any, error) {
	return nil, errors.New("an iterator has no value")
}
func (baseIterator) ConvertToType(ref.Type) ref.Val { return types.NewErr("an iterator has no type") }
func (baseIterator) Equal(ref.Val) ref.Val          { return types.False }
func (baseIterator) Type() ref.Type                 { return types.IteratorType }
func (baseIterator) Value() any                     { return nil }

// mapRef wraps a map or object for cel-go's functions.
type mapRef struct {
	v Value
	c *comparison // nil outside of an evaluation
}

var _ traits.Mapper = (*mapRef)(nil)

func (m *mapRef) Type() ref.Type              { return types.MapType }
func (m *mapRef) Size() ref.Val               { return types.Int(m.v.Size()) }
func (m *mapRef) Equal(other ref.Val) ref.Val { return equalIn(m.c, m.v, FromRef(other)).Ref() }
func (m *mapRef) Contains(key ref.Val) ref.Val {
	return Contains(m.c, FromRef(key), m.v).Ref()
}
func (m *mapRef) IsZeroValue() bool { return !m.v.FromDoc() && m.v.Size() == 0 }

func (m *mapRef) Value() any {
	out := map[ref.Val]ref.Val{}
	EachEntry(m.v, func(k, v Value) bool {
		out[k.Ref()] = v.RefIn(m.c)
		return true
	})
	return out
}

func (m *mapRef) Find(key ref.Val) (ref.Val, bool) {
	v, found := findIn(m.v, FromRef(key))
	if !found {
		return nil, false
	}
	return v.RefIn(m.c), true
}

func (m *mapRef) Get(key ref.Val) ref.Val {
	if v, found := m.Find(key); found {
		return v
	}
	return types.NewErr("no such key: %v", key)
}

func (m *mapRef) Iterator() traits.Iterator {
	it := &mapIterator{}
	EachEntry(m.v, func(k, _ Value) bool {
		it.keys = append(it.keys, k)
		return true
	})
	return it
}

func (m *mapRef) ConvertToNative(t reflect.Type) (any, error) { return nil, conversionError(m, t) }
func (m *mapRef) ConvertToType(t ref.Type) ref.Val            { return containerToType(m, t) }

// mapIterator iterates over the keys of a map.
type mapIterator struct {
	baseIterator
	keys []Value
	i    int
}

func (it *mapIterator) HasNext() ref.Val { return types.Bool(it.i < len(it.keys)) }
func (it *mapIterator) Next() ref.Val {
	it.i++
	return it.keys[it.i-1].Ref()
}

// EachEntry calls fn for the entries of a map, in order, until fn returns false. For an object of a
// document these are the declared members, under their escaped names.
func EachEntry(m Value, fn func(k, v Value) bool) {
	if !m.FromDoc() {
		box := m.HeapMap()
		for i := range box.keys {
			if !fn(box.keys[i], box.at(i)) {
				return
			}
		}
		return
	}
	for name, datum := range m.DocValue().Members() {
		key, t := name, m.Typ.Elem
		if m.Typ.Kind == Object {
			f := m.Typ.Field(name)
			if f == nil {
				continue
			}
			t = f.Type
			if escaped, ok := Escape(name); ok {
				key = escaped
			}
		}
		if !fn(TextValue(key), Load(datum.Doc, datum.Node, t)) {
			return
		}
	}
}

// EachVisit is EachEntry with the entries that upstream's iteration yields: after the declared
// members an error for each undeclared one.
func EachVisit(m Value, fn func(k, v Value)) {
	n := 0
	EachEntry(m, func(k, v Value) bool {
		fn(k, v)
		n++
		return true
	})
	for ; m.FromDoc() && n < m.Size(); n++ {
		fn(NullValue, ErrorValue(CodeNoOverload))
	}
}

// preserved is a value that no type declares. It can only be compared.
type preserved struct{ v jsondoc.Value }

func (p preserved) Type() ref.Type                              { return types.UnknownType }
func (p preserved) Value() any                                  { return p.v }
func (p preserved) ConvertToNative(t reflect.Type) (any, error) { return nil, conversionError(p, t) }
func (p preserved) ConvertToType(t ref.Type) ref.Val {
	return types.NewErr("type conversion to '%s' not supported for values preserved by x-kubernetes-preserve-unknown-fields", t.TypeName())
}
func (p preserved) Equal(other ref.Val) ref.Val {
	o, ok := other.(preserved)
	return types.Bool(ok && jsondoc.Equal(p.v, o.v))
}

// SizeRef implements size() for a value of a library type.
func SizeRef(v ref.Val) ref.Val {
	if s, ok := v.(traits.Sizer); ok {
		return s.Size()
	}
	return types.NewErr("no such overload: size")
}

// ToRef converts a value to cel-go's representation, for callers that pass it to cel-go.
func ToRef(v Value) ref.Val { return v.Ref() }
