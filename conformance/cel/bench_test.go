package cel_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/cel-go/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"

	kcel "github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/internal/testcrds"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file measures both sides in one run: the rules of HTTPRoute on one
// object.

const routeObject = `{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: shop}, spec: {
  parentRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: edge, sectionName: https}, {group: gateway.networking.k8s.io, kind: Gateway, name: inner}],
  hostnames: [shop.example.com, www.example.com],
  rules: [
    {matches: [{path: {type: PathPrefix, value: /cart}, headers: [{type: Exact, name: x-version, value: two}], method: GET}, {path: {type: Exact, value: /checkout}}],
     filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-shop, value: "1"}]}}],
     backendRefs: [{group: "", kind: Service, name: cart, port: 8080, weight: 9}, {group: "", kind: Service, name: cart-canary, port: 8080, weight: 1}]},
    {matches: [{path: {type: PathPrefix, value: /}}], backendRefs: [{group: "", kind: Service, name: web, port: 80, weight: 1}]}]}}`

// pair is a rule on both sides with a place in the object.
type pair struct {
	up   cel.Program
	node *schema.Structural
	data any
	our  *kcel.Program
	self jsondoc.Value
}

func routePairs(b testing.TB) []pair {
	var out []pair
	definitions(b, testcrds.Families()[1], func(name string, s *schema.Structural) {
		if name != "HTTPRoute/v1" {
			return
		}
		var walk func(s *schema.Structural, v any, root bool)
		walk = func(s *schema.Structural, v any, root bool) {
			if len(s.XValidations) > 0 {
				up, our := newUpstream(b, s, root), newSubject(b, s, root)
				for _, rule := range s.XValidations {
					p, _ := our.compile(rule.Rule)
					if p.UsesOldSelf() {
						continue
					}
					prog, _ := up.compile(rule.Rule)
					out = append(out, pair{prog, s, v, p, our.documents(b, v)[1]})
				}
			}
			switch v := v.(type) {
			case map[string]any:
				for name, m := range v {
					if p, ok := s.Properties[name]; ok {
						walk(&p, m, false)
					}
				}
			case []any:
				for _, item := range v {
					walk(s.Items, item, false)
				}
			}
		}
		walk(s, parseData(b, routeObject), true)
	})
	return out
}

func BenchmarkRouteRules(b *testing.B) {
	pairs := routePairs(b)
	ctx := context.Background()
	b.Run("keelson", func(b *testing.B) {
		var a kcel.Activation
		cost := uint64(0)
		for b.Loop() {
			cost = 0
			for i := range pairs {
				a.Self = pairs[i].self
				_, c, _ := pairs[i].our.Eval(ctx, &a, perCallLimit)
				cost += c
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(cost), "ns/unit")
	})
	b.Run("upstream", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for i := range pairs {
				p := &pairs[i]
				_, _, _ = p.up.ContextEval(ctx, map[string]any{"self": schemacel.UnstructuredToVal(p.data, p.node)})
			}
		}
	})
	b.Run("unmarshal", func(b *testing.B) {
		text, err := json.Marshal(parseData(b, routeObject))
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			var v map[string]any
			if err := json.Unmarshal(text, &v); err != nil {
				b.Fatal(err)
			}
		}
	})
}
