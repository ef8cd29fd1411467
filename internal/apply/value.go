package apply

import (
	"fmt"
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file lets SMD read documents: its value, map and list interfaces over
// package jsondoc. They are for reading only.

// node is a document value as SMD sees it.
type node struct{ jsondoc.Value }

func (n node) IsMap() bool                            { return n.Kind() == jsondoc.Object }
func (n node) IsList() bool                           { return n.Kind() == jsondoc.Array }
func (n node) IsBool() bool                           { return n.Kind() == jsondoc.Bool }
func (n node) IsInt() bool                            { return n.Kind() == jsondoc.Int }
func (n node) IsFloat() bool                          { return n.Kind() == jsondoc.Float }
func (n node) IsString() bool                         { return n.Kind() == jsondoc.String }
func (n node) IsNull() bool                           { return n.Kind() == jsondoc.Null || n.Kind() == jsondoc.Absent }
func (n node) AsMap() value.Map                       { return object(n) }
func (n node) AsMapUsing(value.Allocator) value.Map   { return object(n) }
func (n node) AsList() value.List                     { return list(n) }
func (n node) AsListUsing(value.Allocator) value.List { return list(n) }
func (n node) AsBool() bool                           { return n.Node.Bool() }
func (n node) AsInt() int64                           { return n.Node.Int() }
func (n node) AsFloat() float64                       { return n.Node.Float() }
func (n node) AsString() string                       { return n.Text() }
func (n node) Unstructured() any                      { return n.Interface() }

// SMD prints values into the errors that clients see; these two print what it
// prints for the values that Kubernetes gives it.
func (n node) String() string { return fmt.Sprintf("&{%v}", n.Interface()) }

// GoString returns the text of SMD's own value type, because some of SMD's messages print a value
// with %#v and clients see them.
func (n node) GoString() string {
	return fmt.Sprintf("&value.valueUnstructured{Value:%#v}", n.Interface())
}

// object is an Object of a document.
type object node

func (o object) Set(string, value.Value) { panic("BUG: documents are read only here") }
func (o object) Delete(string)           { panic("BUG: documents are read only here") }

// Get implements value.Map.
func (o object) Get(key string) (value.Value, bool) {
	v := o.Value.Get(key)
	if !v.Exists() {
		return nil, false
	}
	return node{v}, true
}

func (o object) GetUsing(_ value.Allocator, key string) (value.Value, bool) { return o.Get(key) }
func (o object) Has(key string) bool                                        { return o.Value.Get(key).Exists() }
func (o object) Length() int                                                { return o.Len() }
func (o object) Empty() bool                                                { return o.Len() == 0 }

func (o object) Equals(other value.Map) bool { return o.EqualsUsing(value.HeapAllocator, other) }

// EqualsUsing implements value.Map.
func (o object) EqualsUsing(a value.Allocator, other value.Map) bool {
	return value.MapEqualsUsing(a, o, other)
}

// Iterate implements value.Map.
func (o object) Iterate(fn func(string, value.Value) bool) bool {
	for name, v := range o.Members() {
		if !fn(name, node{v}) {
			return false
		}
	}
	return true
}

// IterateUsing implements value.Map.
func (o object) IterateUsing(_ value.Allocator, fn func(string, value.Value) bool) bool {
	return o.Iterate(fn)
}

// Zip implements value.Map.
func (o object) Zip(other value.Map, order value.MapTraverseOrder, fn func(string, value.Value, value.Value) bool) bool {
	return o.ZipUsing(value.HeapAllocator, other, order, fn)
}

// ZipUsing visits the members of both maps: first o's, in order, then those
// that only other has. A caller that wants key order gets it by sorting.
func (o object) ZipUsing(a value.Allocator, other value.Map, order value.MapTraverseOrder, fn func(string, value.Value, value.Value) bool) bool {
	if order == value.LexicalKeyOrder {
		return zipSorted(o, other, fn)
	}
	for name, v := range o.Members() {
		var rhs value.Value
		if other != nil {
			if r, ok := other.Get(name); ok {
				rhs = r
			}
		}
		if !fn(name, node{v}, rhs) {
			return false
		}
	}
	if other == nil {
		return true
	}
	return other.IterateUsing(a, func(name string, v value.Value) bool {
		return o.Has(name) || fn(name, nil, v)
	})
}

// list is an Array of a document.
type list node

func (l list) Length() int                                  { return l.Len() }
func (l list) At(i int) value.Value                         { return node{l.Item(i)} }
func (l list) AtUsing(_ value.Allocator, i int) value.Value { return node{l.Item(i)} }
func (l list) Range() value.ListRange                       { return &listRange{list: l, at: -1} }
func (l list) RangeUsing(value.Allocator) value.ListRange   { return l.Range() }
func (l list) Equals(other value.List) bool                 { return l.EqualsUsing(value.HeapAllocator, other) }

// EqualsUsing implements value.List.
func (l list) EqualsUsing(a value.Allocator, other value.List) bool {
	return value.ListEqualsUsing(a, l, other)
}

// listRange iterates over a list.
type listRange struct {
	list list
	at   int
}

// Next implements value.ListRange.
func (r *listRange) Next() bool {
	r.at++
	return r.at < r.list.Len()
}

// Item implements value.ListRange.
func (r *listRange) Item() (int, value.Value) { return r.at, r.list.At(r.at) }

// zipSorted visits the members of both maps in key order.
func zipSorted(o object, other value.Map, fn func(string, value.Value, value.Value) bool) bool {
	var names []string
	for name := range o.Members() {
		names = append(names, name)
	}
	if other != nil {
		other.Iterate(func(name string, _ value.Value) bool {
			names = append(names, name)
			return true
		})
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		var lhs, rhs value.Value
		if v, ok := o.Get(name); ok {
			lhs = v
		}
		if other != nil {
			if v, ok := other.Get(name); ok {
				rhs = v
			}
		}
		if !fn(name, lhs, rhs) {
			return false
		}
	}
	return true
}
