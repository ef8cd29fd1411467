// Package typecheck finds expressions of validating admission policies that do
// not fit the kinds that the policies are for.
//
// # Model
//
// An expression sees objects without types, since one policy may be for many
// kinds. [Check] checks it once more for each kind that the rules of its policy
// name, with the types that the kind's published schema has, and words what does
// not fit as warnings for the policy's status. They change nothing about what
// the policy does.
//
// # Invariants
//
//   - Rules with wildcards for groups or versions name no kind; of one policy
//     ten kinds at most are looked at.
//   - The texts are upstream's. Object types are named as upstream names them:
//     the kind, a number that nothing depends on, and the path from there.
package typecheck

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/kind"
)

// maxKinds is how many kinds a policy's expressions are checked for.
const maxKinds = 10

// Check returns what does not fit in a policy's expressions, given the kinds
// that there are; nil if everything does.
func Check(p *admissionv1.ValidatingAdmissionPolicy, among *kind.Snapshot) []admissionv1.ExpressionWarning {
	var views []view
	for _, v := range Kinds(p.Spec.MatchConstraints, among) {
		if w, ok := newView(v, p, among); ok {
			views = append(views, w)
		}
	}
	var warnings []admissionv1.ExpressionWarning
	check := func(at *field.Path, expression string) {
		var texts []string
		for i := range views {
			if text := views[i].check(expression); text != "" {
				texts = append(texts, text)
			}
		}
		if len(texts) > 0 {
			warnings = append(warnings, admissionv1.ExpressionWarning{FieldRef: at.String(), Warning: strings.Join(texts, "\n")})
		}
	}
	for i, v := range p.Spec.Validations {
		at := field.NewPath("spec", "validations").Index(i)
		check(at.Child("expression"), v.Expression)
		if v.MessageExpression != "" {
			check(at.Child("messageExpression"), v.MessageExpression)
		}
	}
	return warnings
}

// view is how expressions see objects of one kind.
type view struct {
	gvk      schema.GroupVersionKind
	language *cel.Language
}

// newView is false if nothing is known about the objects.
func newView(v *kind.Version, p *admissionv1.ValidatingAdmissionPolicy, among *kind.Snapshot) (view, bool) {
	b := &builder{objects: map[string]map[string]string{}}
	object, err := b.resource(v, v.Kind.Name+"1")
	if err != nil {
		return view{}, false
	}
	variables := []cel.Variable{{Name: cel.ObjectVariable, Type: object}, {Name: cel.OldObjectVariable, Type: object}}
	if gvk := paramKind(p); !gvk.Empty() {
		params := "dyn"
		if v := versionOf(gvk, among); v != nil {
			if t, err := b.resource(v, gvk.Kind+"2"); err == nil {
				params = t
			}
		}
		variables = append(variables, cel.Variable{Name: cel.ParamsVariable, Type: params})
	}
	l, err := base().Extend(variables, b.types())
	if err != nil {
		return view{}, false
	}
	composition := cel.NewComposition()
	if l, err = l.Compose(composition); err != nil {
		return view{}, false
	}
	for _, named := range p.Spec.Variables {
		x, _ := l.CheckExpression(named.Expression) // what does not fit in a variable has any type
		composition.Add(named.Name, x)
	}
	return view{v.GVK(), l}, true
}

// check is what does not fit, "" if nothing does.
func (w *view) check(expression string) string {
	if _, err := w.language.CheckExpression(expression); err != nil {
		return fmt.Sprintf("%v: %v\n", w.gvk, err)
	}
	return ""
}

// paramKind is the kind of a policy's parameters, empty if there are none.
func paramKind(p *admissionv1.ValidatingAdmissionPolicy) schema.GroupVersionKind {
	if p.Spec.ParamKind == nil {
		return schema.GroupVersionKind{}
	}
	gv, err := schema.ParseGroupVersion(p.Spec.ParamKind.APIVersion)
	if err != nil {
		return schema.GroupVersionKind{}
	}
	return gv.WithKind(p.Spec.ParamKind.Kind)
}

func versionOf(gvk schema.GroupVersionKind, among *kind.Snapshot) *kind.Version {
	for k := range among.InGroup(gvk.Group) {
		if v := k.Version(gvk.Version); v != nil && k.Name == gvk.Kind {
			return v
		}
	}
	return nil
}

// Kinds are the versions that rules name without wildcards, ten at most, in
// order: those that a policy's expressions are checked for.
func Kinds(m *admissionv1.MatchResources, among *kind.Snapshot) []*kind.Version {
	if m == nil {
		return nil
	}
	found := map[schema.GroupVersionKind]*kind.Version{}
	for i := range m.ResourceRules {
		if named(&m.ResourceRules[i].Rule, among, found) == maxKinds {
			break
		}
	}
	out := make([]*kind.Version, 0, len(found))
	for _, v := range found {
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b *kind.Version) int {
		return cmp.Or(cmp.Compare(a.Kind.Group, b.Kind.Group), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind.Name, b.Kind.Name))
	})
	return out
}

// named adds the versions that a rule names, maxKinds at most; it returns how
// many it named.
func named(r *admissionv1.Rule, among *kind.Snapshot, found map[schema.GroupVersionKind]*kind.Version) int {
	wild := func(s string) bool { return strings.Contains(s, "*") }
	if slices.ContainsFunc(r.APIGroups, wild) || slices.ContainsFunc(r.APIVersions, wild) {
		return 0
	}
	n := 0
	for _, group := range slices.Sorted(slices.Values(r.APIGroups)) {
		for _, version := range slices.Sorted(slices.Values(r.APIVersions)) {
			for _, resource := range slices.Sorted(slices.Values(r.Resources)) {
				if strings.ContainsAny(resource, "*/") {
					continue
				}
				for _, v := range lookup(schema.GroupVersionResource{Group: group, Version: version, Resource: resource}, among) {
					found[v.GVK()] = v
					if n++; n == maxKinds {
						return n
					}
				}
			}
		}
	}
	return n
}

// lookup finds what a resource may mean, as upstream's mapper does: resources
// go by plural or singular names, and no group means any.
func lookup(r schema.GroupVersionResource, among *kind.Snapshot) []*kind.Version {
	r.Resource = strings.ToLower(r.Resource)
	var out []*kind.Version
	for k := range among.All() {
		if k.Established && (r.Group == "" || r.Group == k.Group) && (r.Resource == k.Plural || r.Resource == k.Singular) {
			if v := k.Version(r.Version); v != nil {
				out = append(out, v)
			}
		}
	}
	return out
}
