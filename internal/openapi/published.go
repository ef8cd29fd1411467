package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/keelson-io/keelson/kind"
)

// This file converts the schemas that Kubernetes publishes for built-in kinds.

// Keywords that differ between the versions of OpenAPI.
const (
	refsV3    = "#/components/schemas/"
	refsV2    = "#/definitions/"
	extV2Form = "x-kubernetes-v2-schema" // the schema to use in its place in version 2
)

// published returns the published schemas of a version's objects, by name.
func (c converter) published(v *kind.Version) (map[string]json.RawMessage, error) {
	all, err := v.Published()
	if err != nil {
		return nil, err
	}
	kinds := map[string][]gvk{
		claims:    kindsOf(claims, "v1"), // schemas of other kinds refer to it
		nameOf(v): {{v.Kind.Group, v.Kind.Name, v.Name}}, listNameOf(v): {{v.Kind.Group, v.Kind.ListKind, v.Name}},
	}
	return c.convert(all, func(name string) []gvk { return kinds[name] })
}

// claims is the name of the schema of PersistentVolumeClaim.
const claims = "io.k8s.api.core.v1.PersistentVolumeClaim"

// convert converts published schemas to the converter's version of OpenAPI, and adds the kinds that
// they describe.
func (c converter) convert(all map[string]json.RawMessage, kinds func(name string) []gvk) (map[string]json.RawMessage, error) {
	out := make(map[string]json.RawMessage, len(all))
	for name, text := range all {
		of := kinds(name)
		if !c.v2 && of == nil && !strings.Contains(string(text), extV2Form) {
			out[name] = text
			continue
		}
		var s map[string]any
		err := json.Unmarshal(text, &s)
		if err == nil {
			if of != nil {
				s[extGVK] = of
			}
			if c.v2 {
				s = downgrade(s)
			} else {
				delete(s, extV2Form)
			}
			out[name], err = json.Marshal(s)
		}
		if err != nil {
			return nil, fmt.Errorf("schema %s: %w", name, err)
		}
	}
	return out, nil
}

// downgrade converts a schema to version 2, which has no alternatives and no defaults, and allows a
// description beside a reference.
func downgrade(s map[string]any) map[string]any {
	if form, ok := s[extV2Form].(map[string]any); ok {
		return form
	}
	out := maps.Clone(s)
	delete(out, "default")
	delete(out, "nullable")
	if ref, ok := out["$ref"].(string); ok {
		out["$ref"] = refsV2 + strings.TrimPrefix(ref, refsV3)
	}
	if all, ok := out["allOf"].([]any); ok && len(all) == 1 {
		if one, ok := all[0].(map[string]any); ok {
			delete(out, "allOf")
			maps.Copy(out, downgrade(one))
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if below, ok := out[key].(map[string]any); ok {
			out[key] = downgrade(below)
		}
	}
	if properties, ok := out["properties"].(map[string]any); ok {
		below := make(map[string]any, len(properties))
		for name, p := range properties {
			if p, ok := p.(map[string]any); ok {
				below[name] = downgrade(p)
			}
		}
		out["properties"] = below
	}
	return out
}

// Schemas returns the OpenAPI 3 schemas of a version's objects and of everything that they refer
// to, by name, and the name of the objects' own schema.
func Schemas(v *kind.Version) (name string, all map[string]json.RawMessage, err error) {
	shared, err := sharedSchemas(false)
	if err != nil {
		return "", nil, err
	}
	all = maps.Clone(shared)
	own, err := converter{}.schemas(v)
	maps.Copy(all, own)
	return nameOf(v), all, err
}

// RefName returns the name in a reference.
func RefName(ref string) string { return strings.TrimPrefix(ref, refsV3) }
