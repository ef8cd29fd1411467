package cel

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/keelson-io/keelson/doc"
)

// This file carries values to cel-go's representation and back: the slow path
// on which rarely used functions run upstream's implementation, or one of ours
// that is bound in cel-go's way. Containers are wrapped, not copied.

// ref is v in cel-go's representation.
func (v Value) ref() ref.Val { return v.refIn(nil) }

// refIn is ref in an evaluation, whose comparisons are bounded as a whole.
func (v Value) refIn(c *comparison) ref.Val {
	switch v.kind {
	case KindNull:
		return types.NullValue
	case KindBool:
		return types.Bool(v.bits != 0)
	case KindInt:
		return types.Int(v.Int())
	case KindUint:
		return types.Uint(v.bits)
	case KindDouble:
		return types.Double(v.Float())
	case KindString:
		return types.String(v.text())
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
		if v.ptr == nil {
			return types.OptionalNone
		}
		return types.OptionalOf(v.optional().refIn(c))
	case KindOpaque:
		if m, ok := v.made(); ok && c != nil {
			return &madeRef{m, c}
		}
		return v.opaque()
	case KindError:
		return types.WrapErr(v.err())
	}
	return types.NewErr("unexpected value of kind %d", v.kind)
}

// fromRef is a value of cel-go's as a Value.
func fromRef(r ref.Val) Value {
	switch r := r.(type) {
	case types.Null:
		return nullValue
	case types.Bool:
		return boolValue(bool(r))
	case types.Int:
		return intValue(int64(r))
	case types.Uint:
		return uintValue(uint64(r))
	case types.Double:
		return doubleValue(float64(r))
	case types.String:
		return stringValue(string(r))
	case types.Bytes:
		return bytesValue(r)
	case types.Timestamp:
		return timeValue(r.Time)
	case types.Duration:
		return durationValue(int64(r.Duration))
	case *types.Type:
		return typeValue(r)
	case *types.Optional:
		if !r.HasValue() {
			return optionalNone
		}
		return optionalOf(fromRef(r.GetValue()))
	case *types.Err:
		return errorOf(plainError(r))
	case *listRef:
		return r.v
	case *mapRef:
		return r.v
	case *madeRef:
		return opaqueValue(r.made)
	case traits.Lister:
		items := make([]Value, 0, int(r.Size().(types.Int)))
		for it := r.Iterator(); it.HasNext() == types.True; {
			items = append(items, fromRef(it.Next()))
		}
		return listValue(items)
	case traits.Mapper:
		m := &mapBox{}
		for it := r.Iterator(); it.HasNext() == types.True; {
			k := it.Next()
			m.put(fromRef(k), fromRef(r.Get(k)))
		}
		return mapValue(m)
	}
	return opaqueValue(r)
}

// plainError is the error inside one of cel-go's, so that it does not keep
// cel-go's bookkeeping alive.
func plainError(e *types.Err) error {
	if inner := errors.Unwrap(e); inner != nil {
		return inner
	}
	return e
}

// formatRef is r as cel-go formats it in messages (%v).
func formatRef(r ref.Val) string { return types.Format(r) }

// conversionError is what a wrapper answers when asked for a Go value.
func conversionError(t ref.Val, to any) error {
	return fmt.Errorf("type conversion error from '%s' to '%v'", t.Type().TypeName(), to)
}

// listRef shows a list to cel-go's functions.
type listRef struct {
	v Value
	c *comparison // nil: outside of an evaluation
}

var _ traits.Lister = (*listRef)(nil)

func (l *listRef) Type() ref.Type              { return types.ListType }
func (l *listRef) Size() ref.Val               { return types.Int(l.v.size()) }
func (l *listRef) Equal(other ref.Val) ref.Val { return equalIn(l.c, l.v, fromRef(other)).ref() }
func (l *listRef) Contains(x ref.Val) ref.Val  { return contains(l.c, fromRef(x), l.v).ref() }
func (l *listRef) Iterator() traits.Iterator   { return &listIterator{l: l.v, c: l.c, n: l.v.size()} }

// IsZeroValue is false for lists of a schema's kinds, and for sums that stay sets or map lists: upstream's do not say.
func (l *listRef) IsZeroValue() bool { return !l.v.fromDoc() && l.v.typ == nil && l.v.size() == 0 }

func (l *listRef) Value() any {
	out := make([]ref.Val, l.v.size())
	for i := range out {
		out[i] = l.v.item(i).refIn(l.c)
	}
	return out
}

func (l *listRef) Get(index ref.Val) ref.Val {
	got, _ := qualify(l.v, fromRef(index), false)
	return got.refIn(l.c)
}

func (l *listRef) Add(other ref.Val) ref.Val { return add(l.v, fromRef(other)).ref() }

func (l *listRef) ConvertToNative(t reflect.Type) (any, error) {
	if t.Kind() == reflect.Slice {
		out := reflect.MakeSlice(t, l.v.size(), l.v.size())
		for i := 0; i < l.v.size(); i++ {
			item, err := l.v.item(i).ref().ConvertToNative(t.Elem())
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

type listIterator struct {
	baseIterator
	l    Value
	c    *comparison
	i, n int
}

func (it *listIterator) HasNext() ref.Val { return types.Bool(it.i < it.n) }
func (it *listIterator) Next() ref.Val {
	it.i++
	return it.l.item(it.i - 1).refIn(it.c)
}

// baseIterator is the part of cel-go's iterators that nobody calls.
type baseIterator struct{}

func (baseIterator) ConvertToNative(reflect.Type) (any, error) {
	return nil, errors.New("an iterator has no value")
}
func (baseIterator) ConvertToType(ref.Type) ref.Val { return types.NewErr("an iterator has no type") }
func (baseIterator) Equal(ref.Val) ref.Val          { return types.False }
func (baseIterator) Type() ref.Type                 { return types.IteratorType }
func (baseIterator) Value() any                     { return nil }

// mapRef shows a map or object to cel-go's functions.
type mapRef struct {
	v Value
	c *comparison // nil: outside of an evaluation
}

var _ traits.Mapper = (*mapRef)(nil)

func (m *mapRef) Type() ref.Type              { return types.MapType }
func (m *mapRef) Size() ref.Val               { return types.Int(m.v.size()) }
func (m *mapRef) Equal(other ref.Val) ref.Val { return equalIn(m.c, m.v, fromRef(other)).ref() }
func (m *mapRef) Contains(key ref.Val) ref.Val {
	return contains(m.c, fromRef(key), m.v).ref()
}
func (m *mapRef) IsZeroValue() bool { return !m.v.fromDoc() && m.v.size() == 0 }

func (m *mapRef) Value() any {
	out := map[ref.Val]ref.Val{}
	eachEntry(m.v, func(k, v Value) bool {
		out[k.ref()] = v.refIn(m.c)
		return true
	})
	return out
}

func (m *mapRef) Find(key ref.Val) (ref.Val, bool) {
	v, found := findIn(m.v, fromRef(key))
	if !found {
		return nil, false
	}
	return v.refIn(m.c), true
}

func (m *mapRef) Get(key ref.Val) ref.Val {
	if v, found := m.Find(key); found {
		return v
	}
	return types.NewErr("no such key: %v", key)
}

func (m *mapRef) Iterator() traits.Iterator {
	it := &mapIterator{}
	eachEntry(m.v, func(k, _ Value) bool {
		it.keys = append(it.keys, k)
		return true
	})
	return it
}

func (m *mapRef) ConvertToNative(t reflect.Type) (any, error) { return nil, conversionError(m, t) }
func (m *mapRef) ConvertToType(t ref.Type) ref.Val            { return containerToType(m, t) }

type mapIterator struct {
	baseIterator
	keys []Value
	i    int
}

func (it *mapIterator) HasNext() ref.Val { return types.Bool(it.i < len(it.keys)) }
func (it *mapIterator) Next() ref.Val {
	it.i++
	return it.keys[it.i-1].ref()
}

// eachEntry calls fn with the entries of a map in order until it returns
// false: of an object of a document those that its type declares, under their
// escaped names.
func eachEntry(m Value, fn func(k, v Value) bool) {
	if !m.fromDoc() {
		box := m.heapMap()
		for i := range box.keys {
			if !fn(box.keys[i], box.at(i)) {
				return
			}
		}
		return
	}
	for name, datum := range m.docValue().Members() {
		key, t := name, m.typ.Elem
		if m.typ.Kind == Object {
			f := m.typ.field(name)
			if f == nil {
				continue
			}
			t = f.Type
			if escaped, ok := Escape(name); ok {
				key = escaped
			}
		}
		if !fn(stringValue(key), load(datum.Doc, datum.Node, t)) {
			return
		}
	}
}

// eachVisit is eachEntry as a walk by upstream sees it: after the members that
// an object declares there is nothing, once for each that it does not.
func eachVisit(m Value, fn func(k, v Value)) {
	n := 0
	eachEntry(m, func(k, v Value) bool {
		fn(k, v)
		n++
		return true
	})
	for ; m.fromDoc() && n < m.size(); n++ {
		fn(nullValue, errorValue(errNoOverload))
	}
}

// preserved is a datum that no type declares. It can only be compared.
type preserved struct{ v doc.Value }

func (p preserved) Type() ref.Type                              { return types.UnknownType }
func (p preserved) Value() any                                  { return p.v }
func (p preserved) ConvertToNative(t reflect.Type) (any, error) { return nil, conversionError(p, t) }
func (p preserved) ConvertToType(t ref.Type) ref.Val {
	return types.NewErr("type conversion to '%s' not supported for values preserved by x-kubernetes-preserve-unknown-fields", t.TypeName())
}
func (p preserved) Equal(other ref.Val) ref.Val {
	o, ok := other.(preserved)
	return types.Bool(ok && doc.Equal(p.v, o.v))
}

// sizeRef is size() of a value of a library type.
func sizeRef(v ref.Val) ref.Val {
	if s, ok := v.(traits.Sizer); ok {
		return s.Size()
	}
	return types.NewErr("no such overload: size")
}

// ToRef is a value in cel-go's representation, for callers that want to hand
// it to cel-go.
func ToRef(v Value) ref.Val { return v.ref() }
