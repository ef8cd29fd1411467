// Package structural defines structural schemas: the OpenAPI schemas of custom resources, in the
// form from which programs are compiled.
//
// # Terms
//
// A [Schema] is a node that declares a value: its type, its properties, its items. A [Nested] is a
// schema below allOf, anyOf, oneOf or not. It may restrict values, but must not declare them.
// [Values] are the restrictions, which both have.
//
// # Use
//
// [Parse] parses the schema of a definition. [Validate] returns the errors that keep it from being
// structural. [ObjectMeta] returns the schema of every object's metadata.
//
// # Invariants
//
//   - A Schema that Parse returned is never changed: equal ones, and equal parts of others, are the
//     same. To change one, copy it.
//   - Names lists the keys of Properties, sorted.
//   - JSON values (Default, Enum, Example) are JSON text as it was written.
package structural

import (
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// This file defines the types.

// Schema is one node of a structural schema.
type Schema struct {
	Type        string // "" if int-or-string or of any type
	Format      string
	Title       string
	Description string

	Nullable    bool
	IntOrString bool // x-kubernetes-int-or-string
	Embedded    bool // x-kubernetes-embedded-resource
	Preserve    bool // x-kubernetes-preserve-unknown-fields

	Properties map[string]*Schema // nil if there are none
	Names      []string           // keys of Properties, sorted
	Items      *Schema

	// Additional is the schema of additionalProperties, AdditionalAllows its boolean form. At most
	// one of them is set; both are nil if it is not specified.
	Additional       *Schema
	AdditionalAllows *bool

	Default []byte // JSON; nil if there is none or if it is null
	Example []byte // JSON

	ExternalDocs *apiextv1.ExternalDocumentation

	ListType    string // x-kubernetes-list-type: "", atomic, set or map
	ListMapKeys []string
	MapType     string // x-kubernetes-map-type: "", atomic or granular

	Rules  []apiextv1.ValidationRule
	Values *Values // nil if there are no restrictions

	sum digest // set by intern; not valid in a changed copy
}

// Values are restrictions of a value.
type Values struct {
	Maximum, Minimum, MultipleOf       *float64
	ExclusiveMaximum, ExclusiveMinimum bool
	MaxLength, MinLength               *int64
	MaxItems, MinItems                 *int64
	MaxProperties, MinProperties       *int64
	Pattern                            string
	UniqueItems                        bool
	Enum                               [][]byte // JSON each
	Required                           []string

	AllOf, AnyOf, OneOf []*Nested
	Not                 *Nested
}

// Nested is a schema below allOf, anyOf, oneOf or not.
type Nested struct {
	Values
	Format string

	Items      *Nested
	Additional *Nested
	Properties map[string]*Nested
	Names      []string // keys of Properties, sorted

	// Type may be set only in the form anyOf: [{type: integer}, {type: string}] of int-or-string.
	Type  string
	Rules []apiextv1.ValidationRule // always an error, see Validate

	// Forbidden names the keywords that are set and not allowed here.
	Forbidden []string
	// Docs: example or externalDocs is set, which is allowed and has no effect.
	Docs bool
}

// empty reports whether there are no restrictions.
func (v *Values) empty() bool {
	return v.Maximum == nil && v.Minimum == nil && v.MultipleOf == nil &&
		!v.ExclusiveMaximum && !v.ExclusiveMinimum &&
		v.MaxLength == nil && v.MinLength == nil && v.MaxItems == nil && v.MinItems == nil &&
		v.MaxProperties == nil && v.MinProperties == nil && v.Pattern == "" && !v.UniqueItems &&
		v.Enum == nil && v.Required == nil &&
		v.AllOf == nil && v.AnyOf == nil && v.OneOf == nil && v.Not == nil
}
