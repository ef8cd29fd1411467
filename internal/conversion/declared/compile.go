package declared

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file compiles a Conversion against the schemas of its definition.

// ctxNone is for work that is bounded without a context.
var ctxNone = context.Background()

// Bounds of the estimated cost of the expressions of a direction, in cost units.
const (
	maxEachCost = 10_000_000
	maxAllCost  = 100_000_000
)

// Converter converts objects of one kind. It is immutable and safe for concurrent use.
type Converter struct {
	name, kind string // of the definition and of its objects
	group      string
	namespaced bool
	hub        *version
	spokes     []*spoke
}

// version is a version of the definition.
type version struct {
	name, apiVersion string
	schema           *structural.Schema
	program          *schema.Program
	self             *cel.Type
	language         *cel.Language // with the variable self
}

// spoke is a version besides the hub, with its compiled difference.
type spoke struct {
	*version
	index          int // in the Conversion
	steps          []step
	toHub, fromHub direction
}

// direction has what happens in one direction only.
type direction struct {
	setters  []*setter
	preserve []path
	drop     []dropped
}

// dropped is a compiled Drop.
type dropped struct {
	field     path
	onlyEmpty bool
}

// environment returns the environment of the rules in schemas, and the language of expressions.
var environment = sync.OnceValues(func() (*environments, error) {
	env, err := cel.NewEnv(cel.EnvOptions{Stored: true})
	if err != nil {
		return nil, err
	}
	language, err := cel.NewLanguage(cel.LanguageOptions{Kubernetes: cel.NewestKubernetes})
	return &environments{env, language}, err
})

// environments do not change.
type environments struct {
	rules    *cel.Env
	language *cel.Language
}

// Compile compiles c for its definition. If c has mistakes, the error is a Problems.
func Compile(def *apiextv1.CustomResourceDefinition, c *Conversion) (*Converter, error) {
	if c.Metadata.Name != def.Name {
		return nil, Problems{{"metadata.name", fmt.Sprintf("got %q, want %q, the name of the definition", c.Metadata.Name, def.Name)}}
	}
	versions := map[string]*version{}
	var names []string
	for i := range def.Spec.Versions {
		v, err := newVersion(def, &def.Spec.Versions[i])
		if err != nil {
			return nil, fmt.Errorf("definition %s, version %s: %w", def.Name, def.Spec.Versions[i].Name, err)
		}
		versions[v.name], names = v, append(names, v.name)
	}
	out := &Converter{name: def.Name, kind: def.Spec.Names.Kind, group: def.Spec.Group, namespaced: def.Spec.Scope == apiextv1.NamespaceScoped}
	comp := &compiler{}
	if out.hub = versions[c.Spec.Hub]; out.hub == nil {
		return nil, Problems{{"spec.hub", fmt.Sprintf("the definition has no version %q%s", c.Spec.Hub, didYouMean(c.Spec.Hub, names))}}
	}
	missing := slices.DeleteFunc(names, func(name string) bool { return name == c.Spec.Hub })
	for i := range c.Spec.Versions {
		s, at := &c.Spec.Versions[i], fmt.Sprintf("spec.versions[%d]", i)
		v := versions[s.Name]
		if v == nil || v == out.hub {
			comp.report(at+".name", fmt.Sprintf("got %q, want a version of the definition besides the hub%s", s.Name, didYouMean(s.Name, missing)))
			continue
		}
		missing = slices.DeleteFunc(missing, func(name string) bool { return name == s.Name })
		out.spokes = append(out.spokes, comp.spoke(s, v, out.hub, i, at))
	}
	for _, name := range missing {
		comp.report("spec.versions", fmt.Sprintf("version %q of the definition is missing: add an entry for it, which may be empty", name))
	}
	if len(comp.problems) > 0 {
		return nil, comp.problems
	}
	return out, nil
}

// newVersion compiles the schema of a version.
func newVersion(def *apiextv1.CustomResourceDefinition, v *apiextv1.CustomResourceDefinitionVersion) (*version, error) {
	if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
		return nil, errors.New("it has no schema: a declared conversion needs one")
	}
	s, errs := structural.Parse(v.Schema.OpenAPIV3Schema, nil)
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	env, err := environment()
	if err != nil {
		return nil, err
	}
	out := &version{name: v.Name, apiVersion: def.Spec.Group + "/" + v.Name, schema: s}
	if out.program, err = schema.Compile(s, schema.Options{Resource: true, Env: env.rules}); err != nil {
		return nil, err
	}
	if out.self, err = out.program.RootType(); err != nil {
		return nil, err
	}
	out.language, err = env.language.Extend([]cel.Variable{{Name: "self", Schema: out.self}}, nil)
	return out, err
}

// compiler collects the problems of a Conversion.
type compiler struct {
	problems Problems
}

// report adds a problem.
func (c *compiler) report(at, message string) {
	c.problems = append(c.problems, Problem{at, message})
}

// spoke compiles the difference between v and the hub.
func (c *compiler) spoke(s *Spoke, v, hub *version, index int, at string) *spoke {
	out := &spoke{version: v, index: index}
	b := &both{compiler: c, version: v, hub: hub}
	for i := range s.Both {
		b.parse(&s.Both[i], fmt.Sprintf("%s.both[%d]", at, i))
	}
	for i := range b.raw {
		if st := b.compile(i); st != nil {
			out.steps = append(out.steps, st)
		}
	}
	out.toHub = c.direction(&s.ToHub, v, hub, at+".toHub")
	out.fromHub = c.direction(&s.FromHub, hub, v, at+".fromHub")
	return out
}

// field parses a path and finds its schema. It returns nil after a problem.
func (c *compiler) field(text string, v *version, at string) (path, *structural.Schema) {
	p, err := parsePath(text)
	if err != nil {
		c.report(at, err.Error())
		return nil, nil
	}
	s, err := find(v.schema, p, v.name)
	if err != nil {
		c.report(at, err.Error())
		return nil, nil
	}
	return p, s
}

// direction compiles what happens on the way from one version to another one.
func (c *compiler) direction(d *Direction, from, to *version, at string) direction {
	var out direction
	total := uint64(0)
	for i := range d.Set {
		if s, cost := c.set(&d.Set[i], from, to, fmt.Sprintf("%s.set[%d]", at, i)); s != nil {
			out.setters = append(out.setters, s)
			total += min(cost, maxAllCost)
		}
	}
	if total > maxAllCost {
		c.report(at+".set", fmt.Sprintf("the expressions may cost more than %d units for one object: give the lists and texts of the schema a maxItems and maxLength, or use fewer expressions", maxAllCost))
	}
	for i, text := range d.Preserve {
		here := fmt.Sprintf("%s.preserve[%d]", at, i)
		p, _ := c.field(text, from, here)
		switch {
		case p == nil:
		case p[0].name == "metadata":
			c.report(here, "labels and annotations need not be preserved: they are copied")
		case p.lists() > 1:
			c.report(here, fmt.Sprintf("got %q, want at most one [*]: preserve the field of the outer items that has the inner list", text))
		case p.lists() == 1 && p[len(p)-1].kind == each:
			c.report(here, fmt.Sprintf("got %q, want a field of the items, or the list itself without [*]", text))
		default:
			out.preserve = append(out.preserve, p)
		}
	}
	for i, drop := range d.Drop {
		if p, _ := c.field(drop.Field, from, fmt.Sprintf("%s.drop[%d].field", at, i)); p != nil {
			out.drop = append(out.drop, dropped{p, drop.OnlyEmpty})
		}
	}
	return out
}

// set compiles a Set. It returns nil after a problem, and the estimated cost of the expressions.
func (c *compiler) set(s *Set, from, to *version, at string) (*setter, uint64) {
	before := len(c.problems)
	p, target := c.field(s.Field, to, at+".field")
	if p == nil {
		return nil, 0
	}
	if (s.Value == nil) == (s.Expression == "") {
		c.report(at, "want either a value or an expression")
		return nil, 0
	}
	out := &setter{field: p, ifAbsent: s.IfAbsent, at: at}
	out.prefix, out.rest = p.cut()
	if len(out.rest) == 0 {
		c.report(at+".field", fmt.Sprintf("got %q, want a field of the items, or the list itself without [*]", s.Field))
		return nil, 0
	}
	language, times := from.language, uint64(1)
	if out.item = out.prefix; s.Item != "" {
		out.item, _ = c.field(s.Item, from, at+".item")
		if out.item != nil && (out.item.lists() != p.lists() || out.item[len(out.item)-1].kind != each) {
			c.report(at+".item", fmt.Sprintf("got %q, want a path that ends in [*], and has as many of them as field", s.Item))
		}
	}
	if len(out.item) > 0 && out.item[len(out.item)-1].kind == each && (s.Expression != "" || s.When != "") {
		out.itemType, times = typeAt(from.self, out.item)
		if out.itemType == nil && s.Item != "" {
			c.report(at+".item", fmt.Sprintf("the type of the items of %s in %s is not known", s.Item, from.name))
		}
		if out.itemType != nil {
			var err error
			if language, err = language.Extend([]cel.Variable{{Name: "item", Schema: out.itemType}}, nil); err != nil {
				c.report(at, err.Error())
				return nil, 0
			}
		}
	}
	cost := uint64(0)
	if s.When != "" {
		out.when = c.expression(language, s.When, at+".when", times, &cost)
		if out.when != nil && out.when.Type() != "bool" && out.when.Type() != "dyn" {
			c.report(at+".when", fmt.Sprintf("got an expression of type %s, want bool", out.when.Type()))
		}
	}
	if s.Expression == "" {
		c.constant(out, s.Value, target, to, at+".value")
	} else if out.expr = c.expression(language, s.Expression, at+".expression", times, &cost); out.expr != nil && !fits(out.expr.Type(), target) {
		c.report(at+".expression", fmt.Sprintf("got an expression of type %s, want %s, the type of %s in %s", out.expr.Type(), typeName(target), p, to.name))
	}
	if len(c.problems) > before {
		return nil, 0
	}
	return out, cost
}

// constant sets the value of a setter.
func (c *compiler) constant(out *setter, value json.RawMessage, target *structural.Schema, to *version, at string) {
	v, err := parseValue(value)
	if err != nil {
		c.report(at, err.Error())
		return
	}
	if text := misfit(v, value, target); text != "" {
		c.report(at, fmt.Sprintf("%s, the type of %s in %s", text, out.field, to.name))
	}
	out.value = v
}

// expression compiles an expression, which is evaluated for up to times items, and adds its cost.
func (c *compiler) expression(language *cel.Language, text, at string, times uint64, cost *uint64) *cel.Expression {
	x, err := language.CompileExpression(text)
	if err != nil {
		c.report(at, err.Error())
		return nil
	}
	all := x.MaxCost()
	if all > maxEachCost {
		c.report(at, fmt.Sprintf("the expression may cost more than %d units: give the lists and texts that it reads a maxItems or maxLength in the schema, or simplify it", maxEachCost))
		return nil
	}
	*cost += min(all*min(times, maxAllCost), maxAllCost)
	return x
}

// typeAt returns the type of a path in documents of type t, and the greatest number of values there.
// The type is nil if expressions cannot read it.
func typeAt(t *cel.Type, p path) (*cel.Type, uint64) {
	times := uint64(1)
	for _, e := range p {
		switch {
		case t == nil:
			return nil, 1
		case e.kind != memberOf && t.Kind == cel.List:
			times = min(times, maxAllCost) * min(max(t.MaxElements, 1), maxAllCost)
			t = t.Elem
		case e.kind == memberOf && t.Kind == cel.Map:
			t = t.Elem
		case e.kind == memberOf && t.Kind == cel.Object:
			i := slices.IndexFunc(t.Fields, func(f cel.Field) bool { return f.Name == e.name })
			if i < 0 {
				return nil, 1
			}
			t = t.Fields[i].Type
		default:
			return nil, 1
		}
	}
	return t, times
}

// fits reports whether the values of an expression can have the type of a schema.
func fits(typ string, s *structural.Schema) bool {
	want := typeName(s)
	if inner, ok := strings.CutPrefix(typ, "optional_type("); ok {
		typ = strings.TrimSuffix(inner, ")")
	}
	switch {
	case want == "any" || typ == "dyn" || typ == "null_type":
		return true
	case typ == "string":
		return want == "string" || want == "integer or string"
	case typ == "int" || typ == "uint":
		return want == "integer" || want == "number" || want == "integer or string"
	case typ == "double":
		return want == "number"
	case typ == "bool":
		return want == "boolean"
	case typ == "bytes" || typ == "timestamp" || typ == "google.protobuf.Timestamp" || typ == "google.protobuf.Duration" || typ == "duration":
		return want == "string"
	case strings.HasPrefix(typ, "list("):
		return want == "array"
	}
	return want == "object" || want == "map"
}
