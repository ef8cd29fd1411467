package openapi

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file builds the schemas of kinds.

const (
	extGVK        = "x-kubernetes-group-version-kind"
	extAction     = "x-kubernetes-action"
	extSelectable = "x-kubernetes-selectable-fields"
	extPreserve   = "x-kubernetes-preserve-unknown-fields"

	metaPrefix  = "io.k8s.apimachinery.pkg.apis.meta.v1."
	scalePrefix = "io.k8s.api.autoscaling.v1."

	versionPrefix = "io.k8s.apimachinery.pkg.version."
)

// gvk is a group, version and kind as extensions list it.
type gvk struct {
	Group   string `json:"group"`
	Kind    string `json:"kind"`
	Version string `json:"version"`
}

// schemaName returns the name of a kind's schema: the reversed group, the version and the kind.
func schemaName(group, version, name string) string {
	if group == "" {
		return "io.k8s.api.core." + version + "." + name
	}
	labels := strings.Split(group, ".")
	slices.Reverse(labels)
	switch group {
	case "apiextensions.k8s.io":
		return "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions." + version + "." + name
	case "apiregistration.k8s.io":
		return "io.k8s.kube-aggregator.pkg.apis.apiregistration." + version + "." + name
	}
	return strings.Join(labels, ".") + "." + version + "." + name
}

// ofKubernetes lists the domains that, reversed, start the schema names of built-in kinds and
// shared types.
var ofKubernetes = []string{"api.k8s.io", "apimachinery.k8s.io", "apiextensions-apiserver.k8s.io", "kube-aggregator.k8s.io"}

// customName returns the name of a custom resource's schema. In a group such as core.api.k8s.io, it
// would be that of a built-in kind, for example io.k8s.api.core.v1.Secret. In these groups it has
// the suffix that upstream gives to the second schema of a name.
func customName(group, version, name string) string {
	out := schemaName(group, version, name)
	for _, domain := range ofKubernetes {
		if group == domain || strings.HasSuffix(group, "."+domain) {
			return out + "_v2"
		}
	}
	return out
}

// nameOf returns the name of the schema of a version's objects.
func nameOf(v *kind.Version) string {
	if v.Definition != "" {
		return v.Definition
	}
	if !v.Kind.Behavior.IsBuiltin {
		return customName(v.Kind.Group, v.Name, v.Kind.Name)
	}
	return schemaName(v.Kind.Group, v.Name, v.Kind.Name)
}

// listNameOf returns the name of the schema of lists of a version's objects.
func listNameOf(v *kind.Version) string {
	if v.Definition != "" {
		return v.Definition + "List"
	}
	if !v.Kind.Behavior.IsBuiltin {
		return customName(v.Kind.Group, v.Name, v.Kind.ListKind)
	}
	return schemaName(v.Kind.Group, v.Name, v.Kind.ListKind)
}

// ref returns a reference to a schema.
func ref(name string, v2 bool) spec.Schema {
	if v2 {
		return *spec.RefSchema("#/definitions/" + name)
	}
	return *spec.RefSchema("#/components/schemas/" + name)
}

// described returns a reference to a schema with a description. In version 3, the reference is
// wrapped, because nothing may stand beside it.
func described(name, description string, v2 bool) spec.Schema {
	if v2 {
		s := ref(name, v2)
		s.Description = description
		return s
	}
	return spec.Schema{SchemaProps: spec.SchemaProps{
		Description: description, AllOf: []spec.Schema{ref(name, v2)},
	}}
}

// converter builds schemas for one version of OpenAPI.
type converter struct{ v2 bool }

// object returns the schema of a version's objects.
func (c converter) object(v *kind.Version) *spec.Schema {
	s := v.Structural()
	out := &spec.Schema{}
	out.Type = spec.StringOrArray{"object"}
	if s != nil && !(c.v2 && s.Preserve) {
		out = c.schema(s)
		c.resource(out, typeDocs)
	}
	out.AddExtension(extGVK, []any{gvk{v.Kind.Group, v.Kind.Name, v.Name}})
	addSelectable(out, v)
	return out
}

// resource adds apiVersion, kind and metadata to a schema.
func (c converter) resource(s *spec.Schema, docs map[string]string) {
	text := spec.StringProperty
	s.SetProperty("apiVersion", *text().WithDescription(docs["apiVersion"]))
	s.SetProperty("kind", *text().WithDescription(docs["kind"]))
	s.SetProperty("metadata", described(metaPrefix+"ObjectMeta", partialDocs["metadata"], c.v2))
}

var (
	typeDocs    = metav1.TypeMeta{}.SwaggerDoc()
	partialDocs = metav1.PartialObjectMetadata{}.SwaggerDoc()
	listDocs    = metav1.PartialObjectMetadataList{}.SwaggerDoc()

	// embeddedDocs has the descriptions for embedded resources.
	embeddedDocs = map[string]string{
		"apiVersion": "apiVersion defines the versioned schema of this representation of an object. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources",
		"kind":       "kind is a string value representing the type of this object. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds",
	}
)

// list returns the schema of lists of a version's objects.
func (c converter) list(v *kind.Version) *spec.Schema {
	k := v.Kind
	item := ref(nameOf(v), c.v2)
	s := new(spec.Schema).Typed("object", "").
		WithDescription(k.ListKind + " is a list of " + k.Name).
		WithRequired("items")
	items := spec.ArrayProperty(&item).WithDescription("List of " + k.Plural + ". More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md")
	s.SetProperty("items", *items)
	s.SetProperty("metadata", described(metaPrefix+"ListMeta", listDocs["metadata"], c.v2))
	s.SetProperty("apiVersion", *spec.StringProperty().WithDescription(typeDocs["apiVersion"]))
	s.SetProperty("kind", *spec.StringProperty().WithDescription(typeDocs["kind"]))
	s.AddExtension(extGVK, []any{gvk{k.Group, k.ListKind, v.Name}})
	addSelectable(s, v)
	return s
}

func addSelectable(s *spec.Schema, v *kind.Version) {
	if len(v.SelectableFields) == 0 || v.Kind.Behavior.IsBuiltin {
		return
	}
	fields := make([]any, len(v.SelectableFields))
	for i, f := range v.SelectableFields {
		fields[i] = map[string]any{"fieldPath": f.Label}
	}
	s.AddExtension(extSelectable, fields)
}

// schema converts a node of a structural schema. For version 2, it drops what that version cannot
// express or what its readers would misunderstand.
func (c converter) schema(s *structural.Schema) *spec.Schema {
	out := &spec.Schema{}
	out.Title, out.Description, out.Nullable, out.Format = s.Title, s.Description, s.Nullable, s.Format
	out.Default, out.Example = value(s.Default), value(s.Example)
	if s.ExternalDocs != nil {
		out.ExternalDocs = &spec.ExternalDocumentation{Description: s.ExternalDocs.Description, URL: s.ExternalDocs.URL}
	}
	c.values(out, s.Values)
	bare := c.v2 && (s.Nullable || s.Preserve)
	if s.Type != "" && !(c.v2 && (s.Nullable || s.Preserve && (s.Type == "object" || s.Type == "array"))) {
		out.Type = spec.StringOrArray{s.Type}
	}
	if c.v2 {
		out.Nullable, out.Default = false, nil
	}
	if s.Items != nil && !bare {
		out.Items = &spec.SchemaOrArray{Schema: c.schema(s.Items)}
	}
	if s.Properties != nil && !bare {
		out.Properties = make(map[string]spec.Schema, len(s.Properties))
		for name, p := range s.Properties {
			out.Properties[name] = *c.schema(p)
			if c.v2 && p.Nullable {
				out.Required = slices.DeleteFunc(slices.Clone(out.Required), func(r string) bool { return r == name })
			}
		}
	}
	switch {
	case s.Additional != nil:
		out.AdditionalProperties = &spec.SchemaOrBool{Schema: c.schema(s.Additional)}
	case s.AdditionalAllows != nil:
		out.AdditionalProperties = &spec.SchemaOrBool{Allows: *s.AdditionalAllows}
	}
	addExtensions(out, s)
	if s.Embedded && !bare {
		c.resource(out, embeddedDocs)
		for _, name := range []string{"kind", "apiVersion"} {
			if !slices.Contains(out.Required, name) {
				out.Required = append(slices.Clone(out.Required), name)
			}
		}
	}
	return out
}

func addExtensions(out *spec.Schema, s *structural.Schema) {
	for name, set := range map[string]bool{
		extPreserve:                      s.Preserve,
		"x-kubernetes-embedded-resource": s.Embedded,
		"x-kubernetes-int-or-string":     s.IntOrString,
	} {
		if set {
			out.AddExtension(name, true)
		}
	}
	if len(s.ListMapKeys) > 0 {
		out.AddExtension("x-kubernetes-list-map-keys", s.ListMapKeys)
	}
	if s.ListType != "" {
		out.AddExtension("x-kubernetes-list-type", s.ListType)
	}
	if s.MapType != "" {
		out.AddExtension("x-kubernetes-map-type", s.MapType)
	}
	if len(s.Rules) > 0 {
		out.AddExtension("x-kubernetes-validations", s.Rules)
	}
}

// values adds the value restrictions of a node.
func (c converter) values(out *spec.Schema, v *structural.Values) {
	if v == nil {
		return
	}
	out.Maximum, out.ExclusiveMaximum = v.Maximum, v.ExclusiveMaximum
	out.Minimum, out.ExclusiveMinimum = v.Minimum, v.ExclusiveMinimum
	out.MultipleOf = v.MultipleOf
	out.MaxLength, out.MinLength, out.Pattern = v.MaxLength, v.MinLength, v.Pattern
	out.MaxItems, out.MinItems, out.UniqueItems = v.MaxItems, v.MinItems, v.UniqueItems
	out.MaxProperties, out.MinProperties = v.MaxProperties, v.MinProperties
	out.Required = v.Required
	for _, e := range v.Enum {
		out.Enum = append(out.Enum, value(e))
	}
	if c.v2 {
		return
	}
	out.AllOf, out.AnyOf, out.OneOf = c.nested(v.AllOf), c.nested(v.AnyOf), c.nested(v.OneOf)
	if v.Not != nil {
		out.Not = &c.nested([]*structural.Nested{v.Not})[0]
	}
}

func (c converter) nested(all []*structural.Nested) []spec.Schema {
	var out []spec.Schema
	for _, n := range all {
		s := spec.Schema{}
		s.Format = n.Format
		if n.Type != "" {
			s.Type = spec.StringOrArray{n.Type}
		}
		c.values(&s, &n.Values)
		if n.Items != nil {
			s.Items = &spec.SchemaOrArray{Schema: &c.nested([]*structural.Nested{n.Items})[0]}
		}
		if n.Additional != nil {
			s.AdditionalProperties = &spec.SchemaOrBool{Schema: &c.nested([]*structural.Nested{n.Additional})[0]}
		}
		for name, p := range n.Properties {
			s.SetProperty(name, c.nested([]*structural.Nested{p})[0])
		}
		out = append(out, s)
	}
	return out
}

// value decodes JSON; nil for no text.
func value(raw []byte) any {
	if len(raw) == 0 {
		return nil
	}
	return json.RawMessage(raw)
}

// encodeAll encodes schemas as JSON.
func encodeAll(all map[string]*spec.Schema) (map[string]json.RawMessage, error) {
	out := make(map[string]json.RawMessage, len(all))
	for name, s := range all {
		text, err := json.Marshal(s)
		if err != nil {
			return nil, fmt.Errorf("schema %s: %w", name, err)
		}
		out[name] = text
	}
	return out, nil
}
