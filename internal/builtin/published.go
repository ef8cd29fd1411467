package builtin

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
)

// This file makes the schemas that OpenAPI documents publish: definitions with their descriptions.

// extV2Form is the extension with the schema that replaces a schema in OpenAPI 2.
const extV2Form = "x-kubernetes-v2-schema"

// published returns definitions and all that they refer to, with their descriptions.
func published(roots ...string) (map[string]json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	pkgs := map[string]map[string]map[string]json.RawMessage{}
	docs, err := newDocumentation(roots...)
	if err != nil {
		return nil, err
	}
	for queue := roots; len(queue) > 0; {
		name := queue[0]
		queue = queue[1:]
		if out[name] != nil {
			continue
		}
		pkg, base := cut(name)
		if pkgs[pkg] == nil {
			var all map[string]map[string]json.RawMessage
			if err := open(pkg, &all); err != nil {
				return nil, err
			}
			pkgs[pkg] = all
		}
		text, refs, err := withDescriptions(pkgs[pkg][base], docs.of(name))
		if err != nil {
			return nil, fmt.Errorf("definition %s: %w", name, err)
		}
		out[name] = text
		queue = append(queue, refs...)
	}
	return out, nil
}

// withDescriptions puts descriptions into a definition, and returns the names that it refers to.
func withDescriptions(d map[string]json.RawMessage, docs typeDocs) (text json.RawMessage, refs []string, err error) {
	d = maps.Clone(d)
	if doc := docs.texts[""]; doc != "" {
		d["description"] = quote(doc)
		if raw := d[extV2Form]; raw != nil {
			var form map[string]any
			if err := json.Unmarshal(raw, &form); err != nil {
				return nil, nil, err
			}
			form["description"] = doc
			if d[extV2Form], err = json.Marshal(form); err != nil {
				return nil, nil, err
			}
		}
	}
	if raw := d["properties"]; raw != nil {
		var properties map[string]map[string]any
		if err := json.Unmarshal(raw, &properties); err != nil {
			return nil, nil, err
		}
		for name, p := range properties {
			refs = append(refs, refsOf(p)...)
			doc := docs.texts[name]
			if !docs.listsEnum {
				doc += enumText(p)
			}
			if doc == "" {
				continue
			}
			if ref := p["$ref"]; ref != nil { // nothing may stand beside a reference
				p = map[string]any{"allOf": []any{p}}
				properties[name] = p
			}
			p["description"] = doc
		}
		if d["properties"], err = json.Marshal(properties); err != nil {
			return nil, nil, err
		}
	}
	text, err = json.Marshal(d)
	return text, refs, err
}

// enumText returns the list of possible values that Kubernetes appends to a description.
func enumText(p map[string]any) string {
	values, _ := p["enum"].([]any)
	if len(values) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n\nPossible enum values:")
	for _, v := range values {
		fmt.Fprintf(&b, "\n - `%q`", v)
	}
	return b.String()
}

// refsOf returns the names that a schema refers to.
func refsOf(v any) []string {
	var out []string
	switch v := v.(type) {
	case map[string]any:
		for name, x := range v {
			if ref, ok := x.(string); ok && name == "$ref" {
				out = append(out, strings.TrimPrefix(ref, refPrefix))
				continue
			}
			out = append(out, refsOf(x)...)
		}
	case []any:
		for _, x := range v {
			out = append(out, refsOf(x)...)
		}
	}
	return out
}
