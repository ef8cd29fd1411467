package apply

import (
	"encoding/json"
	"slices"
	"sync"

	smd "sigs.k8s.io/structured-merge-diff/v6/schema"

	"github.com/keelson-io/keelson/schema/structural"
)

// This file compiles structural schemas to types: a tree of our own, which the
// direct walks follow, and from it the schema that SMD works with.

// typ has the rules by which a value is merged. Several parts may be set: the kind of the value
// selects one.
type typ struct {
	scalar smd.Scalar // "" if no scalar
	list   *listType
	object *mapType
	named  string // name of a type that is defined once; "" if inline
}

// listType has the rules by which a list is merged.
type listType struct {
	elem        *typ
	keys        []string // members that identify an item; nil in a set
	granul      bool     // items have owners of their own; else the list is one value
	sortedKeys  []string // keys, sorted
	needsSMD    bool     // some key does not print as it is written, so that SMD must do the work
	hasDefaults bool     // some key has a default
}

// mapType has the rules by which an object is merged.
type mapType struct {
	names    []string // declared members, sorted
	fields   []*typ
	defaults []any // nil if no member has one
	elem     *typ  // of undeclared members; nil if there must not be any
	atomic   bool
	relation smd.ElementRelationship
}

// field returns the type of a member, nil if it must not be there. guess is where
// name is likely to be; the position after name comes back.
func (m *mapType) field(name string, guess int) (*typ, int) {
	for guess < len(m.names) && m.names[guess] < name {
		guess++
	}
	if guess < len(m.names) && m.names[guess] == name {
		return m.fields[guess], guess + 1
	}
	return m.elem, guess
}

const (
	nameUntyped  = "__untyped_atomic_"
	nameDeduced  = "__untyped_deduced_"
	nameMetadata = "ObjectMeta"
	nameRoot     = "Root"
)

// untyped is any value, as one piece; deduced is any value, maps member by
// member.
var untyped, deduced = func() (*typ, *typ) {
	u := &typ{scalar: smd.Untyped, named: nameUntyped}
	u.list = &listType{elem: u}
	u.object = &mapType{elem: u, atomic: true, relation: smd.Atomic}
	d := &typ{scalar: smd.Untyped, named: nameDeduced}
	d.list = &listType{elem: u}
	d.object = &mapType{elem: d, relation: smd.Separable}
	return u, d
}()

// objectType is the type of a version's objects, SMD's form made on demand.
type objectType struct {
	root *typ
	smd  func() *smd.Schema
	ref  smd.TypeRef
}

// newObjectType compiles the schema of a kind. preserve keeps undeclared members.
func newObjectType(s *structural.Schema, preserve bool) *objectType {
	meta := compileType(structural.ObjectMeta(), preserve)
	meta.named = nameMetadata
	root := compileRoot(s, meta, preserve)
	root.named = nameRoot
	name := nameRoot
	return &objectType{
		root: root,
		ref:  smd.TypeRef{NamedType: &name},
		smd:  sync.OnceValue(func() *smd.Schema { return smdSchema(root, meta) }),
	}
}

// compileRoot compiles the schema of an object. Its metadata has the type meta whatever the schema
// declares.
func compileRoot(s *structural.Schema, meta *typ, preserve bool) *typ {
	if s == nil {
		return &typ{object: &mapType{elem: deduced}}
	}
	c := compiler{meta: meta}
	return c.resource(s, preserve)
}

// compileType compiles a schema that is not that of a whole object.
func compileType(s *structural.Schema, preserve bool) *typ {
	c := compiler{}
	return c.compile(s, preserve)
}

// compiler compiles schemas. meta is the type of the metadata of embedded objects too.
type compiler struct{ meta *typ }

// resource returns the type of an object with apiVersion, kind and metadata.
func (c *compiler) resource(s *structural.Schema, preserve bool) *typ {
	t := c.compile(s, preserve)
	if t.object == nil {
		t = &typ{object: &mapType{}}
	}
	if len(t.object.names) == 0 && s.Additional == nil && s.AdditionalAllows == nil && !preserve && !s.Preserve {
		// The members added here are declared ones: what else is there is unknown.
		t.object.elem = nil
	}
	text := &typ{scalar: smd.String}
	t.object.declare("apiVersion", text)
	t.object.declare("kind", text)
	t.object.declare("metadata", c.meta)
	return t
}

// declare adds or replaces a member.
func (m *mapType) declare(name string, t *typ) {
	at := 0
	for at < len(m.names) && m.names[at] < name {
		at++
	}
	if at < len(m.names) && m.names[at] == name {
		m.fields[at] = t
		return
	}
	m.names = append(m.names[:at:at], append([]string{name}, m.names[at:]...)...)
	m.fields = append(m.fields[:at:at], append([]*typ{t}, m.fields[at:]...)...)
	if m.defaults != nil {
		m.defaults = append(m.defaults[:at:at], append([]any{nil}, m.defaults[at:]...)...)
	}
}

// compile returns the type of s. preserve is true below a node that keeps undeclared
// members: its descendants keep theirs.
func (c *compiler) compile(s *structural.Schema, preserve bool) *typ {
	preserve = preserve || s.Preserve
	switch s.Type {
	case "object":
		return c.embedded(s, &typ{object: c.object(s, preserve)}, preserve)
	case "array":
		return &typ{list: c.list(s, preserve)}
	case "integer", "number":
		return &typ{scalar: smd.Numeric}
	case "boolean":
		return &typ{scalar: smd.Boolean}
	case "string":
		if s.Format == "" || s.Format == "byte" {
			return &typ{scalar: smd.String}
		}
		return &typ{scalar: smd.Untyped}
	}
	return c.embedded(s, &typ{scalar: smd.Untyped, list: c.list(s, preserve), object: c.object(s, preserve)}, preserve)
}

// embedded adds what every resource has if s is one.
func (c *compiler) embedded(s *structural.Schema, t *typ, preserve bool) *typ {
	if !s.Embedded || t.object == nil {
		return t
	}
	if len(s.Properties) == 0 && s.Additional == nil && s.AdditionalAllows == nil && !preserve {
		t.object.elem = nil
	}
	text := &typ{scalar: smd.String}
	t.object.declare("apiVersion", text)
	t.object.declare("kind", text)
	t.object.declare("metadata", c.meta)
	return t
}

// object compiles the schema of an object with its x-kubernetes-map-type.
func (c *compiler) object(s *structural.Schema, preserve bool) *mapType {
	m := &mapType{relation: smd.ElementRelationship("")}
	switch s.MapType {
	case "atomic":
		m.atomic, m.relation = true, smd.Atomic
	case "granular":
		m.relation = smd.Separable
	}
	for i, name := range s.Names {
		p := s.Properties[name]
		m.names = append(m.names, name)
		m.fields = append(m.fields, c.compile(p, preserve))
		if p.Default != nil {
			if m.defaults == nil {
				m.defaults = make([]any, len(s.Names))
			}
			m.defaults[i] = decodeDefault(p.Default)
		}
	}
	switch {
	case s.Additional != nil:
		m.elem = c.compile(s.Additional, preserve)
	case s.AdditionalAllows != nil && *s.AdditionalAllows:
		m.elem = deduced
	case s.AdditionalAllows == nil && (preserve || len(s.Names) == 0):
		m.elem = deduced
	}
	return m
}

// list compiles the schema of a list with its x-kubernetes-list-type.
func (c *compiler) list(s *structural.Schema, preserve bool) *listType {
	l := &listType{elem: untyped}
	if s.Items != nil {
		l.elem = c.compile(s.Items, preserve)
	}
	switch s.ListType {
	case "set":
		l.granul = true
	case "map":
		l.granul, l.keys = true, s.ListMapKeys
		l.sortedKeys = slices.Sorted(slices.Values(l.keys))
		for _, k := range l.keys {
			l.needsSMD = l.needsSMD || string(quoted(k)) != `"`+k+`"`
			l.hasDefaults = l.hasDefaults || l.elem.object != nil && l.elem.object.defaultOf(k) != nil
		}
	}
	return l
}

// quoted is k as JSON.
func quoted(k string) []byte {
	b, err := json.Marshal(k)
	if err != nil {
		panic("BUG: a string does not encode: " + err.Error())
	}
	return b
}

// defaultOf returns the default of a member, nil if there is none.
func (m *mapType) defaultOf(name string) any {
	if m.defaults == nil {
		return nil
	}
	for i, n := range m.names {
		if n == name {
			return m.defaults[i]
		}
	}
	return nil
}

// decodeDefault decodes a default for SMD. Numbers become float64: SMD compares and prints numbers
// alike whatever their Go type is.
func decodeDefault(raw []byte) any {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return nil
	}
	return v
}

// smdSchema returns the schema in SMD's form.
func smdSchema(root, meta *typ) *smd.Schema {
	return &smd.Schema{Types: []smd.TypeDef{
		{Name: nameRoot, Atom: smdAtom(root)},
		{Name: nameMetadata, Atom: smdAtom(meta)},
		{Name: nameUntyped, Atom: smdAtom(untyped)},
		{Name: nameDeduced, Atom: smdAtom(deduced)},
	}}
}

// smdRef returns SMD's reference to a type: its name if it has one.
func smdRef(t *typ) smd.TypeRef {
	if t == nil {
		return smd.TypeRef{}
	}
	if t.named != "" {
		return smd.TypeRef{NamedType: &t.named}
	}
	return smd.TypeRef{Inlined: smdAtom(t)}
}

// smdAtom returns SMD's form of a type.
func smdAtom(t *typ) smd.Atom {
	var a smd.Atom
	if t.scalar != "" {
		a.Scalar = &t.scalar
	}
	if l := t.list; l != nil {
		a.List = &smd.List{ElementType: smdRef(l.elem), ElementRelationship: smd.Atomic}
		if l.granul {
			a.List.ElementRelationship, a.List.Keys = smd.Associative, l.keys
		}
	}
	if m := t.object; m != nil {
		a.Map = &smd.Map{ElementType: smdRef(m.elem), ElementRelationship: m.relation}
		for i, name := range m.names {
			f := smd.StructField{Name: name, Type: smdRef(m.fields[i])}
			if m.defaults != nil {
				f.Default = m.defaults[i]
			}
			a.Map.Fields = append(a.Map.Fields, f)
		}
	}
	return a
}
