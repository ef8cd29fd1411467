package cel

import (
	"encoding/json"
	"io/fs"
	"slices"
	"sort"
	"strings"
	"testing"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/internal/testcrds"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file makes types and documents from schemas as definitions write them,
// which in the product is package schema's work.

// shaper makes types and the shapes of their objects.
type shaper struct {
	shapes []*jsondoc.Shape
	shape  map[*Type]uint16
}

func newShaper() *shaper { return &shaper{shapes: []*jsondoc.Shape{nil}, shape: map[*Type]uint16{}} }

func (b *shaper) build(s *apiextv1.JSONSchemaProps, root bool) *Type {
	t := &Type{Nullable: s.Nullable}
	bound := s.MaxLength
	switch {
	case s.XIntOrString:
		t.IntOrString = true
	case s.Type == "array":
		t.Kind, bound = List, s.MaxItems
		if t.Elem = b.build(s.Items.Schema, s.Items.Schema.XEmbeddedResource); t.Elem == nil {
			return nil
		}
		if s.XListType != nil {
			t.ListType = ListTypeOf(*s.XListType, s.XListMapKeys)
		}
	case s.Type == "object" && s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		t.Kind, bound = Map, s.MaxProperties
		if t.Elem = b.build(s.AdditionalProperties.Schema, false); t.Elem == nil {
			return nil
		}
	case s.Type == "object":
		t.Kind = Object
		b.fields(t, s, root)
	case s.Type == "string":
		t.Kind, t.Date = String, s.Format == "date"
		switch s.Format {
		case "byte":
			t.Kind = Bytes
		case "duration":
			t.Kind = Duration
		case "date", "date-time":
			t.Kind = Timestamp
		}
	case s.Type == "boolean":
		t.Kind = Bool
	case s.Type == "number":
		t.Kind = Double
	case s.Type == "integer":
		t.Kind = Int
	default:
		return nil
	}
	enum := 0
	for _, e := range s.Enum {
		var text string
		if json.Unmarshal(e.Raw, &text) == nil {
			enum = max(enum, len(text))
		}
	}
	t.SetSizes(bound, enum)
	return t
}

func (b *shaper) fields(t *Type, s *apiextv1.JSONSchemaProps, root bool) {
	props := map[string]apiextv1.JSONSchemaProps{}
	for name, p := range s.Properties {
		props[name] = p
	}
	if root {
		text := apiextv1.JSONSchemaProps{Type: "string"}
		props["kind"], props["apiVersion"] = text, text
		props["metadata"] = apiextv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextv1.JSONSchemaProps{"name": text, "generateName": text}}
	}
	var names []string
	for name := range props {
		names = append(names, name)
	}
	sort.Strings(names)
	kids := make([]uint16, len(names))
	for i, name := range names {
		p := props[name]
		f := Field{Name: name, Type: b.build(&p, p.XEmbeddedResource), Required: slices.Contains(s.Required, name), HasDefault: p.Default != nil, Slot: int32(i)}
		t.Fields = append(t.Fields, f)
		if f.Type != nil {
			kids[i] = b.shape[f.Type]
		}
	}
	b.shapes = append(b.shapes, jsondoc.NewShape(names, kids, true))
	b.shape[t] = uint16(len(b.shapes) - 1)
}

// document parses JSON or YAML, plain or with the shapes of t.
func (b *shaper) document(t testing.TB, text string, self *Type, shaped bool) jsondoc.Value {
	t.Helper()
	body, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	plain := &jsondoc.Doc{}
	plain.Reset([]*jsondoc.Shape{nil})
	if err := jsondoc.Parse(plain, body); err != nil {
		t.Fatal(err)
	}
	if !shaped {
		return plain.Root()
	}
	d := &jsondoc.Doc{}
	d.Reset(b.shapes)
	d.SetRoot(b.reshape(d, plain.Root(), self))
	return d.Root()
}

func (b *shaper) reshape(d *jsondoc.Doc, v jsondoc.Value, t *Type) jsondoc.Node {
	switch {
	case t == nil:
	case t.Kind == Object && v.Kind() == jsondoc.Object:
		n := d.ImportAs(v, b.shape[t])
		for _, f := range t.Fields {
			if m := v.Get(f.Name); m.Exists() {
				d.SetSlot(n, int(f.Slot), b.reshape(d, m, f.Type))
			}
		}
		return n
	case t.Kind == List && v.Kind() == jsondoc.Array:
		var items []jsondoc.Node
		for i := 0; i < v.Len(); i++ {
			items = append(items, b.reshape(d, v.Item(i), t.Elem))
		}
		return d.NewArray(items)
	case t.Kind == Map && v.Kind() == jsondoc.Object:
		var pairs []jsondoc.Node
		for name, m := range v.Members() {
			pairs = append(pairs, d.NewString(name), b.reshape(d, m, t.Elem))
		}
		return d.NewMap(pairs)
	}
	return d.Import(v)
}

func testEnv(t testing.TB) *Env {
	t.Helper()
	env, err := NewEnv(EnvOptions{Version: "1.37", Stored: true})
	if err != nil {
		t.Fatal(err)
	}
	return env
}

// fixture is a schema's types with a document of them.
type fixture struct {
	*shaper
	self  *Type
	types *TypeSet
	doc   jsondoc.Value
}

func newFixture(t testing.TB, env *Env, schema, data string) *fixture {
	t.Helper()
	var s apiextv1.JSONSchemaProps
	if err := yaml.Unmarshal([]byte(schema), &s); err != nil {
		t.Fatal(err)
	}
	f := &fixture{shaper: newShaper()}
	f.self = f.build(&s, false)
	f.types = env.Types()
	f.doc = f.document(t, data, f.self, true)
	return f
}

// route is the newest version of HTTPRoute in the Gateway API's experimental channel.
func route(t testing.TB) *apiextv1.JSONSchemaProps {
	t.Helper()
	files, err := testcrds.Open(testcrds.GatewayAPI)
	if err != nil {
		t.Skip(err)
	}
	text, err := fs.ReadFile(files, "config/crd/experimental/gateway.networking.k8s.io_httproutes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextv1.CustomResourceDefinition
	for _, part := range strings.Split(string(text), "\n---\n") {
		if err := yaml.Unmarshal([]byte(part), &crd); err == nil && len(crd.Spec.Versions) > 0 {
			return crd.Spec.Versions[0].Schema.OpenAPIV3Schema
		}
	}
	t.Fatal("no definition in the file")
	return nil
}
