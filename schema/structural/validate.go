package structural

import (
	"reflect"
	"sort"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// This file checks the rules of structural schemas that concern a node and its neighbours.
// complete.go checks that restrictions refer to declared fields.

// level is the position of a node.
type level int

const (
	root level = iota
	item
	member // of an object: a property or an additional property
)

// Validate returns the errors that keep s, the schema of a whole resource, from being structural.
// They are sorted by text, as upstream.
func Validate(s *Schema, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	validateNode(s, root, path, &errs)
	if s != nil {
		completeValues(s.Values, s, path, path, &errs)
		validatePatterns(s, path, &errs)
	}
	texts := make(map[*field.Error]string, len(errs))
	for _, e := range errs {
		texts[e] = e.Error()
	}
	sort.SliceStable(errs, func(i, j int) bool { return texts[errs[i]] < texts[errs[j]] })
	return errs
}

// validateNode checks a node and those below it.
func validateNode(s *Schema, at level, path *field.Path, errs *field.ErrorList) {
	if s == nil {
		return
	}
	if s.Type == "array" && s.Items == nil {
		add(errs, field.Required(path.Child("items"), "must be specified"))
	}
	if s.Items != nil {
		validateNode(s.Items, item, path.Child("items"), errs)
	}
	if len(s.Names) > 0 {
		properties := path.Child("properties")
		for _, name := range s.Names {
			validateNode(s.Properties[name], member, properties.Key(name), errs)
		}
	}
	if s.hasAdditional() && at == root {
		add(errs, field.Forbidden(path.Child("additionalProperties"), "must not be used at the root"))
	}
	if s.Additional != nil {
		validateNode(s.Additional, member, path.Child("additionalProperties"), errs)
	}
	validateExtensions(s, path, errs)
	if s.Values != nil {
		validateValues(s.Values, isIntOrString(s.Values.AnyOf),
			len(s.Values.AllOf) > 0 && isIntOrString(s.Values.AllOf[0].AnyOf), path, errs)
	}
	validateType(s, at, path, errs)
	validateResource(s, at, path, errs)
}

// hasAdditional reports whether additionalProperties is set.
func (s *Schema) hasAdditional() bool { return s.Additional != nil || s.AdditionalAllows != nil }

// validateExtensions checks the keywords that int-or-string excludes.
func validateExtensions(s *Schema, path *field.Path, errs *field.ErrorList) {
	if !s.IntOrString {
		return
	}
	const detail = "must be false if x-kubernetes-int-or-string is true"
	if s.Preserve {
		add(errs, field.Invalid(path.Child("x-kubernetes-preserve-unknown-fields"), true, detail))
	}
	if s.Embedded {
		add(errs, field.Invalid(path.Child("x-kubernetes-embedded-resource"), true, detail))
	}
}

// validateType checks that the type is set where it must be.
func validateType(s *Schema, at level, path *field.Path, errs *field.ErrorList) {
	switch {
	case s.Embedded && s.Type == "":
		add(errs, field.Required(path.Child("type"), "must be object if x-kubernetes-embedded-resource is true"))
	case s.Embedded && s.Type != "object":
		add(errs, field.Invalid(path.Child("type"), s.Type, "must be object if x-kubernetes-embedded-resource is true"))
	case s.Embedded:
	case s.Type == "" && !s.IntOrString && !s.Preserve:
		detail := [...]string{
			root:   "must not be empty at the root",
			item:   "must not be empty for specified array items",
			member: "must not be empty for specified object fields",
		}[at]
		add(errs, field.Required(path.Child("type"), detail))
	}
	if at == root && s.Type != "" && s.Type != "object" {
		add(errs, field.Invalid(path.Child("type"), s.Type, "must be object at the root"))
	}
}

// validateResource makes the checks that apply only to resources: to the root and to embedded ones.
func validateResource(s *Schema, at level, path *field.Path, errs *field.ErrorList) {
	if s.Embedded && s.hasAdditional() {
		add(errs, field.Forbidden(path.Child("additionalProperties"), "must not be used if x-kubernetes-embedded-resource is set"))
	}
	if at == root || s.Embedded {
		for _, name := range [...]string{"kind", "apiVersion"} {
			if p, ok := s.Properties[name]; ok && p.Type != "string" {
				add(errs, field.Invalid(path.Child("properties").Key(name).Child("type"), p.Type, "must be string"))
			}
		}
		if m, ok := s.Properties["metadata"]; ok && m.Type != "object" {
			add(errs, field.Invalid(path.Child("properties").Key("metadata").Child("type"), m.Type, "must be object"))
		}
	}
	if m, ok := s.Properties["metadata"]; ok && at == root && !onlyNames(m) {
		add(errs, field.Forbidden(path.Child("properties").Key("metadata"),
			"must not specify anything other than name and generateName, but metadata is implicitly specified"))
	}
	if s.Embedded && !s.Preserve && len(s.Properties) == 0 {
		add(errs, field.Required(path.Child("properties"),
			"must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"))
	}
}

// onlyNames reports whether a schema of the root's metadata has nothing except type, default, and
// the properties name and generateName.
func onlyNames(s *Schema) bool {
	rest := *s
	rest.Type, rest.Default, rest.sum = "", nil, digest{}
	named := 0
	for _, name := range [...]string{"name", "generateName"} {
		if _, ok := rest.Properties[name]; ok {
			named++
		}
	}
	if named == len(rest.Properties) {
		rest.Properties, rest.Names = nil, nil
	}
	return reflect.DeepEqual(rest, Schema{})
}

// isIntOrString reports whether anyOf is exactly [{type: integer}, {type: string}].
func isIntOrString(anyOf []*Nested) bool {
	return len(anyOf) == 2 &&
		reflect.DeepEqual(*anyOf[0], Nested{Type: "integer"}) &&
		reflect.DeepEqual(*anyOf[1], Nested{Type: "string"})
}

// validateValues checks restrictions. The two flags skip the patterns of int-or-string, as anyOf
// and as allOf[0].anyOf.
func validateValues(v *Values, skipAnyOf, skipAllOfAnyOf bool, path *field.Path, errs *field.ErrorList) {
	if !skipAnyOf {
		for i, n := range v.AnyOf {
			validateNested(n, false, path.Child("anyOf").Index(i), errs)
		}
	}
	for i, n := range v.AllOf {
		validateNested(n, skipAllOfAnyOf && i == 0, path.Child("allOf").Index(i), errs)
	}
	for i, n := range v.OneOf {
		validateNested(n, false, path.Child("oneOf").Index(i), errs)
	}
	if v.Not != nil {
		validateNested(v.Not, false, path.Child("not"), errs)
	}
	if v.Pattern != "" {
		checkPattern(v.Pattern, path, errs)
	}
}

// forbiddenTexts has the error for each keyword that is forbidden below junctors.
var forbiddenTexts = map[string]string{
	"type":        "must be empty to be structural",
	"title":       "must be empty to be structural",
	"description": "must be empty to be structural",

	"additionalProperties": "must be undefined to be structural",
	"default":              "must be undefined to be structural",

	"nullable":                             "must be false to be structural",
	"x-kubernetes-preserve-unknown-fields": "must be false to be structural",
	"x-kubernetes-embedded-resource":       "must be false to be structural",
	"x-kubernetes-int-or-string":           "must be false to be structural",

	"x-kubernetes-list-map-keys": "must be empty to be structural",
	"x-kubernetes-list-type":     "must be undefined to be structural",
	"x-kubernetes-map-type":      "must be undefined to be structural",
	"x-kubernetes-validations":   "must be empty to be structural",
}

// validateNested checks a schema below a junctor.
func validateNested(n *Nested, skipAnyOf bool, path *field.Path, errs *field.ErrorList) {
	validateValues(&n.Values, skipAnyOf, false, path, errs)
	if n.Items != nil {
		validateNested(n.Items, false, path.Child("items"), errs)
	}
	for _, name := range n.Names {
		validateNested(n.Properties[name], false, path.Child("properties").Key(name), errs)
	}
	forbid := func(name string) {
		add(errs, field.Forbidden(path.Child(name), forbiddenTexts[name]))
	}
	if n.Type != "" {
		forbid("type")
	}
	if n.Additional != nil {
		forbid("additionalProperties")
	}
	for _, name := range n.Forbidden {
		forbid(name)
	}
	if len(n.Rules) > 0 {
		forbid("x-kubernetes-validations")
	}
	if _, ok := n.Properties["metadata"]; ok {
		add(errs, field.Forbidden(path.Child("properties").Key("metadata"), "must not be specified in a nested context"))
	}
}

// add appends an error.
func add(errs *field.ErrorList, e *field.Error) { *errs = append(*errs, e) }
