package val

// This file defines Type, the type of a schema node, with the sizes for the static cost estimate:
// the greatest number of elements, and the smallest serialized size.

// TypeKind is the kind of a Type.
type TypeKind uint8

// The kinds of Type. Dyn, the zero value, means that types are checked at run time.
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

// Type is the type of a schema node, by which rules are checked and read documents. Package schema
// builds the tree, sets the sizes from the leaves up ([Type.SetSizes]), and does not change it
// afterwards.
//
// A schema node that no rule can see (without a type, or a list or map of such nodes) has no Type:
// the Field for it has a nil Type, or there is no Field.
type Type struct {
	Kind        TypeKind
	Date        bool // of a Timestamp: the string in the document is only a date
	Nullable    bool
	IntOrString bool      // Kind is Dyn, and values are integers or strings
	Preserve    bool      // undeclared members are kept
	Elem        *Type     // item of a List, value of a Map
	Fields      []Field   // members of an Object, sorted by Name
	ListType    *ListType // of a List, nil if it is atomic
	MaxElements uint64    // greatest number of elements, bytes or members of a valid value; 0 for scalars and objects
	MinSize     uint64    // least number of bytes of a valid value as JSON

	certain bool    // valid values that are congruent are equal, unless they have strings that formats parse
	itself  bool    // every valid value equals itself
	Lasts   bool    // every valid value that an update keeps equals itself: see Activation.Kept
	formats []int32 // if certain: the Fields with strings that formats parse, at them or below; nil if there are none
}

// ListType is an x-kubernetes-list-type of set or map. It does not change once a Type refers to it.
type ListType struct {
	Map  bool     // a list of type map; otherwise a set
	Keys []string // of a map: the names of the key members in the document
}

var listSet = &ListType{}

// ListTypeOf returns the ListType for a schema's x-kubernetes-list-type, which may be "", and
// x-kubernetes-list-map-keys.
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
	Type       *Type  // nil if rules cannot see it
	Slot       int32  // the slot of the member in a shaped object, -1 if there is none
	Required   bool
	HasDefault bool
}
