// Package rbac describes roles and their bindings, of the API group rbac.authorization.k8s.io.
package rbac

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/internal/texts"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file describes roles and bindings.

// Kinds returns the descriptions of the kinds of the group.
func Kinds() []describe.Description {
	roleColumns := []kind.Column{describe.CreatedColumn()}
	return []describe.Description{{
		Group: rbacv1.GroupName, Kind: "Role", Plural: "roles",
		Versions: describe.V1[rbacv1.Role](nil),
		Traits:   kind.Traits{CreateOnUpdate: true}, ValidName: describe.Segment, Columns: roleColumns, Check: checkRole,
	}, {
		Group: rbacv1.GroupName, Kind: "RoleBinding", Plural: "rolebindings",
		Versions: describe.V1[rbacv1.RoleBinding](fillRoleBinding),
		Traits:   kind.Traits{CreateOnUpdate: true}, ValidName: describe.Segment, Columns: bindingColumns("roleBinding", withoutImmutability(rbacv1.RoleBinding{}.SwaggerDoc()["roleRef"])), Check: checkBinding(true),
	}, {
		Group: rbacv1.GroupName, Kind: "ClusterRole", Plural: "clusterroles", ClusterScoped: true,
		Versions: describe.V1[rbacv1.ClusterRole](nil),
		Traits:   kind.Traits{CreateOnUpdate: true}, ValidName: describe.Segment, Columns: roleColumns, Check: checkClusterRole,
	}, {
		Group: rbacv1.GroupName, Kind: "ClusterRoleBinding", Plural: "clusterrolebindings", ClusterScoped: true,
		Versions: describe.V1[rbacv1.ClusterRoleBinding](fillClusterRoleBinding),
		Traits:   kind.Traits{CreateOnUpdate: true}, ValidName: describe.Segment, Columns: bindingColumns("clusterRoleBinding", withoutImmutability(rbacv1.ClusterRoleBinding{}.SwaggerDoc()["roleRef"])), Check: checkBinding(false),
	}}
}

// bindingColumns returns the columns of a kind of bindings.
func bindingColumns(of, role string) []kind.Column {
	return []kind.Column{
		describe.Cell("Role", role, roleRefCell), describe.AgeColumn(),
		describe.Wide(describe.Cell("Users", "Users in the "+of, subjectsCell(rbacv1.UserKind))),
		describe.Wide(describe.Cell("Groups", "Groups in the "+of, subjectsCell(rbacv1.GroupKind))),
		describe.Wide(describe.Cell("ServiceAccounts", "ServiceAccounts in the "+of, subjectsCell(rbacv1.ServiceAccountKind))),
	}
}

// withoutImmutability returns the description of a field in v1beta1, which columns use.
func withoutImmutability(text string) string {
	return strings.TrimSuffix(text, " This field is immutable.")
}

// fillRoleBinding sets the default API groups of the role and the subjects.
func fillRoleBinding(b *rbacv1.RoleBinding) {
	fillRef(&b.RoleRef)
	fillSubjects(b.Subjects)
}

// fillClusterRoleBinding sets the default API groups of the role and the subjects.
func fillClusterRoleBinding(b *rbacv1.ClusterRoleBinding) {
	fillRef(&b.RoleRef)
	fillSubjects(b.Subjects)
}

// fillRef sets the default API group of a role.
func fillRef(ref *rbacv1.RoleRef) {
	if ref.APIGroup == "" {
		ref.APIGroup = rbacv1.GroupName
	}
}

// fillSubjects sets the default API group of each subject, which depends on its kind.
func fillSubjects(subjects []rbacv1.Subject) {
	for i := range subjects {
		s := &subjects[i]
		if s.APIGroup == "" && (s.Kind == rbacv1.UserKind || s.Kind == rbacv1.GroupKind) {
			s.APIGroup = rbacv1.GroupName
		}
	}
}

// checkRole checks the rules of a role.
func checkRole(_ *kind.Version, d, _ *jsondoc.Doc, _ schema.Scope) field.ErrorList {
	rules := d.Root().Get("rules")
	return append(checkRules(rules, true), checkVerbs(rules)...)
}

// checkClusterRole checks the rules of a cluster role, and its aggregation.
func checkClusterRole(_ *kind.Version, d, _ *jsondoc.Doc, _ schema.Scope) field.ErrorList {
	rules := d.Root().Get("rules")
	errs := append(checkRules(rules, false), checkAggregation(d.Root().Get("aggregationRule"))...)
	return append(errs, checkVerbs(rules)...)
}

// checkAggregation checks the selectors of a cluster role that is made of others.
func checkAggregation(rule jsondoc.Value) field.ErrorList {
	if rule.Kind() != jsondoc.Object {
		return nil
	}
	var errs field.ErrorList
	at := field.NewPath("aggregationRule", "clusterRoleSelectors")
	selectors := rule.Get("clusterRoleSelectors")
	if selectors.Len() == 0 {
		return field.ErrorList{field.Required(at, "at least one clusterRoleSelector required if aggregationRule is non-nil")}
	}
	for i, s := range texts.Until(&errs, selectors.Items()) {
		var selector metav1.LabelSelector
		if err := kjson.UnmarshalCaseSensitivePreserveInts(s.AppendJSON(nil), &selector); err != nil {
			errs = append(errs, field.Invalid(at.Index(i), nil, err.Error()))
			continue
		}
		errs = append(errs, describe.CheckTerms(&selector, at.Index(i))...)
		if _, err := metav1.LabelSelectorAsSelector(&selector); err != nil {
			errs = append(errs, field.Invalid(at.Index(i), nil, "invalid label selector."))
		}
	}
	return errs
}

// checkVerbs checks that rules have verbs. Upstream declares this in its types, and such errors come
// after all others.
func checkVerbs(rules jsondoc.Value) field.ErrorList {
	var errs field.ErrorList
	for i, r := range texts.Until(&errs, rules.Items()) {
		if r.Get("verbs").Len() == 0 {
			errs = append(errs, field.Required(field.NewPath("rules").Index(i).Child("verbs"), ""))
		}
	}
	return errs
}

// checkRules checks the rules of a role, but for their verbs.
func checkRules(rules jsondoc.Value, namespaced bool) field.ErrorList {
	var errs field.ErrorList
	for i, r := range texts.Until(&errs, rules.Items()) {
		at := field.NewPath("rules").Index(i)
		if r.Get("nonResourceURLs").Len() > 0 {
			if namespaced {
				errs = append(errs, field.Invalid(at.Child("nonResourceURLs"), describe.Texts(r.Get("nonResourceURLs")), "namespaced rules cannot apply to non-resource URLs"))
			}
			if r.Get("apiGroups").Len()+r.Get("resources").Len()+r.Get("resourceNames").Len() > 0 {
				errs = append(errs, field.Invalid(at.Child("nonResourceURLs"), describe.Texts(r.Get("nonResourceURLs")), "rules cannot apply to both regular resources and non-resource URLs"))
			}
			continue
		}
		if r.Get("apiGroups").Len() == 0 {
			errs = append(errs, field.Required(at.Child("apiGroups"), "resource rules must supply at least one api group"))
		}
		if r.Get("resources").Len() == 0 {
			errs = append(errs, field.Required(at.Child("resources"), "resource rules must supply at least one resource"))
		}
	}
	return errs
}

// checkBinding returns the check of bindings, in namespaces or of the cluster.
func checkBinding(namespaced bool) describe.Checker {
	return func(_ *kind.Version, d, old *jsondoc.Doc, _ schema.Scope) field.ErrorList {
		errs := checkRoleRef(d.Root().Get("roleRef"), namespaced)
		for i, s := range texts.Until(&errs, d.Root().Get("subjects").Items()) {
			errs = append(errs, checkSubject(s, namespaced, field.NewPath("subjects").Index(i))...)
		}
		if old != nil && !jsondoc.Equal(d.Root().Get("roleRef"), old.Root().Get("roleRef")) {
			var ref rbacv1.RoleRef
			if kjson.UnmarshalCaseSensitivePreserveInts(d.Root().Get("roleRef").AppendJSON(nil), &ref) == nil {
				errs = append(errs, field.Invalid(field.NewPath("roleRef"), shownRef(ref), "field is immutable"))
			}
		}
		return append(errs, checkNames(d.Root())...)
	}
}

// checkNames checks that the subjects and the role of a binding have names. As in checkVerbs, these
// errors come last.
func checkNames(binding jsondoc.Value) field.ErrorList {
	var errs field.ErrorList
	for i, s := range texts.Until(&errs, binding.Get("subjects").Items()) {
		errs = append(errs, describe.NeedText(field.NewPath("subjects").Index(i).Child("name"), s.Get("name").Text())...)
	}
	return append(errs, describe.NeedText(field.NewPath("roleRef", "name"), binding.At("roleRef", "name").Text())...)
}

// shownRef is a role as errors print it: with Go's field names.
type shownRef struct{ APIGroup, Kind, Name string }

// checkRoleRef checks the role of a binding, but for an empty name.
func checkRoleRef(ref jsondoc.Value, namespaced bool) field.ErrorList {
	var errs field.ErrorList
	at := field.NewPath("roleRef")
	if g := ref.Get("apiGroup").Text(); g != rbacv1.GroupName {
		errs = append(errs, field.NotSupported(at.Child("apiGroup"), strings.Clone(g), []string{rbacv1.GroupName}))
	}
	kinds := []string{"ClusterRole"}
	if namespaced {
		kinds = []string{"Role", "ClusterRole"}
	}
	if k := ref.Get("kind").Text(); k != "ClusterRole" && !(namespaced && k == "Role") {
		errs = append(errs, field.NotSupported(at.Child("kind"), strings.Clone(k), kinds))
	}
	if name := strings.Clone(ref.Get("name").Text()); name != "" {
		for _, msg := range describe.Segment(name, false) {
			errs = append(errs, field.Invalid(at.Child("name"), name, msg))
		}
	}
	return errs
}

// checkSubject checks a subject by its kind, but for an empty name.
func checkSubject(s jsondoc.Value, namespaced bool, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	name, group := strings.Clone(s.Get("name").Text()), strings.Clone(s.Get("apiGroup").Text())
	switch k := strings.Clone(s.Get("kind").Text()); k {
	case rbacv1.ServiceAccountKind:
		if name != "" {
			for _, msg := range describe.Subdomain(name, false) {
				errs = append(errs, field.Invalid(at.Child("name"), name, msg))
			}
		}
		if group != "" {
			errs = append(errs, field.NotSupported(at.Child("apiGroup"), group, []string{""}))
		}
		if !namespaced && s.Get("namespace").Text() == "" {
			errs = append(errs, field.Required(at.Child("namespace"), ""))
		}
	case rbacv1.UserKind, rbacv1.GroupKind:
		if group != rbacv1.GroupName {
			errs = append(errs, field.NotSupported(at.Child("apiGroup"), group, []string{rbacv1.GroupName}))
		}
	default:
		errs = append(errs, field.NotSupported(at.Child("kind"), k, []string{rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind}))
	}
	return errs
}

// roleRefCell returns the role of a binding for tables.
func roleRefCell(obj jsondoc.Value) string {
	ref := obj.Get("roleRef")
	return ref.Get("kind").Text() + "/" + ref.Get("name").Text()
}

// subjectsCell returns the subjects of one kind for tables.
func subjectsCell(kind string) func(jsondoc.Value) string {
	return func(obj jsondoc.Value) string {
		var names []string
		for _, s := range obj.Get("subjects").Items() {
			if s.Get("kind").Text() != kind {
				continue
			}
			name := s.Get("name").Text()
			if kind == "ServiceAccount" {
				name = s.Get("namespace").Text() + "/" + name
			}
			names = append(names, name)
		}
		return strings.Join(names, ", ")
	}
}
