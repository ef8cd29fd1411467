package cel

import (
	"fmt"
	"math"
	"reflect"
)

// This file defines maps on the heap: literals and the results of functions.

// mapBox is a map on the heap, in the order in which its keys were inserted.
type mapBox struct {
	keys, vals []Value
	index      map[scalarKey]int       // made when the map grows beyond a few keys
	get        func(name string) Value // computes a value that is not there yet when it is first read; nil: all are there
	unescape   bool                    // names may be asked for in their escaped form
}

// at is the value of key i.
func (m *mapBox) at(i int) Value {
	if m.get != nil && m.vals[i].kind == KindNone {
		m.vals[i] = m.get(m.keys[i].text())
	}
	return m.vals[i]
}

// scalarKey is a key as Go compares it: int, uint and double keys of one value
// are different keys, which lookups bridge.
type scalarKey struct {
	kind Kind
	bits uint64
	text string
}

// unhashable is the error of a key that no Go map can have, in upstream's words.
func unhashable(k Value) Value {
	if k.kind == KindBytes || k.kind == KindOpaque && !reflect.TypeOf(k.opaque().Value()).Comparable() {
		return errorf("internal error: runtime error: hash of unhashable type %s", goTypeName(k))
	}
	return Value{}
}

// linearMap is the number of keys up to which a map is searched in order.
const linearMap = 8

func keyOf(v Value) (scalarKey, bool) {
	switch v.kind {
	case KindString:
		return scalarKey{kind: KindString, text: v.text()}, true
	case KindBool, KindInt, KindUint:
		return scalarKey{kind: v.kind, bits: v.bits}, true
	case KindDouble:
		f := v.Float()
		if f == 0 {
			return scalarKey{kind: KindDouble}, true
		}
		return scalarKey{kind: KindDouble, bits: v.bits}, !math.IsNaN(f)
	case KindNull, KindDuration:
		return scalarKey{kind: v.kind, bits: v.bits}, true
	case KindTimestamp: // as Go compares a time.Time: with its place
		return scalarKey{kind: v.kind, bits: v.bits, text: fmt.Sprint(v.node.Int(), v.ptr)}, true
	case KindType:
		return scalarKey{kind: v.kind, text: v.celType().String()}, true
	case KindOptional:
		return scalarKey{kind: v.kind}, v.ptr == nil
	}
	return scalarKey{}, false
}

// exact is the position of the key that is k in kind and value, -1 if none.
func (m *mapBox) exact(k Value) int {
	if k.kind == KindString && m.index == nil {
		// Objects that a host fills in are looked up here for every condition.
		text := k.text()
		for i := range m.keys {
			if other := &m.keys[i]; other.kind == KindString && other.bits == k.bits && other.text() == text {
				return i
			}
		}
		return -1
	}
	key, ok := keyOf(k)
	if !ok {
		return -1
	}
	if m.index != nil {
		if i, ok := m.index[key]; ok {
			return i
		}
		return -1
	}
	for i := range m.keys {
		if other, ok := keyOf(m.keys[i]); ok && other == key {
			return i
		}
	}
	return -1
}

// put sets a key; a later value replaces an earlier one.
func (m *mapBox) put(k, v Value) {
	if i := m.exact(k); i >= 0 {
		m.vals[i] = v
		return
	}
	m.keys = append(m.keys, k)
	m.vals = append(m.vals, v)
	switch {
	case m.index != nil:
	case len(m.keys) <= linearMap:
		return
	default:
		m.index = make(map[scalarKey]int, 2*len(m.keys))
		for i := range m.keys {
			if key, ok := keyOf(m.keys[i]); ok {
				m.index[key] = i
			}
		}
		return
	}
	if key, ok := keyOf(k); ok {
		m.index[key] = len(m.keys) - 1
	}
}

// remove deletes a key if it is there.
func (m *mapBox) remove(k Value) {
	i := m.exact(k)
	if i < 0 {
		return
	}
	m.keys = append(m.keys[:i:i], m.keys[i+1:]...)
	m.vals = append(m.vals[:i:i], m.vals[i+1:]...)
	m.index = nil
}

// find is the value under k. A number finds a key of another numeric type if
// neither loses precision.
func (m *mapBox) find(k Value) (Value, bool) {
	if m.unescape && k.kind == KindString {
		if name, ok := Unescape(k.text()); ok {
			k = stringValue(name)
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
	switch k.kind {
	case KindDouble:
		if i, ok := exactInt(k.Float()); ok {
			if v, found := try(intValue(i)); found {
				return v, true
			}
		}
		if u, ok := exactUint(k.Float()); ok {
			return try(uintValue(u))
		}
	case KindInt:
		if k.Int() >= 0 {
			return try(uintValue(k.bits))
		}
	case KindUint:
		if k.bits <= math.MaxInt64 {
			return try(intValue(int64(k.bits)))
		}
	}
	return Value{}, false
}

// exactInt is f as an int if that loses nothing.
func exactInt(f float64) (int64, bool) {
	if f >= math.MinInt64 && f < math.MaxInt64 && f == math.Trunc(f) {
		return int64(f), true
	}
	return 0, false
}

// exactUint is f as a uint if that loses nothing.
func exactUint(f float64) (uint64, bool) {
	if f >= 0 && f < math.MaxUint64 && f == math.Trunc(f) {
		return uint64(f), true
	}
	return 0, false
}
