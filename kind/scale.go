package kind

import (
	"fmt"
	"math"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema"
)

// This file reads and checks the values of the scale subresource.

// NewScale returns the scale subresource that a definition declares.
func NewScale(s *apiextv1.CustomResourceSubresourceScale) *Scale {
	scale := &Scale{
		SpecReplicas: s.SpecReplicasPath, SpecPath: steps(s.SpecReplicasPath),
		StatusReplicas: s.StatusReplicasPath, StatusPath: steps(s.StatusReplicasPath),
	}
	if s.LabelSelectorPath != nil {
		scale.LabelSelector, scale.SelectorPath = *s.LabelSelectorPath, steps(*s.LabelSelectorPath)
	}
	return scale
}

// validate checks the numbers of replicas and the selector. An update of the status cannot change
// the replicas in the spec, so that they are not checked then.
func (s *Scale) validate(root jsondoc.Value, scope schema.Scope) field.ErrorList {
	var errs field.ErrorList
	if scope == schema.Whole {
		errs = append(errs, validateReplicas(root, s.SpecReplicas, s.SpecPath)...)
	}
	errs = append(errs, validateReplicas(root, s.StatusReplicas, s.StatusPath)...)
	if s.SelectorPath == nil {
		return errs
	}
	if v := root.At(s.SelectorPath...); v.Kind() != jsondoc.String && !absent(root, s.SelectorPath) {
		_, _, err := unstructured.NestedString(object(root), s.SelectorPath...)
		if err != nil {
			errs = append(errs, field.Invalid(field.NewPath(s.LabelSelector), "", err.Error()))
		}
	}
	return errs
}

// validateReplicas checks that the value at path is a number that fits a Scale. name is the JSON
// path.
func validateReplicas(root jsondoc.Value, name string, path []string) field.ErrorList {
	if absent(root, path) {
		return nil
	}
	v := root.At(path...)
	if v.Kind() != jsondoc.Int {
		// apimachinery's helper gives upstream's text for a value of another type.
		_, _, err := unstructured.NestedInt64(object(root), path...)
		if err == nil {
			return nil
		}
		return field.ErrorList{field.Invalid(field.NewPath(name), int64(0), err.Error())}
	}
	switch n := v.Int(); {
	case n < 0:
		return field.ErrorList{field.Invalid(field.NewPath(name), n, "should be a non-negative integer")}
	case n > math.MaxInt32:
		return field.ErrorList{field.Invalid(field.NewPath(name), n, fmt.Sprintf("should be less than or equal to %v", math.MaxInt32))}
	}
	return nil
}

// absent reports whether there is no value at path. A value of a wrong type on the way is an error,
// not an absence.
func absent(v jsondoc.Value, path []string) bool {
	for _, name := range path {
		if v.Kind() == jsondoc.Null {
			return true
		}
		if v.Kind() != jsondoc.Object {
			return false
		}
		if v = v.Get(name); !v.Exists() {
			return true
		}
	}
	return false
}

// object returns v as a map, for helpers of apimachinery. It is slow, and used only for errors.
func object(v jsondoc.Value) map[string]any {
	m, _ := v.Interface().(map[string]any)
	return m
}
