// Package review checks reviews: the objects with which clients ask a server about users and permissions.
// The server answers them and does not store them. The errors are refusals, in Kubernetes' words.
package review

import (
	"encoding/json"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/status"
)

// Check checks a review of a kind, in JSON, that is sent to a namespace, "" if to none. known is false if the
// kind is none of a review.
func Check(kind string, text []byte, namespace string) (known bool, err error) {
	switch kind {
	case "SubjectAccessReview":
		return true, check(text, SubjectAccess)
	case "LocalSubjectAccessReview":
		return true, check(text, func(r *authorizationv1.LocalSubjectAccessReview) error { return LocalSubjectAccess(r, namespace) })
	case "SelfSubjectAccessReview":
		return true, check(text, SelfSubjectAccess)
	case "SelfSubjectRulesReview":
		return true, check(text, SelfSubjectRules)
	case "SelfSubjectReview":
		return true, check(text, func(*authenticationv1.SelfSubjectReview) error { return nil })
	case "TokenReview":
		return true, check(text, Token)
	}
	return false, nil
}

// check decodes a review and checks it.
func check[T any](text []byte, of func(*T) error) error {
	r := new(T)
	if err := json.Unmarshal(text, r); err != nil {
		return status.BadRequest("%v", err)
	}
	return of(r)
}

// SubjectAccess checks a SubjectAccessReview.
func SubjectAccess(r *authorizationv1.SubjectAccessReview) error {
	return invalid(append(validateSubject(&r.Spec), validateEmpty(r.ObjectMeta, "must be empty")...))
}

// LocalSubjectAccess checks a LocalSubjectAccessReview that is sent to a namespace.
func LocalSubjectAccess(r *authorizationv1.LocalSubjectAccessReview, namespace string) error {
	errs := validateSubject(&r.Spec)
	inNamespace := r.ObjectMeta
	inNamespace.Namespace = ""
	if len(validateEmpty(inNamespace, "")) > 0 {
		errs = append(errs, field.Invalid(field.NewPath("metadata"), r.ObjectMeta, "must be empty except for namespace"))
	}
	if a := r.Spec.ResourceAttributes; a != nil && a.Namespace != r.Namespace {
		errs = append(errs, field.Invalid(field.NewPath("spec.resourceAttributes.namespace"), a.Namespace, "must match metadata.namespace"))
	}
	if a := r.Spec.NonResourceAttributes; a != nil {
		errs = append(errs, field.Invalid(field.NewPath("spec.nonResourceAttributes"), a, "disallowed on this kind of request"))
	}
	if err := invalid(errs); err != nil {
		return err
	}
	if namespace != r.Namespace {
		return status.BadRequest("spec.resourceAttributes.namespace must match namespace: %v", namespace)
	}
	return nil
}

// SelfSubjectAccess checks a SelfSubjectAccessReview.
func SelfSubjectAccess(r *authorizationv1.SelfSubjectAccessReview) error {
	errs := validateAttributes(r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes)
	errs = append(errs, validateSelectors(r.Spec.ResourceAttributes)...)
	return invalid(append(errs, validateEmpty(r.ObjectMeta, "must be empty")...))
}

// SelfSubjectRules checks a SelfSubjectRulesReview.
func SelfSubjectRules(r *authorizationv1.SelfSubjectRulesReview) error {
	if r.Spec.Namespace == "" {
		return status.BadRequest("no namespace on request")
	}
	return nil
}

// Token checks a TokenReview.
func Token(r *authenticationv1.TokenReview) error {
	if r.Spec.Token == "" {
		return status.BadRequest("token is required for TokenReview in authentication")
	}
	return nil
}

// invalid refuses a review with errors. Its kind is not in the text, as it is not in
// upstream's.
func invalid(errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return status.Invalid(kschema.GroupKind{Group: authorizationv1.GroupName}, "", errs)
}

// validateSubject returns the errors of the spec of a SubjectAccessReview.
func validateSubject(s *authorizationv1.SubjectAccessReviewSpec) field.ErrorList {
	errs := validateAttributes(s.ResourceAttributes, s.NonResourceAttributes)
	if s.User == "" && len(s.Groups) == 0 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "user"), s.User, "at least one of user or group must be specified"))
	}
	return append(errs, validateSelectors(s.ResourceAttributes)...)
}

// validateAttributes checks that a review is about either a resource or a path.
func validateAttributes(resource *authorizationv1.ResourceAttributes, other *authorizationv1.NonResourceAttributes) field.ErrorList {
	if (resource == nil) != (other == nil) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec"), other, "exactly one of nonResourceAttributes or resourceAttributes must be specified")}
}

// validateEmpty checks that the metadata of a review is empty. Reviews have none.
func validateEmpty(m metav1.ObjectMeta, text string) field.ErrorList {
	without := m
	without.ManagedFields = nil
	if apiequality.Semantic.DeepEqual(metav1.ObjectMeta{}, without) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata"), m, text)}
}

// validateSelectors lists what is wrong with the selectors of a review.
func validateSelectors(a *authorizationv1.ResourceAttributes) field.ErrorList {
	if a == nil {
		return nil
	}
	var errs field.ErrorList
	check := func(path *field.Path, raw string, requirements int) {
		if raw != "" && requirements > 0 {
			errs = append(errs, field.Invalid(path.Child("rawSelector"), raw, "may not specified at the same time as requirements"))
		}
		if raw == "" && requirements == 0 {
			errs = append(errs, field.Required(path.Child("requirements"),
				fmt.Sprintf("when %s is specified, requirements or rawSelector is required", path)))
		}
	}
	if s := a.FieldSelector; s != nil {
		path := field.NewPath("spec.resourceAttributes").Child("fieldSelector")
		check(path, s.RawSelector, len(s.Requirements))
		for i, r := range s.Requirements {
			o := metav1validation.FieldSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}
			errs = append(errs, metav1validation.ValidateFieldSelectorRequirement(r, o, path.Child("requirements").Index(i))...)
		}
	}
	if s := a.LabelSelector; s != nil {
		path := field.NewPath("spec.resourceAttributes").Child("labelSelector")
		check(path, s.RawSelector, len(s.Requirements))
		for i, r := range s.Requirements {
			o := metav1validation.LabelSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}
			errs = append(errs, metav1validation.ValidateLabelSelectorRequirement(r, o, path.Child("requirements").Index(i))...)
		}
	}
	return errs
}
