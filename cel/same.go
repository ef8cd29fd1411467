package cel

import "github.com/keelson-io/keelson/doc"

// This file compares values of documents where they stand, without making
// Values of them: most rules that compare whole objects compare two that are
// equal. What fits its type is decided here; what does not, and lists whose
// items may stand in another order, is left to equal.go.

// sameData is whether two lists or maps of documents are equal: yes, no, or bad
// if it is not decided here. The walk is in the order of equal.go, so that the
// first difference decides before any error behind it.
func sameData(a, b Value) tri {
	if a.flag != flagFromDoc || b.flag != flagFromDoc || a.typ != b.typ || a.typ == nil {
		return bad
	}
	return sameNodes(a.doc(), a.node, b.doc(), b.node, a.typ)
}

// equalData is == or != of two lists, maps or objects of one type that are read
// directly; nil if the operands are not that.
func equalData(a, b *code, negated bool, general testFn) testFn {
	x, ok := directData(a)
	if !ok || a.param != b.param {
		return nil
	}
	y, ok := directData(b)
	if !ok {
		return nil
	}
	t, units := a.param, x.units+y.units
	return func(fr *frame) tri {
		da, m := x.container(fr)
		db, n := y.container(fr)
		same := sameNodes(da, m, db, n, t)
		if same == bad {
			return general(fr)
		}
		fr.cost += units + tenth(uint64(min((doc.Value{Doc: da, Node: m}).Len(), (doc.Value{Doc: db, Node: n}).Len())))
		return truth((same == yes) != negated)
	}
}

func sameNodes(da *doc.Doc, a doc.Node, db *doc.Doc, b doc.Node, t *Type) tri {
	if t == nil || a.Kind() != b.Kind() {
		return bad
	}
	switch kind := a.Kind(); {
	case kind == doc.String && (t.Kind == String || t.Kind == Dyn):
		return truth(a.Len() == b.Len() && da.Str(a) == db.Str(b))
	case kind == doc.Int && (t.Kind == Int || t.Kind == Dyn):
		return truth(a.Int() == b.Int())
	case kind == doc.Bool && t.Kind == Bool:
		return truth(a.Bool() == b.Bool())
	case kind == doc.Float && t.Kind == Double:
		return truth(a.Float() == b.Float())
	case kind == doc.Array && t.Kind == List:
		return sameLists(da, a, db, b, t)
	case kind == doc.Object && t.Kind == Map:
		return sameMaps(da, a, db, b, t)
	case kind == doc.Object && t.Kind == Object:
		return sameObjects(da, a, db, b, t)
	}
	return bad
}

// sameLists compares item by item. Sets and map lists that differ so may still
// be equal.
func sameLists(da *doc.Doc, a doc.Node, db *doc.Doc, b doc.Node, t *Type) tri {
	n := a.Len()
	if n != b.Len() {
		return no
	}
	unordered := t.ListType != nil
	switch {
	case t.mapList() && !distinctItems(da, a, t.ListType.Keys),
		t.set() && (t.Elem == nil || t.Elem.Kind == Object || t.Elem.Kind == Map || t.Elem.Kind == List): // an error
		return bad
	}
	for i := range n {
		switch sameNodes(da, da.Item(a, i), db, db.Item(b, i), t.Elem) {
		case no:
			if unordered {
				return bad
			}
			return no
		case bad:
			return bad
		}
	}
	return yes
}

// maxDistinct bounds the lists whose keys are compared each with each.
const maxDistinct = 16

// distinctItems reports whether no two items of a map list have the same keys,
// as far as that is cheap to say.
func distinctItems(d *doc.Doc, list doc.Node, keys []string) bool {
	if list.Len() > maxDistinct || len(keys) == 0 {
		return false
	}
	for _, key := range keys {
		if escaped, ok := Escape(key); !ok || escaped != key {
			return false
		}
	}
	for i := range list.Len() {
		if d.Item(list, i).Kind() != doc.Object {
			return false
		}
		for j := range i {
			if !differ(d, d.Item(list, i), d.Item(list, j), keys) {
				return false
			}
		}
	}
	return true
}

// differ reports whether two objects differ in one of the keys, both having it.
func differ(d *doc.Doc, a, b doc.Node, keys []string) bool {
	for _, key := range keys {
		x, y := d.Member(a, key), d.Member(b, key)
		if k := x.Kind(); k != y.Kind() || k != doc.String && k != doc.Int {
			continue
		}
		if !doc.Equal(doc.Value{Doc: d, Node: x}, doc.Value{Doc: d, Node: y}) {
			return true
		}
	}
	return false
}

// sameMaps compares maps pair by pair: their keys are sorted.
func sameMaps(da *doc.Doc, a doc.Node, db *doc.Doc, b doc.Node, t *Type) tri {
	if a.ShapeIndex() != 0 || b.ShapeIndex() != 0 {
		return bad
	}
	n := a.Len()
	if n != b.Len() {
		return no
	}
	for i := range n {
		ka, va := da.Pair(a, i)
		kb, vb := db.Pair(b, i)
		if ka.Len() != kb.Len() || da.Str(ka) != db.Str(kb) {
			return bad
		}
		if same := sameNodes(da, va, db, vb, t.Elem); same != yes {
			return same
		}
	}
	return yes
}

// sameObjects compares objects of one shape, all of whose members are declared,
// slot by slot. A null is a member, but one that is not found.
func sameObjects(da *doc.Doc, a doc.Node, db *doc.Doc, b doc.Node, t *Type) tri {
	s := da.Shape(a)
	if s == nil || s != db.Shape(b) || len(s.Names) != len(t.Fields) || hasExtra(da, a, s) || hasExtra(db, b, s) {
		return bad
	}
	left, right := 0, 0
	for i := range t.Fields {
		f := &t.Fields[i]
		if int(f.Slot) != i {
			return bad
		}
		x, y := da.Slot(a, i), db.Slot(b, i)
		if y.Kind() != doc.Absent {
			right++
		}
		if x.Kind() == doc.Absent {
			continue
		}
		left++
		found := x.Kind() != doc.Null
		if found != (y.Kind() != doc.Absent && y.Kind() != doc.Null) {
			return no
		}
		if !found {
			continue
		}
		if same := sameNodes(da, x, db, y, f.Type); same != yes {
			return same
		}
	}
	return truth(left == right)
}

// hasExtra reports whether an object has members beside those of its shape.
func hasExtra(d *doc.Doc, n doc.Node, s *doc.Shape) bool {
	return s.Open && d.Slot(n, len(s.Names)).Len() > 0
}
