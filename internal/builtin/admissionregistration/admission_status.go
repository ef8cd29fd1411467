package admissionregistration

import (
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/util/jsonpath"

	"github.com/keelson-io/keelson/internal/texts"
)

// This file checks the status of admission policies.

// checkTypeChecking checks the warnings of the type check.
func checkTypeChecking(s admissionv1.ValidatingAdmissionPolicyStatus) field.ErrorList {
	var errs field.ErrorList
	if s.TypeChecking != nil {
		for i, w := range texts.Each(&errs, s.TypeChecking.ExpressionWarnings) {
			at := field.NewPath("status", "typeChecking", "expressionWarnings").Index(i)
			if w.Warning == "" {
				errs = append(errs, field.Required(at.Child("warning"), ""))
			}
			errs = append(errs, checkFieldRef(strings.TrimSpace(w.FieldRef), at.Child("fieldRef"))...)
		}
	}
	return append(errs, metavalidation.ValidateConditions(s.Conditions, field.NewPath("status", "conditions"))...)
}

// checkFieldRef checks the path in a warning, such as spec.validations[0].expression.
func checkFieldRef(ref string, at *field.Path) field.ErrorList {
	if ref == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	if err := jsonpath.New("spec").Parse("{" + ref + "}"); err != nil {
		return field.ErrorList{field.Invalid(at, ref, fmt.Sprintf("invalid JSONPath: %v", err))}
	}
	return nil
}
