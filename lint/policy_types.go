package lint

import (
	"context"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/internal/admission/typecheck"
	"github.com/keelson-io/keelson/kind"
)

// This file finds type errors in the expressions of policies. A server checks each expression for each kind that the rules name, and also
// complains about parts that are never evaluated for a kind: those behind a guard on object.kind. These are left out here.

// mistyping is a type error of an expression, for one kind.
type mistyping struct {
	path string
	kind string // apps/v1, Kind=DaemonSet
	text string
	at   *Expression // nil if it is not known
}

// types finds type errors in the expressions of a policy, which a server writes into the policy's
// status: one for each position, with the kinds.
func (s *policySet) types(ctx context.Context, p *Policy) []Finding {
	if p.policy.validating == nil {
		return nil // servers check the types of validating policies only
	}
	all := mistypings(typecheck.Check(p.policy.validating, s.kinds), p)
	if len(all) == 0 {
		return nil
	}
	reached := map[string]func(mistyping) bool{}
	var out []Finding
	kinds := map[int][]string{} // by the place in out
	for _, m := range all {
		if reached[m.kind] == nil {
			reached[m.kind] = s.reaches(ctx, p, m.kind, all)
		}
		if !reached[m.kind](m) {
			continue
		}
		i := slices.IndexFunc(out, func(f Finding) bool {
			return f.Path == m.path && f.Message == m.text && (f.Expression == nil && m.at == nil || f.Expression != nil && m.at != nil && *f.Expression == *m.at)
		})
		if i < 0 {
			i = len(out)
			out = append(out, Finding{Severity: Warning, Check: "type", Path: m.path, Message: m.text, Expression: m.at})
		}
		kinds[i] = append(kinds[i], m.kind)
	}
	for i := range out {
		out[i].Message += ", for " + kindNames(kinds[i])
	}
	return out
}

// mistypings splits the warnings of a server.
func mistypings(warnings []admissionv1.ExpressionWarning, p *Policy) []mistyping {
	var out []mistyping
	for _, w := range warnings {
		for of := range strings.SplitSeq(strings.TrimSpace(w.Warning), "\n\n") {
			kind, detail, ok := strings.Cut(of, ": ")
			if !ok {
				continue
			}
			texts, places := pointers(detail, p.text.Scalar(w.FieldRef))
			for i := range texts {
				out = append(out, mistyping{w.FieldRef, kind, texts[i], places[i]})
			}
			if len(texts) == 0 {
				out = append(out, mistyping{w.FieldRef, kind, detail, nil})
			}
		}
	}
	return out
}

// kindNames joins kinds by their groups and versions: apps/v1 DaemonSet, Deployment; batch/v1 Job.
func kindNames(kinds []string) string {
	by := map[string][]string{}
	for _, k := range kinds {
		version, name, _ := strings.Cut(k, ", Kind=")
		by[strings.TrimPrefix(version, "/")] = append(by[strings.TrimPrefix(version, "/")], name)
	}
	var out []string
	for _, version := range slices.Sorted(maps.Keys(by)) {
		out = append(out, version+" "+strings.Join(slices.Compact(slices.Sorted(slices.Values(by[version]))), ", "))
	}
	return strings.Join(out, "; ")
}

// reaches returns a function that reports whether the part of an expression with a type error can be evaluated for objects of a kind. It
// checks what remains of the expressions when the kind is known.
func (s *policySet) reaches(ctx context.Context, p *Policy, of string, all []mistyping) func(mistyping) bool {
	always := func(mistyping) bool { return true }
	c := p.policy
	versions := typecheck.Kinds(c.constraints, s.kinds)
	at := slices.IndexFunc(versions, func(v *kind.Version) bool { return v.GVK().String() == of })
	if at < 0 {
		return always
	}
	rest, never, err := c.residuals(ctx, versions[at], func(path string) bool {
		return slices.ContainsFunc(all, func(m mistyping) bool { return m.kind == of && m.path == path })
	})
	if err != nil {
		return always
	}
	v := versions[at]
	rest.Spec.MatchConstraints = &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
		Rule: admissionv1.Rule{APIGroups: []string{v.Kind.Group}, APIVersions: []string{v.Name}, Resources: []string{v.Kind.Plural}}}}}}
	left := mistypings(typecheck.Check(rest, s.kinds), p)
	return func(m mistyping) bool {
		if never[m.path] {
			return false
		}
		// An error of the rest that the whole does not have is one of writing it: then nothing is known.
		known, said := true, false
		for _, l := range left {
			if l.path == m.path && l.kind == of {
				said = said || l.text == m.text
				known = known && slices.ContainsFunc(all, func(o mistyping) bool { return o.kind == of && o.path == l.path && o.text == l.text })
			}
		}
		return said || !known
	}
}

// residuals returns a policy with what remains of the wanted expressions for objects of a kind, and the paths of those whose result does
// not depend on anything else.
func (c *common) residuals(ctx context.Context, v *kind.Version, wanted func(path string) bool) (*admissionv1.ValidatingAdmissionPolicy, map[string]bool, error) {
	l, err := c.plain()
	if err != nil {
		return nil, nil, err
	}
	all, err := c.compile(l)
	if err != nil {
		return nil, nil, err
	}
	s, err := c.ofKind(ctx, l, all, v)
	if err != nil {
		return nil, nil, err
	}
	rest, never := c.validating.DeepCopy(), map[string]bool{}
	texts := map[string]string{}
	for i, e := range c.expressions {
		if !wanted(e.path) {
			continue
		}
		texts[e.path] = e.text
		if all.expressions[i] == nil {
			continue
		}
		switch out, _, err := all.expressions[i].Partial(ctx, s.vars, s.unknown, foldLimit); {
		case err != nil:
		case out.Known:
			never[e.path] = true
		default:
			texts[e.path] = out.Residual
		}
	}
	for i := range rest.Spec.Validations {
		at := specPath.Child("validations").Index(i)
		rest.Spec.Validations[i].Expression = texts[at.Child("expression").String()]
		if rest.Spec.Validations[i].Expression == "" {
			rest.Spec.Validations[i].Expression = "true"
		}
		rest.Spec.Validations[i].MessageExpression = texts[at.Child("messageExpression").String()]
	}
	return rest, never, nil
}

// ofKind returns what is known about all requests for objects of a kind.
func (c *common) ofKind(ctx context.Context, l *cel.Language, all *compiled, v *kind.Version) (*situation, error) {
	s := &situation{vars: cel.Vars{}}
	gvk := map[string]any{"group": v.Kind.Group, "version": v.Name, "kind": v.Kind.Name}
	gvr := map[string]any{"group": v.Kind.Group, "version": v.Name, "resource": v.Kind.Plural}
	object := map[string]any{"apiVersion": v.APIVersion(), "kind": v.Kind.Name}
	for name, value := range map[string]any{cel.ObjectVariable: object, cel.OldObjectVariable: object, cel.RequestVariable: map[string]any{"kind": gvk, "resource": gvr}} {
		var err error
		if s.vars[name], err = cel.FromGo(value); err != nil {
			return nil, err
		}
	}
	paths := []string{"request.requestKind", "request.requestResource", "request.subResource", "request.requestSubResource", "request.name",
		"request.namespace", "request.userInfo", "request.dryRun", "request.options", "request.operation",
		cel.NamespaceVariable, cel.AuthorizerVariable, cel.RequestResourceVariable}
	if c.params != nil {
		paths = append(paths, cel.ParamsVariable)
	}
	for _, variable := range []string{cel.ObjectVariable, cel.OldObjectVariable} {
		paths = append(paths, variable+".metadata", variable+".status")
		if v.Schema != nil {
			for _, name := range v.Schema.Source().Names {
				paths = append(paths, variable+"."+name)
			}
		}
	}
	var err error
	if s.unknown, err = patterns(l, paths...); err != nil {
		return nil, err
	}
	return s, s.compose(ctx, l, c, all)
}
