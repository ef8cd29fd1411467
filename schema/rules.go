package schema

import (
	"errors"
	"slices"
	"strings"
	"time"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file compiles rules for evaluation.

// rules are the rules of one node, compiled.
type rules struct {
	source  []apiextv1.ValidationRule
	schema  *structural.Schema
	list    []rule
	always  cel.Tests  // the rules that are evaluated for every value
	updates cel.Tests  // the rules that are evaluated only if there is an old value
	withOld *cel.Tests // the rules that use oldSelf: they may fail for an unchanged value
	err     error      // the reason why no rule can be compiled, or nil
	usesOld bool       // a rule uses oldSelf, so that withOld is set
	broken  bool       // a rule does not compile
}

// setTests computes the sets for the fast path from list.
func (r *rules) setTests() {
	var always, updates, again []*cel.Program
	for i := range r.list {
		rule := &r.list[i]
		r.usesOld = r.usesOld || rule.usesOld()
		r.broken = r.broken || rule.more().err != nil
		if rule.usesOld() {
			again = append(again, rule.program)
		}
		switch {
		case rule.program == nil:
		case rule.usesOld() && !rule.program.OptionalOldSelf():
			updates = append(updates, rule.program)
		default:
			always = append(always, rule.program)
		}
	}
	r.always, r.updates = cel.NewTests(always), cel.NewTests(updates)
	switch len(again) {
	case 0:
	case len(updates):
		r.withOld = &r.updates
	default:
		tests := cel.NewTests(again)
		r.withOld = &tests
	}
}

// rule is a compiled rule. A blank rule has neither a program nor an error.
type rule struct {
	program *cel.Program
	rare    *rareParts // nil if all parts are zero
}

// rareParts are the parts that few rules have.
type rareParts struct {
	err        error        // the reason why there is no program
	message    *cel.Program // the messageExpression, nil if it is missing or does not compile
	messageErr error
	fieldPath  string // as errors print it, "" if not set
}

// noParts is what most rules have.
var noParts = new(rareParts)

// more returns the rare parts, which must not be changed.
func (r *rule) more() *rareParts {
	if r.rare == nil {
		return noParts
	}
	return r.rare
}

// usesOld reports whether the rule uses oldSelf.
func (r *rule) usesOld() bool { return r.program != nil && r.program.UsesOldSelf() }

// errNoType is the error of the rules of a node without a CEL type.
var errNoType = errors.New("failed to convert to declType for CEL validation rules")

// compileRules compiles the rules of all nodes, once. The types are freed afterwards.
func (p *program) compileRules() {
	p.rulesOnce.Do(func() {
		c := ruleCompiler{typing: typing{p: p, types: make(map[*node]*cel.Type)}, set: p.options.Env.Types()}
		c.node(p.root, true)
		c.set.Release()
	})
}

// ruleCompiler is the state of compileRules.
type ruleCompiler struct {
	typing
	set *cel.TypeSet
}

// node compiles the rules at n and below, and sets the fields that depend on it. seen says whether
// rules above can see n.
func (c *ruleCompiler) node(n *node, seen bool) {
	if !n.deepRules || n.ruled {
		return
	}
	n.ruled, n.seen = true, seen
	for i := range n.props {
		p := &n.props[i]
		if n.resource && isMeta(p.name) && p.node.deepRules {
			c.of(n) // computes what rules see of the metadata
		}
		if p.hidden = p.node.deepRules && !c.sees(n, p, seen); p.hasRules() {
			n.toRules = append(n.toRules, uint16(i))
		}
		c.node(p.node, c.visible(p.node))
		n.deepOld = n.deepOld || p.node.deepOld
	}
	n.toRules = slices.Clip(n.toRules)
	within := seen && !n.intOrStr && c.visible(n)
	if n.additional != nil {
		c.node(n.additional, within && n.typ == "object")
		n.deepOld = n.deepOld || n.additional.deepOld
	}
	if n.items != nil {
		c.node(n.items, within && n.typ == "array")
		n.deepOld = n.deepOld || n.items.deepOld
	}
	if n.rules != nil {
		c.rules(n, seen)
		n.deepOld = n.deepOld || n.rules.usesOld
	}
}

// sees reports whether rules at the member p of n, and below, are evaluated. Upstream skips members
// that are missing in n's type, unless they are missing only because of their names.
func (c *ruleCompiler) sees(n *node, p *prop, seen bool) bool {
	if _, ok := cel.Escape(p.name); ok && (!seen || n.intOrStr || n.typ != "object" || n.additional != nil) {
		return false
	}
	return c.visible(p.node)
}

// rules compiles the rules of n.
func (c *ruleCompiler) rules(n *node, seen bool) {
	var self *cel.Type
	if seen {
		self = c.of(n)
	}
	if self == nil {
		n.rules.err, n.rules.broken = errNoType, true
		return
	}
	n.rules.list = c.p.compiledRules(n.rules, self, c.set)
	n.rules.setTests()
}

// compiledRules compiles the rules of a node whose type is self.
func (p *program) compiledRules(r *rules, self *cel.Type, types *cel.TypeSet) []rule {
	defer p.options.Metrics.observeCompilation(time.Now())
	list := make([]rule, len(r.source))
	for i, source := range r.source {
		list[i] = compileRule(source, r.schema, self, types, types)
	}
	return list
}

// compileRule compiles one rule in types, and its messageExpression in messages.
func compileRule(source apiextv1.ValidationRule, s *structural.Schema, self *cel.Type, types, messages *cel.TypeSet) rule {
	if strings.TrimSpace(source.Rule) == "" {
		return rule{}
	}
	o := cel.CompileOptions{OptionalOldSelf: source.OptionalOldSelf != nil && *source.OptionalOldSelf, Want: cel.BoolResult}
	program, err := types.Compile(source.Rule, self, o)
	if err != nil {
		return rule{rare: &rareParts{err: err}}
	}
	var rare rareParts
	if source.MessageExpression != "" {
		o.Want = cel.StringResult
		if rare.message, rare.messageErr = messages.Compile(source.MessageExpression, self, o); rare.messageErr != nil {
			rare.message = nil
		}
	}
	if source.FieldPath != "" {
		if _, path, _, err := FieldPath(source.FieldPath, s, true); err == nil {
			rare.fieldPath = path.String()
		}
	}
	if rare == (rareParts{}) {
		return rule{program: program}
	}
	return rule{program: program, rare: &rare}
}

// nameOf returns the text by which errors name a rule.
func nameOf(source *apiextv1.ValidationRule) string {
	if source.Message != "" {
		return strings.TrimSpace(source.Message)
	}
	return strings.TrimSpace(source.Rule)
}

// RootRules returns the programs of the rules at the schema's root, in order; nil for a blank one.
// It returns an error if a rule does not compile.
func (p *Program) RootRules() ([]*cel.Program, error) {
	code, err := p.load()
	if err != nil {
		return nil, err
	}
	code.compileRules()
	if code.root.rules == nil {
		return nil, nil
	}
	errs := []error{code.root.rules.err}
	var out []*cel.Program
	for _, r := range code.root.rules.list {
		out, errs = append(out, r.program), append(errs, r.more().err)
	}
	return out, errors.Join(errs...)
}
