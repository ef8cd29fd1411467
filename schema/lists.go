package schema

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file checks that the items of sets, and the keys of list maps, are unique.

// fewItems is the greatest length of a list whose items are compared in pairs. For longer lists the
// plain path decides, with hash tables.
const fewItems = 24

// listsOK reports whether all lists at x and below have no duplicates. It may return false for a
// list without duplicates.
func (n *node) listsOK(d *jsondoc.Doc, x jsondoc.Node) bool {
	if !n.deepLists {
		return true
	}
	switch x.Kind() {
	case jsondoc.Array:
		if !n.listOK(d, x) {
			return false
		}
		for i := 0; n.items != nil && n.items.deepLists && i < x.Len(); i++ {
			if !n.items.listsOK(d, d.Item(x, i)) {
				return false
			}
		}
	case jsondoc.Object:
		if n.additional != nil && n.additional.deepLists {
			for _, m := range (jsondoc.Value{Doc: d, Node: x}).Members() {
				if !n.additional.listsOK(d, m.Node) {
					return false
				}
			}
		}
		if n.laidOut(x) {
			for i := range n.props {
				if p := &n.props[i]; p.node.deepLists && !p.node.listsOK(d, n.member(d, x, p.name, p.slot)) {
					return false
				}
			}
			return true
		}
		for p := range n.present(d, x) {
			if p.node.deepLists && !p.node.listsOK(d, n.member(d, x, p.name, p.slot)) {
				return false
			}
		}
	}
	return true
}

// listOK is listsOK for the list x alone, without the lists in its items.
func (n *node) listOK(d *jsondoc.Doc, x jsondoc.Node) bool {
	size := x.Len()
	switch n.listType {
	case "set":
		if size > fewItems {
			return len(n.listErrors(nil, jsondoc.Value{Doc: d, Node: x})) == 0
		}
		for i := range size {
			a := jsondoc.Value{Doc: d, Node: d.Item(x, i)}
			if !scalar(a.Kind()) {
				return len(n.listErrors(nil, jsondoc.Value{Doc: d, Node: x})) == 0
			}
			for j := range i {
				if jsondoc.Equal(a, jsondoc.Value{Doc: d, Node: d.Item(x, j)}) {
					return false
				}
			}
		}
	case "map":
		if size > fewItems {
			return len(n.listErrors(nil, jsondoc.Value{Doc: d, Node: x})) == 0
		}
		for i := range size {
			a := d.Item(x, i)
			if a.Kind() != jsondoc.Object {
				return false
			}
			for j := range i {
				if n.equalKeys(d, a, d.Item(x, j)) {
					return false
				}
			}
		}
	}
	return true
}

// scalar reports whether values of a kind have no children.
func scalar(k jsondoc.Kind) bool { return k != jsondoc.Array && k != jsondoc.Object }

// equalKeys reports whether the keys of two items may be equal. Missing keys are equal.
func (n *node) equalKeys(d *jsondoc.Doc, a, b jsondoc.Node) bool {
	for i, name := range n.mapKeys {
		slot := -1
		if i < len(n.keySlots) {
			slot = n.keySlots[i]
		}
		x, y := n.items.member(d, a, name, slot), n.items.member(d, b, name, slot)
		if !scalar(x.Kind()) || x.Kind()+y.Kind() == jsondoc.Int+jsondoc.Float {
			continue // with several keys, 1 and 1.0 are equal: upstream compares their text
		}
		if x.Kind() != y.Kind() {
			return false
		}
		if x.Kind() != jsondoc.Absent && !jsondoc.Equal(jsondoc.Value{Doc: d, Node: x}, jsondoc.Value{Doc: d, Node: y}) {
			return false
		}
	}
	return true
}

// duplicates returns the errors of all lists at x and below.
func (n *node) duplicates(path *field.Path, x jsondoc.Value) field.ErrorList {
	if !n.deepLists {
		return nil
	}
	var errs field.ErrorList
	switch x.Kind() {
	case jsondoc.Array:
		errs = n.listErrors(path, x)
		if n.items != nil {
			for i := range x.Len() {
				errs = append(errs, n.items.duplicates(path.Index(i), x.Item(i))...)
			}
		}
	case jsondoc.Object:
		if n.additional != nil {
			for name, m := range x.Members() {
				errs = append(errs, n.additional.duplicates(path.Key(name), m)...)
			}
		}
		for p := range n.present(x.Doc, x.Node) {
			if m := x.Get(p.name); m.Exists() {
				errs = append(errs, p.node.duplicates(path.Child(p.name), m)...)
			}
		}
	}
	return errs
}

// listErrors returns the errors of the list x itself: one for each duplicate value, at its second
// occurrence.
func (n *node) listErrors(path *field.Path, x jsondoc.Value) field.ErrorList {
	switch n.listType {
	case "set":
		return setErrors(path, x)
	case "map":
		return n.mapErrors(path, x)
	}
	return nil
}

// setErrors returns the errors of a set.
func setErrors(path *field.Path, x jsondoc.Value) field.ErrorList {
	var errs field.ErrorList
	times := make(map[string]int, x.Len())
	for i := range x.Len() {
		item := x.Item(i)
		key := identity(nil, item)
		if times[string(key)]++; times[string(key)] == 2 {
			errs = append(errs, field.Duplicate(path.Index(i), item.Interface()))
		}
	}
	return errs
}

// mapErrors returns the errors of a list map.
func (n *node) mapErrors(path *field.Path, x jsondoc.Value) field.ErrorList {
	for i := range x.Len() {
		if item := x.Item(i); item.Kind() != jsondoc.Object && item.Kind() != jsondoc.Null {
			return field.ErrorList{field.Invalid(path.Index(i), item.Interface(), "must be an object for an array of list-type map")}
		}
	}
	var errs field.ErrorList
	times := make(map[string]int, x.Len())
	for i := range x.Len() {
		item := x.Item(i)
		var key []byte
		value := make(map[string]any)
		for _, name := range n.mapKeys {
			m := item.Get(name)
			if len(n.mapKeys) == 1 {
				key = identity(key, m)
			} else if m.Exists() {
				key = m.AppendJSON(key)
			}
			key = append(key, 0)
			if m.Exists() {
				value[name] = m.Interface()
			}
		}
		if times[string(key)]++; times[string(key)] == 2 {
			errs = append(errs, field.Duplicate(path.Index(i), value))
		}
	}
	return errs
}

// identity appends a text that is the same for two values if and only if they are equal as items of
// a set: scalars by type and value, other values by their JSON.
func identity(b []byte, v jsondoc.Value) []byte {
	switch v.Kind() {
	case jsondoc.Absent:
		return b
	case jsondoc.Float:
		b = append(b, 'f') // 1.0 is not 1
	}
	return v.AppendJSON(b)
}
