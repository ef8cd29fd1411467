package schema

import (
	"context"
	"encoding/json"
	"testing"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/internal/poison"
	"github.com/keelson-io/keelson/internal/testcrds"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file holds the budgets: what one HTTPRoute may cost.

// route is a typical HTTPRoute as a client sends it.
const route = `{"apiVersion":"gateway.networking.k8s.io/v1","kind":"HTTPRoute","metadata":{"name":"http-filter-rewrite","namespace":"default","labels":{"app":"shop","tier":"web"},"annotations":{"example.com/owner":"team-a"}},"spec":{"hostnames":["rewrite.example","www.rewrite.example"],"parentRefs":[{"name":"example-gateway","namespace":"infra","sectionName":"https"}],"rules":[{"matches":[{"path":{"type":"PathPrefix","value":"/cart"},"method":"POST","headers":[{"name":"x-version","value":"2"}]}],"filters":[{"type":"URLRewrite","urlRewrite":{"hostname":"elsewhere.example","path":{"type":"ReplacePrefixMatch","replacePrefixMatch":"/fennel"}}},{"type":"RequestHeaderModifier","requestHeaderModifier":{"set":[{"name":"x-env","value":"prod"}]}}],"backendRefs":[{"name":"cart-v1","port":8080,"weight":90},{"name":"cart-v2","port":8080,"weight":10}]},{"backendRefs":[{"name":"web","port":80}]}]}}`

func httpRoute(t testing.TB) *Program {
	t.Helper()
	return compileCRD(t, "httproutes.gateway.networking.k8s.io", "v1")
}

func compileCRD(t testing.TB, name, version string) *Program {
	t.Helper()
	text, err := testcrds.CRD(testcrds.Families()[0], name)
	if err != nil {
		t.Skipf("definition is not to be had: %v", err)
	}
	var crd apiextv1.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	for _, v := range crd.Spec.Versions {
		if v.Name == version {
			return compile(t, v.Schema.OpenAPIV3Schema, Options{Resource: true})
		}
	}
	t.Fatalf("%s has no version %s", name, version)
	return nil
}

// compile compiles a schema in its wire form.
func compile(t testing.TB, s *apiextv1.JSONSchemaProps, o Options) *Program {
	t.Helper()
	parsed, errs := structural.Parse(s, field.NewPath("schema"))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if o.Env == nil {
		env, err := cel.NewEnv(cel.EnvOptions{Stored: true})
		if err != nil {
			t.Fatal(err)
		}
		o.Env = env
	}
	p, err := Compile(parsed, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAllocations(t *testing.T) {
	if poison.On {
		t.Skip("released documents are not pooled in this mode")
	}
	p, src := httpRoute(t), []byte(route)
	ctx := context.Background()
	run := func() {
		d := jsondoc.Get()
		if _, err := p.Decode(d, src); err != nil {
			t.Fatal(err)
		}
		if r := p.Validate(ctx, d, nil, Whole); len(r.Errors) > 0 {
			t.Fatal(r.Errors.ToAggregate())
		}
		d.Release()
	}
	run()
	if got, most := testing.AllocsPerRun(200, run), 0.0; got > most {
		t.Errorf("decoding and validating a route: got %v allocations, want at most %v", got, most)
	}
}

func BenchmarkHTTPRoute(b *testing.B) {
	p, src := httpRoute(b), []byte(route)
	ctx := context.Background()
	d := jsondoc.Get()
	defer d.Release()
	decode := func() {
		if _, err := p.Decode(d, src); err != nil {
			b.Fatal(err)
		}
	}
	decode()
	p.code.Load().compileRules()
	b.Run("unmarshal into a map", func(b *testing.B) {
		b.SetBytes(int64(len(src)))
		b.ReportAllocs()
		for b.Loop() {
			var m map[string]any
			if err := json.Unmarshal(src, &m); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(src)))
		b.ReportAllocs()
		for b.Loop() {
			decode()
		}
	})
	b.Run("values", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w := newWork(context.Background(), maxSteps)
			if !p.code.Load().root.ok(d, &w, d.Root().Node) || !p.code.Load().root.listsOK(d, d.Root().Node) {
				b.Fatal("invalid")
			}
		}
	})
	b.Run("rules", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, ok := p.code.Load().rulesOK(ctx, d, nil, false, Kept{}); !ok {
				b.Fatal("invalid")
			}
		}
	})
	b.Run("all", func(b *testing.B) {
		b.SetBytes(int64(len(src)))
		b.ReportAllocs()
		for b.Loop() {
			decode()
			if r := p.Validate(ctx, d, nil, Whole); len(r.Errors) > 0 {
				b.Fatal(r.Errors.ToAggregate())
			}
		}
	})
}

func BenchmarkCompile(b *testing.B) {
	text, err := testcrds.CRD(testcrds.Families()[0], "httproutes.gateway.networking.k8s.io")
	if err != nil {
		b.Skip(err)
	}
	var crd apiextv1.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &crd); err != nil {
		b.Fatal(err)
	}
	env, err := cel.NewEnv(cel.EnvOptions{Stored: true})
	if err != nil {
		b.Fatal(err)
	}
	for _, rules := range []bool{false, true} {
		name := "schema"
		if rules {
			name = "schema and rules"
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p := compile(b, crd.Spec.Versions[0].Schema.OpenAPIV3Schema, Options{Resource: true, Env: env})
				if rules {
					p.code.Load().compileRules()
				}
			}
		})
	}
}
