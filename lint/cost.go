package lint

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file estimates what the expressions of a schema cost.

// mostAdvised is how many expressions of a schema get advice: each takes up to hundreds of estimates.
const mostAdvised = 20

// costs lists the expressions of a schema; ok is false if it has none, or is not good enough to have them compiled.
func (t *tree) costs() (out Schema, ok bool) {
	rules := map[string]node{} // nodes with rules, by path
	t.each(func(n node) {
		if len(n.schema.Rules) > 0 {
			rules[n.path] = n
		}
	})
	if len(rules) == 0 {
		return out, false
	}
	p := t.compile()
	if p == nil {
		return out, false
	}
	out.Versions = t.versions
	for _, c := range p.Costs(field.NewPath(t.path)) {
		out.Costs = append(out.Costs, newCost(c))
	}
	for _, c := range out.Costs {
		out.Total = plus(out.Total, c.Total)
	}
	out.Limit, out.Share = TotalLimit, float64(out.Total)/TotalLimit
	slices.SortStableFunc(out.Costs, func(a, b Cost) int { return cmp.Compare(b.Total, a.Total) })
	goal := highest(out.Costs)
	for i := range out.Costs {
		c := &out.Costs[i]
		at, ok := rules[before(c.Path, ".x-kubernetes-validations")]
		if c.Total >= RuleLimit/100 && ok && i < mostAdvised {
			c.Advice = newSearch(at, c).advise(c.Total, goal)
		}
	}
	return out, true
}

// highest is what one expression may cost so that all of them together keep to the limit of the schema: its own limit, or less
// if there are many expensive ones.
func highest(costs []Cost) uint64 {
	fits, tooMuch := uint64(0), uint64(RuleLimit+1)
	for tooMuch-fits > 1 {
		middle := fits + (tooMuch-fits)/2
		total := uint64(0)
		for _, c := range costs {
			total = plus(total, min(c.Total, middle))
		}
		if total <= TotalLimit {
			fits = middle
		} else {
			tooMuch = middle
		}
	}
	return fits
}

// compile compiles the schema; nil if it is not good enough for that.
func (t *tree) compile() *schema.Program {
	env, err := environment()
	if err != nil || len(structural.Validate(t.root, nil)) > 0 {
		return nil
	}
	p, err := schema.Compile(t.root, schema.Options{Resource: true, Env: env})
	if err != nil {
		return nil
	}
	return p
}

func before(s, sep string) string {
	s, _, _ = strings.Cut(s, sep)
	return s
}

func newCost(c schema.ExprCost) Cost {
	path := c.Path.String()
	out := Cost{Path: path, Where: inObjects(path), Expr: c.Expr, Each: c.Each, Times: c.Times, Total: product(c.Each, c.Times)}
	out.Limit, out.Share = RuleLimit, float64(out.Total)/RuleLimit
	return out
}

func product(a, b uint64) uint64 {
	if a != 0 && b > math.MaxUint64/a {
		return math.MaxUint64
	}
	return a * b
}

func plus(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}
