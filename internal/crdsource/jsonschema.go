package crdsource

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/internal/manifest"
)

// This file makes a definition of a JSON schema. Catalogues publish such schemas, made from
// definitions: with additionalProperties: false for each object, and types as lists. Rules in CEL
// are kept, if the schema has them. Keywords that a definition cannot express are not checked.

// isDefinition reports whether a document is a CustomResourceDefinition.
func isDefinition(d manifest.Document) bool {
	var head struct{ Kind string }
	return json.Unmarshal(d.JSON, &head) == nil && head.Kind == "CustomResourceDefinition"
}

// maxDepth is the depth of a JSON schema.
const maxDepth = 200

// fromJSONSchema returns a definition of a kind with a JSON schema. The scope of the kind is not
// known; with namespaces, an object may have one or not.
func fromJSONSchema(file string, text []byte, k schema.GroupVersionKind) (manifest.Document, error) {
	var root map[string]any
	if err := json.Unmarshal(text, &root); err != nil {
		return manifest.Document{}, fmt.Errorf("got %w, want a JSON schema or a CustomResourceDefinition", err)
	}
	if root["properties"] == nil && root["type"] == nil {
		return manifest.Document{}, errors.New("neither a JSON schema (no type, no properties) nor a CustomResourceDefinition")
	}
	out, err := structuralOf(root, 0)
	if err != nil {
		return manifest.Document{}, err
	}
	out["type"] = "object"
	delete(out, "additionalProperties")
	if properties, ok := out["properties"].(map[string]any); ok {
		properties["metadata"] = map[string]any{"type": "object"}
		for _, name := range []string{"apiVersion", "kind"} {
			properties[name] = map[string]any{"type": "string"}
		}
	}
	lower := strings.ToLower(k.Kind)
	definition := map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": lower + "s." + k.Group},
		"spec": map[string]any{
			"group": k.Group, "scope": "Namespaced", "names": map[string]any{"plural": lower + "s", "kind": k.Kind},
			"versions": []any{map[string]any{"name": k.Version, "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": out}}},
		},
	}
	body, err := json.Marshal(definition)
	if err != nil {
		return manifest.Document{}, err
	}
	return manifest.Split(file, body)[0], nil
}

// kept are the keywords that mean the same in a definition.
var kept = []string{"format", "title", "description", "default", "maximum", "minimum", "maxLength", "minLength", "pattern", "maxItems", "minItems",
	"multipleOf", "enum", "maxProperties", "minProperties", "required", "nullable", "x-kubernetes-preserve-unknown-fields",
	"x-kubernetes-embedded-resource", "x-kubernetes-int-or-string", "x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-map-type",
	"x-kubernetes-validations"}

// structuralOf returns the structural schema of a JSON schema.
func structuralOf(s map[string]any, depth int) (map[string]any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("deeper than %d levels", maxDepth)
	}
	out := map[string]any{}
	for _, key := range kept {
		if v, ok := s[key]; ok {
			out[key] = v
		}
	}
	if v, ok := s["const"]; ok {
		out["enum"] = []any{v}
	}
	for _, bound := range []string{"Minimum", "Maximum"} {
		switch v := s["exclusive"+bound].(type) {
		case bool:
			out["exclusive"+bound] = v
		case float64:
			out[strings.ToLower(bound)], out["exclusive"+bound] = v, true
		}
	}
	typ, nullable := typeOf(s["type"])
	if nullable {
		out["nullable"] = true
	}
	if err := below(s, out, depth); err != nil {
		return nil, err
	}
	switch {
	case isIntOrString(s):
		out["x-kubernetes-int-or-string"] = true
		delete(out, "format")
		return out, nil
	case typ == "" && out["properties"] != nil:
		typ = "object"
	case typ == "" && out["items"] != nil:
		typ = "array"
	}
	switch typ {
	case "":
		out["x-kubernetes-preserve-unknown-fields"] = true
		return out, nil
	case "array":
		if out["items"] == nil {
			out["items"] = map[string]any{"x-kubernetes-preserve-unknown-fields": true}
		}
	case "object":
		if s["patternProperties"] != nil || s["$ref"] != nil {
			out["x-kubernetes-preserve-unknown-fields"] = true
		}
	}
	out["type"] = typ
	return out, nil
}

// below adds the schemas of the parts of a value.
func below(s, out map[string]any, depth int) error {
	if properties, ok := s["properties"].(map[string]any); ok {
		all := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			p, _ := properties[name].(map[string]any)
			one, err := structuralOf(p, depth+1)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			all[name] = one
		}
		out["properties"] = all
	}
	if items, ok := s["items"].(map[string]any); ok {
		one, err := structuralOf(items, depth+1)
		if err != nil {
			return fmt.Errorf("items: %w", err)
		}
		out["items"] = one
	}
	switch more := s["additionalProperties"].(type) {
	case bool:
		// false is what every definition means. A schema beside properties is impossible in one.
		if more && out["properties"] == nil {
			out["additionalProperties"] = true
		} else if more {
			out["x-kubernetes-preserve-unknown-fields"] = true
		}
	case map[string]any:
		if out["properties"] != nil {
			out["x-kubernetes-preserve-unknown-fields"] = true
			break
		}
		one, err := structuralOf(more, depth+1)
		if err != nil {
			return fmt.Errorf("additionalProperties: %w", err)
		}
		out["additionalProperties"] = one
	}
	return nil
}

// typeOf returns the type of a schema, and whether null is valid. Of several types, none is
// returned.
func typeOf(v any) (typ string, nullable bool) {
	switch v := v.(type) {
	case string:
		return v, false
	case []any:
		for _, one := range v {
			switch name, _ := one.(string); {
			case name == "null":
				nullable = true
			case typ != "":
				return "", nullable
			default:
				typ = name
			}
		}
	}
	return typ, nullable
}

// isIntOrString reports whether a schema is that of an integer or string.
func isIntOrString(s map[string]any) bool {
	if s["format"] == "int-or-string" || s["x-kubernetes-int-or-string"] == true {
		return true
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		list, _ := s[key].([]any)
		var types []string
		for _, one := range list {
			if m, ok := one.(map[string]any); ok {
				typ, _ := typeOf(m["type"])
				types = append(types, typ)
			}
		}
		slices.Sort(types)
		if slices.Equal(types, []string{"integer", "string"}) {
			return true
		}
	}
	return false
}
