package lint

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/keelson-io/keelson/schema/structural"
)

// This file walks over the schemas of a definition.

// tree is a schema with the versions that have it.
type tree struct {
	versions []string
	path     string // in the first of these versions
	root     *structural.Schema
	lost     []gap // nodes with keywords that root does not have
}

// node is a node of a schema.
type node struct {
	path   string
	schema *structural.Schema
	parent *node // nil at the root
	in     *tree
	// unchecked is set where servers do not check defaults.
	unchecked bool
}

// schemas returns the different schemas of a definition, as far as they can be parsed.
func (d *Definition) schemas() []*tree {
	var out []*tree
	versions := d.CRD.Spec.Versions
next:
	for i := range versions {
		v := &versions[i]
		if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			continue
		}
		for j := range i {
			if equality.Semantic.DeepEqual(versions[j].Schema, v.Schema) {
				for _, t := range out {
					if t.path == schemaPath(j) {
						t.versions = append(t.versions, v.Name)
						continue next
					}
				}
			}
		}
		if s, lost := parseTree(v.Schema.OpenAPIV3Schema, schemaPath(i)); s != nil {
			out = append(out, &tree{versions: []string{v.Name}, path: schemaPath(i), root: s, lost: lost})
		}
	}
	return out
}

// each calls fn for every node, parents first.
func (t *tree) each(fn func(node)) {
	walk(node{path: t.path, schema: t.root, in: t}, fn)
}

// walk calls fn for n and all nodes below it, parents first.
func walk(n node, fn func(node)) {
	fn(n)
	for _, child := range n.children() {
		walk(child, fn)
	}
}

// children returns the nodes directly below.
func (n *node) children() []node {
	s := n.schema
	var out []node
	add := func(path string, child *structural.Schema, unchecked bool) {
		out = append(out, node{path: path, schema: child, parent: n, in: n.in, unchecked: n.unchecked || unchecked})
	}
	for _, name := range s.Names {
		add(fmt.Sprintf("%s.properties[%s]", n.path, name), s.Properties[name], false)
	}
	if s.Items != nil {
		add(n.path+".items", s.Items, false)
	}
	if s.Additional != nil {
		add(n.path+".additionalProperties", s.Additional, true)
	}
	return out
}

// values returns the restrictions of a node, never nil.
func (n *node) values() *structural.Values {
	if n.schema.Values != nil {
		return n.schema.Values
	}
	return new(structural.Values)
}

// metaFields are declared for every resource.
var metaFields = map[string]bool{"apiVersion": true, "kind": true, "metadata": true}

// keeps reports whether pruning keeps a member with this name.
func (n *node) keeps(name string) bool {
	s := n.schema
	return s.Properties[name] != nil || s.Preserve || s.Additional != nil || s.AdditionalAllows != nil && *s.AdditionalAllows ||
		(n.parent == nil || s.Embedded) && metaFields[name]
}
