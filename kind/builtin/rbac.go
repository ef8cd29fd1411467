package builtin

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file describes roles and bindings.

func rbacKinds() []description {
	roleColumns := []kind.Column{createdColumn()}
	return []description{{
		group: rbacv1.GroupName, kind: "Role", plural: "roles",
		versions:       v1[rbacv1.Role](nil),
		createOnUpdate: true, name: segment, columns: roleColumns, check: checkRole,
	}, {
		group: rbacv1.GroupName, kind: "RoleBinding", plural: "rolebindings",
		versions:       v1[rbacv1.RoleBinding](fillRoleBinding),
		createOnUpdate: true, name: segment, columns: bindingColumns("roleBinding", withoutImmutability(rbacv1.RoleBinding{}.SwaggerDoc()["roleRef"])), check: checkBinding(true),
	}, {
		group: rbacv1.GroupName, kind: "ClusterRole", plural: "clusterroles", cluster: true,
		versions:       v1[rbacv1.ClusterRole](nil),
		createOnUpdate: true, name: segment, columns: roleColumns, check: checkClusterRole,
	}, {
		group: rbacv1.GroupName, kind: "ClusterRoleBinding", plural: "clusterrolebindings", cluster: true,
		versions:       v1[rbacv1.ClusterRoleBinding](fillClusterRoleBinding),
		createOnUpdate: true, name: segment, columns: bindingColumns("clusterRoleBinding", withoutImmutability(rbacv1.ClusterRoleBinding{}.SwaggerDoc()["roleRef"])), check: checkBinding(false),
	}}
}

// bindingColumns are those of a kind of bindings.
func bindingColumns(of, role string) []kind.Column {
	return []kind.Column{
		cell("Role", role, roleRefCell), ageColumn(),
		wide(cell("Users", "Users in the "+of, subjectsCell(rbacv1.UserKind))),
		wide(cell("Groups", "Groups in the "+of, subjectsCell(rbacv1.GroupKind))),
		wide(cell("ServiceAccounts", "ServiceAccounts in the "+of, subjectsCell(rbacv1.ServiceAccountKind))),
	}
}

// withoutImmutability is a description as v1beta1 has it, which columns go by.
func withoutImmutability(text string) string {
	return strings.TrimSuffix(text, " This field is immutable.")
}

func fillRoleBinding(b *rbacv1.RoleBinding) {
	fillRef(&b.RoleRef)
	fillSubjects(b.Subjects)
}

func fillClusterRoleBinding(b *rbacv1.ClusterRoleBinding) {
	fillRef(&b.RoleRef)
	fillSubjects(b.Subjects)
}

func fillRef(ref *rbacv1.RoleRef) {
	if ref.APIGroup == "" {
		ref.APIGroup = rbacv1.GroupName
	}
}

// fillSubjects gives subjects without an API group that of their kind.
func fillSubjects(subjects []rbacv1.Subject) {
	for i := range subjects {
		s := &subjects[i]
		if s.APIGroup == "" && (s.Kind == rbacv1.UserKind || s.Kind == rbacv1.GroupKind) {
			s.APIGroup = rbacv1.GroupName
		}
	}
}

func checkRole(_ *kind.Version, d, _ *doc.Doc, _ schema.Scope) field.ErrorList {
	return checkRules(d.Root().Get("rules"), true)
}

func checkClusterRole(_ *kind.Version, d, _ *doc.Doc, _ schema.Scope) field.ErrorList {
	errs := checkRules(d.Root().Get("rules"), false)
	rule := d.Root().Get("aggregationRule")
	if rule.Kind() != doc.Object {
		return errs
	}
	at := field.NewPath("aggregationRule", "clusterRoleSelectors")
	selectors := rule.Get("clusterRoleSelectors")
	if selectors.Len() == 0 {
		return append(errs, field.Required(at, "at least one clusterRoleSelector required if aggregationRule is non-nil"))
	}
	for i, s := range selectors.Items() {
		var selector metav1.LabelSelector
		if err := kjson.UnmarshalCaseSensitivePreserveInts(s.AppendJSON(nil), &selector); err != nil {
			errs = append(errs, field.Invalid(at.Index(i), nil, err.Error()))
			continue
		}
		errs = append(errs, checkTerms(&selector, at.Index(i))...)
		if _, err := metav1.LabelSelectorAsSelector(&selector); err != nil {
			errs = append(errs, field.Invalid(at.Index(i), nil, "invalid label selector."))
		}
	}
	return errs
}

// checkRules checks the rules of a role.
func checkRules(rules doc.Value, namespaced bool) field.ErrorList {
	var errs field.ErrorList
	for i, r := range rules.Items() {
		at := field.NewPath("rules").Index(i)
		if r.Get("verbs").Len() == 0 {
			errs = append(errs, field.Required(at.Child("verbs"), ""))
		}
		if r.Get("nonResourceURLs").Len() > 0 {
			if namespaced {
				errs = append(errs, field.Invalid(at.Child("nonResourceURLs"), texts(r.Get("nonResourceURLs")), "namespaced rules cannot apply to non-resource URLs"))
			}
			if r.Get("apiGroups").Len()+r.Get("resources").Len()+r.Get("resourceNames").Len() > 0 {
				errs = append(errs, field.Invalid(at.Child("nonResourceURLs"), texts(r.Get("nonResourceURLs")), "rules cannot apply to both regular resources and non-resource URLs"))
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

func texts(list doc.Value) []string {
	var out []string
	for _, item := range list.Items() {
		out = append(out, strings.Clone(item.Text()))
	}
	return out
}

func checkBinding(namespaced bool) checker {
	return func(_ *kind.Version, d, old *doc.Doc, _ schema.Scope) field.ErrorList {
		errs := checkRoleRef(d.Root().Get("roleRef"), namespaced)
		for i, s := range d.Root().Get("subjects").Items() {
			errs = append(errs, checkSubject(s, namespaced, field.NewPath("subjects").Index(i))...)
		}
		if old != nil && !doc.Equal(d.Root().Get("roleRef"), old.Root().Get("roleRef")) {
			var ref rbacv1.RoleRef
			if kjson.UnmarshalCaseSensitivePreserveInts(d.Root().Get("roleRef").AppendJSON(nil), &ref) == nil {
				errs = append(errs, field.Invalid(field.NewPath("roleRef"), shownRef(ref), "field is immutable"))
			}
		}
		return errs
	}
}

// shownRef is how errors show a role: by the names of fields in Go.
type shownRef struct{ APIGroup, Kind, Name string }

func checkRoleRef(ref doc.Value, namespaced bool) field.ErrorList {
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
	name := strings.Clone(ref.Get("name").Text())
	if name == "" {
		return append(errs, field.Required(at.Child("name"), ""))
	}
	for _, msg := range segment(name, false) {
		errs = append(errs, field.Invalid(at.Child("name"), name, msg))
	}
	return errs
}

func checkSubject(s doc.Value, namespaced bool, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	name, group := strings.Clone(s.Get("name").Text()), strings.Clone(s.Get("apiGroup").Text())
	if name == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	}
	switch k := strings.Clone(s.Get("kind").Text()); k {
	case rbacv1.ServiceAccountKind:
		if name != "" {
			for _, msg := range subdomain(name, false) {
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

// segment is the rule for names of roles and bindings: they must fit a URL's
// path.
func segment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}
