package kind

import (
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// This file lists what can be done with a definition.

// Compile makes a Kind of a valid definition.
func Compile(crd *apiextv1.CustomResourceDefinition) (*Kind, error) { panic("BUG: not built yet") }

// DefaultCRD fills in the defaults of a definition.
func DefaultCRD(crd *apiextv1.CustomResourceDefinition) { panic("BUG: not built yet") }

// ValidateCRD checks a new definition.
func ValidateCRD(crd *apiextv1.CustomResourceDefinition) field.ErrorList { panic("BUG: not built yet") }

// ValidateCRDUpdate checks a changed definition. What old violates already is
// not held against new.
func ValidateCRDUpdate(new, old *apiextv1.CustomResourceDefinition) field.ErrorList {
	panic("BUG: not built yet")
}

// CRDWarnings is what to warn about; old is nil on create.
func CRDWarnings(new, old *apiextv1.CustomResourceDefinition) []string { panic("BUG: not built yet") }
