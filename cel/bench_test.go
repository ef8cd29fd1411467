package cel

import (
	"context"
	"runtime"
	"strings"
	"testing"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file measures the rules of HTTPRoute on one object.

const routeObject = `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop, namespace: default}
spec:
  parentRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: edge, sectionName: https}, {group: gateway.networking.k8s.io, kind: Gateway, name: inner}]
  hostnames: [shop.example.com, www.example.com]
  rules:
  - matches:
    - path: {type: PathPrefix, value: /cart}
      headers: [{type: Exact, name: x-version, value: two}]
      method: GET
    - path: {type: Exact, value: /checkout}
    filters:
    - type: RequestHeaderModifier
      requestHeaderModifier: {set: [{name: x-shop, value: "1"}]}
    backendRefs:
    - {group: "", kind: Service, name: cart, port: 8080, weight: 9}
    - {group: "", kind: Service, name: cart-canary, port: 8080, weight: 1}
  - matches:
    - path: {type: PathPrefix, value: /}
    backendRefs: [{group: "", kind: Service, name: web, port: 80, weight: 1}]
`

// task is a rule with a place in the object where it runs.
type task struct {
	p    *Program
	self jsondoc.Value
}

// routeTasks are all rules of HTTPRoute with all places where they run.
func routeTasks(t testing.TB) []task {
	schema := route(t)
	env := testEnv(t)
	b := newShaper()
	root := b.build(schema, true)
	types := env.Types()
	var out []task
	var walk func(s *apiextv1.JSONSchemaProps, self *Type, v jsondoc.Value)
	walk = func(s *apiextv1.JSONSchemaProps, self *Type, v jsondoc.Value) {
		if self == nil || !v.Exists() {
			return
		}
		for _, rule := range s.XValidations {
			p, err := types.Compile(rule.Rule, self, CompileOptions{})
			if err != nil {
				t.Fatal(rule.Rule, err)
			}
			if !p.UsesOldSelf() {
				out = append(out, task{p, v})
			}
		}
		switch self.Kind {
		case Object:
			for _, f := range self.Fields {
				if prop, ok := s.Properties[f.Name]; ok {
					walk(&prop, f.Type, v.Get(f.Name))
				}
			}
		case List:
			for i := 0; i < v.Len(); i++ {
				walk(s.Items.Schema, self.Elem, v.Item(i))
			}
		}
	}
	walk(schema, root, b.document(t, routeObject, root, true))
	return out
}

func BenchmarkRoute(b *testing.B) {
	tasks := routeTasks(b)
	var a Activation
	ctx := context.Background()
	var cost uint64
	b.ReportAllocs()
	for b.Loop() {
		cost = 0
		for i := range tasks {
			a.Self = tasks[i].self
			v, c, err := tasks[i].p.Eval(ctx, &a, 1_000_000)
			if err != nil || !v.Bool() {
				b.Fatal(tasks[i].p, v, err)
			}
			cost += c
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(cost), "ns/unit")
	b.ReportMetric(float64(cost), "units")
	b.ReportMetric(float64(len(tasks)), "rules")
}

// BenchmarkQuadratic is a rule whose cost grows with the square of the input.
func BenchmarkQuadratic(b *testing.B) {
	env := testEnv(b)
	text := "l: ["
	for i := range 60 {
		text += "{k: key-" + string(rune('a'+i%26)) + string(rune('a'+i/26)) + ", v: 1},"
	}
	f := newFixture(b, env, `{type: object, properties: {l: {type: array, items: {type: object, properties: {k: {type: string}, v: {type: integer}}}}}}`, text+"]")
	p, err := f.types.Compile("self.l.all(x, self.l.exists_one(y, x.k == y.k && x.v == y.v))", f.self, CompileOptions{})
	if err != nil {
		b.Fatal(err)
	}
	a := Activation{Self: f.doc}
	var cost uint64
	b.ReportAllocs()
	for b.Loop() {
		_, cost, err = p.Eval(context.Background(), &a, 1_000_000)
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(cost), "ns/unit")
}

// BenchmarkCompile compiles every rule of HTTPRoute.
func BenchmarkCompile(b *testing.B) {
	schema := route(b)
	env := testEnv(b)
	root := newShaper().build(schema, true)
	rules := 0
	b.ReportAllocs()
	for b.Loop() {
		env.shared = newShared() // programs that nobody holds may still be found
		types := env.Types()
		rules = 0
		var walk func(s *apiextv1.JSONSchemaProps, self *Type)
		walk = func(s *apiextv1.JSONSchemaProps, self *Type) {
			if self == nil {
				return
			}
			for _, rule := range s.XValidations {
				if _, err := types.Compile(rule.Rule, self, CompileOptions{}); err != nil {
					b.Fatal(err)
				}
				rules++
			}
			switch self.Kind {
			case Object:
				for _, f := range self.Fields {
					if prop, ok := s.Properties[f.Name]; ok {
						walk(&prop, f.Type)
					}
				}
			case List:
				walk(s.Items.Schema, self.Elem)
			}
		}
		walk(schema, root)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(rules), "µs/rule")
	b.ReportMetric(float64(rules), "rules")
}

// TestMemoryKept checks that a compiled rule keeps about a kilobyte: closures,
// not syntax trees.
func TestMemoryKept(t *testing.T) {
	env := testEnv(t)
	f := newFixture(t, env, "{type: object, properties: {a: {type: string}, l: {type: array, items: {type: integer}}}}", "{}")
	kept := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const n = 200
	programs := make([]*Program, 0, n)
	compile := func() {
		p, err := f.types.Compile("has(self.a) && self.a != 'x' && self.l.all(v, v > 0 && v < 10) || self.a.startsWith('y')", f.self, CompileOptions{})
		if err != nil {
			t.Fatal(err)
		}
		programs = append(programs, p)
		env.shared = newShared()
	}
	compile()
	before := kept()
	for range n - 1 {
		compile()
	}
	if each := (kept() - before) / (n - 1); each > 2500 {
		t.Errorf("a rule keeps %d bytes, want about 1000", each)
	} else {
		t.Logf("a rule keeps %d bytes", each)
	}
	runtime.KeepAlive(programs)
}

// BenchmarkExplained compares an evaluation whose parts are recorded with the usual one, over a
// language, and for rules, which are also compiled to diagrams.
func BenchmarkExplained(b *testing.B) {
	f := newFixture(b, testEnv(b), strings.ReplaceAll(listSchema, "\t", " "), listData)
	a := Activation{Self: f.doc}
	ctx := context.Background()
	l, err := NewLanguage(LanguageOptions{Kubernetes: NewestKubernetes, Variables: []Variable{{Name: "self", Schema: f.self}}})
	if err != nil {
		b.Fatal(err)
	}
	vars := Vars{"self": FromDoc(f.doc, f.self)}
	for _, rule := range []string{
		"self.num == 5 && self.t == 'text' && self.f > 1.0 && self.b",
		"self.l.all(x, x.v > 0) && self.l.exists(x, x.k == 'c')",
		"self.l.all(x, self.l.exists_one(y, x.k == y.k))",
		"self.t.startsWith('te') && self.t.matches('^[a-z]+$') && self.t.contains('ex')",
		"self.l.map(x, x.v).sum() > 3 && self.s.join(',').size() < 100",
	} {
		p, err := f.types.Compile(rule, f.self, CompileOptions{})
		if err != nil {
			b.Fatal(err)
		}
		e, err := testEnv(b).Explainer(p)
		if err != nil {
			b.Fatal(err)
		}
		x, err := l.CompileExpression(rule)
		if err != nil {
			b.Fatal(err)
		}
		explainer, err := x.Explainer()
		if err != nil {
			b.Fatal(err)
		}
		b.Run(rule+"/rule", func(b *testing.B) {
			for b.Loop() {
				_, _, _ = p.Eval(ctx, &a, 1_000_000)
			}
		})
		b.Run(rule+"/rule explained", func(b *testing.B) {
			for b.Loop() {
				e.EvalRule(ctx, &a, 1_000_000).Release()
			}
		})
		b.Run(rule+"/expression", func(b *testing.B) {
			for b.Loop() {
				_, _, _ = x.Eval(ctx, vars, 1_000_000)
			}
		})
		b.Run(rule+"/expression explained", func(b *testing.B) {
			for b.Loop() {
				explainer.Eval(ctx, vars, 1_000_000).Release()
			}
		})
	}
}
