package val

import (
	"fmt"
	"math"
	"reflect"
	"unsafe"
)

// This file defines maps on the heap: literals and the results of functions.

// MapBox is a map on the heap, in the order in which its keys were added.
type MapBox struct {
	keys, vals []Value
	Index      map[ScalarKey]int       // built when the map has more than linearMap keys
	Get        func(name string) Value // computes a missing value when it is first read; nil if all values are present
	Unescape   bool                    // names may be looked up in their escaped form
}

// at returns the value of key i.
func (m *MapBox) at(i int) Value {
	if m.Get != nil && m.vals[i].K == KindNone {
		m.vals[i] = m.Get(m.keys[i].Text())
	}
	return m.vals[i]
}

// ScalarKey is a key as Go compares it: int, uint and double keys with the same value are different
// keys. Find tries the other types.
type ScalarKey struct {
	kind Kind
	bits uint64
	text string
}

// Unhashable returns the error of a key that cannot be the key of a Go map, with upstream's text;
// no value for other keys.
func Unhashable(k Value) Value {
	if k.K == KindBytes || k.K == KindOpaque && !reflect.TypeOf(k.Opaque().Value()).Comparable() {
		return Errorf("internal error: runtime error: hash of unhashable type %s", GoTypeName(k))
	}
	return Value{}
}

// linearMap is the number of keys up to which a map is searched one by one.
const linearMap = 8

// KeyOf returns a scalar as a key, false if v cannot be one.
func KeyOf(v Value) (ScalarKey, bool) {
	switch v.K {
	case KindString:
		return ScalarKey{kind: KindString, text: v.Text()}, true
	case KindBool, KindInt, KindUint:
		return ScalarKey{kind: v.K, bits: v.Bits}, true
	case KindDouble:
		f := v.Float()
		if f == 0 {
			return ScalarKey{kind: KindDouble}, true
		}
		return ScalarKey{kind: KindDouble, bits: v.Bits}, !math.IsNaN(f)
	case KindNull, KindDuration:
		return ScalarKey{kind: v.K, bits: v.Bits}, true
	case KindTimestamp: // as Go compares a time.Time: with its location
		return ScalarKey{kind: v.K, bits: v.Bits, text: fmt.Sprint(v.Node.Int(), v.Ptr)}, true
	case KindType:
		return ScalarKey{kind: v.K, text: v.celType().String()}, true
	case KindOptional:
		return ScalarKey{kind: v.K}, v.Ptr == nil
	}
	return ScalarKey{}, false
}

// exact returns the index of the key that equals k in kind and value, -1 if there is none.
func (m *MapBox) exact(k Value) int {
	if k.K == KindString && m.Index == nil {
		// Objects that a host fills in are searched here for every condition.
		text := k.Text()
		for i := range m.keys {
			if other := &m.keys[i]; other.K == KindString && other.Bits == k.Bits && other.Text() == text {
				return i
			}
		}
		return -1
	}
	key, ok := KeyOf(k)
	if !ok {
		return -1
	}
	if m.Index != nil {
		if i, ok := m.Index[key]; ok {
			return i
		}
		return -1
	}
	for i := range m.keys {
		if other, ok := KeyOf(m.keys[i]); ok && other == key {
			return i
		}
	}
	return -1
}

// Put sets a key. A later value replaces an earlier one.
func (m *MapBox) Put(k, v Value) {
	if i := m.exact(k); i >= 0 {
		m.vals[i] = v
		return
	}
	m.keys = append(m.keys, k)
	m.vals = append(m.vals, v)
	switch {
	case m.Index != nil:
	case len(m.keys) <= linearMap:
		return
	default:
		m.Index = make(map[ScalarKey]int, 2*len(m.keys))
		for i := range m.keys {
			if key, ok := KeyOf(m.keys[i]); ok {
				m.Index[key] = i
			}
		}
		return
	}
	if key, ok := KeyOf(k); ok {
		m.Index[key] = len(m.keys) - 1
	}
}

// Remove deletes a key if it exists.
func (m *MapBox) Remove(k Value) {
	i := m.exact(k)
	if i < 0 {
		return
	}
	m.keys = append(m.keys[:i:i], m.keys[i+1:]...)
	m.vals = append(m.vals[:i:i], m.vals[i+1:]...)
	m.Index = nil
}

// Find returns the value of k. A number also matches a key of another numeric type with the same
// value.
func (m *MapBox) Find(k Value) (Value, bool) {
	if m.Unescape && k.K == KindString {
		if name, ok := Unescape(k.Text()); ok {
			k = TextValue(name)
		}
	}
	if i := m.exact(k); i >= 0 {
		return m.at(i), true
	}
	try := func(other Value) (Value, bool) {
		if i := m.exact(other); i >= 0 {
			return m.at(i), true
		}
		return Value{}, false
	}
	switch k.K {
	case KindDouble:
		if i, ok := ExactInt(k.Float()); ok {
			if v, found := try(IntValue(i)); found {
				return v, true
			}
		}
		if u, ok := ExactUint(k.Float()); ok {
			return try(UintValue(u))
		}
	case KindInt:
		if k.Int() >= 0 {
			return try(UintValue(k.Bits))
		}
	case KindUint:
		if k.Bits <= math.MaxInt64 {
			return try(IntValue(int64(k.Bits)))
		}
	}
	return Value{}, false
}

// ExactInt returns f as an int, if that loses nothing.
func ExactInt(f float64) (int64, bool) {
	if f >= math.MinInt64 && f < math.MaxInt64 && f == math.Trunc(f) {
		return int64(f), true
	}
	return 0, false
}

// ExactUint returns f as a uint, if that loses nothing.
func ExactUint(f float64) (uint64, bool) {
	if f >= 0 && f < math.MaxUint64 && f == math.Trunc(f) {
		return uint64(f), true
	}
	return 0, false
}

// Member returns the member with that name, nil if there is none. The map must have no index.
func (m *MapBox) Member(name *Value) *Value {
	text := unsafe.String((*byte)(name.Ptr), int(name.Bits))
	for i := range m.keys {
		key := &m.keys[i]
		if key.Bits == name.Bits && key.K == KindString && unsafe.String((*byte)(key.Ptr), int(key.Bits)) == text {
			return &m.vals[i]
		}
	}
	return nil
}
