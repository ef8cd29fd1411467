package flowcontrol

import (
	"slices"
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/internal/texts"
)

// This file checks the rules of FlowSchemas.

// verbs are the verbs of rules, in the order of error texts.
var verbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"}

// checkRules checks the subjects and rules of one entry.
func checkRules(r *flowcontrolv1.PolicyRulesWithSubjects, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(r.Subjects) == 0 {
		errs = append(errs, field.Required(path.Child("subjects"), "subjects must contain at least one value"))
	}
	for i := range texts.Each(&errs, r.Subjects) {
		errs = append(errs, checkSubject(&r.Subjects[i], path.Child("subjects").Index(i))...)
	}
	if len(r.ResourceRules) == 0 && len(r.NonResourceRules) == 0 {
		errs = append(errs, field.Required(path, "at least one of resourceRules and nonResourceRules has to be non-empty"))
	}
	for i := range texts.Each(&errs, r.ResourceRules) {
		errs = append(errs, checkResources(&r.ResourceRules[i], path.Child("resourceRules").Index(i))...)
	}
	for i := range texts.Each(&errs, r.NonResourceRules) {
		errs = append(errs, checkPaths(&r.NonResourceRules[i], path.Child("nonResourceRules").Index(i))...)
	}
	return errs
}

// checkSubject checks that a subject has the member of its kind, and no other.
func checkSubject(s *flowcontrolv1.Subject, path *field.Path) field.ErrorList {
	members := []struct {
		kind  flowcontrolv1.SubjectKind
		name  string
		isSet bool
		check func(*field.Path) field.ErrorList
	}{
		{flowcontrolv1.SubjectKindServiceAccount, "serviceAccount", s.ServiceAccount != nil, func(p *field.Path) field.ErrorList { return checkAccount(s.ServiceAccount, p) }},
		{flowcontrolv1.SubjectKindUser, "user", s.User != nil, func(p *field.Path) field.ErrorList { return required(p.Child("name"), s.User.Name, "") }},
		{flowcontrolv1.SubjectKindGroup, "group", s.Group != nil, func(p *field.Path) field.ErrorList { return required(p.Child("name"), s.Group.Name, "") }},
	}
	var own, others field.ErrorList
	known := false
	for _, m := range members {
		at := path.Child(m.name)
		switch {
		case m.kind == s.Kind && m.isSet:
			known, own = true, m.check(at)
		case m.kind == s.Kind:
			known, own = true, field.ErrorList{field.Required(at, m.name+" is required when subject kind is '"+string(m.kind)+"'")}
		case m.isSet:
			others = append(others, field.Forbidden(at, m.name+" is forbidden when subject kind is not '"+string(m.kind)+"'"))
		}
	}
	if !known {
		return field.ErrorList{field.NotSupported(path.Child("kind"), s.Kind,
			[]flowcontrolv1.SubjectKind{flowcontrolv1.SubjectKindGroup, flowcontrolv1.SubjectKindServiceAccount, flowcontrolv1.SubjectKindUser})}
	}
	return append(own, others...)
}

// required checks that a text is not empty.
func required(path *field.Path, text, detail string) field.ErrorList {
	if text == "" {
		return field.ErrorList{field.Required(path, detail)}
	}
	return nil
}

// checkAccount checks the name and the namespace of a service account. The name may be a wildcard.
func checkAccount(a *flowcontrolv1.ServiceAccountSubject, path *field.Path) field.ErrorList {
	errs := required(path.Child("name"), a.Name, "")
	if a.Name != "" && a.Name != flowcontrolv1.NameAll {
		errs = append(errs, describe.Invalid(path.Child("name"), a.Name, apivalidation.ValidateServiceAccountName(a.Name, false))...)
	}
	if a.Namespace == "" {
		return append(errs, required(path.Child("namespace"), "", "must specify namespace for service account")...)
	}
	return append(errs, describe.Invalid(path.Child("namespace"), a.Namespace, apivalidation.ValidateNamespaceName(a.Namespace, false))...)
}

// checkNames checks that a list has names, or the wildcard alone. missing is the text of the error
// for an empty list, others that for a list with more than the wildcard.
func checkNames(names []string, path *field.Path, missing, others string) field.ErrorList {
	switch {
	case len(names) == 0 && missing != "":
		return field.ErrorList{field.Required(path, missing)}
	case len(names) > 1 && slices.Contains(names, "*"):
		return field.ErrorList{field.Invalid(path, names, "if '*' is present, must not specify other "+others)}
	}
	return nil
}

// checkVerbs checks that verbs are known.
func checkVerbs(names []string, path *field.Path) field.ErrorList {
	if len(names) > 0 && !slices.Contains(names, "*") {
		for _, v := range names {
			if !slices.Contains(verbs, v) {
				return field.ErrorList{field.NotSupported(path, names, verbs)}
			}
		}
	}
	return checkNames(names, path, "verbs must contain at least one value", "verbs")
}

// checkResources checks a rule for resources. A rule for resources in namespaces must list
// namespaces.
func checkResources(r *flowcontrolv1.ResourcePolicyRule, path *field.Path) field.ErrorList {
	errs := checkVerbs(r.Verbs, path.Child("verbs"))
	errs = append(errs, checkNames(r.APIGroups, path.Child("apiGroups"), "resource rules must supply at least one api group", "api groups")...)
	errs = append(errs, checkNames(r.Resources, path.Child("resources"), "resource rules must supply at least one resource", "resources")...)
	missing := ""
	if !r.ClusterScope {
		missing = "resource rules that are not cluster scoped must supply at least one namespace"
	}
	errs = append(errs, checkNames(r.Namespaces, path.Child("namespaces"), missing, "namespaces")...)
	if slices.Contains(r.Namespaces, "*") {
		return errs
	}
	for i, n := range texts.Each(&errs, r.Namespaces) {
		for _, msg := range apivalidation.ValidateNamespaceName(n, false) {
			errs = append(errs, field.Invalid(path.Child("namespaces").Index(i), n, "each member of this list must be '*' or a DNS-1123 label; "+msg))
		}
	}
	return errs
}

// checkPaths checks a rule for paths that are not resources.
func checkPaths(r *flowcontrolv1.NonResourcePolicyRule, path *field.Path) field.ErrorList {
	errs := checkVerbs(r.Verbs, path.Child("verbs"))
	at := path.Child("nonResourceURLs")
	errs = append(errs, checkNames(r.NonResourceURLs, at, "nonResourceURLs must contain at least one value", "non-resource URLs")...)
	if slices.Contains(r.NonResourceURLs, "*") {
		return errs
	}
	for i, url := range texts.Each(&errs, r.NonResourceURLs) {
		if text := wrongPath(url); text != "" {
			errs = append(errs, field.Invalid(at.Index(i), url, text))
		}
	}
	return errs
}

// wrongPath returns the mistake in a path, "" for none.
func wrongPath(path string) string {
	wildcards := strings.Count(path, "*")
	switch {
	case path == "":
		return "must not be empty"
	case path == "/":
	case !strings.HasPrefix(path, "/"):
		return "must start with slash"
	case strings.Contains(path, " "):
		return "must not contain white-space"
	case strings.Contains(path, "//"):
		return "must not contain double slash"
	case wildcards > 1 || wildcards == 1 && !strings.HasSuffix(path, "/*"):
		return "wildcard can only do suffix matching"
	}
	return ""
}
