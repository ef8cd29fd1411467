package crd

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/keelson-io/keelson/kind"
)

// This file computes the warnings for definitions that are valid but probably not intended.

// Warnings returns the warnings for a definition. old is nil on create. Warnings that old had are
// omitted.
func Warnings(new, old *apiextv1.CustomResourceDefinition) []string {
	var formats, sets []string
	if old != nil {
		was := hoist(&old.Spec)
		formats, sets = unknownFormats(was), compoundSets(was)
	}
	var warnings []string
	if text := kind.Reserved(new.Spec.Group); old == nil && text != "" {
		warnings = append(warnings, text)
	}
	is := hoist(&new.Spec)
	for _, format := range unknownFormats(is) {
		if !contains(formats, format) {
			warnings = append(warnings, fmt.Sprintf("unrecognized format %q", format))
		}
	}
	for _, text := range compoundSets(is) {
		if !contains(sets, text) {
			warnings = append(warnings, text)
		}
	}
	return warnings
}

// textFormats are the formats of strings that validation knows, without dashes.
var textFormats = strings.Fields(`bsonobjectid uri email hostname ipv4 ipv6 cidr mac uuid uuid3 uuid4 uuid5 isbn isbn10
	isbn13 creditcard ssn hexcolor rgbcolor byte password date duration datetime k8sshortname k8slongname`)

// isKnownFormat reports whether validation checks a format for values of a type.
func isKnownFormat(typ, format string) bool {
	switch typ {
	case "", "string":
		return contains(textFormats, strings.ReplaceAll(format, "-", ""))
	case "integer":
		return format == "int32" || format == "int64"
	case "number":
		return format == "float" || format == "double"
	}
	return false
}

// unknownFormats returns the formats that validation does not know, as often as they occur. A
// schema that all versions share counts once.
func unknownFormats(h *hoisted) []string {
	var out []string
	eachDistinct(h, func(s *apiextv1.JSONSchemaProps) bool {
		if s.Format != "" && !isKnownFormat(s.Type, s.Format) {
			out = append(out, s.Format)
		}
		return false
	})
	return out
}

// compoundSets returns a warning for each type of set whose items are objects or arrays, sorted.
func compoundSets(h *hoisted) []string {
	seen := map[string]bool{}
	eachDistinct(h, func(s *apiextv1.JSONSchemaProps) bool {
		if s.XListType == nil || *s.XListType != "set" || s.Items == nil || s.Items.Schema == nil {
			return false
		}
		if t := s.Items.Schema.Type; t == "object" || t == "array" {
			seen[fmt.Sprintf("x-kubernetes-list-type: set for items of type %q is not supported by server-side apply or CEL validation rules", t)] = true
		}
		return false
	})
	return slices.Sorted(maps.Keys(seen))
}

// eachDistinct visits every node of every schema. A schema that all versions share is visited once.
func eachDistinct(h *hoisted, visit func(*apiextv1.JSONSchemaProps) bool) {
	has(openAPI(h.schema), visit)
	for i := range h.versions {
		has(openAPI(h.versions[i].Schema), visit)
	}
}
