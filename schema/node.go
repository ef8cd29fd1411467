package schema

import (
	"iter"
	"sort"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file defines node, the compiled form of a schema node and of what
// stands below allOf, anyOf, oneOf and not.

// A node is one compiled schema node. There are three sorts of them:
//
//   - on the spine: decodes values and validates them;
//   - an overlay: what a schema says about metadata. Metadata is decoded by the
//     schema of ObjectMeta, the overlay only validates, and reads objects in
//     the layout of the former;
//   - a branch: a schema below a junctor. It only validates, in the layout of
//     the node it restricts.
type node struct {
	path string // in the schema, for dumps and messages to programmers

	// The type.
	typ      string            // "" if none is declared
	types    string            // as upstream prints it: "", "object", "integer,string", …
	kinds    kinds             // of the values that pass the type check
	branch   bool              // the node stands below a junctor
	integral bool              // a Float passes only if its value is an integer
	format   string            // "" if none or not supported
	formatOK func(string) bool // nil if any string will do
	reads    *cel.Type         // what rules read a text by its format as, nil if they read it as it is
	numType  string            // "integer" or "number" if that is the one type
	nullable bool
	intOrStr bool
	preserve bool
	embedded bool

	// Objects.
	resource   bool // apiVersion, kind and metadata are decoded as a resource's
	keep       bool // undeclared members are kept
	shape      uint16
	slots      *jsondoc.Shape // the layout of objects, nil for maps
	slotShape  uint16         // index of slots
	bySlot     []*node        // spine only: the declared property in each slot or nil
	props      []prop         // declared properties, sorted by name
	checked    []prop         // those of props that have checks at or below them
	additional *node
	anyOther   bool // additionalProperties is there in any form
	noOther    bool // additionalProperties: false
	defaults   []int
	mapType    string

	// Arrays.
	items    *node
	listType string
	mapKeys  []string
	keySlots []int // slots of mapKeys in the items, -1 if unknown

	// A default value, in Program.consts; Absent if there is none.
	def     jsondoc.Node
	defText []byte
	// defSize is how many bytes of memory a copy of def takes, defPrinted how long its text is.
	defSize, defPrinted int

	values *values
	rules  *rules

	// What is somewhere at or below this node, so that walks can stop early.
	deepChecks, deepRules, deepLists, deepEmbedded, deepDefaults bool
	deepOld                                                      bool // set when rules are compiled

	filled, ruled bool     // the defaults are decoded, the rules compiled
	seen          bool     // has a type for rules above; set when rules are compiled
	toRules       []uint16 // where in props rules are evaluated at or below; set when rules are compiled
}

// prop is a declared property.
type prop struct {
	name   string
	node   *node
	slot   int  // in node.slots, -1 if it has none
	hidden bool // from rules, as are those below; set when rules are compiled
}

// rules reports whether rules are evaluated at or below the property. Upstream
// does not look at members that no rule can see.
func (p *prop) rules() bool { return p.node.deepRules && !p.hidden }

// values are the restrictions of a node beyond its type. Bounds on sizes are
// -1 if there are none.
type values struct {
	max, min, multiple *float64
	exclMax, exclMin   bool
	badBound           bool // a bound that itself breaks the type: no number is valid
	unique             bool // no item twice; definitions that say so are refused, but their defaults are checked all the same
	maxLength          int64
	minLength          int64
	maxItems           int64
	minItems           int64
	maxProps           int64
	minProps           int64
	match              *pattern
	enum               []any
	texts              []string // the strings of enum
	large              *enumSet // of an enum that is too long to be looked through
	required           []need

	junctors            bool // there is at least one of the following
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

func kindsOf(ks ...jsondoc.Kind) kinds {
	var set kinds
	for _, k := range ks {
		set |= 1 << k
	}
	return set
}

func (s kinds) has(k jsondoc.Kind) bool { return s>>k&1 != 0 }

const anyKind kinds = 1<<jsondoc.Null | 1<<jsondoc.Bool | 1<<jsondoc.Int | 1<<jsondoc.Float | 1<<jsondoc.String | 1<<jsondoc.Array | 1<<jsondoc.Object

// prop finds a declared property.
func (n *node) prop(name string) *node {
	i := sort.Search(len(n.props), func(i int) bool { return n.props[i].name >= name })
	if i < len(n.props) && n.props[i].name == name {
		return n.props[i].node
	}
	return nil
}

// laidOut reports whether object x has its members in the slots of n.
func (n *node) laidOut(x jsondoc.Node) bool { return n.slotShape != 0 && x.ShapeIndex() == n.slotShape }

// present ranges over the declared properties of object x that may be there, by
// name. It costs what x has, not what n declares.
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

// child is the schema of a member: that of the property or else of additional
// properties.
func (n *node) child(name string) *node {
	if p := n.prop(name); p != nil {
		return p
	}
	return n.additional
}

// member is the member of object x in slot (-1: unknown) or of that name.
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
