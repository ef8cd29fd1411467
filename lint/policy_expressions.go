package lint

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/admission/conditions"
	"github.com/keelson-io/keelson/internal/admission/match"
	"github.com/keelson-io/keelson/kind"
)

// This file lists, compiles and estimates the expressions of policies.

// sort is the role of an expression in a policy.
type sort uint8

const (
	condition sort = iota
	validation
	message
	annotation
	mutation
)

// expression is one expression of a policy.
type expression struct {
	sort sort
	path string
	text string
}

var specPath = field.NewPath("spec")

// add adds an expression unless its text is empty.
func (c *common) add(s sort, at *field.Path, text string) {
	if text != "" {
		c.expressions = append(c.expressions, expression{s, at.String(), text})
	}
}

// conditions adds the match conditions.
func (c *common) conditions(list []admissionv1.MatchCondition) {
	for i := range list {
		c.add(condition, specPath.Child("matchConditions").Index(i).Child("expression"), list[i].Expression)
	}
}

// validations adds the expressions of a validating policy.
func (c *common) validations(s *admissionv1.ValidatingAdmissionPolicySpec) {
	for i := range s.Validations {
		at := specPath.Child("validations").Index(i)
		c.add(validation, at.Child("expression"), s.Validations[i].Expression)
		c.add(message, at.Child("messageExpression"), s.Validations[i].MessageExpression)
	}
	for i := range s.AuditAnnotations {
		c.add(annotation, specPath.Child("auditAnnotations").Index(i).Child("valueExpression"), s.AuditAnnotations[i].ValueExpression)
	}
}

// mutations adds the expressions of mutations.
func (c *common) mutations(list []admissionv1.Mutation) {
	for i, m := range list {
		at := specPath.Child("mutations").Index(i)
		if m.JSONPatch != nil {
			c.add(mutation, at.Child("jsonPatch", "expression"), m.JSONPatch.Expression)
		}
		if m.ApplyConfiguration != nil {
			c.add(mutation, at.Child("applyConfiguration", "expression"), m.ApplyConfiguration.Expression)
		}
	}
}

// options returns the environment for all expressions of a policy. Restrictions of single
// expressions are part of the server's verdict.
func (c *common) options() cel.LanguageOptions {
	return cel.AdmissionConditions(cel.AdmissionVariables{Params: c.params != nil, Authorizer: true, Composed: true, Patches: true})
}

// compiled are the expressions of a policy in one language.
type compiled struct {
	variables   map[string]*cel.Expression // nil if it does not compile
	expressions []*cel.Expression          // nil if it does not compile
}

// compile compiles all expressions in one environment. Variables come first, because the others
// read them.
func (c *common) compile(l *cel.Language) (*compiled, error) {
	composition := cel.NewComposition()
	l, err := l.Compose(composition)
	if err != nil {
		return nil, err
	}
	out := &compiled{variables: map[string]*cel.Expression{}}
	for _, v := range c.variables {
		x, err := l.CompileExpression(v.Expression)
		if err != nil {
			x = nil
		}
		out.variables[v.Name] = x
		composition.Add(v.Name, x)
	}
	for _, e := range c.expressions {
		x, err := l.CompileExpression(e.text)
		if err != nil {
			x = nil
		}
		out.expressions = append(out.expressions, x)
	}
	return out, nil
}

// plainLanguages are the environments of policies without types of objects, without and with
// parameters.
var plainLanguages = [2]func() (*cel.Language, error){
	sync.OnceValues(func() (*cel.Language, error) { return cel.NewLanguage((&common{}).options()) }),
	sync.OnceValues(func() (*cel.Language, error) {
		return cel.NewLanguage((&common{params: new(admissionv1.ParamKind)}).options())
	}),
}

// plain returns the environment without types of objects.
func (c *common) plain() (*cel.Language, error) {
	if c.params == nil {
		return plainLanguages[0]()
	}
	return plainLanguages[1]()
}

// operations returns the operations that a policy's rules name, in the server's order. "*" does not
// include CONNECT here, which few resources have.
func (c *common) operations() []admission.Operation {
	if c.constraints == nil {
		return nil
	}
	var out []admission.Operation
	for _, op := range []admission.Operation{admission.Create, admission.Update, admission.Delete, admission.Connect} {
		named := func(r admissionv1.NamedRuleWithOperations) bool {
			return slices.Contains(r.Operations, admissionv1.OperationType(op)) || op != admission.Connect && slices.Contains(r.Operations, admissionv1.OperationAll)
		}
		if slices.ContainsFunc(c.constraints.ResourceRules, named) {
			out = append(out, op)
		}
	}
	return out
}

// matched returns the versions of defined kinds that the policy's rules match, using the server's
// index.
func (s *policySet) matched(c *common) []*Definition {
	if c.constraints == nil {
		return nil
	}
	index := match.NewIndex([]match.Criteria{{Rules: c.constraints.ResourceRules, All: true, Exclude: c.constraints.ExcludeResourceRules}}, func(*kind.Version) []*kind.Version { return nil })
	var out []*Definition
	for _, d := range s.Definitions {
		k := s.kinds.Lookup(d.CRD.Spec.Group, d.CRD.Spec.Names.Plural)
		if k == nil {
			continue
		}
		for _, v := range k.Versions {
			for _, op := range c.operations() {
				if len(index.For(&admission.Request{Operation: op, Version: v})) > 0 && !slices.Contains(out, d) {
					out = append(out, d)
				}
			}
		}
	}
	return out
}

// costs estimates the costs of a policy's expressions: for each defined kind that the policy
// matches, with the bounds of its schema; without such kinds, for untyped objects.
func (s *policySet) costs(p *Policy) []Schema {
	c := p.policy
	var out []Schema
	for _, d := range s.matched(c) {
		for i := range d.CRD.Spec.Versions {
			v := &d.CRD.Spec.Versions[i]
			if l, err := s.typed(c, d, i); err == nil {
				if t, ok := c.estimate(l); ok {
					t.Versions = []string{"for " + d.CRD.Spec.Names.Kind + " " + v.Name}
					out = append(out, t)
				}
			}
		}
	}
	if len(out) == 0 {
		if l, err := c.plain(); err == nil {
			// Most expressions over untyped objects have no finite estimate.
			if t, ok := c.estimate(l); ok && t.Total != math.MaxUint64 {
				t.Versions = []string{"for objects without a definition"}
				out = append(out, t)
			}
		}
	}
	return out
}

// typed returns the environment of a policy in which objects and defined parameters have the types
// of their schemas.
func (s *policySet) typed(c *common, d *Definition, version int) (*cel.Language, error) {
	o := c.options()
	object, err := typeOf(d, version)
	if err != nil {
		return nil, err
	}
	var params *cel.Type
	if c.params != nil {
		params = s.paramType(c.params)
	}
	for i := range o.Variables {
		switch o.Variables[i].Name {
		case cel.ObjectVariable, cel.OldObjectVariable:
			o.Variables[i].Schema = object
		case cel.ParamsVariable:
			o.Variables[i].Schema = params
		}
	}
	return cel.NewLanguage(o)
}

// unbounded is the estimate from which on it includes a size without a bound.
const unbounded = math.MaxUint64 / 100

// estimate estimates all expressions. ok is false if there are none.
func (c *common) estimate(l *cel.Language) (out Schema, ok bool) {
	all, err := c.compile(l)
	if err != nil {
		return out, false
	}
	plain, err := c.plain()
	if err != nil {
		return out, false
	}
	untyped, err := c.compile(plain)
	if err != nil {
		return out, false
	}
	out.Limit, out.policy = conditions.EvaluateBudget, true
	add := func(path, text string, x, other *cel.Expression) {
		if x == nil {
			x = other // a type error, which the server ignores here
		}
		if x == nil {
			return
		}
		cost := x.MaxCost()
		if cost > unbounded {
			cost = math.MaxUint64
		}
		out.Costs = append(out.Costs, Cost{Path: path, Where: strings.TrimPrefix(path, "spec."), Expr: text, Each: cost, Times: 1, Total: cost,
			Limit: conditions.PerCall, Share: float64(cost) / conditions.PerCall})
		out.Total = plus(out.Total, cost)
	}
	for i, v := range c.variables {
		add(specPath.Child("variables").Index(i).Child("expression").String(), v.Expression, all.variables[v.Name], untyped.variables[v.Name])
	}
	for i, e := range c.expressions {
		add(e.path, e.text, all.expressions[i], untyped.expressions[i])
	}
	out.Share = float64(out.Total) / float64(out.Limit)
	slices.SortStableFunc(out.Costs, func(a, b Cost) int { return cmp.Compare(b.Total, a.Total) })
	return out, len(out.Costs) > 0
}
