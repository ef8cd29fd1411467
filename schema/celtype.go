package schema

import (
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/keelson-io/keelson/cel"
)

// This file makes the types that rules see of schema nodes.

// typing makes the types of one program's nodes, as rules need them.
type typing struct {
	p     *program
	types map[*node]*cel.Type
	plain map[plainType]*cel.Type // one of each
}

// plainType is what a type without members is made of. Equal ones are one type:
// a schema has few of them, and very many values of each. Types of objects stay
// apart, since rules can tell two of them that look alike.
type plainType struct {
	kind                                  cel.TypeKind
	date, nullable, preserve, intOrString bool
	elem                                  *cel.Type
	listType                              *cel.ListType
	elements, size                        uint64
}

// one is a type equal to t, the same for all equal ones that have no members.
func (types *typing) one(t *cel.Type) *cel.Type {
	if t.Kind == cel.Object || t.Kind == cel.List && (t.ListType != nil && t.ListType.Map || t.Elem.Kind == cel.Object) {
		return t
	}
	key := plainType{t.Kind, t.Date, t.Nullable, t.Preserve, t.IntOrString, t.Elem, t.ListType, t.MaxElements, t.MinSize}
	if known := types.plain[key]; known != nil {
		return known
	}
	if types.plain == nil {
		types.plain = map[plainType]*cel.Type{}
	}
	types.plain[key] = t
	return t
}

// of is the type of n, nil if no rule can see it: it has no type, or is a list
// or map of such values.
func (types *typing) of(n *node) *cel.Type {
	known, ok := types.types[n]
	if !ok {
		known = types.build(n)
		types.types[n] = known
	}
	return known
}

// visible reports whether rules can see n.
func (types *typing) visible(n *node) bool {
	if known, ok := types.types[n]; ok {
		return known != nil
	}
	switch {
	case n.intOrStr:
		return true
	case n.typ == "array":
		return n.items != nil && types.visible(n.items)
	case n.typ == "object" && n.additional != nil:
		return types.visible(n.additional)
	}
	switch n.typ {
	case "object", "string", "boolean", "integer", "number":
		return true
	}
	return false
}

// readAs are the types of texts that rules read by their format.
var readAs = map[string]*cel.Type{
	"byte": {Kind: cel.Bytes}, "duration": {Kind: cel.Duration}, "date": {Kind: cel.Timestamp, Date: true}, "date-time": {Kind: cel.Timestamp},
}

func (types *typing) build(n *node) *cel.Type {
	t := &cel.Type{Nullable: n.nullable, Preserve: n.preserve}
	max, enum := int64(none), 0
	v := n.values
	if v == nil {
		v = &values{maxLength: none, maxItems: none, maxProps: none}
	}
	switch {
	case n.intOrStr:
		t.Kind, t.IntOrString, max = cel.Dyn, true, v.maxLength
	case n.typ == "array":
		if n.items == nil || types.of(n.items) == nil {
			return nil
		}
		t.Kind, t.Elem, max = cel.List, types.of(n.items), v.maxItems
		t.ListType = cel.ListTypeOf(n.listType, n.mapKeys)
	case n.typ == "object" && n.additional != nil:
		if types.of(n.additional) == nil {
			return nil
		}
		t.Kind, t.Elem, max = cel.Map, types.of(n.additional), v.maxProps
	case n.typ == "object":
		t.Kind, t.Fields = cel.Object, types.fields(n)
	case n.typ == "string":
		t.Kind, max = cel.String, v.maxLength
		if of := readAs[n.format]; of != nil {
			t.Kind, t.Date = of.Kind, of.Date
		}
		for _, text := range v.texts {
			enum = longer(enum, len(text))
		}
		if len(v.enum) > 0 && enum == 0 && max == none && t.Kind == cel.String {
			max = 0 // an enum without a text that takes space
		}
	case n.typ == "boolean":
		t.Kind = cel.Bool
	case n.typ == "integer":
		t.Kind = cel.Int
	case n.typ == "number":
		t.Kind = cel.Double
	default:
		return nil
	}
	setSizes(t, max, enum)
	return types.one(t)
}

func longer(a, b int) int {
	if a > b {
		return a
	}
	return b
}

func setSizes(t *cel.Type, max int64, enum int) {
	if max == none {
		t.SetSizes(nil, enum)
		return
	}
	t.SetSizes(&max, enum)
}

// fields are the declared members. Those that rules cannot see have no type; that
// they are declared matters when objects are compared. A resource always has apiVersion,
// kind and the names in its metadata; unless the schema declares all of them,
// nothing else of its metadata can be seen.
func (types *typing) fields(n *node) []cel.Field {
	fields := make([]cel.Field, 0, len(n.props))
	add := func(name string, t *cel.Type, child *node) {
		f := cel.Field{Name: name, Type: t, Slot: int32(slotOf(n.slots, name)), HasDefault: child != nil && child.defText != nil}
		if n.values != nil {
			for _, r := range n.values.required {
				f.Required = f.Required || r.name == name
			}
		}
		fields = append(fields, f)
	}
	if !n.resource || n.declaresMeta() {
		for _, prop := range n.props {
			add(prop.name, types.of(prop.node), prop.node)
		}
		return fields
	}
	for i, name := range n.slots.Names {
		switch child := n.bySlot[i]; {
		case name == "metadata":
			t := types.p.metaType(child)
			add(name, t, nil)
			types.setMeta(child, t)
		case isMeta(name):
			t := textType(none)
			add(name, t, nil)
			if child != nil {
				types.types[child] = t
			}
		default:
			add(name, types.of(child), child)
		}
	}
	return fields
}

// declaresMeta reports whether a resource declares everything that rules can
// see of every resource.
func (n *node) declaresMeta() bool {
	is := func(n *node, typ string) bool { return n != nil && n.typ == typ }
	meta := n.prop("metadata")
	return is(n.prop("kind"), "string") && is(n.prop("apiVersion"), "string") && is(meta, "object") &&
		is(meta.prop("name"), "string") && is(meta.prop("generateName"), "string")
}

// longestName is how long the name of an object can be.
const longestName = int64(validation.DNS1123SubdomainMaxLength)

// metaType is the type of a resource's metadata. A generated name is at least
// one byte longer than generateName.
func (p *program) metaType(declared *node) *cel.Type {
	t := &cel.Type{Kind: cel.Object}
	for _, f := range []struct {
		name string
		max  int64
	}{{"generateName", longestName - 1}, {"name", longestName}} {
		max := f.max
		if declared != nil {
			if own := declared.prop(f.name); own != nil && own.values != nil && own.values.maxLength != none && own.values.maxLength < max {
				max = own.values.maxLength
			}
		}
		t.Fields = append(t.Fields, cel.Field{Name: f.name, Type: textType(max), Slot: int32(slotOf(p.meta.slots, f.name))})
	}
	setSizes(t, none, 0)
	return t
}

// setMeta makes t the type of n, declared metadata, nil if it is not declared.
func (types *typing) setMeta(n *node, t *cel.Type) {
	if n == nil {
		return
	}
	types.types[n] = t
	for _, p := range n.props {
		types.types[p.node] = nil
		for _, f := range t.Fields {
			if f.Name == p.name {
				types.types[p.node] = f.Type
			}
		}
	}
}

func textType(max int64) *cel.Type {
	t := &cel.Type{Kind: cel.String}
	setSizes(t, max, 0)
	return t
}
