package admissionregistration

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/texts"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file checks the bindings of admission policies, what policies and
// bindings have in common, and the status that policies have.

// checkValidatingBinding checks a ValidatingAdmissionPolicyBinding.
func checkValidatingBinding(_ *kind.Version, d, before *jsondoc.Doc, _ schema.Scope) field.ErrorList {
	b, failed := goType[admissionv1.ValidatingAdmissionPolicyBinding](d)
	if failed != nil {
		return field.ErrorList{failed}
	}
	at, spec := field.NewPath("spec"), &b.Spec
	errs := checkPolicyUse(spec.PolicyName, spec.ParamRef, spec.MatchResources, at)
	errs = append(errs, checkActions(spec.ValidationActions, at.Child("validationActions"))...)
	errs = append(errs, reservedName(b.Name, before)...)
	// Missing fields are reported last, as upstream does.
	if spec.PolicyName == "" {
		errs = append(errs, field.Required(at.Child("policyName"), ""))
	}
	if len(spec.ValidationActions) == 0 {
		errs = append(errs, field.Required(at.Child("validationActions"), ""))
	}
	return errs
}

// checkMutatingBinding checks a MutatingAdmissionPolicyBinding.
func checkMutatingBinding(_ *kind.Version, d, before *jsondoc.Doc, _ schema.Scope) field.ErrorList {
	b, failed := goType[admissionv1.MutatingAdmissionPolicyBinding](d)
	if failed != nil {
		return field.ErrorList{failed}
	}
	at, spec := field.NewPath("spec"), &b.Spec
	var errs field.ErrorList
	if spec.PolicyName == "" {
		errs = append(errs, field.Required(at.Child("policyName"), ""))
	}
	errs = append(errs, checkPolicyUse(spec.PolicyName, spec.ParamRef, spec.MatchResources, at)...)
	errs = append(errs, checkMutated(spec.MatchResources, at.Child("matchResources"))...)
	return append(errs, reservedName(b.Name, before)...)
}

// checkPolicyUse checks the name of the bound policy, if there is one, its parameters and the
// resources that it is bound to.
func checkPolicyUse(policy string, ref *admissionv1.ParamRef, m *admissionv1.MatchResources, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if policy != "" {
		for _, msg := range apivalidation.NameIsDNSSubdomain(policy, false) {
			errs = append(errs, field.Invalid(at.Child("policyName"), policy, msg))
		}
	}
	if ref != nil {
		errs = append(errs, checkParamRef(ref, at.Child("paramRef"))...)
	}
	if m != nil {
		errs = append(errs, checkMatchResources(m, at.Child("matchResources"))...)
	}
	return errs
}

// checkParamRef checks that a reference to parameters has either a name or a selector.
func checkParamRef(ref *admissionv1.ParamRef, at *field.Path) field.ErrorList {
	const exclusive = "name and selector are mutually exclusive"
	var errs field.ErrorList
	if ref.Name != "" {
		for _, msg := range content.IsPathSegmentName(ref.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), ref.Name, msg))
		}
		if ref.Selector != nil {
			errs = append(errs, field.Forbidden(at.Child("name"), exclusive))
		}
	}
	if ref.Selector != nil {
		errs = append(errs, texts.Selector(ref.Selector, metavalidation.LabelSelectorValidationOptions{}, at.Child("selector"))...)
		if ref.Name != "" {
			errs = append(errs, field.Forbidden(at.Child("selector"), exclusive))
		}
	}
	if ref.Name == "" && ref.Selector == nil {
		errs = append(errs, field.Required(at, "one of name or selector must be specified"))
	}
	at = at.Child("parameterNotFoundAction")
	switch action := ref.ParameterNotFoundAction; {
	case action == nil || *action == "":
		errs = append(errs, field.Required(at, ""))
	case *action != admissionv1.DenyAction && *action != admissionv1.AllowAction:
		errs = append(errs, field.NotSupported(at, *action, []string{"Deny", "Allow"}))
	}
	return errs
}

// checkActions checks the actions of a binding. Deny and Warn exclude each other: the user would
// see the message twice.
func checkActions(list []admissionv1.ValidationAction, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := sets.Set[admissionv1.ValidationAction]{}
	for i, action := range texts.Each(&errs, list) {
		errs = append(errs, oneOf(at.Index(i), action, "Audit", "Deny", "Warn")...)
		if seen.Has(action) {
			errs = append(errs, field.Duplicate(at.Index(i), action))
		}
		seen.Insert(action)
	}
	if seen.HasAll(admissionv1.Deny, admissionv1.Warn) {
		errs = append(errs, field.Invalid(at, list, "must not contain both Deny and Warn "+
			"(repeating the same validation failure information in the API response and headers serves no purpose)"))
	}
	return errs
}

// checkMatchResources checks the resources that a policy or a binding matches.
func checkMatchResources(m *admissionv1.MatchResources, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if m.MatchPolicy == nil {
		errs = append(errs, field.Required(at.Child("matchPolicy"), ""))
	} else {
		errs = append(errs, oneOf(at.Child("matchPolicy"), *m.MatchPolicy, "Equivalent", "Exact")...)
	}
	strict := metavalidation.LabelSelectorValidationOptions{}
	if m.NamespaceSelector == nil {
		errs = append(errs, field.Required(at.Child("namespaceSelector"), ""))
	}
	errs = append(errs, texts.Selector(m.NamespaceSelector, strict, at.Child("namespaceSelector"))...)
	if m.ObjectSelector == nil {
		errs = append(errs, field.Required(at.Child("objectSelector"), ""))
	}
	errs = append(errs, texts.Selector(m.ObjectSelector, strict, at.Child("objectSelector"))...)
	for i := range texts.Each(&errs, m.ResourceRules) {
		errs = append(errs, checkNamedRule(&m.ResourceRules[i], at.Child("resourceRules").Index(i))...)
	}
	for i := range texts.Each(&errs, m.ExcludeResourceRules) {
		errs = append(errs, checkNamedRule(&m.ExcludeResourceRules[i], at.Child("excludeResourceRules").Index(i))...)
	}
	return errs
}

// checkNamedRule checks a rule that may have names of objects.
func checkNamedRule(r *admissionv1.NamedRuleWithOperations, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := sets.Set[string]{}
	for i, name := range texts.Each(&errs, r.ResourceNames) {
		at := at.Child("resourceNames").Index(i)
		for _, msg := range content.IsPathSegmentName(name) {
			errs = append(errs, field.Invalid(at, name, msg))
		}
		if seen.Has(name) {
			errs = append(errs, field.Duplicate(at, name))
		}
		seen.Insert(name)
	}
	return append(errs, checkRule(&r.RuleWithOperations, at)...)
}
