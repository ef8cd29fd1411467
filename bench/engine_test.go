// This file measures the engine alone: what both sides do to one object between its bytes and the store.

package main

import (
	"context"
	"encoding/json"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	upstreamcel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// stored is a route as an update would send it back: with the metadata that the server filled in.
func stored(tb testing.TB) []byte {
	var o map[string]any
	if err := json.Unmarshal(route("route-000001"), &o); err != nil {
		tb.Fatal(err)
	}
	m := o["metadata"].(map[string]any)
	m["namespace"], m["uid"], m["generation"] = "default", "0b1c2d3e-4f50-4a6b-8c7d-9e0f1a2b3c4d", 1
	m["creationTimestamp"], m["resourceVersion"] = "2026-01-02T03:04:05Z", "7"
	b, err := json.Marshal(o)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func definition(tb testing.TB) *apiextv1.CustomResourceDefinition {
	b, err := httpRouteCRD()
	if err != nil {
		tb.Fatal(err)
	}
	crd := new(apiextv1.CustomResourceDefinition)
	if err := json.Unmarshal(b, crd); err != nil {
		tb.Fatal(err)
	}
	kind.DefaultCRD(crd)
	return crd
}

// upstreamEngine is what upstream's handler holds for one version of a kind.
type upstreamEngine struct {
	structural *structuralschema.Structural
	values     validation.SchemaValidator
	rules      *upstreamcel.Validator
}

func newUpstreamEngine(tb testing.TB, props *apiextv1.JSONSchemaProps) *upstreamEngine {
	internal := new(apiextensions.JSONSchemaProps)
	if err := apiextv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props, internal, nil); err != nil {
		tb.Fatal(err)
	}
	e := new(upstreamEngine)
	var err error
	if e.structural, err = structuralschema.NewStructural(internal); err != nil {
		tb.Fatal(err)
	}
	if err := defaulting.PruneDefaults(e.structural); err != nil {
		tb.Fatal(err)
	}
	if e.values, _, err = validation.NewSchemaValidator(internal); err != nil {
		tb.Fatal(err)
	}
	e.rules = upstreamcel.NewValidator(e.structural, true, celconfig.PerCallLimit)
	return e
}

func (e *upstreamEngine) check(b []byte) field.ErrorList {
	var o map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(b, &o); err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	pruning.PruneWithOptions(o, e.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	defaulting.PruneNonNullableNullsWithoutDefaults(o, e.structural)
	defaulting.Default(o, e.structural)
	errs := validation.ValidateCustomResource(nil, o, e.values)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, e.structural, o)...)
	more, _ := e.rules.Validate(context.Background(), nil, e.structural, o, nil, celconfig.RuntimeCELCostBudget)
	return append(errs, more...)
}

// BenchmarkObject is decode, prune, default, validate and all rules, for one route.
func BenchmarkObject(b *testing.B) {
	crd, body := definition(b), stored(b)
	b.Run("upstream", func(b *testing.B) {
		e := newUpstreamEngine(b, crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
		if errs := e.check(body); len(errs) > 0 {
			b.Fatal(errs)
		}
		b.ReportAllocs()
		for b.Loop() {
			e.check(body)
		}
	})
	b.Run("keelson", func(b *testing.B) {
		k, err := kind.Compile(crd)
		if err != nil {
			b.Fatal(err)
		}
		v, d := k.Version("v1"), new(doc.Doc)
		check := func() field.ErrorList {
			if _, err := v.Decode(d, body); err != nil {
				return field.ErrorList{field.InternalError(nil, err)}
			}
			return v.Validate(context.Background(), d, nil, schema.Whole).Errors
		}
		if errs := check(); len(errs) > 0 {
			b.Fatal(errs)
		}
		b.ReportAllocs()
		for b.Loop() {
			check()
		}
	})
	b.Run("json.Unmarshal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var o map[string]any
			if err := json.Unmarshal(body, &o); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkCompile makes one definition ready to serve: both versions, with all rules.
func BenchmarkCompile(b *testing.B) {
	crd, body := definition(b), stored(b)
	b.Run("upstream", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for i := range crd.Spec.Versions {
				newUpstreamEngine(b, crd.Spec.Versions[i].Schema.OpenAPIV3Schema)
			}
		}
	})
	b.Run("keelson", func(b *testing.B) {
		b.ReportAllocs()
		d := new(doc.Doc)
		for b.Loop() {
			k, err := kind.Compile(crd)
			if err != nil {
				b.Fatal(err)
			}
			for _, v := range k.All { // rules are compiled when they are first needed
				if _, err := v.Decode(d, body); err != nil {
					b.Fatal(err)
				}
				v.Validate(context.Background(), d, nil, schema.Whole)
			}
		}
	})
}
