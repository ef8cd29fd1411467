package crd

import (
	"maps"
	"slices"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// This file checks the keywords of a single schema node.

var openAPITypes = []string{"array", "boolean", "integer", "number", "object", "string"}

// sortedKeys returns the sorted keys of a map, so that errors come in a fixed order.
func sortedKeys[M ~map[string]V, V any](m M) []string {
	if len(m) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(m))
}

// keywords checks the keywords of OpenAPI, some of which definitions must not use.
func (w *schemaWalk) keywords(s *apiextv1.JSONSchemaProps, path *field.Path, in inherited) {
	if w.types && s.Type != "" && !contains(openAPITypes, s.Type) {
		w.add(field.NotSupported(path.Child("type"), s.Type, openAPITypes))
	}
	if isSet(s.Default) && in.noDefaults != "" {
		w.add(field.Forbidden(path.Child("default"), "must not be set "+in.noDefaults))
	}
	for _, k := range [...]struct {
		name string
		set  bool
	}{
		{"id", s.ID != ""},
		{"additionalItems", s.AdditionalItems != nil},
		{"patternProperties", len(s.PatternProperties) > 0},
		{"definitions", len(s.Definitions) > 0},
		{"dependencies", s.Dependencies != nil},
		{"$ref", s.Ref != nil},
	} {
		if k.set {
			w.add(field.Forbidden(path.Child(k.name), k.name+" is not supported"))
		}
	}
	if s.Type == "null" {
		w.add(field.Forbidden(path.Child("type"), "type cannot be set to null, use nullable as an alternative"))
	}
	if s.Items != nil && len(s.Items.JSONSchemas) > 0 {
		w.add(field.Forbidden(path.Child("items"), "items must be a schema object and not an array"))
	}
	if in.meta && s.XEmbeddedResource {
		w.add(field.Forbidden(path.Child("x-kubernetes-embedded-resource"), "must not be used inside of resource meta"))
	}
}

// extensions checks the x-kubernetes keywords, except rules.
func (w *schemaWalk) extensions(s *apiextv1.JSONSchemaProps, path *field.Path) {
	if p := s.XPreserveUnknownFields; p != nil && !*p {
		w.add(field.Invalid(path.Child("x-kubernetes-preserve-unknown-fields"), false, "must be true or undefined"))
	}
	if s.XMapType != nil {
		w.needType(s, "object", "must be object if x-kubernetes-map-type is specified", path)
		if *s.XMapType != "atomic" && *s.XMapType != "granular" {
			w.add(field.NotSupported(path.Child("x-kubernetes-map-type"), *s.XMapType, []string{"atomic", "granular"}))
			w.loose[path.String()] = true
		}
	}
	if s.XListType != nil {
		if w.needType(s, "array", "must be array if x-kubernetes-list-type is specified", path) {
			w.setItems(s, path)
		}
		if *s.XListType != "atomic" && *s.XListType != "set" && *s.XListType != "map" {
			w.add(field.NotSupported(path.Child("x-kubernetes-list-type"), *s.XListType, []string{"atomic", "set", "map"}))
		}
	}
	if len(s.XListMapKeys) > 0 {
		const detail = "must be map if x-kubernetes-list-map-keys is non-empty"
		if s.XListType == nil {
			w.add(field.Required(path.Child("x-kubernetes-list-type"), detail))
		} else if *s.XListType != "map" {
			w.add(field.Invalid(path.Child("x-kubernetes-list-type"), *s.XListType, detail))
		}
	}
	if s.XListType != nil && *s.XListType == "map" {
		w.listMap(s, path)
	}
	if w.listMapKeys {
		w.errs = append(w.errs, validateKeys(s, path)...)
	}
}

// needType checks the type of s, and reports whether it is want.
func (w *schemaWalk) needType(s *apiextv1.JSONSchemaProps, want, detail string, path *field.Path) bool {
	switch s.Type {
	case want:
		return true
	case "":
		w.add(field.Required(path.Child("type"), detail))
	default:
		w.add(field.Invalid(path.Child("type"), s.Type, detail))
	}
	return false
}

// setItems checks that the items of a set are atomic.
func (w *schemaWalk) setItems(s *apiextv1.JSONSchemaProps, path *field.Path) {
	if w.atomicSets && hasNonAtomicItems(s) {
		keyword := "x-kubernetes-map-type"
		if s.Items.Schema.Type == "array" {
			keyword = "x-kubernetes-list-type"
		}
		// Upstream shows the list type in both cases.
		w.add(field.Invalid(path.Child("items", keyword), s.Items.Schema.XListType,
			"must be atomic as item of a list with x-kubernetes-list-type=set"))
	}
}

// hasNonAtomicItems reports whether s is a set with items that are not atomic.
func hasNonAtomicItems(s *apiextv1.JSONSchemaProps) bool {
	if s.XListType == nil || *s.XListType != "set" || s.Items == nil || s.Items.Schema == nil {
		return false
	}
	switch item := s.Items.Schema; item.Type {
	case "array":
		return item.XListType != nil && *item.XListType != "atomic"
	case "object":
		return item.XMapType == nil || *item.XMapType != "atomic"
	}
	return false
}

// listMap checks a list of type map, whose items are identified by keys.
func (w *schemaWalk) listMap(s *apiextv1.JSONSchemaProps, path *field.Path) {
	keys := path.Child("x-kubernetes-list-map-keys")
	if len(s.XListMapKeys) == 0 {
		w.add(field.Required(keys, "must not be empty if x-kubernetes-list-type is map"))
	}
	switch {
	case s.Items == nil:
		w.add(field.Required(path.Child("items"), "must have a schema if x-kubernetes-list-type is map"))
		return
	case s.Items.Schema == nil:
		w.add(field.Invalid(path.Child("items"), internal(s.Items), "must only have a single schema if x-kubernetes-list-type is map"))
		return
	case s.Items.Schema.Type != "object":
		w.add(field.Invalid(path.Child("items", "type"), s.Items.Schema.Type, "must be object if parent array's x-kubernetes-list-type is map"))
		return
	}
	seen := map[string]bool{}
	for _, k := range s.XListMapKeys {
		if p, ok := s.Items.Schema.Properties[k]; !ok {
			w.add(field.Invalid(keys, s.XListMapKeys, "entries must all be names of item properties"))
		} else if p.Type == "array" || p.Type == "object" {
			// Upstream shows the type of the items, not of the property.
			w.add(field.Invalid(path.Child("items", "properties").Key(k).Child("type"), s.Items.Schema.Type,
				"must be a scalar type if parent array's x-kubernetes-list-type is map"))
		}
		if seen[k] {
			w.add(field.Invalid(keys, s.XListMapKeys, "must not contain duplicate entries"))
		}
		seen[k] = true
	}
}

// validateKeys checks that items of sets and list maps cannot be null, and that the keys of list
// maps always have a value.
func validateKeys(s *apiextv1.JSONSchemaProps, path *field.Path) field.ErrorList {
	if s.Items == nil || s.Items.Schema == nil || s.XListType == nil || *s.XListType != "set" && *s.XListType != "map" {
		return nil
	}
	var errs field.ErrorList
	item := s.Items.Schema
	if item.Nullable {
		errs = append(errs, field.Forbidden(path.Child("items", "nullable"), "cannot be nullable when x-kubernetes-list-type is "+*s.XListType))
	}
	if *s.XListType == "set" {
		return errs
	}
	for _, k := range s.XListMapKeys {
		p, ok := item.Properties[k]
		if !ok {
			continue // reported by listMap
		}
		at := path.Child("items", "properties").Key(k)
		if !contains(item.Required, k) && !isSet(p.Default) {
			errs = append(errs, field.Required(at.Child("default"),
				"this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"))
		}
		if p.Nullable {
			errs = append(errs, field.Forbidden(at.Child("nullable"),
				"this property is in x-kubernetes-list-map-keys, so it cannot be nullable"))
		}
	}
	return errs
}
