package schema

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file collects which parts of a schema the objects of a test suite reach.
//
// The goals are counted at each place of the schema, not at each node: equal parts of a schema share
// nodes. Restrictions below anyOf, oneOf and not have no goals of their own, because a value that does
// not satisfy one of them may be valid. Each branch of anyOf and oneOf is a goal as a whole.

// GoalKind is a kind of goals of test suites.
type GoalKind string

// The kinds of goals.
const (
	GoalRule      GoalKind = "rule"      // a rule accepts, or refuses
	GoalCondition GoalKind = "condition" // a part of a rule is true, is false, or decides
	GoalBound     GoalKind = "bound"     // a value is at a bound, or beyond it
	GoalEnum      GoalKind = "enum"      // a value is in an enum, or is not
	GoalDefault   GoalKind = "default"   // a default value is filled in
	GoalField     GoalKind = "field"     // a field is set
	GoalUnion     GoalKind = "union"     // a value satisfies a branch of anyOf or oneOf, or none
)

// Goal is something that a test suite should reach.
type Goal struct {
	Kind GoalKind `json:"kind"`
	// Path is the place of the keyword in the schema, such as properties.spec.properties.size.maximum.
	Path string `json:"path"`
	// Field is the place in objects, such as .spec.items[*]; "" for the root.
	Field   string `json:"field"`
	Text    string `json:"text"` // what an object has to do
	Reached bool   `json:"reached"`
	// Start and End are the part of a rule that a GoalCondition is about, in bytes.
	Start int `json:"start,omitempty"`
	End   int `json:"end,omitempty"`
}

// RuleCoverage is what the objects of a test suite reached of a rule.
type RuleCoverage struct {
	Path  string                   `json:"path"`  // of the rule in the schema
	Field string                   `json:"field"` // the place of its values in objects
	Rule  *apiextv1.ValidationRule `json:"-"`
	Text  string                   `json:"rule"`
	// Accepted and Refused are the numbers of values. Failed is how many of the latter were refused
	// because the rule failed.
	Accepted int                `json:"accepted"`
	Refused  int                `json:"refused"`
	Failed   int                `json:"failed"`
	Parts    []cel.PartCoverage `json:"parts,omitempty"`
}

// Coverage collects what the objects of a test suite reach. It is not safe for concurrent use.
type Coverage struct {
	p          *program
	root       *coverNode
	explainers map[*cel.Program]*cel.Explainer
	act        cel.Activation
	work       work
	spent      uint64 // the cost of the rules of an object
}

// NewCoverage returns a Coverage that nothing has reached yet.
func (p *Program) NewCoverage() (*Coverage, error) {
	code, err := p.load()
	if err != nil {
		return nil, err
	}
	code.compileRules()
	c := &Coverage{p: code, explainers: map[*cel.Program]*cel.Explainer{}}
	c.root = c.node(code.root, "", "")
	return c, nil
}

// coverNode has the goals of one place in a schema.
type coverNode struct {
	n           *node
	path, field string
	set, filled *Goal // the field is set; its default is filled in
	goals       []*Goal
	checks      []func(d *jsondoc.Doc, x jsondoc.Node)
	rules       []*coveredRule
	props       []*coverNode // as n.props; nil for those without goals
	items       *coverNode
	additional  *coverNode
	hasRules    bool // here or below
	seen        bool // there was a value
}

// coveredRule is a rule at one place.
type coveredRule struct {
	RuleCoverage
	rule  *rule
	parts *cel.Coverage // nil until its first evaluation, or if its parts cannot be recorded
}

// keywordPath returns the path of a keyword of the schema at path.
func keywordPath(path, keyword string) string { return strings.TrimPrefix(path+"."+keyword, ".") }

// propertyPath returns the path of a property of the schema at path.
func propertyPath(path, name string) string { return keywordPath(path, "properties") + stepTo(name) }

// node returns the goals at n and below.
func (c *Coverage) node(n *node, path, at string) *coverNode {
	out := &coverNode{n: n, path: path, field: at}
	out.addValues(c, n)
	if n.rules != nil {
		for i := range n.rules.source {
			source := &n.rules.source[i]
			r := &coveredRule{RuleCoverage: RuleCoverage{Path: fmt.Sprintf("%s[%d].rule", keywordPath(path, "x-kubernetes-validations"), i), Field: at, Rule: source, Text: source.Rule}}
			if i < len(n.rules.list) {
				r.rule = &n.rules.list[i]
			}
			out.rules = append(out.rules, r)
		}
	}
	out.hasRules = len(out.rules) > 0
	out.props = make([]*coverNode, len(n.props))
	for i := range n.props {
		p := &n.props[i]
		if n.resource && (p.name == "apiVersion" || p.name == "kind") {
			continue
		}
		child := c.node(p.node, propertyPath(path, p.name), at+stepTo(p.name))
		if !strings.HasPrefix(child.field, ".metadata") || path != "" && !strings.HasPrefix(path, "properties.metadata") {
			child.set = child.goal(GoalField, "", "is set")
		}
		if p.node.defText != nil {
			child.filled = child.goal(GoalDefault, "default", "is filled in: "+string(p.node.defText))
		}
		out.props[i] = child
		out.hasRules = out.hasRules || child.hasRules
	}
	if n.items != nil {
		out.items = c.node(n.items, keywordPath(path, "items"), at+"[*]")
		out.hasRules = out.hasRules || out.items.hasRules
	}
	if n.additional != nil {
		out.additional = c.node(n.additional, keywordPath(path, "additionalProperties"), at+".*")
		out.hasRules = out.hasRules || out.additional.hasRules
	}
	return out
}

// stepTo returns a step to a field.
func stepTo(name string) string {
	if strings.ContainsAny(name, ".[]") {
		return "[" + name + "]"
	}
	return "." + name
}

// goal adds a goal. keyword is "" for the node itself.
func (c *coverNode) goal(kind GoalKind, keyword, text string) *Goal {
	path := c.path
	if keyword != "" {
		path = keywordPath(path, keyword)
	}
	g := &Goal{Kind: kind, Path: path, Field: c.field, Text: text}
	c.goals = append(c.goals, g)
	return g
}

// Validated is an object that was validated.
type Validated struct {
	New, Old *jsondoc.Doc // Old is nil on create
	Scope    Scope
	Errors   field.ErrorList // what Validate found
	Sent     *jsondoc.Doc    // the object as it was sent, without defaults; nil if it is unknown
}

// Add collects what an object reaches.
func (c *Coverage) Add(ctx context.Context, v Validated) {
	next, old := c.p.adopt(v.New), c.p.adopt(v.Old)
	c.work = newWork(ctx, maxSteps)
	var sent jsondoc.Value
	if v.Sent != nil {
		sent = v.Sent.Root()
	}
	if v.Scope == Status {
		for i := range c.root.n.props {
			if p := &c.root.n.props[i]; p.name == "status" && c.root.props[i] != nil {
				c.observe(c.root.props[i], next, next.Root().Get("status").Node, sent.Get("status"), v.Sent != nil)
			}
		}
	} else {
		c.observe(c.root, next, next.Root().Node, sent, v.Sent != nil)
	}
	if !c.root.hasRules || blocksRules(v.Errors) {
		return
	}
	c.spent = 0
	var was jsondoc.Value
	if old != nil {
		was = old.Root()
	}
	c.rules(ctx, c.root, next.Root(), was)
}

// observe collects what the values at x and below reach. known says that sent is the value that was
// sent for x.
func (c *Coverage) observe(at *coverNode, d *jsondoc.Doc, x jsondoc.Node, sent jsondoc.Value, known bool) {
	if at == nil || x.Kind() == jsondoc.Absent {
		return
	}
	n := at.n
	at.seen = true
	if at.set != nil {
		at.set.Reached = true
	}
	if at.filled != nil && !at.filled.Reached && known && (!sent.Exists() || sent.Kind() == jsondoc.Null) {
		value := jsondoc.Value{Doc: d, Node: x}.AppendJSON(nil)
		at.filled.Reached = bytes.Equal(value, jsondoc.Value{Doc: c.p.consts, Node: n.def}.AppendJSON(nil))
	}
	if x.Kind() == jsondoc.Null {
		return
	}
	for _, check := range at.checks {
		check(d, x)
	}
	known = known && n.deepDefaults
	switch x.Kind() {
	case jsondoc.Array:
		if at.items == nil {
			return
		}
		for i := range x.Len() {
			var s jsondoc.Value
			if known && sent.Kind() == jsondoc.Array && i < sent.Len() {
				s = sent.Item(i)
			}
			c.observe(at.items, d, d.Item(x, i), s, known)
		}
	case jsondoc.Object:
		for i := range n.props {
			if at.props[i] == nil {
				continue
			}
			p := &n.props[i]
			m := n.member(d, x, p.name, p.slot)
			if m.Kind() == jsondoc.Absent {
				continue
			}
			var s jsondoc.Value
			if known && sent.Kind() == jsondoc.Object {
				s = sent.Get(p.name)
			}
			c.observe(at.props[i], d, m, s, known)
		}
		if at.additional == nil {
			return
		}
		for name, m := range (jsondoc.Value{Doc: d, Node: x}).Members() {
			if n.prop(name) != nil {
				continue
			}
			var s jsondoc.Value
			if known && sent.Kind() == jsondoc.Object {
				s = sent.Get(name)
			}
			c.observe(at.additional, d, m.Node, s, known)
		}
	}
}

// rules evaluates the rules at x and below.
func (c *Coverage) rules(ctx context.Context, at *coverNode, x, old jsondoc.Value) {
	n := at.n
	if !at.hasRules || !x.Exists() || x.Kind() == jsondoc.Null {
		return
	}
	if old.Kind() == jsondoc.Null {
		old = jsondoc.Value{}
	}
	for _, r := range at.rules {
		c.rule(ctx, r, x, old)
	}
	switch x.Kind() {
	case jsondoc.Array:
		if at.items == nil || !at.items.hasRules {
			return
		}
		olds := n.oldItems(old)
		for i := range x.Len() {
			item := x.Item(i)
			c.rules(ctx, at.items, item, olds.get(item))
		}
	case jsondoc.Object:
		if at.additional != nil && at.additional.hasRules {
			for name, m := range x.Members() {
				if n.prop(name) == nil {
					c.rules(ctx, at.additional, m, old.Get(name))
				}
			}
		}
		for i := range n.props {
			p := &n.props[i]
			if at.props[i] != nil && at.props[i].hasRules && p.hasRules() {
				c.rules(ctx, at.props[i], x.Get(p.name), old.Get(p.name))
			}
		}
	}
}

// rule evaluates one rule.
func (c *Coverage) rule(ctx context.Context, r *coveredRule, x, old jsondoc.Value) {
	if r.rule == nil || r.rule.program == nil || r.rule.usesOld() && !old.Exists() && !r.rule.program.OptionalOldSelf() || c.spent > objectBudget {
		return
	}
	if r.parts == nil {
		e, err := c.explainer(r.rule.program)
		if err != nil {
			return // the program compiled, so that this is a rule whose parts cannot be recorded
		}
		r.parts = e.NewCoverage()
	}
	c.act.Self, c.act.OldSelf, c.act.HasOldSelf = x, old, old.Exists()
	c.act.ResetWork()
	v, cost, err := r.parts.EvalRule(ctx, &c.act, CallLimit)
	c.spent += cost
	switch {
	case err != nil:
		r.Failed++
		r.Refused++
	case v.Kind() == cel.KindBool && v.Bool():
		r.Accepted++
	default:
		r.Refused++
	}
}

// explainer returns the instrumented program of a rule, which it compiles at the first call.
func (c *Coverage) explainer(p *cel.Program) (*cel.Explainer, error) {
	if e := c.explainers[p]; e != nil {
		return e, nil
	}
	e, err := c.p.options.Env.Explainer(p)
	if err == nil {
		c.explainers[p] = e
	}
	return e, err
}

// Rules returns the rules, in the order of the schema.
func (c *Coverage) Rules() []RuleCoverage {
	var out []RuleCoverage
	c.root.each(func(at *coverNode) {
		for _, r := range at.rules {
			out = append(out, c.ruleCoverage(r))
		}
	})
	return out
}

// ruleCoverage returns what was reached of a rule.
func (c *Coverage) ruleCoverage(r *coveredRule) RuleCoverage {
	out := r.RuleCoverage
	parts := r.parts
	if parts == nil && r.rule != nil && r.rule.program != nil { // never evaluated
		if e, err := c.explainer(r.rule.program); err == nil {
			parts = e.NewCoverage()
		}
	}
	if parts != nil {
		out.Parts = parts.Parts()
	}
	return out
}

// each calls f for the nodes at c and below.
func (c *coverNode) each(f func(*coverNode)) {
	f(c)
	for _, p := range c.props {
		if p != nil {
			p.each(f)
		}
	}
	if c.items != nil {
		c.items.each(f)
	}
	if c.additional != nil {
		c.additional.each(f)
	}
}

// Goals returns all goals, in the order of the schema.
func (c *Coverage) Goals() []Goal {
	var out []Goal
	c.root.each(func(at *coverNode) {
		for _, g := range at.goals {
			out = append(out, *g)
		}
		for _, r := range at.rules {
			out = append(out, c.ruleGoals(r)...)
		}
	})
	return out
}

// ruleGoals returns the goals of a rule: of the whole rule, and of its parts that are bools.
func (c *Coverage) ruleGoals(r *coveredRule) []Goal {
	goal := func(kind GoalKind, text string, reached bool) Goal {
		return Goal{Kind: kind, Path: r.Path, Field: r.Field, Text: text, Reached: reached, End: len(r.Text)}
	}
	if r.rule == nil || r.rule.program == nil {
		return nil // it is blank or does not compile
	}
	out := []Goal{goal(GoalRule, "accepts a value", r.Accepted > 0), goal(GoalRule, "refuses a value", r.Refused > 0)}
	for _, p := range c.ruleCoverage(r).Parts {
		if !p.Bool || p.Depth == 0 {
			continue
		}
		add := func(text string, reached bool) {
			g := goal(GoalCondition, text, reached)
			g.Start, g.End = p.Start, p.End
			out = append(out, g)
		}
		add("is true: "+p.Text, p.True)
		add("is false: "+p.Text, p.False)
		if p.Condition {
			add("decides about the result: "+p.Text, p.Decides)
		}
	}
	return out
}
