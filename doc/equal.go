package doc

// This file compares values.

// Equal reports whether a and b are the same JSON value. Types are exact (the
// Int 1 is not the Float 1), layouts and documents do not matter. Two absent
// values are equal.
func Equal(a, b Value) bool { return equal(a.Doc, a.Node, b.Doc, b.Node) }

func equal(da *Doc, a Node, db *Doc, b Node) bool {
	if a.Kind() != b.Kind() {
		return false
	}
	switch a.Kind() {
	case Absent, Null:
		return true
	case Bool, Int:
		return a.bits == b.bits
	case Float:
		return a.Float() == b.Float()
	case String:
		return da.Str(a) == db.Str(b)
	case Array:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !equal(da, da.Item(a, i), db, db.Item(b, i)) {
				return false
			}
		}
		return true
	}
	switch sa, sb := da.Shape(a), db.Shape(b); {
	case sa != sb:
		return equalMembers(da, a, db, b)
	case sa == nil:
		return equalMaps(da, a, db, b)
	default:
		return equalSlots(da, a, db, b)
	}
}

func equalMaps(da *Doc, a Node, db *Doc, b Node) bool {
	if a.Len() != b.Len() {
		return false
	}
	for i := range a.Len() {
		ka, va := da.Pair(a, i)
		kb, vb := db.Pair(b, i)
		if da.Str(ka) != db.Str(kb) || !equal(da, va, db, vb) {
			return false
		}
	}
	return true
}

// equalSlots compares objects of one shape. An overflow map without pairs is
// as good as none.
func equalSlots(da *Doc, a Node, db *Doc, b Node) bool {
	named := len(da.Shape(a).Names)
	for i := range named {
		if !equal(da, da.Slot(a, i), db, db.Slot(b, i)) {
			return false
		}
	}
	return a.Len() == named || equalMaps(da, da.Slot(a, named), db, db.Slot(b, named))
}

// equalMembers compares objects whatever their layouts.
func equalMembers(da *Doc, a Node, db *Doc, b Node) bool {
	ma, mb := da.members(a), db.members(b)
	for ma.next() {
		if !mb.next() || ma.name != mb.name || !equal(da, ma.value, db, mb.value) {
			return false
		}
	}
	return !mb.next()
}
