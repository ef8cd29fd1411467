package apply

import (
	"slices"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file is set algebra on FieldsV1 tries as they stand in documents. A node
// of a trie is a map; it is a member of the set itself if it is empty or has a
// member ".".

// isMember reports whether a node of a trie is itself in the set.
func isMember(v jsondoc.Value) bool { return v.Len() == 0 || v.Get(".").Exists() }

// meets reports whether a trie and b, of the new document, have a member in
// common. The root is no member.
func (w *walker) meets(a jsondoc.Value, b jsondoc.Node) bool {
	for i := range b.Len() {
		key, below := w.d.Pair(b, i)
		name := w.d.Str(key)
		if name == "." {
			continue
		}
		v := a.Get(name)
		if !v.Exists() {
			continue
		}
		if isMember(v) && isMember(jsondoc.Value{Doc: w.d, Node: below}) || w.meets(v, below) {
			return true
		}
	}
	return false
}

// subtract returns the trie a without the members of b, of the new document; Absent
// if nothing is left.
func (w *walker) subtract(a jsondoc.Value, b jsondoc.Node) jsondoc.Node {
	return w.subtractBelow(a, b, false)
}

// subtractBelow is subtract for a node below the root. member is set if the node stays a member
// itself.
func (w *walker) subtractBelow(a jsondoc.Value, b jsondoc.Node, member bool) jsondoc.Node {
	mark := len(w.stack)
	for name, v := range a.Members() {
		if name == "." {
			continue
		}
		minus := w.d.Member(b, name)
		var left jsondoc.Node
		switch {
		case minus.Kind() == jsondoc.Absent:
			left = w.d.Import(v)
		default:
			stays := isMember(v) && !isMember(jsondoc.Value{Doc: w.d, Node: minus})
			left = w.subtractBelow(v, minus, stays)
		}
		if left.Kind() != jsondoc.Absent {
			w.stack = append(w.stack, w.d.NewString(name), left)
		}
	}
	if member {
		if len(w.stack) == mark {
			return w.leaf
		}
		w.stack = slices.Insert(w.stack, mark, w.dot, w.leaf)
	}
	return w.close(mark)
}

// union returns the trie of the members of a and of b, of the new document.
func (w *walker) union(a jsondoc.Value, b jsondoc.Node) jsondoc.Node {
	return w.unionBelow(a, jsondoc.Value{Doc: w.d, Node: b}, false)
}

// unionBelow is union for a node below the root. member is set if the node is a member itself.
func (w *walker) unionBelow(a, b jsondoc.Value, member bool) jsondoc.Node {
	mark := len(w.stack)
	for name, v := range jsondoc.Both(a, b) {
		if name == "." {
			continue
		}
		x, y := v[0], v[1]
		var n jsondoc.Node
		switch {
		case !y.Exists():
			n = w.imported(x)
		case !x.Exists():
			n = w.imported(y)
		default:
			n = w.unionBelow(x, y, isMember(x) || isMember(y))
		}
		w.stack = append(w.stack, w.d.NewString(name), n)
	}
	if member {
		if len(w.stack) == mark {
			return w.leaf
		}
		w.stack = slices.Insert(w.stack, mark, w.dot, w.leaf)
	}
	return w.close(mark)
}

// imported returns v as a node of the new document.
func (w *walker) imported(v jsondoc.Value) jsondoc.Node {
	if v.Doc == w.d {
		return v.Node
	}
	return w.d.Import(v)
}

// reconciled reports whether a trie fits the type as it is now: a new schema may have made atomic a
// map or list that was not. leaf is set if the node is a member without children.
func reconciled(v jsondoc.Value, t *typ, leaf bool) bool {
	switch {
	case t.object != nil:
		if t.object.atomic {
			return leaf || v.Len() == 0
		}
		if len(t.object.names) == 0 && (t.object.elem == deduced || t.object.elem != nil && t.object.elem.named == "" && t.object.elem.scalar == deduced.scalar) {
			return true // of a type that is not declared
		}
		for name, child := range v.Members() {
			if len(name) < 2 || name[:2] != "f:" {
				if name == "." {
					continue
				}
				return false
			}
			at, found := slices.BinarySearch(t.object.names, name[2:])
			ct := t.object.elem
			if found {
				ct = t.object.fields[at]
			}
			if ct != nil && !reconciled(child, ct, child.Len() == 0) {
				return false
			}
		}
		return true
	case t.scalar != "":
		return true
	case t.list != nil && !t.list.granul:
		return leaf
	}
	for name, child := range v.Members() {
		if name != "." && !reconciled(child, t.list.elem, child.Len() == 0) {
			return false
		}
	}
	return true
}
