package val

// This file defines Type, what a schema node is in the language, and the
// figures (greatest number of elements, smallest serialized size) that the
// static cost estimate is made from.

// TypeKind is the kind of a Type.
type TypeKind uint8

// The kinds of Type. Dyn, the zero value, is checked at run time.
const (
	Dyn TypeKind = iota
	Bool
	Int
	Double
	String
	Bytes
	Timestamp
	Duration
	List
	Map
	Object
)

// Type is the type of a schema node: rules are checked against it and read
// documents by it. Package schema builds the tree, sets the sizes from the
// leaves up ([Type.SetSizes]) and does not change it afterwards.
//
// A schema node that no rule can see (no type, or a list or map of such nodes)
// has no Type: the Field that holds it has a nil Type, or no Field exists.
type Type struct {
	Kind        TypeKind
	Date        bool // of a Timestamp: the string in the document is a date alone
	Nullable    bool
	IntOrString bool      // Kind is Dyn, a value is an integer or a string
	Preserve    bool      // undeclared members are kept
	Elem        *Type     // item of a List, value of a Map
	Fields      []Field   // members of an Object, sorted by Name
	ListType    *ListType // of a List, nil if it is atomic
	MaxElements uint64    // most elements, bytes or members that a valid value has; 0 for scalars and objects
	MinSize     uint64    // fewest bytes that a valid value takes as JSON

	certain bool    // valid values that are congruent are equal, unless a format reads one of their texts
	itself  bool    // a valid value equals itself, whatever it holds
	Lasts   bool    // one that an update keeps does: see Activation.Kept
	formats []int32 // if it is certain: of Fields those at or below which a format reads texts; not nil if it reads any
}

// ListType is x-kubernetes-list-type where it is set or map. It is immutable
// once a Type holds it.
type ListType struct {
	Map  bool     // map; else set
	Keys []string // of a map: the key members of its items, as in the document
}

var listSet = &ListType{}

// ListTypeOf is the ListType that a schema calls "atomic" (or not at all),
// "set" or "map", with its x-kubernetes-list-map-keys.
func ListTypeOf(name string, keys []string) *ListType {
	switch name {
	case "set":
		return listSet
	case "map":
		return &ListType{Map: true, Keys: keys}
	}
	return nil
}

// set reports whether t is a list of type set.
func (t *Type) set() bool { return t.ListType != nil && !t.ListType.Map }

// mapList reports whether t is a list of type map.
func (t *Type) mapList() bool { return t.ListType != nil && t.ListType.Map }

// Field is a member of an Object.
type Field struct {
	Name       string // as in the document, not escaped
	Type       *Type  // nil: no rule can see it
	Slot       int32  // where the member is in a shaped document object, -1 if it has no place
	Required   bool
	HasDefault bool
}
