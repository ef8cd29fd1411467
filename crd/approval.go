package crd

import (
	"fmt"
	"net/url"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// This file handles the groups of the Kubernetes community. Definitions in them need the annotation
// api-approved.kubernetes.io, which says where the API was approved (KEP-1111).

// Approval is the state of a definition in a protected group.
type Approval int

// The states of approval, which the annotation determines.
const (
	ApprovalInvalid  Approval = iota // the annotation is neither a URL nor starts with "unapproved"
	Approved                         // the annotation is a URL
	ApprovalBypassed                 // the annotation starts with "unapproved"
	ApprovalMissing                  // there is no annotation
)

// IsProtected reports whether group belongs to the Kubernetes community.
func IsProtected(group string) bool {
	return group == "k8s.io" || strings.HasSuffix(group, ".k8s.io") ||
		group == "kubernetes.io" || strings.HasSuffix(group, ".kubernetes.io")
}

// ApprovalOf returns the state of approval, and a message for it. The texts are upstream's.
func ApprovalOf(annotations map[string]string) (Approval, string) {
	const (
		name = apiextv1.KubeAPIApprovedAnnotation
		see  = "see https://github.com/kubernetes/enhancements/pull/1111"
	)
	value := annotations[name]
	if value == "" {
		return ApprovalMissing, fmt.Sprintf("protected groups must have approval annotation %q, %s", name, see)
	}
	if strings.HasPrefix(value, "unapproved") {
		return ApprovalBypassed, fmt.Sprintf("not approved: %q", value)
	}
	if u, err := url.ParseRequestURI(value); err == nil && u.Host != "" && u.Scheme != "" {
		return Approved, "approved in " + value
	}
	return ApprovalInvalid, fmt.Sprintf("protected groups must have approval annotation %q with either a URL or a reason starting with \"unapproved\", %s", name, see)
}

// validateApproval checks the annotation. An update that does not change the state is accepted, so
// that definitions that are older than the check can be updated.
func validateApproval(crd, old *apiextv1.CustomResourceDefinition) field.ErrorList {
	if !IsProtected(crd.Spec.Group) {
		return nil
	}
	state, text := ApprovalOf(crd.Annotations)
	if old != nil {
		if was, _ := ApprovalOf(old.Annotations); was == state {
			return nil
		}
	}
	const name = apiextv1.KubeAPIApprovedAnnotation
	path := field.NewPath("metadata", "annotations").Key(name)
	switch state {
	case ApprovalMissing:
		return field.ErrorList{field.Required(path, text)}
	case ApprovalInvalid:
		return field.ErrorList{field.Invalid(path, crd.Annotations[name], text)}
	}
	return nil
}
