package meta

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// This file has the warnings about finalizer names.

// standardFinalizer reports whether Kubernetes uses the name, which has no domain.
func standardFinalizer(name string) bool {
	switch name {
	case metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents, "kubernetes":
		return true
	}
	return false
}

// finalizerWarnings returns the warnings about a finalizer.
func finalizerWarnings(name string) []string {
	var warnings []string
	warn := func(msg string) {
		warnings = append(warnings, fmt.Sprintf("metadata.finalizers: %q: %s", name, msg))
	}
	for _, msg := range validation.IsQualifiedName(name) {
		warn(msg)
	}
	switch {
	case strings.Contains(name, "/"), standardFinalizer(name):
	case strings.Contains(name, "."):
		warn("prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers")
	default:
		warn("prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers")
	}
	return warnings
}
