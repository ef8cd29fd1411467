package lint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/internal/admission"
)

// This file finds expressions with a constant result. It evaluates them with all inputs unknown
// that are not known in advance.

// fixed is the constant result of an expression.
type fixed struct {
	known bool
	value cel.Value
	err   error // it always fails
}

// is reports whether the expression always has this value.
func (f fixed) is(value bool) bool {
	return f.known && f.err == nil && f.value.Kind() == cel.KindBool && f.value.Bool() == value
}

// foldLimit is the cost limit of such an evaluation.
const foldLimit = 100_000

// fold evaluates an expression with vars known and everything else unknown. If x is nil, because it
// did not compile, the result is unknown.
func fold(ctx context.Context, x *cel.Expression, vars cel.Vars, unknown []cel.Pattern) fixed {
	if x == nil {
		return fixed{}
	}
	out, _, err := x.Partial(ctx, vars, unknown, foldLimit)
	switch {
	case err != nil && (ctx.Err() != nil || errors.Is(err, cel.ErrCostLimit)):
		return fixed{}
	case err != nil:
		return fixed{known: true, err: err}
	}
	return fixed{known: out.Known, value: out.Value}
}

// ruleLanguage is the environment of rules without types of values. Types do not influence whether
// a result is known.
var ruleLanguage = sync.OnceValues(func() (*cel.Language, error) {
	return cel.NewLanguage(cel.LanguageOptions{Kubernetes: cel.NewestKubernetes, Variables: []cel.Variable{{Name: "self"}, {Name: "oldSelf"}}})
})

// constants finds rules of a node with a constant result.
func (n node) constants(ctx context.Context) []Finding {
	if len(n.schema.Rules) == 0 {
		return nil
	}
	l, err := ruleLanguage()
	if err != nil {
		return nil
	}
	unknown, err := patterns(l, "self", "oldSelf")
	if err != nil {
		return nil
	}
	var out []Finding
	for i, r := range n.schema.Rules {
		x, err := l.CompileExpression(r.Rule)
		if err != nil {
			continue // it needs types, or the server's verdict covers it
		}
		f := Finding{Severity: Warning, Path: fmt.Sprintf("%s.x-kubernetes-validations[%d].rule", n.path, i)}
		switch got := fold(ctx, x, nil, unknown); {
		case got.is(true):
			f.Check, f.Message = "no-effect", "is true whatever the value is: it refuses nothing"
		case got.is(false):
			f.Check, f.Message = "contradiction", "is false whatever the value is: nothing is valid here"
		case got.err != nil:
			f.Check, f.Message = "contradiction", fmt.Sprintf("fails whatever the value is, and nothing is valid here: %v", got.err)
		default:
			continue
		}
		out = append(out, f)
	}
	return out
}

// patterns returns the unknown patterns for paths.
func patterns(l *cel.Language, paths ...string) ([]cel.Pattern, error) {
	var out []cel.Pattern
	for _, path := range paths {
		p, err := l.Pattern(path)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// situation holds what is known about all requests with one operation.
type situation struct {
	op      admission.Operation
	vars    cel.Vars
	unknown []cel.Pattern
}

// situations returns the situations for the operations that a policy's rules name.
func (c *common) situations(ctx context.Context, l *cel.Language, all *compiled) ([]situation, error) {
	var out []situation
	for _, op := range c.operations() {
		s := situation{op: op, vars: cel.Vars{}}
		paths := []string{"request.kind", "request.requestKind", "request.resource", "request.requestResource", "request.subResource",
			"request.requestSubResource", "request.name", "request.namespace", "request.userInfo", "request.dryRun", "request.options",
			cel.NamespaceVariable, cel.AuthorizerVariable, cel.RequestResourceVariable}
		if c.params != nil {
			paths = append(paths, cel.ParamsVariable)
		}
		request, err := cel.FromGo(map[string]any{"operation": string(op)})
		if err != nil {
			return nil, err
		}
		s.vars[cel.RequestVariable] = request
		null, err := cel.FromGo(nil)
		if err != nil {
			return nil, err
		}
		if op == admission.Delete {
			s.vars[cel.ObjectVariable] = null
		} else {
			paths = append(paths, cel.ObjectVariable)
		}
		if op == admission.Create || op == admission.Connect {
			s.vars[cel.OldObjectVariable] = null
		} else {
			paths = append(paths, cel.OldObjectVariable)
		}
		if s.unknown, err = patterns(l, paths...); err != nil {
			return nil, err
		}
		if err := s.compose(ctx, l, c, all); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// compose evaluates the variables of a policy in the situation, as far as they are known. Each may
// read those before it.
func (s *situation) compose(ctx context.Context, l *cel.Language, c *common, all *compiled) error {
	known := map[string]fixed{}
	var names []string
	for _, v := range c.variables {
		names = append(names, v.Name)
	}
	s.vars[cel.ComposedVariable] = cel.LazyObject(names, func(name string) (cel.Value, error) { return known[name].value, known[name].err })
	for _, v := range c.variables {
		got := fold(ctx, all.variables[v.Name], s.vars, s.unknown)
		if known[v.Name] = got; !got.known {
			more, err := patterns(l, cel.ComposedVariable+"."+v.Name)
			if err != nil {
				return err
			}
			s.unknown = append(s.unknown, more...)
		}
	}
	return nil
}

// logic finds expressions of a policy whose result is the same for all requests that its rules
// match.
func (c *common) logic(ctx context.Context) []Finding {
	l, err := c.plain()
	if err != nil {
		return nil
	}
	all, err := c.compile(l)
	if err != nil {
		return nil
	}
	situations, err := c.situations(ctx, l, all)
	if err != nil || len(situations) == 0 {
		return nil
	}
	var out []Finding
	reached := situations
	for i, e := range c.expressions {
		if e.sort != condition {
			continue
		}
		without, err := withoutNamespace(situations)
		if err != nil {
			return nil
		}
		out = append(out, c.known(ctx, e, all.expressions[i], without)...)
		var rest []situation
		for _, s := range reached {
			if got := fold(ctx, all.expressions[i], s.vars, s.unknown); !got.is(false) && got.err == nil {
				rest = append(rest, s)
			}
		}
		reached = rest
	}
	for i, e := range c.expressions {
		if e.sort != condition && len(reached) > 0 {
			out = append(out, c.known(ctx, e, all.expressions[i], reached)...)
		}
	}
	return out
}

// withoutNamespace returns the situations of match conditions, in which namespaceObject is always null.
func withoutNamespace(all []situation) ([]situation, error) {
	null, err := cel.FromGo(nil)
	if err != nil {
		return nil, err
	}
	var out []situation
	for _, s := range all {
		s.vars, s.unknown = maps.Clone(s.vars), slices.DeleteFunc(slices.Clone(s.unknown), func(p cel.Pattern) bool { return p.Name == cel.NamespaceVariable })
		s.vars[cel.NamespaceVariable] = null
		out = append(out, s)
	}
	return out, nil
}

// known returns the findings for an expression that has a constant result in some situations.
func (c *common) known(ctx context.Context, e expression, x *cel.Expression, situations []situation) []Finding {
	var out []Finding
	var ops []string
	always, never := true, true
	for _, s := range situations {
		if e.sort == mutation && s.op == admission.Delete {
			continue // no object can be mutated
		}
		ops = append(ops, string(s.op))
		got := fold(ctx, x, s.vars, s.unknown)
		always, never = always && got.is(true), never && got.is(false)
		if got.err != nil && e.sort != message { // a message that fails is left out
			effect := "every such request is denied"
			if c.ignores {
				effect = "failurePolicy Ignore passes over it"
			}
			out = append(out, Finding{Severity: Warning, Check: "contradiction", Path: e.path,
				Message: fmt.Sprintf("fails for every %s: %v: %s", s.op, got.err, effect), Hint: hintFor(s.op, e)})
		}
	}
	if len(ops) == 0 {
		return out
	}
	which := "every request that the rules are for (" + strings.Join(ops, ", ") + ")"
	warn := func(check, text string) {
		out = append(out, Finding{Severity: Warning, Check: check, Path: e.path, Message: fmt.Sprintf(text, which)})
	}
	switch {
	case e.sort == condition && always:
		warn("no-effect", "is true for %s: it excludes nothing")
	case e.sort == condition && never:
		warn("contradiction", "is false for %s: the policy is never evaluated")
	case e.sort == validation && always:
		warn("no-effect", "is true for %s: it denies nothing")
	}
	return out
}

// hintFor returns which variables are null in an expression, in requests with an operation.
func hintFor(op admission.Operation, e expression) string {
	if e.sort == condition && strings.Contains(e.text, cel.NamespaceVariable) {
		return "namespaceObject is always null in matchConditions; use matchConstraints.namespaceSelector, or a validation"
	}
	switch op {
	case admission.Delete:
		return "of a DELETE there is no object, only oldObject"
	case admission.Create:
		return "of a CREATE there is no oldObject"
	}
	return ""
}
