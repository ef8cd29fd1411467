package texts

import (
	"maps"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// This file bounds the errors that apimachinery's validators make of labels, annotations and selectors: a
// label of six bytes has an error of some hundred.

// few is a number of items that the validators may check at once.
const few = 1000

// Labels validates labels.
func Labels(labels map[string]string, path *field.Path) field.ErrorList {
	if len(labels) <= few {
		return metav1validation.ValidateLabels(labels, path)
	}
	var errs field.ErrorList
	for key, value := range Until(&errs, maps.All(labels)) {
		errs = append(errs, metav1validation.ValidateLabels(map[string]string{key: value}, path)...)
	}
	return errs
}

// Annotations validates annotations.
func Annotations(annotations map[string]string, path *field.Path) field.ErrorList {
	if len(annotations) <= few {
		return apivalidation.ValidateAnnotations(annotations, path)
	}
	var errs field.ErrorList
	for key := range Until(&errs, maps.All(annotations)) {
		errs = append(errs, apivalidation.ValidateAnnotations(map[string]string{key: ""}, path)...)
	}
	if apivalidation.ValidateAnnotationsSize(annotations) != nil {
		errs = append(errs, field.TooLong(path, "" /*unused*/, apivalidation.TotalAnnotationSizeLimitB))
	}
	return errs
}

// Selector validates a selector, which may be nil.
func Selector(s *metav1.LabelSelector, o metav1validation.LabelSelectorValidationOptions, path *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	errs := Labels(s.MatchLabels, path.Child("matchLabels"))
	for i, r := range Each(&errs, s.MatchExpressions) {
		errs = append(errs, requirement(r, o, path.Child("matchExpressions").Index(i))...)
	}
	return errs
}

// requirement validates a requirement of a selector.
func requirement(r metav1.LabelSelectorRequirement, o metav1validation.LabelSelectorValidationOptions, path *field.Path) field.ErrorList {
	if len(r.Values) <= few || o.AllowInvalidLabelValueInSelector {
		return metav1validation.ValidateLabelSelectorRequirement(r, o, path)
	}
	o.AllowInvalidLabelValueInSelector = true // they are validated below
	errs := metav1validation.ValidateLabelSelectorRequirement(r, o, path)
	for i, value := range Each(&errs, r.Values) {
		for _, msg := range validation.IsValidLabelValue(value) {
			errs = append(errs, field.Invalid(path.Child("values").Index(i), value, msg))
		}
	}
	return errs
}
