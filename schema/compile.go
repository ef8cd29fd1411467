package schema

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file compiles a structural schema to nodes and shapes.

// newProgram compiles s. nil is the schema of an object with no declared fields.
func newProgram(s *structural.Schema, o Options) (*program, error) {
	source := s
	if s == nil {
		s = &structural.Schema{Type: "object", Preserve: o.PreserveUnknown}
	}
	c := newCompiler(o)
	if needsMeta(s, o.Resource) {
		c = compileMeta().withOptions(o)
	}
	p := c.p
	p.source = source
	p.root = c.spine(s, "", o.Resource, o.PreserveUnknown)
	c.spines = nil
	if c.crowded {
		c.errs = append(c.errs, fmt.Errorf("schema has more than %d kinds of objects", math.MaxUint16))
	}
	if len(c.errs) > 0 {
		return nil, errors.Join(c.errs...)
	}
	if err := p.fillDefaults(); err != nil {
		return nil, err
	}
	if p.hasRules = p.root.deepRules; p.hasRules && o.Env == nil {
		return nil, errors.New("schema has rules, but Options.Env is nil")
	}
	p.shapes = slices.Clip(p.shapes)
	return p, nil
}

// newCompiler returns a compiler with an empty table of shapes. Shape 0 means none.
func newCompiler(o Options) *compiler {
	return &compiler{
		p:        &program{options: o, shapes: []*jsondoc.Shape{nil}, consts: new(jsondoc.Doc)},
		interned: make(map[string]uint16), patterns: make(map[string]*pattern), spines: make(map[spineKey]*node),
	}
}

// spineKey identifies a node of the spine. Equal parts of schemas are the same pointer, so that
// they share nodes.
type spineKey struct {
	schema         *structural.Schema
	resource, keep bool
}

// compileMeta compiles the schema of metadata. All programs share its nodes, and have its shapes at
// the same indexes.
var compileMeta = sync.OnceValue(func() *compiler {
	c := newCompiler(Options{})
	c.p.meta = c.spine(structural.ObjectMeta(), "metadata", false, false)
	return c
})

// withOptions returns a compiler that continues where c stopped.
func (c *compiler) withOptions(o Options) *compiler {
	more := newCompiler(o)
	more.p.meta, more.p.shapes = c.p.meta, slices.Clone(c.p.shapes)
	more.interned = maps.Clone(c.interned)
	return more
}

// compiler compiles one schema.
type compiler struct {
	p        *program
	interned map[string]uint16 // indexes of shapes, by names and children
	patterns map[string]*pattern
	spines   map[spineKey]*node
	errs     []error
	crowded  bool // there are more shapes than an index can number
}

// needsMeta reports whether s has metadata: it is a resource, or there is an embedded one below.
func needsMeta(s *structural.Schema, resource bool) bool {
	if s == nil {
		return false
	}
	if resource || s.Embedded || needsMeta(s.Items, false) || needsMeta(s.Additional, false) {
		return true
	}
	for _, child := range s.Properties {
		if needsMeta(child, false) {
			return true
		}
	}
	return false
}

// spine compiles s to a node that decodes. keep says that undeclared members are kept, whatever s
// says.
func (c *compiler) spine(s *structural.Schema, path string, resource, keep bool) *node {
	key := spineKey{s, resource, keep}
	n := c.spines[key]
	if n == nil {
		n = c.newSpine(s, path, resource, keep)
		c.spines[key] = n
	}
	return n
}

// newSpine is spine without the sharing of nodes.
func (c *compiler) newSpine(s *structural.Schema, path string, resource, keep bool) *node {
	n := c.base(s, path)
	n.resource = resource || s.Embedded
	n.keep = keep || s.Preserve || c.p.options.PreserveUnknown
	if s.Items != nil {
		// Upstream keeps undeclared fields in the items of an array that keeps undeclared fields.
		n.items = c.spine(s.Items, path+"[]", false, n.keep)
	}
	if s.Additional != nil {
		n.additional = c.spine(s.Additional, path+".*", false, false)
	}
	props := make(map[string]*node, len(s.Names))
	for _, name := range s.Names {
		child, below := s.Properties[name], path+"."+name
		switch {
		case n.resource && name == "metadata":
			props[name] = c.overlay(child, below, c.p.meta)
		case n.resource && isMeta(name): // not shared, because rules see them as members of a resource
			props[name] = c.newSpine(child, below, false, false)
		default:
			props[name] = c.spine(child, below, false, false)
		}
	}
	c.layOut(n, s, props)
	c.finish(n, s, n)
	return n
}

// layOut computes the shape of objects of n: a slot for each declared member, in the order of
// names.
func (c *compiler) layOut(n *node, s *structural.Schema, props map[string]*node) {
	names := s.Names
	if n.resource {
		names = append([]string{"apiVersion", "kind", "metadata"}, names...)
		names = slices.Compact(slices.Sorted(slices.Values(names)))
	}
	if len(names) == 0 {
		return
	}
	kids := make([]uint16, len(names))
	n.bySlot = make([]*node, len(names))
	for i, name := range names {
		child := props[name]
		if n.resource && name == "metadata" {
			kids[i] = c.p.meta.shape
		} else if child != nil {
			kids[i] = child.shape
		}
		n.bySlot[i] = child
		if child != nil {
			n.props = append(n.props, prop{name: name, slot: i, node: child})
			if child.defText != nil {
				n.defaults = append(n.defaults, i)
			}
		}
	}
	n.shape = c.intern(names, kids, n.keep || n.anyOther)
	n.slots, n.slotShape = c.p.shapes[n.shape], n.shape
}

// intern returns the index of the shape with these members. Equal shapes have one index.
func (c *compiler) intern(names []string, kids []uint16, open bool) uint16 {
	var key []byte
	for i, name := range names {
		key = binary.AppendUvarint(key, uint64(len(name)))
		key = append(key, name...)
		key = binary.LittleEndian.AppendUint16(key, kids[i])
	}
	if open {
		key = append(key, 0)
	}
	if i, ok := c.interned[string(key)]; ok {
		return i
	}
	if len(c.p.shapes) > math.MaxUint16 {
		c.crowded = true
		return 0
	}
	i := uint16(len(c.p.shapes))
	c.p.shapes = append(c.p.shapes, jsondoc.NewShape(names, kids, open))
	c.interned[string(key)] = i
	return i
}

// overlay compiles s, a schema of metadata, to a node that validates values which decoded decodes.
func (c *compiler) overlay(s *structural.Schema, path string, decoded *node) *node {
	n := c.base(s, path)
	if decoded != nil {
		n.slots, n.slotShape = decoded.slots, decoded.slotShape
	}
	if s.Items != nil {
		n.items = c.overlay(s.Items, path+"[]", below(decoded, (*node).item))
	}
	if s.Additional != nil {
		n.additional = c.overlay(s.Additional, path+".*", below(decoded, (*node).other))
	}
	for _, name := range s.Names {
		child := c.overlay(s.Properties[name], path+"."+name, below(decoded, func(d *node) *node { return d.child(name) }))
		n.props = append(n.props, prop{name: name, slot: slotOf(n.slots, name), node: child})
	}
	c.finish(n, s, n)
	return n
}

// item and other return a child; they are steps for below.
func (n *node) item() *node  { return n.items }
func (n *node) other() *node { return n.additional }

// below returns step(n), or nil for nil.
func below(n *node, step func(*node) *node) *node {
	if n == nil {
		return nil
	}
	return step(n)
}

// slotOf returns the slot of a member, -1 if there is none.
func slotOf(s *jsondoc.Shape, name string) int {
	if s == nil {
		return -1
	}
	return s.Slot(name)
}

// base compiles s apart from its children and restrictions.
func (c *compiler) base(s *structural.Schema, path string) *node {
	n := &node{
		path: path, typ: s.Type, nullable: s.Nullable, intOrStr: s.IntOrString,
		preserve: s.Preserve, embedded: s.Embedded, mapType: s.MapType,
		listType: s.ListType, mapKeys: s.ListMapKeys,
		anyOther: s.Additional != nil || s.AdditionalAllows != nil,
		noOther:  s.AdditionalAllows != nil && !*s.AdditionalAllows,
	}
	if len(s.Default) > 0 && !bytes.Equal(bytes.TrimSpace(s.Default), []byte("null")) {
		n.defText = s.Default
	}
	types := []string{s.Type}
	switch {
	case s.IntOrString:
		types = []string{"integer", "string"}
	case s.Type == "":
		types = nil
	}
	c.setTypes(n, types, s.Format)
	if len(s.Rules) > 0 {
		n.rules = &rules{source: s.Rules, schema: s}
	}
	return n
}

// finish compiles the restrictions of n, whose children must be complete.
func (c *compiler) finish(n *node, s *structural.Schema, decoded *node) {
	if s.Values != nil {
		n.values = c.values(n, s.Values, decoded)
	}
	if n.listType == "map" && n.items != nil {
		for _, key := range n.mapKeys {
			n.keySlots = append(n.keySlots, slotOf(n.items.slots, key))
		}
	}
	n.summarize()
}

// branch compiles a schema below a junctor. decoded is the node outside of junctors for the same
// value, nil if it is not declared.
func (c *compiler) branch(s *structural.Nested, path string, decoded *node) *node {
	n := &node{path: path, typ: s.Type, branch: true}
	if decoded != nil {
		n.slots, n.slotShape = decoded.slots, decoded.slotShape
	}
	var types []string
	if s.Type != "" {
		types = []string{s.Type}
	}
	c.setTypes(n, types, s.Format)
	if s.Items != nil {
		n.items = c.branch(s.Items, path+"[]", below(decoded, (*node).item))
	}
	if s.Additional != nil {
		n.additional = c.branch(s.Additional, path+".*", below(decoded, (*node).other))
	}
	for _, name := range s.Names {
		base := below(decoded, func(d *node) *node { return d.child(name) })
		if decoded != nil && decoded.resource && name == "metadata" {
			base = c.p.meta
		}
		n.props = append(n.props, prop{
			name: name, slot: slotOf(n.slots, name), node: c.branch(s.Properties[name], path+"."+name, base),
		})
	}
	n.values = c.values(n, &s.Values, decoded)
	n.summarize()
	return n
}

// values compiles restrictions.
func (c *compiler) values(n *node, s *structural.Values, decoded *node) *values {
	v := &values{
		max: s.Maximum, min: s.Minimum, multiple: s.MultipleOf,
		exclMax: s.ExclusiveMaximum, exclMin: s.ExclusiveMinimum, unique: s.UniqueItems,
		maxLength: bound(s.MaxLength), minLength: bound(s.MinLength),
		maxItems: bound(s.MaxItems), minItems: bound(s.MinItems),
		maxProps: bound(s.MaxProperties), minProps: bound(s.MinProperties),
	}
	for _, b := range []*float64{v.max, v.min, v.multiple} {
		v.badBound = v.badBound || b != nil && rangeError(*b, n.numType, n.rangeFormat(), "", "") != nil
	}
	if s.Pattern != "" {
		v.match = c.pattern(s.Pattern)
	}
	for _, raw := range s.Enum {
		var item any
		if err := utiljson.Unmarshal(raw, &item); err != nil {
			c.errs = append(c.errs, fmt.Errorf("%s: enum: %w", n.path, err))
			continue
		}
		v.enum = append(v.enum, item)
		if text, ok := item.(string); ok {
			v.texts = append(v.texts, text)
		}
	}
	if len(v.enum) > longEnum {
		v.large = newEnumSet(v.enum)
	}
	for _, name := range s.Required {
		v.required = append(v.required, need{name, slotOf(n.slots, name)})
	}
	v.allOf = c.branches(s.AllOf, n.path+".allOf", decoded)
	v.anyOf = c.branches(s.AnyOf, n.path+".anyOf", decoded)
	v.oneOf = c.branches(s.OneOf, n.path+".oneOf", decoded)
	if s.Not != nil {
		v.not = c.branch(s.Not, n.path+".not", decoded)
	}
	v.junctors = len(v.allOf)+len(v.anyOf)+len(v.oneOf) > 0 || v.not != nil
	return v
}

// branches compiles the schemas of allOf, anyOf or oneOf.
func (c *compiler) branches(all []*structural.Nested, path string, decoded *node) []*node {
	var out []*node
	for i, s := range all {
		out = append(out, c.branch(s, fmt.Sprintf("%s[%d]", path, i), decoded))
	}
	return out
}

// bound returns *v, or none.
func bound(v *int64) int64 {
	if v == nil {
		return none
	}
	return *v
}

// none is the value of a missing bound. Negative bounds are allowed, so that it is not -1.
const none = math.MinInt64

// setTypes sets the fields for the type check. It follows upstream's validator, which takes the
// format into account: a node with a format for strings accepts arrays; without a type it accepts
// nothing else.
func (c *compiler) setTypes(n *node, types []string, format string) {
	n.types = strings.Join(types, ",")
	if len(types) == 1 && (types[0] == "integer" || types[0] == "number") {
		n.numType = types[0]
	}
	if n.format = supportedFormat(types, format); c.p.options.AnyFormat {
		n.format = format
	}
	c.p.hasUncheckedFormats = c.p.hasUncheckedFormats || n.format != format
	if _, known := stringFormats[plainFormat(n.format)]; known && n.numType == "" {
		n.formatOK = formatCheck(n.format)
		n.reads = formatTypes[n.format]
	}
	numeric := false
	for _, t := range types {
		switch t {
		case "object":
			n.kinds |= kindsOf(jsondoc.Object)
		case "array":
			n.kinds |= kindsOf(jsondoc.Array)
		case "string":
			n.kinds |= kindsOf(jsondoc.String)
		case "boolean":
			n.kinds |= kindsOf(jsondoc.Bool)
		case "number":
			n.kinds |= kindsOf(jsondoc.Int, jsondoc.Float)
			numeric = true
		case "integer":
			n.kinds |= kindsOf(jsondoc.Int, jsondoc.Float)
			n.integral, numeric = true, true
		case "null":
			n.kinds |= kindsOf(jsondoc.Null)
		}
	}
	if n.format != "" && !numeric {
		n.kinds |= kindsOf(jsondoc.String, jsondoc.Array)
	}
	if len(types) == 0 && n.format == "" {
		n.kinds = anyKind
	}
	if len(types) == 0 || n.nullable {
		n.kinds |= kindsOf(jsondoc.Null)
	}
}

// summarize computes the fields about what is at n or below. The children of n must be complete.
func (n *node) summarize() {
	n.deepLists = n.listType == "set" || n.listType == "map"
	n.deepChecks = n.kinds != anyKind || n.values != nil || n.format != "" || n.noOther || n.deepLists
	n.deepRules = n.rules != nil
	n.deepEmbedded = n.embedded
	n.deepDefaults = n.defText != nil
	for _, p := range n.props {
		if p.node.deepChecks {
			n.checked = append(n.checked, p)
		}
	}
	if len(n.checked) == len(n.props) {
		n.checked = n.props
	}
	n.each(func(child *node) {
		n.deepChecks = n.deepChecks || child.deepChecks
		n.deepRules = n.deepRules || child.deepRules
		n.deepLists = n.deepLists || child.deepLists
		n.deepEmbedded = n.deepEmbedded || child.deepEmbedded
		n.deepDefaults = n.deepDefaults || child.deepDefaults
	})
}

// each calls fn for the children of n, properties first. It omits schemas below junctors.
func (n *node) each(fn func(*node)) {
	for _, p := range n.props {
		fn(p.node)
	}
	if n.additional != nil {
		fn(n.additional)
	}
	if n.items != nil {
		fn(n.items)
	}
}
