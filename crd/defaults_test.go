package crd

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file holds the two ways to check a default value against each other: by the program of the whole schema, which only knows what is
// right, and by a schema of its own, which says what is wrong.

// parsedAndProgram parses a schema, and compiles it as definitions are.
func parsedAndProgram(t *testing.T, wire *apiextv1.JSONSchemaProps) (*structural.Schema, *schema.Program) {
	t.Helper()
	s, errs := structural.Parse(wire, nil)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return s, new(Compiler).programOf(wire, s)
}

// sameDefaults fails unless defaults are judged alike with a program and without, and returns the errors.
func sameDefaults(t *testing.T, s *structural.Schema, p *schema.Program) field.ErrorList {
	t.Helper()
	path := field.NewPath("schema")
	with, without := validateDefaults(s, p, path, true), validateDefaults(s, nil, path, true)
	if got, want := fmt.Sprint(with), fmt.Sprint(without); got != want {
		t.Errorf("got %s, want as without a program %s", got, want)
	}
	return without
}

func TestDefaultsByTheProgram(t *testing.T) {
	for name, c := range map[string]struct {
		x     string // the schema of a member x
		holds bool   // the program of the whole schema suffices
		wrong bool
	}{
		"text":                     {`{type: string, default: a}`, true, false},
		"text for a number":        {`{type: integer, default: a}`, false, true},
		"too large":                {`{type: integer, maximum: 3, default: 4}`, false, true},
		"object":                   {`{type: object, properties: {a: {type: string}}, default: {a: b}}`, true, false},
		"unknown member":           {`{type: object, properties: {a: {type: string}}, default: {c: b}}`, false, true},
		"null within":              {`{type: object, properties: {a: {type: string}}, default: {a: null}}`, false, true},
		"null with a default":      {`{type: object, properties: {a: {type: string, default: b}}, default: {a: null}}`, false, true},
		"required has a default":   {`{type: object, required: [a], properties: {a: {type: string, default: b}}, default: {}}`, false, true},
		"rule":                     {`{type: integer, default: 3, x-kubernetes-validations: [{rule: self > 2}]}`, true, false},
		"rule that does not hold":  {`{type: integer, default: 2, x-kubernetes-validations: [{rule: self > 2}]}`, false, true},
		"rule of a default within": {`{type: object, properties: {a: {type: string, default: b}}, default: {}, x-kubernetes-validations: [{rule: has(self.a)}]}`, false, true},
		"rule about a change":      {`{type: integer, default: 2, x-kubernetes-validations: [{rule: self == oldSelf}]}`, true, false},
		"rule against no change":   {`{type: integer, default: 2, x-kubernetes-validations: [{rule: self != oldSelf}]}`, false, true},
		"rule of an item":          {`{type: array, items: {type: integer, x-kubernetes-validations: [{rule: self > 2}]}, default: [3, 2]}`, false, true},
		"another rule is wrong":    {`{type: object, default: {a: b}, properties: {a: {type: string}, c: {type: string, x-kubernetes-validations: [{rule: nonsense}]}}}`, true, false},
		"unknown format":           {`{type: string, format: poem, default: a}`, false, false},
		"integer or text":          {`{x-kubernetes-int-or-string: true, default: 1}`, true, false},
		"neither":                  {`{x-kubernetes-int-or-string: true, default: true}`, false, false},
		"items alike":              {`{type: array, x-kubernetes-list-type: set, items: {type: integer}, default: [1, 1]}`, false, false},
		"resource":                 {`{type: object, x-kubernetes-embedded-resource: true, properties: {a: {type: string}}, default: {apiVersion: v1, kind: X, a: b}}`, false, false},
		"resource without a kind":  {`{type: object, x-kubernetes-embedded-resource: true, properties: {a: {type: string}}, default: {a: b}}`, false, true},
		"anything":                 {`{type: object, x-kubernetes-preserve-unknown-fields: true, default: {a: [b]}}`, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			var wire apiextv1.JSONSchemaProps
			if err := yaml.UnmarshalStrict([]byte(`{type: object, properties: {x: `+c.x+`}}`), &wire); err != nil {
				t.Fatal(err)
			}
			s, p := parsedAndProgram(t, &wire)
			if errs := sameDefaults(t, s, p); (len(errs) > 0) != c.wrong {
				t.Errorf("got %v, want errors: %v", errs, c.wrong)
			}
			steps, budget := int64(1000), int64(1000)
			eachDefault(s, p.Whole(), "", func(path string, s *structural.Schema, part schema.Part) {
				if got := part.Holds(context.Background(), s.Default, &steps, &budget); got != c.holds && path == ".x" {
					t.Errorf("the program of the whole: got %v, want %v", got, c.holds)
				}
			})
		})
	}
}

// TestRealDefaultsByTheProgram checks the defaults of published definitions, and that the program suffices for them.
func TestRealDefaultsByTheProgram(t *testing.T) {
	for _, text := range realDefinitions(t, "gateway-standard") {
		var crd apiextv1.CustomResourceDefinition
		if err := json.Unmarshal(text, &crd); err != nil {
			t.Fatal(err)
		}
		for _, v := range crd.Spec.Versions {
			s, p := parsedAndProgram(t, v.Schema.OpenAPIV3Schema)
			if errs := sameDefaults(t, s, p); len(errs) > 0 {
				t.Errorf("%s: %v", crd.Name, errs)
			}
			eachDefault(s, p.Whole(), "", func(path string, s *structural.Schema, part schema.Part) {
				steps, budget := int64(schema.DefaultSteps), int64(schema.DefaultBudget)
				if !part.Holds(context.Background(), s.Default, &steps, &budget) {
					t.Errorf("%s: %s: %s is not found right by the program of the whole", crd.Name, path, s.Default)
				}
			})
		}
	}
}

func eachDefault(s *structural.Schema, part schema.Part, path string, fn func(string, *structural.Schema, schema.Part)) {
	if s == nil {
		return
	}
	if s.Default != nil {
		fn(path, s, part)
	}
	eachDefault(s.Items, part.Item(), path+"[]", fn)
	for _, name := range s.Names {
		eachDefault(s.Properties[name], part.Member(name), path+"."+name, fn)
	}
}
