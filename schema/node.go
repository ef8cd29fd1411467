package schema

import (
	"iter"
	"sort"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file defines node, the compiled form of a schema node, or of a schema below allOf, anyOf,
// oneOf or not.

// A node is one compiled schema node. There are three sorts:
//
//   - A node on the spine decodes values and validates them.
//   - An overlay is the schema of a definition for metadata. The schema of ObjectMeta decodes
//     metadata; the overlay only validates it, in the layout of the former.
//   - A branch is a schema below a junctor. It only validates, in the layout of the node that it
//     restricts.
type node struct {
	path string // in the schema, for dumps and for messages to developers

	// The type.
	typ      string            // "" if not declared
	types    string            // as upstream prints it: "", "object", "integer,string", …
	kinds    kinds             // that pass the check of the type
	branch   bool              // the node is below a junctor
	integral bool              // a Float passes only if it is an integer
	format   string            // "" if not declared or not supported
	formatOK func(string) bool // nil if every string is valid
	reads    *cel.Type         // the type as which rules see a string because of its format, nil for a string
	numType  string            // "integer" or "number" if that is the only type
	nullable bool
	intOrStr bool
	preserve bool
	embedded bool

	// Objects.
	resource   bool // apiVersion, kind and metadata are those of a resource
	keep       bool // undeclared members are kept
	shape      uint16
	slots      *jsondoc.Shape // the layout of objects, nil for maps
	slotShape  uint16         // the index of slots
	bySlot     []*node        // the declared property in each slot, or nil; only on the spine
	props      []prop         // declared properties, sorted by name
	checked    []prop         // those of props with checks at them or below
	additional *node
	anyOther   bool // additionalProperties is set, in any form
	noOther    bool // additionalProperties: false
	defaults   []int
	mapType    string

	// Arrays.
	items    *node
	listType string
	mapKeys  []string
	keySlots []int // the slots of mapKeys in the items, -1 if unknown

	// The default value, in program.consts; Absent if there is none.
	def     jsondoc.Node
	defText []byte
	// defSize is the size of a copy of def in bytes of memory, defPrinted that of its JSON text.
	defSize, defPrinted int

	values *values
	rules  *rules

	// These say what is at this node or below, so that walks can stop early.
	deepChecks, deepRules, deepLists, deepEmbedded, deepDefaults bool
	deepOld                                                      bool // set by compileRules

	filled, ruled bool     // the defaults are decoded; the rules are compiled
	seen          bool     // rules above can see the node; set by compileRules
	toRules       []uint16 // indexes of the props with rules at them or below; set by compileRules
}

// prop is a declared property.
type prop struct {
	name   string
	node   *node
	slot   int  // in node.slots, -1 if there is none
	hidden bool // rules cannot see the property; set by compileRules
}

// hasRules reports whether rules are evaluated at the property or below. Upstream does not visit
// members that no rule can see.
func (p *prop) hasRules() bool { return p.node.deepRules && !p.hidden }

// values are the restrictions of a node beyond its type. A missing bound of a size is none.
type values struct {
	max, min, multiple *float64
	exclMax, exclMin   bool
	badBound           bool // a bound is not a value of the type, so that no number is valid
	unique             bool // items are unique; definitions with it are refused, but their defaults are checked first
	maxLength          int64
	minLength          int64
	maxItems           int64
	minItems           int64
	maxProps           int64
	minProps           int64
	match              *pattern
	enum               []any
	texts              []string // the strings of enum
	large              *enumSet // the enum as a set, if it is long; otherwise nil
	required           []need

	junctors            bool // one of the following is set
	allOf, anyOf, oneOf []*node
	not                 *node
}

// need is a required property.
type need struct {
	name string
	slot int
}

// kinds is a set of jsondoc.Kind.
type kinds uint16

// kindsOf returns the set of ks.
func kindsOf(ks ...jsondoc.Kind) kinds {
	var set kinds
	for _, k := range ks {
		set |= 1 << k
	}
	return set
}

// has reports whether k is in s.
func (s kinds) has(k jsondoc.Kind) bool { return s>>k&1 != 0 }

// anyKind has all kinds of JSON values.
const anyKind kinds = 1<<jsondoc.Null | 1<<jsondoc.Bool | 1<<jsondoc.Int | 1<<jsondoc.Float | 1<<jsondoc.String | 1<<jsondoc.Array | 1<<jsondoc.Object

// prop returns the node of a declared property, nil if it is not declared.
func (n *node) prop(name string) *node {
	i := sort.Search(len(n.props), func(i int) bool { return n.props[i].name >= name })
	if i < len(n.props) && n.props[i].name == name {
		return n.props[i].node
	}
	return nil
}

// laidOut reports whether object x has the layout of n.
func (n *node) laidOut(x jsondoc.Node) bool { return n.slotShape != 0 && x.ShapeIndex() == n.slotShape }

// present ranges, by name, over the declared properties that object x may have. Its time depends on
// the members of x, not on the number of declared properties.
func (n *node) present(d *jsondoc.Doc, x jsondoc.Node) iter.Seq[*prop] {
	return func(yield func(*prop) bool) {
		if n.laidOut(x) || x.Kind() != jsondoc.Object {
			for i := range n.props {
				if !yield(&n.props[i]) {
					return
				}
			}
			return
		}
		at := 0
		for name := range (jsondoc.Value{Doc: d, Node: x}).Members() {
			i := at + sort.Search(len(n.props)-at, func(i int) bool { return n.props[at+i].name >= name })
			if i < len(n.props) && n.props[i].name == name {
				at = i + 1
				if !yield(&n.props[i]) {
					return
				}
			}
		}
	}
}

// child returns the schema of a member: of the property, or of additional properties.
func (n *node) child(name string) *node {
	if p := n.prop(name); p != nil {
		return p
	}
	return n.additional
}

// member returns the member of x with that name. slot is its slot in the layout of n, -1 if
// unknown.
func (n *node) member(d *jsondoc.Doc, x jsondoc.Node, name string, slot int) jsondoc.Node {
	if slot >= 0 && n.laidOut(x) {
		return d.Slot(x, slot)
	}
	return jsondoc.Value{Doc: d, Node: x}.Get(name).Node
}

// isMeta reports whether a member of a resource is apiVersion, kind or metadata.
func isMeta(name string) bool {
	return name == "apiVersion" || name == "kind" || name == "metadata"
}
