package cel_test

import (
	"context"
	"encoding/json"
	"regexp"
	"sort"
	"strings"
	"sync"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/utils/ptr"

	kcel "github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file runs expressions with package cel: over plain documents and over
// shaped ones, whose outcomes must agree.

// builder makes types and shapes from a structural schema.
type builder struct {
	shapes []*jsondoc.Shape
	shape  map[*kcel.Type]uint16
}

func newBuilder() *builder {
	return &builder{shapes: []*jsondoc.Shape{nil}, shape: map[*kcel.Type]uint16{}}
}

func (b *builder) build(s *schema.Structural, root bool) *kcel.Type {
	t := b.kind(s, root)
	if t == nil {
		return nil
	}
	t.Nullable, t.Preserve = s.Nullable, s.XPreserveUnknownFields
	var max *int64
	enum := 0
	if v := s.ValueValidation; v != nil {
		switch t.Kind {
		case kcel.String, kcel.Bytes, kcel.Dyn:
			max = v.MaxLength
		case kcel.List:
			max = v.MaxItems
		case kcel.Map:
			max = v.MaxProperties
		}
		for _, e := range v.Enum {
			if text, ok := e.Object.(string); ok && len(text) > enum {
				enum = len(text)
			}
		}
	}
	t.SetSizes(max, enum)
	return t
}

func (b *builder) kind(s *schema.Structural, root bool) *kcel.Type {
	if s.XIntOrString {
		return &kcel.Type{Kind: kcel.Dyn, IntOrString: true}
	}
	format := ""
	if s.ValueValidation != nil {
		format = s.ValueValidation.Format
	}
	switch s.Type {
	case "array":
		elem := b.build(s.Items, s.Items.XEmbeddedResource)
		if elem == nil {
			return nil
		}
		t := &kcel.Type{Kind: kcel.List, Elem: elem}
		if s.XListType != nil {
			t.ListType = kcel.ListTypeOf(*s.XListType, s.XListMapKeys)
		}
		return t
	case "object":
		if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
			elem := b.build(s.AdditionalProperties.Structural, s.AdditionalProperties.Structural.XEmbeddedResource)
			if elem == nil {
				return nil
			}
			return &kcel.Type{Kind: kcel.Map, Elem: elem}
		}
		return b.object(s, root)
	case "string":
		switch format {
		case "byte":
			return &kcel.Type{Kind: kcel.Bytes}
		case "duration":
			return &kcel.Type{Kind: kcel.Duration}
		case "date", "date-time":
			return &kcel.Type{Kind: kcel.Timestamp, Date: format == "date"}
		}
		return &kcel.Type{Kind: kcel.String}
	case "boolean":
		return &kcel.Type{Kind: kcel.Bool}
	case "number":
		return &kcel.Type{Kind: kcel.Double}
	case "integer":
		return &kcel.Type{Kind: kcel.Int}
	}
	return nil
}

func (b *builder) object(s *schema.Structural, root bool) *kcel.Type {
	props := map[string]*schema.Structural{}
	for name := range s.Properties {
		p := s.Properties[name]
		props[name] = &p
	}
	if root {
		text := &schema.Structural{Generic: schema.Generic{Type: "string"}}
		props["apiVersion"], props["kind"] = text, text
		name, prefix := *text, *text
		name.ValueValidation = &schema.ValueValidation{MaxLength: ptr.To[int64](253)}
		prefix.ValueValidation = &schema.ValueValidation{MaxLength: ptr.To[int64](252)}
		props["metadata"] = &schema.Structural{Generic: schema.Generic{Type: "object"},
			Properties: map[string]schema.Structural{"name": name, "generateName": prefix}}
	}
	required := map[string]bool{}
	if s.ValueValidation != nil {
		for _, name := range s.ValueValidation.Required {
			required[name] = true
		}
	}
	names := make([]string, 0, len(props))
	for name := range props {
		names = append(names, name)
	}
	sort.Strings(names)
	t := &kcel.Type{Kind: kcel.Object}
	kids := make([]uint16, len(names))
	for i, name := range names {
		p := props[name]
		f := kcel.Field{Name: name, Type: b.build(p, p.XEmbeddedResource), Required: required[name], HasDefault: p.Default.Object != nil, Slot: int32(i)}
		t.Fields = append(t.Fields, f)
		kids[i] = b.shape[shapeOwner(f.Type)]
	}
	b.shapes = append(b.shapes, jsondoc.NewShape(names, kids, true))
	b.shape[t] = uint16(len(b.shapes) - 1)
	return t
}

// shapeOwner is the type whose shape the objects in a slot have.
func shapeOwner(t *kcel.Type) *kcel.Type {
	if t != nil && t.Kind == kcel.Object {
		return t
	}
	return nil
}

// subject is a schema node with our types.
type subject struct {
	b     *builder
	self  *kcel.Type
	types *kcel.TypeSet
}

var sharedEnv = sync.OnceValues(func() (*kcel.Env, error) {
	return kcel.NewEnv(kcel.EnvOptions{Version: kcel.NewestKubernetes, Stored: true})
})

func newSubject(t testing.TB, s *schema.Structural, root bool) *subject {
	env, err := sharedEnv()
	if err != nil {
		t.Fatal(err)
	}
	b := newBuilder()
	self := b.build(s, root)
	if self == nil {
		return nil
	}
	return &subject{b, self, env.Types()}
}

// documents are v as a plain and as a shaped document.
func (s *subject) documents(t testing.TB, v any) [2]jsondoc.Value {
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	plain := &jsondoc.Doc{}
	plain.Reset([]*jsondoc.Shape{nil})
	if err := jsondoc.Parse(plain, text); err != nil {
		t.Fatal(err)
	}
	shaped := &jsondoc.Doc{}
	shaped.Reset(s.b.shapes)
	n := s.reshape(shaped, plain.Root(), s.self)
	shaped.SetRoot(n)
	return [2]jsondoc.Value{plain.Root(), shaped.Root()}
}

// reshape copies v with the shapes of type t.
func (s *subject) reshape(d *jsondoc.Doc, v jsondoc.Value, t *kcel.Type) jsondoc.Node {
	switch {
	case t == nil:
	case t.Kind == kcel.Object && v.Kind() == jsondoc.Object:
		n := d.ImportAs(v, s.b.shape[t])
		for _, f := range t.Fields {
			if m := v.Get(f.Name); m.Exists() {
				d.SetSlot(n, int(f.Slot), s.reshape(d, m, f.Type))
			}
		}
		return n
	case t.Kind == kcel.List && v.Kind() == jsondoc.Array:
		var items []jsondoc.Node
		for i := 0; i < v.Len(); i++ {
			items = append(items, s.reshape(d, v.Item(i), t.Elem))
		}
		return d.NewArray(items)
	case t.Kind == kcel.Map && v.Kind() == jsondoc.Object:
		var pairs []jsondoc.Node
		for name, m := range v.Members() {
			pairs = append(pairs, d.NewString(name), s.reshape(d, m, t.Elem))
		}
		return d.NewMap(pairs)
	}
	return d.Import(v)
}

func (s *subject) compile(expr string) (*kcel.Program, outcome) {
	p, err := s.types.Compile(expr, s.self, kcel.CompileOptions{Want: kcel.AnyResult})
	if err != nil {
		return nil, outcome{compile: err.Error()}
	}
	return p, outcome{estimate: p.MaxCost()}
}

func (s *subject) run(t testing.TB, expr string, self, old any) outcome {
	p, o := s.compile(expr)
	if o.compile != "" {
		return o
	}
	return s.eval(t, p, o, self, old)
}

func (s *subject) eval(t testing.TB, p *kcel.Program, o outcome, self, old any) outcome {
	var got [2]outcome
	docs, olds := s.documents(t, self), [2]jsondoc.Value{}
	if old != nil {
		olds = s.documents(t, old)
	}
	for i := range docs {
		a := kcel.Activation{Self: docs[i], OldSelf: olds[i], HasOldSelf: old != nil}
		v, cost, err := p.Eval(context.Background(), &a, perCallLimit)
		got[i] = o
		got[i].cost = cost
		if err != nil {
			got[i].err = err.Error()
			continue
		}
		got[i].value = show(kcel.ToRef(v))
	}
	if got[0] != got[1] {
		t.Errorf("%s: plain and shaped documents differ:\n\t%v\n\t%v", p.Source(), got[0], got[1])
	}
	return got[0]
}

// typeNumbers are the numbers of the types of roots, which upstream takes from the clock.
var typeNumbers = regexp.MustCompile(`\bselfType[0-9]+\b`)
var typeVariables = regexp.MustCompile(`\b_var[0-9]+\b`)

// normal replaces what cannot be the same: the numbers of the types of roots, and those of type
// variables, which say how often the checker tried.
func normal(o outcome) outcome {
	o.compile = typeNumbers.ReplaceAllString(o.compile, "selfType")
	o.compile = typeVariables.ReplaceAllString(o.compile, "_var")
	o.compile = strings.ReplaceAll(o.compile, "\n", "\\n")
	return o
}
