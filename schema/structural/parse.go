package structural

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// This file parses schemas of definitions.

// Parse returns the structural schema of s. If a structural schema cannot represent a part of s, it
// returns the first such error, at path. It does not check the rules of structural schemas: see
// [Validate].
func Parse(s *apiextv1.JSONSchemaProps, path *field.Path) (*Schema, field.ErrorList) {
	return new(Nodes).Parse(s, path)
}

// Parse is [Parse] with nodes that are shared with other schemas of t.
func (t *Nodes) Parse(s *apiextv1.JSONSchemaProps, path *field.Path) (*Schema, field.ErrorList) {
	if s == nil {
		return nil, nil
	}
	parsed, err := t.parse(s)
	if err != nil {
		return nil, field.ErrorList{field.Invalid(path, "", err.Error())}
	}
	return parsed, nil
}

// parse parses a node and those below it.
func (t *Nodes) parse(s *apiextv1.JSONSchemaProps) (*Schema, error) {
	if err := unsupported(s); err != nil {
		return nil, err
	}
	values, err := parseValues(s)
	if err != nil {
		return nil, err
	}
	preserve, err := parsePreserve(s)
	if err != nil {
		return nil, err
	}
	out := &Schema{
		Type:         s.Type,
		Format:       s.Format,
		Title:        s.Title,
		Description:  s.Description,
		Nullable:     s.Nullable,
		IntOrString:  s.XIntOrString,
		Embedded:     s.XEmbeddedResource,
		Preserve:     preserve,
		Default:      jsonOrNil(s.Default),
		Example:      jsonOrNil(s.Example),
		ExternalDocs: s.ExternalDocs,
		ListMapKeys:  s.XListMapKeys,
		Rules:        s.XValidations,
	}
	if s.XListType != nil {
		out.ListType = quoteEmpty(*s.XListType)
	}
	if s.XMapType != nil {
		out.MapType = quoteEmpty(*s.XMapType)
	}
	if !values.empty() {
		out.Values = values
	}
	if err := t.parseChildren(out, s); err != nil {
		return nil, err
	}
	return t.intern(out), nil
}

// quoteEmpty returns a list or map type. An empty one, which is invalid, becomes "" in quotes, so
// that it differs from a missing one.
func quoteEmpty(t string) string {
	if t == "" {
		return `""`
	}
	return t
}

// parseChildren parses items, properties and additionalProperties.
func (t *Nodes) parseChildren(out *Schema, s *apiextv1.JSONSchemaProps) error {
	var err error
	if s.Items != nil {
		if len(s.Items.JSONSchemas) > 0 {
			return errItemsArray
		}
		if s.Items.Schema != nil {
			if out.Items, err = t.parse(s.Items.Schema); err != nil {
				return err
			}
		}
	}
	if len(s.Properties) > 0 {
		out.Properties = make(map[string]*Schema, len(s.Properties))
		out.Names = slices.Sorted(maps.Keys(s.Properties))
		for _, name := range out.Names {
			p := s.Properties[name]
			if out.Properties[name], err = t.parse(&p); err != nil {
				return err
			}
		}
	}
	switch a := s.AdditionalProperties; {
	case a == nil:
	case a.Schema != nil:
		out.Additional, err = t.parse(a.Schema)
	default:
		out.AdditionalAllows = &a.Allows
	}
	return err
}

var errItemsArray = errors.New("OpenAPIV3Schema 'items' must be a schema, but is an array")

// parsePreserve parses x-kubernetes-preserve-unknown-fields.
func parsePreserve(s *apiextv1.JSONSchemaProps) (bool, error) {
	if s.XPreserveUnknownFields == nil {
		return false, nil
	}
	if !*s.XPreserveUnknownFields {
		return false, errors.New("internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined")
	}
	return true, nil
}

// parseValues parses the restrictions of a node.
func parseValues(s *apiextv1.JSONSchemaProps) (*Values, error) {
	v := &Values{
		Maximum: s.Maximum, ExclusiveMaximum: s.ExclusiveMaximum,
		Minimum: s.Minimum, ExclusiveMinimum: s.ExclusiveMinimum,
		MultipleOf: s.MultipleOf,
		MaxLength:  s.MaxLength, MinLength: s.MinLength,
		MaxItems: s.MaxItems, MinItems: s.MinItems,
		MaxProperties: s.MaxProperties, MinProperties: s.MinProperties,
		Pattern: s.Pattern, UniqueItems: s.UniqueItems, Required: s.Required,
	}
	for i := range s.Enum {
		raw := s.Enum[i].Raw
		if len(raw) == 0 {
			raw = null
		}
		v.Enum = append(v.Enum, raw)
	}
	var err error
	if s.Not != nil {
		if v.Not, err = parseNested(s.Not); err != nil {
			return nil, err
		}
	}
	if v.AllOf, err = parseAll(s.AllOf); err != nil {
		return nil, err
	}
	if v.AnyOf, err = parseAll(s.AnyOf); err != nil {
		return nil, err
	}
	v.OneOf, err = parseAll(s.OneOf)
	return v, err
}

// parseAll parses the schemas of allOf, anyOf or oneOf.
func parseAll(list []apiextv1.JSONSchemaProps) ([]*Nested, error) {
	var out []*Nested
	for i := range list {
		n, err := parseNested(&list[i])
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

// parseNested parses a schema below a junctor.
func parseNested(s *apiextv1.JSONSchemaProps) (*Nested, error) {
	if err := unsupported(s); err != nil {
		return nil, err
	}
	values, err := parseValues(s)
	if err != nil {
		return nil, err
	}
	preserve, err := parsePreserve(s)
	if err != nil {
		return nil, err
	}
	n := &Nested{
		Values: *values, Format: s.Format, Type: s.Type, Rules: s.XValidations,
		Forbidden: forbiddenNested(s, preserve),
		Docs:      s.ExternalDocs != nil || jsonOrNil(s.Example) != nil,
	}
	if s.Items != nil {
		if len(s.Items.JSONSchemas) > 0 {
			return nil, errItemsArray
		}
		if s.Items.Schema != nil {
			if n.Items, err = parseNested(s.Items.Schema); err != nil {
				return nil, err
			}
		}
	}
	if s.Properties != nil {
		n.Properties = make(map[string]*Nested, len(s.Properties))
		n.Names = slices.Sorted(maps.Keys(s.Properties))
		for _, name := range n.Names {
			p := s.Properties[name]
			if n.Properties[name], err = parseNested(&p); err != nil {
				return nil, err
			}
		}
	}
	if a := s.AdditionalProperties; a != nil && a.Schema != nil {
		n.Additional, err = parseNested(a.Schema)
	} else if a != nil && a.Allows {
		n.Additional = new(Nested)
	}
	return n, err
}

// forbiddenNested returns the keywords of s that a structural schema must not have below a junctor.
// type and x-kubernetes-validations are also forbidden, but have fields in Nested.
func forbiddenNested(s *apiextv1.JSONSchemaProps, preserve bool) []string {
	var out []string
	for _, f := range [...]struct {
		name string
		set  bool
	}{
		{"default", jsonOrNil(s.Default) != nil},
		{"title", s.Title != ""},
		{"description", s.Description != ""},
		{"nullable", s.Nullable},
		{"x-kubernetes-preserve-unknown-fields", preserve},
		{"x-kubernetes-embedded-resource", s.XEmbeddedResource},
		{"x-kubernetes-int-or-string", s.XIntOrString},
		{"x-kubernetes-list-map-keys", len(s.XListMapKeys) > 0},
		{"x-kubernetes-list-type", s.XListType != nil},
		{"x-kubernetes-map-type", s.XMapType != nil},
	} {
		if f.set {
			out = append(out, f.name)
		}
	}
	return out
}

// unsupported returns an error for a keyword that structural schemas do not have.
func unsupported(s *apiextv1.JSONSchemaProps) error {
	name := ""
	switch {
	case s.ID != "":
		name = "id"
	case s.Schema != "":
		name = "schema"
	case s.Ref != nil && *s.Ref != "":
		name = "$ref"
	case len(s.PatternProperties) > 0:
		name = "patternProperties"
	case len(s.Dependencies) > 0:
		name = "dependencies"
	case s.AdditionalItems != nil:
		name = "additionalItems"
	case len(s.Definitions) > 0:
		name = "definitions"
	default:
		return nil
	}
	return fmt.Errorf("OpenAPIV3Schema '%s' is not supported", name)
}

var null = []byte("null")

// jsonOrNil returns the JSON text of j, nil if it is missing or null.
func jsonOrNil(j *apiextv1.JSON) []byte {
	if j == nil || len(j.Raw) == 0 || bytes.Equal(j.Raw, null) {
		return nil
	}
	return j.Raw
}
