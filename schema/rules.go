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

// rules are the rules of one node.
type rules struct {
	source  []apiextv1.ValidationRule
	schema  *structural.Schema
	list    []rule
	always  cel.Tests  // those of list that are evaluated for every value
	updates cel.Tests  // those that are evaluated where there is an old value
	again   *cel.Tests // those that mention oldSelf: they may not hold though the value is as it was
	err     error      // none of them can be compiled
	usesOld bool       // at least one mentions oldSelf: again is not nil
	broken  bool       // at least one does not compile
}

// setTests lists what the fast path evaluates, once list is complete.
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
		r.again = &r.updates
	default:
		tests := cel.NewTests(again)
		r.again = &tests
	}
}

// rule is a compiled rule. One that is blank has neither program nor error.
type rule struct {
	program *cel.Program
	rare    *rareParts // nil: none of them
}

// rareParts are what few rules have.
type rareParts struct {
	err        error        // why there is no program
	message    *cel.Program // messageExpression, nil if there is none or it does not compile
	messageErr error
	fieldPath  string // as errors print it, "" if none
}

var noParts = new(rareParts)

// more are the rare parts, which are not to be changed.
func (r *rule) more() *rareParts {
	if r.rare == nil {
		return noParts
	}
	return r.rare
}

// usesOld reports whether the rule mentions oldSelf.
func (r *rule) usesOld() bool { return r.program != nil && r.program.UsesOldSelf() }

// errNoType is why the rules of a node that rules cannot see do not compile.
var errNoType = errors.New("failed to convert to declType for CEL validation rules")

// compileRules compiles all rules, once. The types that they are compiled with
// are gone afterwards.
func (p *program) compileRules() {
	p.rulesOnce.Do(func() {
		c := ruleCompiler{typing: typing{p: p, types: make(map[*node]*cel.Type)}, set: p.options.Env.Types()}
		c.node(p.root, true)
		c.set.Release()
	})
}

type ruleCompiler struct {
	typing
	set *cel.TypeSet
}

// node compiles the rules at and below n and sets deepOld and hidden. seen says
// whether n has a type for those who come from above.
func (c *ruleCompiler) node(n *node, seen bool) {
	if !n.deepRules || n.ruled {
		return
	}
	n.ruled, n.seen = true, seen
	for i := range n.props {
		p := &n.props[i]
		if n.resource && isMeta(p.name) && p.node.deepRules {
			c.of(n) // the type of a resource says what rules see of its metadata
		}
		if p.hidden = p.node.deepRules && !c.sees(n, p, seen); p.rules() {
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

// sees reports whether rules are evaluated at and below a member of n. Upstream
// leaves out members that the type of n does not have, unless it could not have
// them because of their names.
func (c *ruleCompiler) sees(n *node, p *prop, seen bool) bool {
	if _, ok := cel.Escape(p.name); ok && (!seen || n.intOrStr || n.typ != "object" || n.additional != nil) {
		return false
	}
	return c.visible(p.node)
}

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

// compiledRules compiles the rules of one node, whose type is self.
func (p *program) compiledRules(r *rules, self *cel.Type, types *cel.TypeSet) []rule {
	defer p.options.Metrics.observeCompilation(time.Now())
	list := make([]rule, len(r.source))
	for i, source := range r.source {
		list[i] = compileRule(source, r.schema, self, types, types)
	}
	return list
}

// compileRule compiles one rule, and its messageExpression among the types of messages.
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

// nameOf is how errors call a rule.
func nameOf(source *apiextv1.ValidationRule) string {
	if source.Message != "" {
		return strings.TrimSpace(source.Message)
	}
	return strings.TrimSpace(source.Rule)
}

// RootRules are the programs of the rules that stand at the schema's root, in
// order; nil stands for one that is blank. The error says why one of them does
// not compile.
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
