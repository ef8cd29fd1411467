package schema

import (
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/kubernetes"
)

// This file computes the CEL types by which rules see the values of schema nodes.

// typing computes the types of one program's nodes.
type typing struct {
	p     *program
	types map[*node]*cel.Type     // types that are computed; nil for nodes that rules cannot see
	plain map[plainType]*cel.Type // the shared types without members
}

// plainType identifies a type without members. Equal ones share one cel.Type, because a schema has
// few of them and very many nodes. Types of objects are not shared: CEL distinguishes object types
// by identity.
type plainType struct {
	kind                                  cel.TypeKind
	date, nullable, preserve, intOrString bool
	elem                                  *cel.Type
	listType                              *cel.ListType
	elements, size                        uint64
}

// shared returns the one type that equals t, if t has no members; otherwise t.
func (types *typing) shared(t *cel.Type) *cel.Type {
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

// of returns the type of n. It is nil if no rule can see n: n has no type, or is a list or map of
// such values.
func (types *typing) of(n *node) *cel.Type {
	known, ok := types.types[n]
	if !ok {
		known = types.build(n)
		types.types[n] = known
	}
	return known
}

// visible reports whether rules can see n, without computing its type.
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

// formatTypes are the types of strings that rules see as another type, because of their format.
var formatTypes = map[string]*cel.Type{
	"byte": {Kind: cel.Bytes}, "duration": {Kind: cel.Duration}, "date": {Kind: cel.Timestamp, Date: true}, "date-time": {Kind: cel.Timestamp},
}

// build computes the type of n. Bounds of sizes come from the schema; the cost estimate uses them.
func (types *typing) build(n *node) *cel.Type {
	// max is the greatest size of the value, enum the length of the longest string of an enum.
	t := &cel.Type{Nullable: n.nullable, Preserve: n.preserve}
	max, enum := int64(none), 0
	v := n.values
	if v == nil {
		v = &values{maxLength: none, maxItems: none, maxProps: none}
	}
	switch {
	case n.intOrStr:
		t.Kind, t.IntOrString = cel.Dyn, true
		if types.p.minor() >= 34 { // which took maxLength into account first
			max = v.maxLength
		}
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
		if of := formatTypes[n.format]; of != nil {
			t.Kind, t.Date = of.Kind, of.Date
		}
		for _, text := range v.texts {
			enum = longer(enum, len(text))
		}
		if len(v.enum) > 0 && enum == 0 && max == none && t.Kind == cel.String {
			max = 0 // all values of the enum are empty strings
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
	return types.shared(t)
}

// longer returns the larger number.
func longer(a, b int) int {
	if a > b {
		return a
	}
	return b
}

// setSizes sets the bounds of a type. max may be none.
func setSizes(t *cel.Type, max int64, enum int) {
	if max == none {
		t.SetSizes(nil, enum)
		return
	}
	t.SetSizes(&max, enum)
}

// fields returns the declared members. Members that rules cannot see have no type, but comparisons
// of objects take them into account. A resource always has apiVersion, kind and the names in its
// metadata. Unless the schema declares all of them, rules see nothing else of the metadata, as
// upstream.
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

// declaresMeta reports whether the schema of a resource declares all members that rules can see of
// every resource.
func (n *node) declaresMeta() bool {
	is := func(n *node, typ string) bool { return n != nil && n.typ == typ }
	meta := n.prop("metadata")
	return is(n.prop("kind"), "string") && is(n.prop("apiVersion"), "string") && is(meta, "object") &&
		is(meta.prop("name"), "string") && is(meta.prop("generateName"), "string")
}

// longestName is the greatest length of an object's name in bytes.
const longestName = int64(validation.DNS1123SubdomainMaxLength)

// metaType returns the type of a resource's metadata. declared is the node of the metadata, or nil.
// Since 1.37, names have the bound of names; a generated name is at least one byte longer than generateName.
func (p *program) metaType(declared *node) *cel.Type {
	t := &cel.Type{Kind: cel.Object}
	for _, f := range []struct {
		name string
		max  int64
	}{{"generateName", longestName - 1}, {"name", longestName}} {
		max := f.max
		if p.minor() < 37 { // the name had no bound, whatever the schema says
			max, declared = none, nil
		}
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

// minor returns the minor version of the release by whose rules types are made.
func (p *program) minor() int {
	if p.options.Env == nil {
		return kubernetes.Newest().Minor()
	}
	return p.options.Env.Release().Minor()
}

// setMeta makes t the type of n, the declared metadata. n may be nil.
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

// textType returns the type of a string of at most max bytes.
func textType(max int64) *cel.Type {
	t := &cel.Type{Kind: cel.String}
	setSizes(t, max, 0)
	return t
}
