package lint

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/schema"
)

// This file estimates the costs of the expressions of a schema.

// mostAdvised is the number of expressions of a schema that get advice, each of which takes up to
// hundreds of estimates.
const mostAdvised = 20

// costs returns the costs of a schema's expressions. ok is false if it has none, or does not
// compile.
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
	p, gaps := t.compile()
	if p == nil || len(gaps) > 0 {
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

// highest returns the cost that one expression may have if all of them together are to keep the
// schema's limit: the limit of one expression, or less if several are expensive.
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

// compile compiles the schema. The program does not know the types in the gaps. It is nil if the
// schema does not compile without them, either.
func (t *tree) compile() (*schema.Program, []gap) {
	env, err := environment()
	if err != nil {
		return nil, nil
	}
	root, gaps := t.checkable()
	if root == nil {
		return nil, gaps
	}
	p, err := schema.Compile(root, schema.Options{Resource: true, Env: env})
	if err != nil {
		return nil, gaps
	}
	return p, gaps
}

// before returns s up to sep.
func before(s, sep string) string {
	s, _, _ = strings.Cut(s, sep)
	return s
}

// newCost converts the estimate of an expression.
func newCost(c schema.ExprCost) Cost {
	path := c.Path.String()
	out := Cost{Path: path, Where: inObjects(path), Expr: c.Expr, Each: c.Each, Times: c.Times, Total: product(c.Each, c.Times)}
	out.Limit, out.Share = RuleLimit, float64(out.Total)/RuleLimit
	return out
}

// product multiplies, and stays at the largest number on overflow.
func product(a, b uint64) uint64 {
	if a != 0 && b > math.MaxUint64/a {
		return math.MaxUint64
	}
	return a * b
}

// plus adds, and stays at the largest number on overflow.
func plus(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}
