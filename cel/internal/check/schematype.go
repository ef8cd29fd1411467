package check

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file computes a Type from the JSON text of a schema.

// schemaText has the keywords of a JSON schema that determine a Type.
type schemaText struct {
	Type                 string                 `json:"type"`
	Format               string                 `json:"format"`
	Nullable             bool                   `json:"nullable"`
	Properties           map[string]*schemaText `json:"properties"`
	AdditionalProperties json.RawMessage        `json:"additionalProperties"`
	Items                *schemaText            `json:"items"`
	Required             []string               `json:"required"`
	Enum                 []json.RawMessage      `json:"enum"`
	Default              json.RawMessage        `json:"default"`
	MaxLength            *int64                 `json:"maxLength"`
	MaxItems             *int64                 `json:"maxItems"`
	MaxProperties        *int64                 `json:"maxProperties"`
	IntOrString          bool                   `json:"x-kubernetes-int-or-string"`
	Embedded             bool                   `json:"x-kubernetes-embedded-resource"`
	Preserve             bool                   `json:"x-kubernetes-preserve-unknown-fields"`
	ListType             string                 `json:"x-kubernetes-list-type"`
	MapKeys              []string               `json:"x-kubernetes-list-map-keys"`
}

// TypeOfSchema returns the type of the documents that a JSON schema describes, for [Variable]. It
// supports the keywords of custom resource definitions: type, format, nullable, properties,
// additionalProperties, items, required, enum, default, the greatest lengths, and Kubernetes'
// extensions. resource says that the document is a resource, whose apiVersion, kind and metadata
// need not be declared.
func TypeOfSchema(text []byte, resource bool) (*val.Type, error) {
	var s schemaText
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	t, err := s.build(resource)
	if err == nil && t == nil {
		err = errors.New("it has no type")
	}
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return t, nil
}

// build computes the type. It returns nil if expressions cannot see the value.
func (s *schemaText) build(resource bool) (*val.Type, error) {
	t := &val.Type{Nullable: s.Nullable, Preserve: s.Preserve}
	bound := s.MaxLength
	switch {
	case s.IntOrString:
		t.IntOrString = true
	case s.Type == "array":
		if s.Items == nil {
			return nil, nil
		}
		elem, err := s.Items.build(s.Items.Embedded)
		if elem == nil {
			return nil, inside("items", err)
		}
		t.Kind, t.Elem, bound = val.List, elem, s.MaxItems
		t.ListType = val.ListTypeOf(s.ListType, s.MapKeys)
	case s.Type == "object" && len(s.AdditionalProperties) > 0 && s.AdditionalProperties[0] == '{':
		var values schemaText
		if err := json.Unmarshal(s.AdditionalProperties, &values); err != nil {
			return nil, inside("additionalProperties", err)
		}
		elem, err := values.build(values.Embedded)
		if elem == nil {
			return nil, inside("additionalProperties", err)
		}
		t.Kind, t.Elem, bound = val.Map, elem, s.MaxProperties
	case s.Type == "object":
		t.Kind = val.Object
		if err := s.fields(t, resource); err != nil {
			return nil, err
		}
	case s.Type == "string":
		t.Kind = val.String
		if kind, ok := formatKinds[s.Format]; ok {
			t.Kind, t.Date = kind, s.Format == "date"
		}
	case s.Type == "boolean":
		t.Kind = val.Bool
	case s.Type == "integer":
		t.Kind = val.Int
	case s.Type == "number":
		t.Kind = val.Double
	case s.Type == "":
		return nil, nil
	default:
		return nil, fmt.Errorf("type %q: want array, boolean, integer, number, object or string", s.Type)
	}
	longest := 0
	for _, raw := range s.Enum {
		var text string
		if json.Unmarshal(raw, &text) == nil {
			longest = max(longest, len(text))
		}
	}
	t.SetSizes(bound, longest)
	return t, nil
}

// formatKinds has the formats of strings that are types of their own.
var formatKinds = map[string]val.TypeKind{"byte": val.Bytes, "duration": val.Duration, "date": val.Timestamp, "date-time": val.Timestamp}

// inside adds a step of the path to an error. err may be nil.
func inside(where string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", where, err)
}

// fields adds the members, sorted by name.
func (s *schemaText) fields(t *val.Type, resource bool) error {
	props := map[string]*schemaText{}
	for name, p := range s.Properties {
		props[name] = p
	}
	if resource {
		text := &schemaText{Type: "string"}
		props["apiVersion"], props["kind"] = text, text
		props["metadata"] = &schemaText{Type: "object", Properties: map[string]*schemaText{"name": text, "generateName": text}}
	}
	for _, name := range slices.Sorted(maps.Keys(props)) {
		p := props[name]
		if p == nil {
			continue
		}
		f, err := p.build(p.Embedded)
		if err != nil {
			return inside(name, err)
		}
		t.Fields = append(t.Fields, val.Field{Name: name, Type: f, Required: slices.Contains(s.Required, name), HasDefault: p.Default != nil, Slot: -1})
	}
	return nil
}
