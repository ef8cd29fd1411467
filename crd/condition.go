package crd

import (
	"time"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This file reads and sets the conditions of definitions.

// Condition returns the condition of type t, nil if it is missing.
func Condition(crd *apiextv1.CustomResourceDefinition, t apiextv1.CustomResourceDefinitionConditionType) *apiextv1.CustomResourceDefinitionCondition {
	for i := range crd.Status.Conditions {
		if crd.Status.Conditions[i].Type == t {
			return &crd.Status.Conditions[i]
		}
	}
	return nil
}

// HasCondition reports whether the condition of that type is True.
func HasCondition(crd *apiextv1.CustomResourceDefinition, t apiextv1.CustomResourceDefinitionConditionType) bool {
	c := Condition(crd, t)
	return c != nil && c.Status == apiextv1.ConditionTrue
}

// SetCondition sets or adds a condition, and reports whether it changed anything.
// lastTransitionTime changes only when the status does.
func SetCondition(crd *apiextv1.CustomResourceDefinition, c apiextv1.CustomResourceDefinitionCondition, now time.Time) bool {
	c.LastTransitionTime = metav1.NewTime(now)
	have := Condition(crd, c.Type)
	if have == nil {
		crd.Status.Conditions = append(crd.Status.Conditions, c)
		return true
	}
	if have.Status == c.Status && !have.LastTransitionTime.IsZero() {
		c.LastTransitionTime = have.LastTransitionTime
	}
	c.ObservedGeneration = have.ObservedGeneration
	if *have == c {
		return false
	}
	*have = c
	return true
}

// RemoveCondition removes a condition, and reports whether it existed.
func RemoveCondition(crd *apiextv1.CustomResourceDefinition, t apiextv1.CustomResourceDefinitionConditionType) bool {
	var left []apiextv1.CustomResourceDefinitionCondition
	for _, c := range crd.Status.Conditions {
		if c.Type != t {
			left = append(left, c)
		}
	}
	removed := len(left) < len(crd.Status.Conditions)
	crd.Status.Conditions = left
	return removed
}
