package lint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/keelson-io/keelson/internal/mistype"
	"github.com/keelson-io/keelson/internal/source"
	"github.com/keelson-io/keelson/kind"
)

// This file finds keywords of schemas whose values have the wrong type. A server stops at the first
// one, with the name of a Go type. Lint lists all of them, and checks the definition without them.

// shape is the type of a keyword's value.
type shape string

// The shapes of keywords.
const (
	aText     shape = "a string"
	aBool     shape = "true or false"
	aNumber   shape = "a number"
	anInteger shape = "an integer"
	aSchema   shape = "a schema"
	aList     shape = "a list"
	aMap      shape = "a map of schemas"
	schemas   shape = "a list of schemas"
	texts     shape = "a list of strings"
	ruleList  shape = "a list of rules"
	anything  shape = ""
)

// keywords has the keywords of schemas.
var keywords = map[string]shape{
	"type": aText, "format": aText, "title": aText, "description": aText, "pattern": aText, "$ref": aText, "$schema": aText, "id": aText,
	"x-kubernetes-list-type": aText, "x-kubernetes-map-type": aText,
	"nullable": aBool, "uniqueItems": aBool, "exclusiveMinimum": aBool, "exclusiveMaximum": aBool,
	"x-kubernetes-preserve-unknown-fields": aBool, "x-kubernetes-int-or-string": aBool, "x-kubernetes-embedded-resource": aBool,
	"minimum": aNumber, "maximum": aNumber, "multipleOf": aNumber,
	"minLength": anInteger, "maxLength": anInteger, "minItems": anInteger, "maxItems": anInteger, "minProperties": anInteger, "maxProperties": anInteger,
	"not": aSchema, "properties": aMap, "patternProperties": aMap, "definitions": aMap,
	"allOf": schemas, "anyOf": schemas, "oneOf": schemas, "enum": aList, "required": texts, "x-kubernetes-list-map-keys": texts,
	"x-kubernetes-validations": ruleList,
	"items":                    anything, "additionalProperties": anything, "additionalItems": anything, "default": anything, "example": anything,
	"externalDocs": anything, "dependencies": anything, draftKey: anything,
}

// mistyped removes the values of the wrong type from the schemas of a definition's JSON. It returns
// the JSON without them, and a finding for each.
func mistyped(body []byte) ([]byte, []Finding) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var definition map[string]any
	if dec.Decode(&definition) != nil {
		return body, nil
	}
	m := &misshapen{}
	spec, _ := definition["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	for i, v := range versions {
		version, _ := v.(map[string]any)
		in, _ := version["schema"].(map[string]any)
		if root, ok := in["openAPIV3Schema"].(map[string]any); ok {
			m.schema(root, schemaPath(i))
		}
	}
	if in, _ := spec["validation"].(map[string]any); in != nil { // v1beta1
		if root, ok := in["openAPIV3Schema"].(map[string]any); ok {
			m.schema(root, "spec.validation.openAPIV3Schema")
		}
	}
	if len(m.findings) == 0 {
		return body, nil
	}
	out, err := json.Marshal(definition)
	if err != nil {
		return body, nil
	}
	return out, m.findings
}

// mistypes removes the values that a server does not decode from the JSON of an object. It returns the JSON without them, and a finding for
// each.
func mistypes(v *kind.Version, body []byte, t *text) ([]Finding, []byte) {
	found, rest := mistype.Of(v, body, t.Scalar)
	var out []Finding
	for _, m := range found {
		out = append(out, Finding{Severity: Error, Check: "server", ID: "server/type", Path: m.Path, Message: m.Message})
	}
	return out, rest
}

// misshapen collects findings.
type misshapen struct{ findings []Finding }

// add adds a finding.
func (m *misshapen) add(path, message, hint string) {
	m.findings = append(m.findings, Finding{Severity: Error, Check: "server", ID: "server/type", Path: path, Message: message, Hint: hint})
}

// schema looks at a schema and those below it.
func (m *misshapen) schema(s map[string]any, path string) {
	for _, key := range slices.Sorted(maps.Keys(s)) {
		want, known := keywords[key]
		if !known || want == anything || s[key] == nil {
			continue
		}
		if list, ok := s[key].([]any); ok && want == texts {
			s[key] = m.strings(list, key, path)
			continue
		}
		if got := nameType(s[key]); !want.fits(s[key]) {
			m.add(path+"."+key, fmt.Sprintf("%s: got %s, want %s", key, got, want), correction(path, key, want, s[key]))
			delete(s, key)
		}
	}
	for _, key := range []string{"properties", "patternProperties", "definitions"} {
		if all, ok := s[key].(map[string]any); ok {
			m.properties(all, path+"."+key)
		}
	}
	for _, key := range []string{"items", "additionalProperties", "not"} {
		if below, ok := s[key].(map[string]any); ok {
			m.schema(below, path+"."+key)
		}
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := s[key].([]any)
		for i := range list {
			if below, ok := list[i].(map[string]any); ok {
				m.schema(below, fmt.Sprintf("%s.%s[%d]", path, key, i))
			}
		}
	}
}

// strings returns the strings of a list, and adds a finding for each other item.
func (m *misshapen) strings(list []any, key, path string) []any {
	return slices.DeleteFunc(slices.Clone(list), func(item any) bool {
		if aText.fits(item) {
			return false
		}
		hint := fmt.Sprintf("write %q", fmt.Sprint(item))
		if aBool.fits(item) {
			hint = "YAML reads y, yes, on, n, no and off as true and false: write the name in quotes"
		}
		i := slices.IndexFunc(list, func(other any) bool { return !aText.fits(other) && reflect.DeepEqual(other, item) })
		m.add(fmt.Sprintf("%s.%s[%d]", path, key, i), fmt.Sprintf("%s[%d]: got %s, want a string", key, i, nameType(item)), hint)
		return true
	})
}

// properties looks at a map of schemas. A keyword among them is the mistake of an indentation that
// is one level too deep.
func (m *misshapen) properties(all map[string]any, path string) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		at := fmt.Sprintf("%s[%s]", path, name)
		if below, ok := all[name].(map[string]any); ok {
			m.schema(below, at)
			continue
		}
		if all[name] == nil {
			continue
		}
		got := nameType(all[name])
		if want, ok := keywords[name]; ok && (want == anything || want.fits(all[name])) {
			what := fmt.Sprintf("%s is among the properties, where each key names a field, and got %s, want a schema", name, got)
			if name == "x-kubernetes-validations" {
				what += "; the rules are not checked"
			}
			m.findings = append(m.findings, Finding{Severity: Error, Check: "server", ID: "server/misplaced", Path: at, Message: what,
				Hint: fmt.Sprintf("write %s beside properties, not below it: with the indentation of properties", name)})
		} else {
			m.add(at, fmt.Sprintf("property %q: got %s, want a schema", name, got), fmt.Sprintf("write %s: {type: …}", name))
		}
		delete(all, name)
	}
}

// fits reports whether a value has the shape.
func (want shape) fits(v any) bool {
	switch want {
	case aText:
		_, ok := v.(string)
		return ok
	case aBool:
		_, ok := v.(bool)
		return ok
	case aNumber:
		_, ok := v.(json.Number)
		return ok
	case anInteger:
		n, ok := v.(json.Number)
		return ok && !strings.ContainsAny(n.String(), ".eE")
	case aSchema, aMap:
		_, ok := v.(map[string]any)
		return ok
	}
	list, ok := v.([]any)
	return ok && !slices.ContainsFunc(list, func(item any) bool {
		switch want {
		case texts:
			_, ok := item.(string)
			return !ok
		case schemas:
			_, ok := item.(map[string]any)
			return !ok
		case ruleList:
			return !isRule(item)
		}
		return false
	})
}

// isRule reports whether a value has the fields of a rule, as far as they are set.
func isRule(v any) bool {
	rule, ok := v.(map[string]any)
	if !ok {
		return false
	}
	for _, key := range []string{"rule", "message", "messageExpression", "reason", "fieldPath"} {
		if value := rule[key]; value != nil && !aText.fits(value) {
			return false
		}
	}
	value := rule["optionalOldSelf"]
	return value == nil || aBool.fits(value)
}

// nameType names the type of a value.
func nameType(v any) string {
	switch v := v.(type) {
	case string:
		return "a string"
	case bool:
		return fmt.Sprint(v)
	case json.Number:
		return "the number " + v.String()
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return "null"
}

// correction returns what to write instead; "" if that is not known.
func correction(path, key string, want shape, got any) string {
	text, isText := got.(string)
	switch {
	case want == texts && isText:
		return fmt.Sprintf("write %s: [%s]", key, text)
	case want == texts && key == "required" && aBool.fits(got):
		steps := source.Split(path)
		return fmt.Sprintf("write required: [%s] beside the properties among which %s is", steps[len(steps)-1], steps[len(steps)-1])
	case want == ruleList && nameType(got) == "an object":
		return `write x-kubernetes-validations as a list: each rule begins with "- rule:"`
	case want == ruleList && nameType(got) == "a list":
		return `write each rule as "- rule: TEXT", and quote a TEXT that YAML reads as something else`
	case isText && (want == anInteger || want == aNumber || want == aBool):
		return fmt.Sprintf("write %s: %s, without quotes", key, text)
	case want == aText:
		if b, err := json.Marshal(got); err == nil && len(b) < 80 && nameType(got) != "a list" {
			return fmt.Sprintf("write %s: %q", key, b)
		}
		if list, ok := got.([]any); ok && key == "type" && len(list) > 0 {
			return "write one type; for a value that may be null, add nullable: true"
		}
	}
	return ""
}
