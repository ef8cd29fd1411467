package crd

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/keelson-io/keelson/kind"
)

// This file finds what is allowed in a definition and yet worth a warning.

// Warnings returns what to warn about; old is nil on create. What old has
// already is not warned about again.
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

// textFormats are the formats of strings, without dashes.
var textFormats = strings.Fields(`bsonobjectid uri email hostname ipv4 ipv6 cidr mac uuid uuid3 uuid4 uuid5 isbn isbn10
	isbn13 creditcard ssn hexcolor rgbcolor byte password date duration datetime k8sshortname k8slongname`)

// isKnownFormat reports whether a format means something on a type.
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

// unknownFormats are the formats that mean nothing, as often as they occur. A
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

// compoundSets warns about sets of objects or arrays, sorted.
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

// eachDistinct visits every node of every schema, once if all versions share
// their schema.
func eachDistinct(h *hoisted, visit func(*apiextv1.JSONSchemaProps) bool) {
	has(openAPI(h.schema), visit)
	for i := range h.versions {
		has(openAPI(h.versions[i].Schema), visit)
	}
}
