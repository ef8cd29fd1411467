package cel

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
	Format      string   // "date", "date-time", "duration" or "byte": how the string in the document is read
	Elem        *Type    // item of a List, value of a Map
	Fields      []Field  // members of an Object, sorted by Name
	MaxElements uint64   // most elements, bytes or members that a valid value has; 0 for scalars and objects
	MinSize     uint64   // fewest bytes that a valid value takes as JSON
	ListType    string   // "atomic" (or empty), "set" or "map"
	MapKeys     []string // the key members of the items of a map list, as in the document
	Nullable    bool
	IntOrString bool // Kind is Dyn, a value is an integer or a string
	Preserve    bool // undeclared members are kept
}

// Field is a member of an Object.
type Field struct {
	Name       string // as in the document, not escaped
	Type       *Type  // nil: no rule can see it
	Required   bool
	HasDefault bool
	Slot       int // where the member is in a shaped document object
}
