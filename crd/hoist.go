package crd

import (
	"slices"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// This file converts a definition to the internal form that Kubernetes validates: parts that all
// versions share are at the top of the spec, and not in the versions. Paths and some texts of
// errors come from that form.

// hoisted is the spec of a definition in the internal form.
type hoisted struct {
	*apiextv1.CustomResourceDefinitionSpec

	versions []apiextv1.CustomResourceDefinitionVersion // without the shared parts
	version  string                                     // the name of the first version

	// The shared parts; nil if the versions differ.
	schema       *apiextv1.CustomResourceValidation
	subresources *apiextv1.CustomResourceSubresources
	columns      []apiextv1.CustomResourceColumnDefinition
	selectable   []apiextv1.SelectableField
}

// hoist converts a spec to the internal form. It does not change spec.
func hoist(spec *apiextv1.CustomResourceDefinitionSpec) *hoisted {
	h := &hoisted{CustomResourceDefinitionSpec: spec}
	h.versions = slices.Clone(spec.Versions)
	if len(spec.Versions) == 0 {
		return h
	}
	first := spec.Versions[0]
	h.version = first.Name

	schema, subresources, columns, selectable := true, true, true, true
	for i := range spec.Versions[1:] {
		v := &spec.Versions[i+1]
		schema = schema && sameSchema(v.Schema, first.Schema)
		subresources = subresources && equality.Semantic.DeepEqual(v.Subresources, first.Subresources)
		columns = columns && equality.Semantic.DeepEqual(v.AdditionalPrinterColumns, first.AdditionalPrinterColumns)
		selectable = selectable && equality.Semantic.DeepEqual(v.SelectableFields, first.SelectableFields)
	}
	if schema {
		h.schema = first.Schema
	}
	if subresources {
		h.subresources = first.Subresources
	}
	if columns {
		h.columns = first.AdditionalPrinterColumns
	}
	if selectable {
		h.selectable = first.SelectableFields
	}
	for i := range h.versions {
		v := &h.versions[i]
		if schema {
			v.Schema = nil
		}
		if subresources {
			v.Subresources = nil
		}
		if columns {
			v.AdditionalPrinterColumns = nil
		}
		if selectable {
			v.SelectableFields = nil
		}
	}
	return h
}

// sameSchema reports whether two schemas are equal. Schemas with the same text are usually the same
// pointer.
func sameSchema(a, b *apiextv1.CustomResourceValidation) bool {
	return a == b || a != nil && b != nil && a.OpenAPIV3Schema == b.OpenAPIV3Schema || equality.Semantic.DeepEqual(a, b)
}

// statusOf reports whether v, one of h.versions, has a status subresource. If several versions have
// the same name, which is an error, the first one counts, as upstream.
func (h *hoisted) statusOf(v *apiextv1.CustomResourceDefinitionVersion) bool {
	for i := range h.versions {
		if h.versions[i].Subresources == nil {
			continue
		}
		for j := range h.versions {
			if h.versions[j].Name == v.Name {
				return hasStatus(h.versions[j].Subresources)
			}
		}
	}
	return hasStatus(h.subresources)
}

// anyStatus reports whether a version has a status subresource.
func (h *hoisted) anyStatus() bool {
	for i := range h.Versions {
		if hasStatus(h.Versions[i].Subresources) {
			return true
		}
	}
	return false
}

// hasStatus reports whether the status subresource is enabled.
func hasStatus(s *apiextv1.CustomResourceSubresources) bool { return s != nil && s.Status != nil }

// openAPI returns the schema in v, nil if there is none.
func openAPI(v *apiextv1.CustomResourceValidation) *apiextv1.JSONSchemaProps {
	if v == nil {
		return nil
	}
	return v.OpenAPIV3Schema
}

// schemas ranges over the declared schemas of all versions.
func schemas(spec *apiextv1.CustomResourceDefinitionSpec) func(yield func(*apiextv1.JSONSchemaProps) bool) {
	return func(yield func(*apiextv1.JSONSchemaProps) bool) {
		for i := range spec.Versions {
			if s := openAPI(spec.Versions[i].Schema); s != nil && !yield(s) {
				return
			}
		}
	}
}

// has reports whether is returns true for s or a schema below it.
func has(s *apiextv1.JSONSchemaProps, is func(*apiextv1.JSONSchemaProps) bool) bool {
	if s == nil {
		return false
	}
	if is(s) || has(s.Not, is) {
		return true
	}
	if s.Items != nil && (has(s.Items.Schema, is) || hasList(s.Items.JSONSchemas, is)) {
		return true
	}
	if hasList(s.AllOf, is) || hasList(s.AnyOf, is) || hasList(s.OneOf, is) {
		return true
	}
	if hasMap(s.Properties, is) || hasMap(s.PatternProperties, is) || hasMap(s.Definitions, is) {
		return true
	}
	if s.AdditionalProperties != nil && has(s.AdditionalProperties.Schema, is) {
		return true
	}
	if s.AdditionalItems != nil && has(s.AdditionalItems.Schema, is) {
		return true
	}
	for _, d := range s.Dependencies {
		if has(d.Schema, is) {
			return true
		}
	}
	return false
}

// hasList is has for a list of schemas.
func hasList(list []apiextv1.JSONSchemaProps, is func(*apiextv1.JSONSchemaProps) bool) bool {
	for i := range list {
		if has(&list[i], is) {
			return true
		}
	}
	return false
}

// hasMap is has for a map of schemas.
func hasMap[M ~map[string]apiextv1.JSONSchemaProps](m M, is func(*apiextv1.JSONSchemaProps) bool) bool {
	for _, s := range m {
		if has(&s, is) {
			return true
		}
	}
	return false
}

// anySchema reports whether is returns true for a schema of the definition, at any depth.
func anySchema(spec *apiextv1.CustomResourceDefinitionSpec, is func(*apiextv1.JSONSchemaProps) bool) bool {
	for s := range schemas(spec) {
		if has(s, is) {
			return true
		}
	}
	return false
}
