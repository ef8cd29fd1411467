package cel_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"

	kcel "github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/internal/testcrds"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file measures rules of published definitions, one by one, on the object
// of a few random ones on which the rule holds and costs most. Three sides take
// turns in one run, and the least time of each counts: this repository, a bare
// cel-go program (no cost, plain Go data), and a rule evaluation as
// kube-apiserver does it (cost, limit, conversion).

// sampled says how many rules of a family are measured.
var sampled = []struct {
	family testcrds.Family
	rules  int
}{
	{testcrds.Families()[0], 6},
	{testcrds.Families()[1], 6},
	{testcrds.Families()[2], 1},
	{testcrds.Families()[3], 4},
	{testcrds.Family{Name: "karpenter", Module: testcrds.Module{Path: "sigs.k8s.io/karpenter", Version: "v1.15.0"}, CRDs: "pkg/apis/crds"}, 6},
	{testcrds.Family{Name: "cluster-api", Module: testcrds.Module{Path: "sigs.k8s.io/cluster-api", Version: "v1.14.2"}, CRDs: "core/config/crd/bases"}, 4},
}

// sample is a rule with the data that it is measured on.
type sample struct {
	rule     string
	node     *schema.Structural
	data     any
	our      *kcel.Program
	self     jsondoc.Value
	bare, up cel.Program
	cost     uint64
}

// samples are count rules of a family, evenly spread over the different ones.
func samples(b testing.TB, f testcrds.Family, count int) []sample {
	type place struct {
		rule string
		node *schema.Structural
		root bool
	}
	var all []place
	seen := map[string]bool{}
	g := &generator{rand: rand.New(rand.NewPCG(1, 2))}
	definitions(b, f, func(_ string, s *schema.Structural) {
		g.words = append(g.words, words(s)...)
		visit(s, "", true, func(_ string, node *schema.Structural, root bool) {
			for _, v := range node.XValidations {
				if !seen[v.Rule] {
					seen[v.Rule] = true
					all = append(all, place{v.Rule, node, root})
				}
			}
		})
	})
	var out []sample
	for i := 0; i < len(all) && len(out) < count; i++ {
		at := all[(i*7919)%len(all)]
		if s, ok := measured(b, g, at.rule, at.node, at.root); ok {
			out = append(out, s)
		}
	}
	return out
}

// measured finds data for a rule; false if no random data satisfies it.
func measured(b testing.TB, g *generator, rule string, node *schema.Structural, root bool) (sample, bool) {
	up, our := newUpstream(b, node, root), newSubject(b, node, root)
	if up == nil || our == nil {
		return sample{}, false
	}
	program, o := our.compile(rule)
	if o.compile != "" || program.UsesOldSelf() {
		return sample{}, false
	}
	s := sample{rule: rule, node: node, our: program}
	var act kcel.Activation
	for range 400 {
		data := g.value(node, 0)
		self := our.documents(b, data)[1]
		act.Self = self
		v, cost, err := program.Eval(context.Background(), &act, perCallLimit)
		if err == nil && v.Bool() && cost > s.cost {
			s.data, s.self, s.cost = data, self, cost
		}
	}
	if s.cost == 0 {
		return sample{}, false
	}
	s.up, _ = up.compile(rule)
	ast, issues := up.env.Compile(rule)
	if issues.Err() != nil {
		b.Fatal(issues)
	}
	bare, err := up.env.Program(ast)
	if err != nil {
		b.Fatal(err)
	}
	s.bare = bare
	return s, true
}

// turn is the time of one of many evaluations.
func turn(best time.Duration, fn func()) time.Duration {
	const times = 50
	start := time.Now()
	for range times {
		fn()
	}
	return min(best, time.Since(start)/times)
}

func BenchmarkSampledRules(b *testing.B) {
	ctx := context.Background()
	for _, f := range sampled {
		for i, s := range samples(b, f.family, f.rules) {
			b.Run(fmt.Sprintf("%s/%d", f.family.Name, i), func(b *testing.B) {
				var act kcel.Activation
				vars := map[string]any{"self": s.data}
				if v, _, err := s.bare.Eval(vars); err != nil || v != types.True {
					// Names that are escaped and formats need Kubernetes' view of the data.
					vars["self"] = schemacel.UnstructuredToVal(s.data, s.node)
				}
				if v, _, err := s.bare.Eval(vars); err != nil || v != types.True {
					b.Fatal(s.rule, v, err)
				}
				ours, bare, up := time.Hour, time.Hour, time.Hour
				for b.Loop() {
					ours = turn(ours, func() {
						act.Self = s.self
						_, _, _ = s.our.Eval(ctx, &act, perCallLimit)
					})
					bare = turn(bare, func() { _, _, _ = s.bare.Eval(vars) })
					up = turn(up, func() {
						_, _, _ = s.up.ContextEval(ctx, map[string]any{"self": schemacel.UnstructuredToVal(s.data, s.node)})
					})
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(ours.Nanoseconds()), "keelson-ns")
				b.ReportMetric(float64(bare.Nanoseconds()), "cel-go-ns")
				b.ReportMetric(float64(up.Nanoseconds()), "upstream-ns")
				b.ReportMetric(float64(s.cost), "units")
				b.ReportMetric(float64(bare)/float64(ours), "x-cel-go")
				b.ReportMetric(float64(up)/float64(ours), "x-upstream")
				b.Log(s.rule)
			})
		}
	}
}
