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
	return sides{a.doc(), b.doc(), nothing}.nodes(a.node, b.node, a.typ)
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
	t, kind, units := a.param, jsonKind[a.param.Kind], x.units+y.units
	if len(x.slots) == 0 && len(y.slots) == 0 && t.Kind == Object {
		return equalVariables(x.slot, y.slot, t, units, negated, general)
	}
	return func(fr *frame) tri {
		da, m := x.container(fr)
		db, n := y.container(fr)
		if m.Kind() != kind || n.Kind() != kind {
			return general(fr)
		}
		same, size := sides{da, db, fr.knows(da, db)}.sized(m, n, t)
		if same == bad {
			return general(fr)
		}
		fr.cost += units + tenth(uint64(size))
		return truth((same == yes) != negated)
	}
}

// equalVariables is equalData for two variables that are objects.
//
//go:noinline
func equalVariables(i, j int32, t *Type, units uint64, negated bool, general testFn) testFn {
	return func(fr *frame) tri {
		x, y := &fr.slots[i], &fr.slots[j]
		if x.typ != t || y.typ != t || x.flag != flagFromDoc || y.flag != flagFromDoc {
			return general(fr)
		}
		da, db := (*doc.Doc)(x.ptr), (*doc.Doc)(y.ptr)
		same, size := sides{da, db, fr.knows(da, db)}.sized(x.node, y.node, t)
		if same == bad {
			return general(fr)
		}
		fr.cost += units + tenth(uint64(size))
		return truth((same == yes) != negated)
	}
}

// knowledge is what is known of what is seen of two documents.
type knowledge uint8

const (
	nothing   knowledge = iota
	validData           // what is seen of one of them is valid
	keptData            // it is the same in both, and all that Kept says
)

// knows is what is known of what is seen of two documents.
func (fr *frame) knows(a, b *doc.Doc) knowledge { return knownOf(fr.valid, fr.kept, a, b) }

func knownOf(of *doc.Doc, same bool, a, b *doc.Doc) knowledge {
	switch {
	case of == nil || a != of && b != of:
		return nothing
	case same && a == b:
		return keptData
	}
	return validData
}

// setCertain sets what t says about valid values that are congruent, or kept. Lists of a type may
// hold the same and yet equal nothing, not even themselves; nor does a text that is valid and yet
// not read by its format, or a Float as an integer. Nulls are members that are not found.
func (t *Type) setCertain() {
	t.certain, t.formats = !t.Preserve && t.ListType == nil, nil
	t.lasts = t.certain && !t.Nullable && (t.Kind != Dyn || t.IntOrString)
	t.itself = t.lasts && (t.Kind == Bool || t.Kind >= String)
	switch t.Kind {
	case Bytes, Timestamp, Duration:
		t.itself, t.formats = false, []int32{-1}
	case List, Map:
		t.certain, t.formats = t.certain && t.Elem.certain, t.Elem.formats
		t.itself, t.lasts = t.itself && t.Elem.itself, t.lasts && t.Elem.lasts
	}
	for i := range t.Fields {
		f := &t.Fields[i]
		if t.certain = t.certain && f.Type != nil && f.Type.certain && f.Slot >= 0; t.certain && f.Type.formats != nil {
			t.formats = append(t.formats, int32(i))
		}
		t.itself, t.lasts = t.itself && t.certain && f.Type.itself, t.lasts && t.certain && f.Type.lasts
	}
}

// plainTexts reports whether no text at or below n, which t is certain of, is read by a
// format: one may be valid and yet not be read.
func plainTexts(d *doc.Doc, n doc.Node, t *Type) bool {
	switch {
	case t.formats == nil || n.Kind() <= doc.Null:
		return true
	case t.Kind == List && n.Kind() == doc.Array:
		for _, item := range d.Items(n) {
			if !plainTexts(d, item, t.Elem) {
				return false
			}
		}
		return true
	case t.Kind == Object && n.ShapeIndex() != 0:
		for _, i := range t.formats {
			f := &t.Fields[i]
			if m := d.Slot(n, int(f.Slot)); m.Kind() > doc.Null && !plainTexts(d, m, f.Type) {
				return false
			}
		}
		return true
	}
	return false
}

// sized compares two lists, maps or objects, and is the size of the smaller one, or one whose tenth is
// the same. Sizes come first: most different things differ in them.
func (s sides) sized(a, b doc.Node, t *Type) (same tri, size int) {
	var other int
	var alike bool
	switch {
	case s.known != nothing && s.a == s.b && a == b && (t.itself || t.lasts && s.known == keptData):
		return yes, fewMembers(s.a, a)
	case s.known != nothing && t.certain:
		size, other, alike = doc.Congruent(s.a, a, s.b, b)
	default:
		size, other = (doc.Value{Doc: s.a, Node: a}).Len(), (doc.Value{Doc: s.b, Node: b}).Len()
	}
	switch {
	case size != other:
		return no, min(size, other)
	case alike && (t.formats == nil || plainTexts(s.a, a, t)):
		return yes, size
	}
	return s.nodes(a, b, t), size
}

// fewMembers is how many items or members a list, map or object has; of an object whose shape has no more than ten, one if it has any:
// a tenth of that is the same.
func fewMembers(d *doc.Doc, n doc.Node) int {
	if n.ShapeIndex() == 0 || n.Len() > 10 {
		return doc.Value{Doc: d, Node: n}.Len()
	}
	for _, m := range d.SlotNodes(n) {
		if m.Kind() != doc.Absent {
			return 1
		}
	}
	return 0
}

// sides are two documents with values that are compared.
type sides struct {
	a, b  *doc.Doc
	known knowledge
}

func (s sides) nodes(a, b doc.Node, t *Type) tri {
	if t == nil || a.Kind() != b.Kind() {
		return bad
	}
	switch a.Kind() {
	case doc.String:
		if t.Kind == String || t.Kind == Dyn {
			return truth(doc.SameText(s.a, a, s.b, b))
		}
	case doc.Int:
		if t.Kind == Int || t.Kind == Dyn {
			return truth(a.Int() == b.Int())
		}
	case doc.Bool:
		if t.Kind == Bool {
			return truth(a.Bool() == b.Bool())
		}
	case doc.Float:
		if t.Kind == Double {
			return truth(a.Float() == b.Float())
		}
	case doc.Array:
		if t.Kind == List {
			return s.lists(a, b, t)
		}
	case doc.Object:
		switch t.Kind {
		case Map:
			return s.maps(a, b, t)
		case Object:
			return s.objects(a, b, t)
		}
	}
	return bad
}

// lists compares item by item. Sets and map lists that differ so may still be
// equal.
func (s sides) lists(a, b doc.Node, t *Type) tri {
	if a.Len() != b.Len() {
		return no
	}
	differs := no
	if t.ListType != nil {
		differs = bad
		switch {
		case t.mapList() && !distinctItems(s.a, a, t.ListType.Keys),
			t.set() && (t.Elem == nil || t.Elem.Kind == Object || t.Elem.Kind == Map || t.Elem.Kind == List): // an error
			return bad
		}
	}
	ys := s.b.Items(b)
	texts := t.Elem != nil && t.Elem.Kind == String
	for i, x := range s.a.Items(a) {
		y := ys[i]
		if texts && x.Kind() == doc.String && x.Alike(y) && doc.SameText(s.a, x, s.b, y) {
			continue
		}
		switch s.nodes(x, y, t.Elem) {
		case no:
			return differs
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

// maps compares maps pair by pair: their keys are sorted.
func (s sides) maps(a, b doc.Node, t *Type) tri {
	if a.ShapeIndex() != 0 || b.ShapeIndex() != 0 {
		return bad
	}
	if a.Len() != b.Len() {
		return no
	}
	xs, ys := s.a.Children(a), s.b.Children(b)
	for i := 0; i+1 < len(xs) && i+1 < len(ys); i += 2 {
		if !doc.SameText(s.a, xs[i], s.b, ys[i]) {
			return bad
		}
		if same := s.nodes(xs[i+1], ys[i+1], t.Elem); same != yes {
			return same
		}
	}
	return yes
}

// objects compares objects of one shape, all of whose members are declared, slot by
// slot. A null is a member, but one that is not found.
func (s sides) objects(a, b doc.Node, t *Type) tri {
	shape, n := s.a.Shape(a), len(t.Fields)
	if shape == nil || shape != s.b.Shape(b) || len(shape.Names) != n {
		return bad
	}
	xs, ys := s.a.SlotNodes(a), s.b.SlotNodes(b)
	if len(xs) > n && (xs[n].Len() > 0 || ys[n].Len() > 0) { // members beside those of the shape
		return bad
	}
	more := 0 // members on the right than on the left
	for i, x := range xs[:n] {
		y := ys[i]
		if x.Kind() == doc.Absent {
			if y.Kind() != doc.Absent {
				more++
			}
			continue
		}
		f := &t.Fields[i]
		if int(f.Slot) != i {
			return bad
		}
		switch kind, other := x.Kind(), y.Kind(); {
		case kind == doc.String && x.Alike(y) && f.Type != nil && f.Type.Kind == String: // the most of all
			if !doc.SameText(s.a, x, s.b, y) {
				return no
			}
		case kind > doc.Null && other > doc.Null:
			if same := s.nodes(x, y, f.Type); same != yes {
				return same
			}
		case kind > doc.Null || other > doc.Null:
			return no
		case other == doc.Absent:
			more--
		}
	}
	return truth(more == 0)
}
