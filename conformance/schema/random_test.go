package schema_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// This file compares schemas that nobody would write: every keyword, anywhere
// a structural schema may have it.

// TestRandomSchemas makes schemas, and objects for each.
// Ledger: error-order.
func TestRandomSchemas(t *testing.T) {
	for i := range *rounds {
		name := fmt.Sprintf("schema-%d-%d", *seed, i)
		t.Run(name, func(t *testing.T) {
			g := &generator{rand.New(rand.NewPCG(*seed, uint64(i)))}
			s := g.rootSchema()
			p := newPair(t, name, s)
			for range 40 {
				src := []byte(mustJSON(g.root(p.up.schema, "g/v1", "K")))
				p.check(t, src, nil, false)
				changed := g.damaged(t, src, 1+g.r.IntN(3))
				p.check(t, changed, nil, false)
				p.check(t, changed, src, false)
				p.check(t, changed, src, true)
				again := g.damaged(t, changed, 1)
				p.check(t, again, changed, false)
				p.check(t, again, changed, true)
				if t.Failed() {
					t.Logf("schema %s", mustJSON(s))
					return
				}
			}
		})
		if t.Failed() {
			return
		}
	}
}

func (g *generator) one(n int) bool { return g.r.IntN(n) == 0 }

func (g *generator) rootSchema() *apiextv1.JSONSchemaProps {
	s := &apiextv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextv1.JSONSchemaProps{}}
	g.members(s, 0)
	if g.one(2) {
		s.Properties["apiVersion"] = apiextv1.JSONSchemaProps{Type: "string"}
		s.Properties["kind"] = apiextv1.JSONSchemaProps{Type: "string"}
		s.Properties["metadata"] = apiextv1.JSONSchemaProps{Type: "object"}
	}
	if g.one(3) {
		s.Properties["metadata"] = apiextv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextv1.JSONSchemaProps{
			"name": {Type: "string", MaxLength: g.size(), Pattern: "^[a-z]*$"}}}
	}
	if g.one(2) {
		s.Properties["status"] = g.schema(0)
	}
	g.restrict(s, 0)
	if g.one(6) {
		s.XPreserveUnknownFields = new(true)
	}
	return s
}

var memberNames = []string{"a", "b", "name", "type", "items", "x-y", "ü", "apiVersion", "metadata"}

func (g *generator) members(s *apiextv1.JSONSchemaProps, depth int) {
	for range g.r.IntN(5) {
		name := memberNames[g.r.IntN(len(memberNames))]
		if depth == 0 && (name == "apiVersion" || name == "metadata") {
			continue
		}
		s.Properties[name] = g.schema(depth + 1)
	}
}

func (g *generator) size() *int64 {
	if g.one(2) {
		return nil
	}
	return new(int64(g.r.IntN(4)))
}

func (g *generator) bound() *float64 {
	if g.one(2) {
		return nil
	}
	return new([]float64{0, 1, 1.5, 2, 10, -3, 443, 1 << 33}[g.r.IntN(8)])
}

func (g *generator) schema(depth int) apiextv1.JSONSchemaProps {
	var s apiextv1.JSONSchemaProps
	kinds := 9
	if depth > 3 {
		kinds = 6
	}
	switch g.r.IntN(kinds) {
	case 0, 1:
		s.Type = "string"
	case 2:
		s.Type = "integer"
	case 3:
		s.Type = "number"
	case 4:
		s.Type = "boolean"
	case 5:
		s.XIntOrString = true
		switch g.r.IntN(3) {
		case 0:
			s.AnyOf = []apiextv1.JSONSchemaProps{{Type: "integer"}, {Type: "string"}}
		case 1:
			s.AllOf = []apiextv1.JSONSchemaProps{{AnyOf: []apiextv1.JSONSchemaProps{{Type: "integer"}, {Type: "string"}}}}
		}
	case 6, 7:
		s.Type = "object"
		g.objectSchema(&s, depth)
	case 8:
		s.Type = "array"
		g.listSchema(&s, depth)
	}
	s.Nullable = g.one(4)
	g.restrict(&s, depth)
	g.defaultValue(&s)
	return s
}

func (g *generator) objectSchema(s *apiextv1.JSONSchemaProps, depth int) {
	switch g.r.IntN(8) {
	case 0:
		child := g.schema(depth + 1)
		s.AdditionalProperties = &apiextv1.JSONSchemaPropsOrBool{Allows: true, Schema: &child}
	case 1:
		s.AdditionalProperties = &apiextv1.JSONSchemaPropsOrBool{Allows: true}
		s.Properties = map[string]apiextv1.JSONSchemaProps{}
		g.members(s, depth)
	case 2:
		s.AdditionalProperties = &apiextv1.JSONSchemaPropsOrBool{}
	case 3:
		s.XEmbeddedResource = true
		s.XPreserveUnknownFields = new(true)
		s.Properties = map[string]apiextv1.JSONSchemaProps{}
		g.members(s, depth)
		for _, name := range []string{"apiVersion", "metadata"} {
			delete(s.Properties, name)
		}
		if g.one(2) {
			s.Properties["metadata"] = apiextv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextv1.JSONSchemaProps{
				"name":   {Type: "string", MinLength: g.size()},
				"labels": {Type: "object", AdditionalProperties: &apiextv1.JSONSchemaPropsOrBool{Allows: true, Schema: &apiextv1.JSONSchemaProps{Type: "string", Enum: []apiextv1.JSON{{Raw: []byte(`"b"`)}}}}},
			}}
		}
		if g.one(2) {
			s.Properties["kind"] = apiextv1.JSONSchemaProps{Type: "string", Enum: []apiextv1.JSON{{Raw: []byte(`"ConfigMap"`)}}}
		}
	default:
		s.Properties = map[string]apiextv1.JSONSchemaProps{}
		g.members(s, depth)
		if g.one(4) {
			s.XPreserveUnknownFields = new(true)
		}
		if g.one(4) {
			s.XMapType = new("atomic")
		}
	}
}

func (g *generator) listSchema(s *apiextv1.JSONSchemaProps, depth int) {
	items := g.schema(depth + 1)
	switch g.r.IntN(4) {
	case 0:
		items = g.schema(9) // a scalar
		items.Nullable = false
		s.XListType = new("set")
	case 1:
		items = apiextv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextv1.JSONSchemaProps{}}
		g.members(&items, depth)
		items.Properties["name"] = apiextv1.JSONSchemaProps{Type: "string"}
		items.Properties["type"] = apiextv1.JSONSchemaProps{Type: "integer", Default: &apiextv1.JSON{Raw: []byte("1")}}
		items.Required = []string{"name"}
		s.XListType = new("map")
		s.XListMapKeys = []string{"name"}
		if g.one(2) {
			s.XListMapKeys = []string{"name", "type"}
		}
	case 2:
		s.XPreserveUnknownFields = new(true)
	}
	s.Items = &apiextv1.JSONSchemaPropsOrArray{Schema: &items}
}

var formats = []string{"", "date", "date-time", "datetime", "int32", "int64", "float", "double", "ipv4", "cidr", "byte", "uri", "password", "k8s-short-name", "bogus", "duration", "uuid"}

// restrict adds value validations that may stand anywhere.
func (g *generator) restrict(s *apiextv1.JSONSchemaProps, depth int) {
	if g.one(3) {
		s.Format = formats[g.r.IntN(len(formats))]
	}
	if g.one(4) {
		s.Maximum, s.Minimum, s.MultipleOf = g.bound(), g.bound(), g.bound()
		s.ExclusiveMaximum, s.ExclusiveMinimum = g.one(3) && s.Maximum != nil, g.one(3) && s.Minimum != nil
		if !g.one(4) {
			s.MultipleOf = nil
		}
	}
	if g.one(4) {
		s.MaxLength, s.MinLength, s.MaxItems, s.MinItems = g.size(), g.size(), g.size(), g.size()
		s.MaxProperties, s.MinProperties = g.size(), g.size()
	}
	if g.one(6) {
		s.Pattern = []string{"^a", "b$", "^[a-z0-9]+$", "ü", `\d`, "(?i)HTTP"}[g.r.IntN(6)]
	}
	if g.one(8) {
		for range 1 + g.r.IntN(3) {
			s.Enum = append(s.Enum, apiextv1.JSON{Raw: []byte([]string{`"a"`, `"A"`, `1`, `1.5`, `80`, `null`, `true`, `"Exact"`, `[]`, `{}`, `{"a":1}`, `6.0`}[g.r.IntN(12)])})
		}
	}
	if g.one(5) {
		s.Required = []string{memberNames[g.r.IntN(len(memberNames))]}
	}
	if depth < 6 {
		g.junctors(s, depth)
	}
}

func (g *generator) junctors(s *apiextv1.JSONSchemaProps, depth int) {
	branches := func(list *[]apiextv1.JSONSchemaProps) {
		if g.one(7) && len(*list) == 0 {
			for range 1 + g.r.IntN(3) {
				*list = append(*list, g.branch(s, depth+2))
			}
		}
	}
	branches(&s.OneOf)
	if !s.XIntOrString {
		branches(&s.AnyOf)
		branches(&s.AllOf)
	}
	if g.one(10) {
		not := g.branch(s, depth+2)
		s.Not = &not
	}
}

// branch makes what may stand below a junctor of s: no types.
func (g *generator) branch(s *apiextv1.JSONSchemaProps, depth int) apiextv1.JSONSchemaProps {
	var b apiextv1.JSONSchemaProps
	for name, child := range s.Properties {
		if name != "metadata" && g.one(2) {
			if b.Properties == nil {
				b.Properties = map[string]apiextv1.JSONSchemaProps{}
			}
			below := apiextv1.JSONSchemaProps{Properties: child.Properties, Items: child.Items}
			b.Properties[name] = g.branch(&below, depth+1)
		}
	}
	if s.Items != nil && s.Items.Schema != nil && g.one(2) {
		items := g.branch(s.Items.Schema, depth+1)
		b.Items = &apiextv1.JSONSchemaPropsOrArray{Schema: &items}
	}
	g.restrict(&b, depth)
	return b
}

// defaultValue adds a default that has the right type.
func (g *generator) defaultValue(s *apiextv1.JSONSchemaProps) {
	if !g.one(4) {
		return
	}
	raw := ""
	switch s.Type {
	case "string":
		raw = `"dflt"`
	case "integer":
		raw = `7`
	case "number":
		raw = `1.5`
	case "boolean":
		raw = `true`
	case "object":
		raw = []string{`{}`, `{"a":null,"b":{"zz":1},"name":"n"}`, `{"type":1,"unknown":{"x":[1,{"y":2}]}}`}[g.r.IntN(3)]
	case "array":
		raw = []string{`[]`, `[null]`, `["a",{"name":"x","unknown":1}]`}[g.r.IntN(3)]
	default:
		return
	}
	s.Default = &apiextv1.JSON{Raw: []byte(raw)}
}
