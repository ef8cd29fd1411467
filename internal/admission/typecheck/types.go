package typecheck

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/internal/openapi"
	"github.com/keelson-io/keelson/kind"
)

// This file derives CEL types from published schemas.

// base is the environment without the typed variables.
var base = sync.OnceValue(func() *cel.Language {
	l, err := cel.NewLanguage(cel.AdmissionTypes())
	if err != nil {
		panic("BUG: language of admission: " + err.Error())
	}
	return l
})

// node has the fields of a schema that determine its type.
type node struct {
	Ref         string           `json:"$ref"`
	AllOf       []node           `json:"allOf"`
	Type        string           `json:"type"`
	Format      string           `json:"format"`
	Properties  map[string]*node `json:"properties"`
	Additional  json.RawMessage  `json:"additionalProperties"`
	Items       *node            `json:"items"`
	IntOrString bool             `json:"x-kubernetes-int-or-string"`
	Embedded    bool             `json:"x-kubernetes-embedded-resource"`
}

// refers returns the reference in a schema. Published schemas wrap a reference in allOf to add
// other fields beside it.
func (n *node) refers() string {
	ref := n.Ref
	for i := 0; ref == "" && i < len(n.AllOf); i++ {
		ref = n.AllOf[i].refers()
	}
	return ref
}

// builder collects object types by name.
type builder struct {
	objects map[string]map[string]string // type name -> member -> type of the member
	schemas map[string]json.RawMessage
	within  []string // references that are being resolved, to detect cycles
}

// types returns the object types that were collected.
func (b *builder) types() []cel.ObjectType {
	var out []cel.ObjectType
	for name, fields := range b.objects {
		out = append(out, cel.ObjectType{Name: name, Fields: fields})
	}
	return out
}

// resource builds the types of a version's objects and returns the name of the root type.
func (b *builder) resource(v *kind.Version, name string) (string, error) {
	root, all, err := openapi.Schemas(v)
	if err != nil {
		return "", err
	}
	b.schemas = all
	t, err := b.typeOf(&node{Ref: root}, name, true)
	if err == nil && t == "" {
		t = "dyn"
	}
	return t, err
}

// resolve follows a reference. The caller calls done after it has used the result. A reference to a
// schema that contains it becomes an object without known members.
func (b *builder) resolve(n *node) (resolved *node, done func(), err error) {
	ref := openapi.RefName(n.refers())
	if ref == "" {
		return n, func() {}, nil
	}
	if slices.Contains(b.within, ref) {
		return &node{Type: "object"}, func() {}, nil
	}
	text, ok := b.schemas[ref]
	if !ok {
		return nil, nil, fmt.Errorf("schema %q: it is referred to and not there", ref)
	}
	resolved = new(node)
	if err := json.Unmarshal(text, resolved); err != nil {
		return nil, nil, fmt.Errorf("schema %q: %w", ref, err)
	}
	b.within = append(b.within, ref)
	return resolved, func() { b.within = b.within[:len(b.within)-1] }, nil
}

var formats = map[string]string{"byte": "bytes", "duration": "duration", "date": "timestamp", "date-time": "timestamp"}

// typeOf returns the type for a schema, "" if expressions cannot read such values.
func (b *builder) typeOf(n *node, name string, resource bool) (string, error) {
	n, done, err := b.resolve(n)
	if err != nil {
		return "", err
	}
	defer done()
	switch {
	case n.IntOrString:
		return "dyn", nil
	case n.Type == "array" && n.Items != nil:
		elem, err := b.typeOf(n.Items, name+".@idx", n.Items.Embedded)
		if elem == "" {
			return "", err
		}
		return "list(" + elem + ")", err
	case n.Type == "object" && len(n.Additional) > 0 && n.Additional[0] == '{':
		values := new(node)
		if err := json.Unmarshal(n.Additional, values); err != nil {
			return "", err
		}
		elem, err := b.typeOf(values, name+".@elem", values.Embedded)
		if elem == "" {
			return "", err
		}
		return "map(string, " + elem + ")", err
	case n.Type == "object":
		return name, b.object(n, name, resource)
	case n.Type == "string" && formats[n.Format] != "":
		return formats[n.Format], nil
	}
	return map[string]string{"string": "string", "boolean": "bool", "number": "double", "integer": "int"}[n.Type], nil
}

// object builds an object type. A resource always has apiVersion, kind and metadata, whether its
// schema declares them or not.
func (b *builder) object(n *node, name string, resource bool) error {
	fields := map[string]string{}
	if resource && !b.complete(n) {
		n.Properties = withMeta(n.Properties)
	}
	for _, property := range sorted(n.Properties) {
		p := n.Properties[property]
		escaped, ok := cel.Escape(property)
		if p == nil || !ok {
			continue
		}
		t, err := b.typeOf(p, name+"."+escaped, p.Embedded)
		if err != nil {
			return err
		}
		if t == "" {
			continue
		}
		fields[escaped] = t
		if escaped == "__"+property+"__" {
			fields[property] = t // a reserved word may be its own escaped name
		}
	}
	b.objects[name] = fields
	return nil
}

// complete reports whether a resource's schema declares these members.
func (b *builder) complete(n *node) bool {
	is := func(in map[string]*node, name, want string) *node {
		if p := in[name]; p != nil {
			if p, done, err := b.resolve(p); err == nil {
				done()
				if p.Type == want {
					return p
				}
			}
		}
		return nil
	}
	if is(n.Properties, "kind", "string") == nil || is(n.Properties, "apiVersion", "string") == nil {
		return false
	}
	metadata := is(n.Properties, "metadata", "object")
	return metadata != nil && is(metadata.Properties, "name", "string") != nil && is(metadata.Properties, "generateName", "string") != nil
}

// withMeta adds the members of every resource to declared properties.
func withMeta(properties map[string]*node) map[string]*node {
	text := &node{Type: "string"}
	out := map[string]*node{}
	for name, p := range properties {
		out[name] = p
	}
	out["apiVersion"], out["kind"] = text, text
	out["metadata"] = &node{Type: "object", Properties: map[string]*node{"name": text, "generateName": text}}
	return out
}

// sorted returns the names in order.
func sorted(m map[string]*node) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.SortFunc(names, strings.Compare)
	return names
}
