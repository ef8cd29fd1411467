package val

import "github.com/keelson-io/keelson/jsondoc"

// This file compares values of documents without converting them to Values: most rules that compare
// whole objects compare equal ones. It decides about values that fit their types. Other values, and
// lists whose order does not matter, are left to equal.go.

// SameData reports whether two lists or maps of documents are equal: Yes, No, or Bad if it cannot
// decide. It compares in the order of equal.go, so that the first difference takes precedence over
// a later error.
func SameData(a, b Value) Tri {
	if a.Flag != FlagFromDoc || b.Flag != FlagFromDoc || a.Typ != b.Typ || a.Typ == nil {
		return Bad
	}
	return Sides{a.Doc(), b.Doc(), Nothing}.nodes(a.Node, b.Node, a.Typ)
}

// Knowledge is what is known about the values of two documents.
type Knowledge uint8

// Nothing is known about values that were not validated.
const (
	Nothing   Knowledge = iota
	validData           // the values of one of them are valid
	keptData            // they are the same valid value, as Activation.Kept says
)

// Knows returns what is known about the values of two documents.
func (fr *Frame) Knows(a, b *jsondoc.Doc) Knowledge { return KnownOf(fr.Valid, fr.Kept, a, b) }

// KnownOf returns what is known about the values of two documents. of is the document that is known
// to be valid, and same says that Activation.Kept is set.
func KnownOf(of *jsondoc.Doc, same bool, a, b *jsondoc.Doc) Knowledge {
	switch {
	case of == nil || a != of && b != of:
		return Nothing
	case same && a == b:
		return keptData
	}
	return validData
}

// setCertain computes what t implies for valid values that are congruent or kept. Equal lists of
// some types do not equal even themselves, nor does a valid string that its format cannot parse,
// nor a Float as an integer. A null counts as a missing member.
func (t *Type) setCertain() {
	t.certain, t.formats = !t.Preserve && t.ListType == nil, nil
	t.Lasts = t.certain && !t.Nullable && (t.Kind != Dyn || t.IntOrString)
	t.itself = t.Lasts && (t.Kind == Bool || t.Kind >= String)
	switch t.Kind {
	case Bytes, Timestamp, Duration:
		t.itself, t.formats = false, []int32{-1}
	case List, Map:
		t.certain, t.formats = t.certain && t.Elem.certain, t.Elem.formats
		t.itself, t.Lasts = t.itself && t.Elem.itself, t.Lasts && t.Elem.Lasts
	}
	for i := range t.Fields {
		f := &t.Fields[i]
		if t.certain = t.certain && f.Type != nil && f.Type.certain && f.Slot >= 0; t.certain && f.Type.formats != nil {
			t.formats = append(t.formats, int32(i))
		}
		t.itself, t.Lasts = t.itself && t.certain && f.Type.itself, t.Lasts && t.certain && f.Type.Lasts
	}
}

// plainTexts reports whether no string at n or below has a format that rules parse: such a string
// may be valid and still not parse. t must be certain.
func plainTexts(d *jsondoc.Doc, n jsondoc.Node, t *Type) bool {
	switch {
	case t.formats == nil || n.Kind() <= jsondoc.Null:
		return true
	case t.Kind == List && n.Kind() == jsondoc.Array:
		for _, item := range d.Items(n) {
			if !plainTexts(d, item, t.Elem) {
				return false
			}
		}
		return true
	case t.Kind == Object && n.ShapeIndex() != 0:
		for _, i := range t.formats {
			f := &t.Fields[i]
			if m := d.Slot(n, int(f.Slot)); m.Kind() > jsondoc.Null && !plainTexts(d, m, f.Type) {
				return false
			}
		}
		return true
	}
	return false
}

// Sized compares two lists, maps or objects, and returns the smaller size, or a number with the
// same tenth. It compares sizes first, because most different values differ in them.
func (s Sides) Sized(a, b jsondoc.Node, t *Type) (same Tri, size int) {
	var other int
	var alike bool
	switch {
	case s.Known != Nothing && s.A == s.B && a == b && (t.itself || t.Lasts && s.Known == keptData):
		return Yes, FewMembers(s.A, a)
	case s.Known != Nothing && t.certain:
		size, other, alike = jsondoc.Congruent(s.A, a, s.B, b)
	default:
		size, other = (jsondoc.Value{Doc: s.A, Node: a}).Len(), (jsondoc.Value{Doc: s.B, Node: b}).Len()
	}
	switch {
	case size != other:
		return No, min(size, other)
	case alike && (t.formats == nil || plainTexts(s.A, a, t)):
		return Yes, size
	}
	return s.nodes(a, b, t), size
}

// FewMembers returns the number of items or members. For an object of a shape with at most ten
// members it returns 1 if there are any, which has the same tenth.
func FewMembers(d *jsondoc.Doc, n jsondoc.Node) int {
	if n.ShapeIndex() == 0 || n.Len() > 10 {
		return jsondoc.Value{Doc: d, Node: n}.Len()
	}
	for _, m := range d.SlotNodes(n) {
		if m.Kind() != jsondoc.Absent {
			return 1
		}
	}
	return 0
}

// Sides are the two documents of a comparison.
type Sides struct {
	A, B  *jsondoc.Doc
	Known Knowledge
}

// nodes compares two nodes of type t.
func (s Sides) nodes(a, b jsondoc.Node, t *Type) Tri {
	if t == nil || a.Kind() != b.Kind() {
		return Bad
	}
	switch a.Kind() {
	case jsondoc.String:
		if t.Kind == String || t.Kind == Dyn {
			return Truth(jsondoc.SameText(s.A, a, s.B, b))
		}
	case jsondoc.Int:
		if t.Kind == Int || t.Kind == Dyn {
			return Truth(a.Int() == b.Int())
		}
	case jsondoc.Bool:
		if t.Kind == Bool {
			return Truth(a.Bool() == b.Bool())
		}
	case jsondoc.Float:
		if t.Kind == Double {
			return Truth(a.Float() == b.Float())
		}
	case jsondoc.Array:
		if t.Kind == List {
			return s.lists(a, b, t)
		}
	case jsondoc.Object:
		switch t.Kind {
		case Map:
			return s.maps(a, b, t)
		case Object:
			return s.objects(a, b, t)
		}
	}
	return Bad
}

// lists compares item by item. For sets and map lists a difference is not decisive, because their
// order does not matter.
func (s Sides) lists(a, b jsondoc.Node, t *Type) Tri {
	if a.Len() != b.Len() {
		return No
	}
	differs := No
	if t.ListType != nil {
		differs = Bad
		switch {
		case t.mapList() && !distinctItems(s.A, a, t.ListType.Keys),
			t.set() && (t.Elem == nil || t.Elem.Kind == Object || t.Elem.Kind == Map || t.Elem.Kind == List): // an error, which equal.go reports
			return Bad
		}
	}
	ys := s.B.Items(b)
	texts := t.Elem != nil && t.Elem.Kind == String
	for i, x := range s.A.Items(a) {
		y := ys[i]
		if texts && x.Kind() == jsondoc.String && x.Alike(y) && jsondoc.SameText(s.A, x, s.B, y) {
			continue
		}
		switch s.nodes(x, y, t.Elem) {
		case No:
			return differs
		case Bad:
			return Bad
		}
	}
	return Yes
}

// maxDistinct is the greatest length of a list whose keys are compared in pairs.
const maxDistinct = 16

// distinctItems reports whether all items of a map list have different keys. It returns false if
// that is expensive to find out.
func distinctItems(d *jsondoc.Doc, list jsondoc.Node, keys []string) bool {
	if list.Len() > maxDistinct || len(keys) == 0 {
		return false
	}
	for _, key := range keys {
		if escaped, ok := Escape(key); !ok || escaped != key {
			return false
		}
	}
	for i := range list.Len() {
		if d.Item(list, i).Kind() != jsondoc.Object {
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

// differ reports whether two objects both have one of the keys, with different values.
func differ(d *jsondoc.Doc, a, b jsondoc.Node, keys []string) bool {
	for _, key := range keys {
		x, y := d.Member(a, key), d.Member(b, key)
		if k := x.Kind(); k != y.Kind() || k != jsondoc.String && k != jsondoc.Int {
			continue
		}
		if !jsondoc.Equal(jsondoc.Value{Doc: d, Node: x}, jsondoc.Value{Doc: d, Node: y}) {
			return true
		}
	}
	return false
}

// maps compares maps pair by pair; their keys are sorted.
func (s Sides) maps(a, b jsondoc.Node, t *Type) Tri {
	if a.ShapeIndex() != 0 || b.ShapeIndex() != 0 {
		return Bad
	}
	if a.Len() != b.Len() {
		return No
	}
	xs, ys := s.A.Children(a), s.B.Children(b)
	for i := 0; i+1 < len(xs) && i+1 < len(ys); i += 2 {
		if !jsondoc.SameText(s.A, xs[i], s.B, ys[i]) {
			return Bad
		}
		if same := s.nodes(xs[i+1], ys[i+1], t.Elem); same != Yes {
			return same
		}
	}
	return Yes
}

// objects compares objects of one shape, all of whose members are declared, slot by slot. A null
// counts for the size, but as a missing member.
func (s Sides) objects(a, b jsondoc.Node, t *Type) Tri {
	shape, n := s.A.Shape(a), len(t.Fields)
	if shape == nil || shape != s.B.Shape(b) || len(shape.Names) != n {
		return Bad
	}
	xs, ys := s.A.SlotNodes(a), s.B.SlotNodes(b)
	if len(xs) > n && (xs[n].Len() > 0 || ys[n].Len() > 0) { // undeclared members
		return Bad
	}
	more := 0 // the number of members on the right minus that on the left
	for i, x := range xs[:n] {
		y := ys[i]
		if x.Kind() == jsondoc.Absent {
			if y.Kind() != jsondoc.Absent {
				more++
			}
			continue
		}
		f := &t.Fields[i]
		if int(f.Slot) != i {
			return Bad
		}
		switch kind, other := x.Kind(), y.Kind(); {
		case kind == jsondoc.String && x.Alike(y) && f.Type != nil && f.Type.Kind == String: // the most frequent case
			if !jsondoc.SameText(s.A, x, s.B, y) {
				return No
			}
		case kind > jsondoc.Null && other > jsondoc.Null:
			if same := s.nodes(x, y, f.Type); same != Yes {
				return same
			}
		case kind > jsondoc.Null || other > jsondoc.Null:
			return No
		case other == jsondoc.Absent:
			more--
		}
	}
	return Truth(more == 0)
}
