// Package typecheck finds expressions of validating admission policies that do not match the types
// of the kinds to which the policies apply.
//
// # Model
//
// Expressions are compiled without types of objects, since one policy can apply to many kinds.
// [Check] compiles each expression again for each kind that the rules name, with the types of the
// kind's published schema. It returns the errors as warnings for the policy's status. They do not
// change what the policy does.
//
// # Invariants
//
//   - Rules with wildcards for groups or versions name no kind. At most ten
//     kinds of a policy are checked.
//   - The texts are upstream's. Object types have upstream's names: the kind,
//     a number without meaning, and the path within the object.
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

// maxKinds is the number of kinds for which a policy is checked.
const maxKinds = 10

// Check returns the type errors of a policy's expressions, for the kinds in a snapshot; nil if
// there are none.
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

// view is the language of expressions for objects of one kind.
type view struct {
	gvk      schema.GroupVersionKind
	language *cel.Language
}

// newView returns false if the kind has no schema.
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
		x, _ := l.CheckExpression(named.Expression) // a variable that does not compile has the type dyn
		composition.Add(named.Name, x)
	}
	return view{v.GVK(), l}, true
}

// check returns the type error of an expression, "" if there is none.
func (w *view) check(expression string) string {
	if _, err := w.language.CheckExpression(expression); err != nil {
		return fmt.Sprintf("%v: %v\n", w.gvk, err)
	}
	return ""
}

// paramKind returns the parameter kind of a policy, empty if it has none.
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

// versionOf returns the version of a kind in a snapshot, nil if it is not served.
func versionOf(gvk schema.GroupVersionKind, among *kind.Snapshot) *kind.Version {
	for k := range among.InGroup(gvk.Group) {
		if v := k.Version(gvk.Version); v != nil && k.Name == gvk.Kind {
			return v
		}
	}
	return nil
}

// Kinds returns the versions for which a policy's expressions are checked: those that its rules
// name without wildcards, in order, ten at most.
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

// named adds the versions that a rule names, up to maxKinds in total. It returns how many versions
// the rule names.
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

// lookup returns the versions that a resource may mean. As with upstream's REST mapper, the
// resource may be a plural or a singular, and an empty group matches all groups.
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
