package lint

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file searches for bounds that bring an expression below a cost limit. It sets them in a copy
// of the schema and estimates the cost again.

// search is an expression with a copy of the part of the schema on which its cost depends: the path
// from the root to the node with the rule, and everything below that node.
type search struct {
	root       *structural.Schema
	message    bool // the expression is a messageExpression
	candidates []candidate
}

// candidate is a bound that can be set.
type candidate struct {
	Bound
	values *structural.Values // of the copy
}

// newSearch copies the part of the schema on which the cost of c depends.
func newSearch(at node, c *Cost) *search {
	s := &search{message: strings.HasSuffix(c.Path, ".messageExpression")}
	words := map[string]bool{}
	for _, w := range word.FindAllString(c.Expr, -1) {
		words[w] = true
	}
	child := s.copyBelow(at, words)
	for i := range at.schema.Rules {
		if c.Path == fmt.Sprintf("%s.x-kubernetes-validations[%d].%s", at.path, i, c.Path[strings.LastIndexByte(c.Path, '.')+1:]) {
			child.Rules = []apiextv1.ValidationRule{at.schema.Rules[i]}
		}
	}
	below := at
	for n := at.parent; n != nil; n = n.parent {
		up := s.copyNode(*n)
		switch {
		case n.schema.Items == below.schema:
			up.Items = child
		case n.schema.Additional == below.schema:
			up.Additional = child
		default:
			name := strings.TrimSuffix(strings.TrimPrefix(below.path, n.path+".properties["), "]")
			up.Properties, up.Names = map[string]*structural.Schema{name: child}, []string{name}
		}
		child, below = up, *n
	}
	s.root = child
	return s
}

// word finds the names in an expression.
var word = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)

// copyBelow copies a node and all nodes below it, without rules. Nodes that the expression does not
// name are not candidates.
func (s *search) copyBelow(n node, words map[string]bool) *structural.Schema {
	candidates := len(s.candidates)
	out := s.copyNode(n)
	if words == nil {
		s.candidates = s.candidates[:candidates]
	}
	if n.schema.Items != nil || n.schema.Additional != nil || n.schema.Properties != nil {
		if n.schema.Properties != nil {
			out.Properties, out.Names = map[string]*structural.Schema{}, n.schema.Names
		}
		for _, child := range n.children() {
			switch {
			case child.schema == n.schema.Items:
				out.Items = s.copyBelow(child, words)
			case child.schema == n.schema.Additional:
				out.Additional = s.copyBelow(child, words)
			default:
				name := strings.TrimSuffix(strings.TrimPrefix(child.path, n.path+".properties["), "]")
				named := words
				if escaped, ok := cel.Escape(name); !ok || !words[escaped] && !words[name] {
					named = nil
				}
				out.Properties[name] = s.copyBelow(child, named)
			}
		}
	}
	return out
}

// copyNode copies a node without children and rules.
func (s *search) copyNode(n node) *structural.Schema {
	out := *n.schema
	values := *n.values()
	out.Rules, out.Properties, out.Names, out.Items, out.Additional = nil, nil, nil, nil, nil
	out.Values = &values
	c := candidate{Bound: Bound{Path: n.path, Where: inObjects(n.path)}, values: &values}
	switch {
	case n.schema.Type == "array":
		c.Keyword, c.Had = "maxItems", values.MaxItems
	case n.schema.Type == "object" && (n.schema.Additional != nil || n.schema.AdditionalAllows != nil):
		c.Keyword, c.Had = "maxProperties", values.MaxProperties
	case n.schema.Type == "string" && len(values.Enum) == 0:
		c.Keyword, c.Had = "maxLength", values.MaxLength
	default:
		return &out
	}
	for _, nested := range values.AllOf {
		bound := map[string]*int64{"maxItems": nested.MaxItems, "maxProperties": nested.MaxProperties, "maxLength": nested.MaxLength}[c.Keyword]
		if bound != nil && (c.AllOf == nil || *bound < *c.AllOf) {
			c.AllOf = bound
		}
	}
	s.candidates = append(s.candidates, c)
	return &out
}

// set sets a bound; nil removes it.
func (c *candidate) set(value *int64) {
	if value == nil {
		value = c.Had
	} else if c.Had != nil && *c.Had < *value {
		value = c.Had
	}
	switch c.Keyword {
	case "maxItems":
		c.values.MaxItems = value
	case "maxProperties":
		c.values.MaxProperties = value
	default:
		c.values.MaxLength = value
	}
}

// estimate returns the largest cost of the expression with the current bounds.
func (s *search) estimate() uint64 {
	env, err := environment()
	if err != nil {
		return math.MaxUint64
	}
	p, err := schema.Compile(s.root, schema.Options{Resource: true, Env: env})
	if err != nil {
		return math.MaxUint64
	}
	for _, c := range p.Costs(field.NewPath("root")) {
		if strings.HasSuffix(c.Path.String(), ".messageExpression") == s.message {
			return product(c.Each, c.Times)
		}
	}
	return math.MaxUint64
}

// with returns the estimate if all these candidates are bounded by value.
func (s *search) with(value int64, some ...*candidate) uint64 {
	for _, c := range some {
		c.set(&value)
	}
	cost := s.estimate()
	for _, c := range some {
		c.set(nil)
	}
	return cost
}

const (
	maxCandidates = 40      // further ones are not tried one by one
	maxBounds     = 4       // more bounds at once do not help a reader
	largestBound  = 1 << 22 // larger lists do not fit into a request
)

// advise returns the bound that drives the cost, and, if the cost exceeds goal, bounds that bring
// it below.
func (s *search) advise(cost, goal uint64) *Advice {
	if len(s.candidates) > maxCandidates {
		s.candidates = s.candidates[:maxCandidates]
	}
	type tried struct {
		*candidate
		cost uint64
	}
	var useful []tried
	for i := range s.candidates {
		c := &s.candidates[i]
		if left := s.with(1, c); left < cost {
			useful = append(useful, tried{c, left})
		}
	}
	if len(useful) == 0 {
		return nil
	}
	// Missing bounds come first, then those with the largest effect.
	slices.SortStableFunc(useful, func(a, b tried) int {
		if (a.Had == nil) != (b.Had == nil) {
			if a.Had == nil {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.cost, b.cost)
	})
	out := &Advice{Driver: useful[0].Bound, Without: useful[0].cost}
	if cost <= goal || s.repeated(out, goal) {
		return out
	}
	var chosen []*candidate
	left := cost
	for len(chosen) < maxBounds && left > goal {
		best, bestCost := -1, left
		for i, u := range useful {
			if slices.Contains(chosen, u.candidate) || best >= 0 && useful[best].Had == nil && u.Had != nil {
				continue
			}
			if c := s.with(1, append(slices.Clone(chosen), u.candidate)...); c < bestCost {
				best, bestCost = i, c
			}
		}
		if best < 0 {
			return out // no bounds help
		}
		chosen, left = append(chosen, useful[best].candidate), bestCost
	}
	if left > goal {
		return out
	}
	fits, tooMany := int64(1), int64(largestBound)
	for tooMany-fits > 1 {
		if middle := fits + (tooMany-fits)/2; s.with(middle, chosen...) <= goal {
			fits = middle
		} else {
			tooMany = middle
		}
	}
	for _, c := range chosen {
		b := c.Bound
		b.Value = fits
		if b.Had != nil {
			b.Value = min(fits, *b.Had)
		}
		out.Bounds = append(out.Bounds, b)
	}
	out.Then = s.with(fits, chosen...)
	return out
}

// repeated reports whether the bounds inside allOf bring the cost below goal if they are repeated beside it, and advises that.
func (s *search) repeated(out *Advice, goal uint64) bool {
	var bounds []Bound
	for i := range s.candidates {
		if c := &s.candidates[i]; c.AllOf != nil && (c.Had == nil || *c.AllOf < *c.Had) {
			c.set(c.AllOf)
			defer c.set(nil)
			b := c.Bound
			b.Value = *c.AllOf
			bounds = append(bounds, b)
		}
	}
	if len(bounds) == 0 || len(bounds) > maxBounds {
		return false
	}
	cost := s.estimate()
	if cost > goal {
		return false
	}
	out.Bounds, out.Then = bounds, cost
	return true
}

// String returns the advice as a sentence.
func (a *Advice) String() string {
	if len(a.Bounds) == 0 {
		return fmt.Sprintf("driven by %s", a.Driver.String())
	}
	var parts []string
	for _, b := range a.Bounds {
		parts = append(parts, fmt.Sprintf("%s: %d on %s", b.Keyword, b.Value, b.Where))
	}
	what := "any bound up to it fits"
	if len(parts) > 1 {
		what = "any bounds up to them fit"
	}
	if slices.ContainsFunc(a.Bounds, func(b Bound) bool { return b.AllOf != nil && b.Value == *b.AllOf }) {
		what = "estimates do not read bounds inside allOf: repeat them beside it"
	}
	return fmt.Sprintf("set %s (%s)", strings.Join(parts, " and "), what)
}

// String returns the bound as a phrase.
func (b *Bound) String() string {
	if b.Had == nil {
		return fmt.Sprintf("%s, which has no %s", b.Where, b.Keyword)
	}
	return fmt.Sprintf("%s, with %s: %d", b.Where, b.Keyword, *b.Had)
}
