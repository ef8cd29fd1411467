package crd

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file checks the parts of a version besides its schema: deprecation warning, subresources,
// columns and selectable fields.

// maxSelectable is the number of selectable fields that a version may have, as in Kubernetes.
const maxSelectable = 8

// validateVersion checks one version. Errors are in upstream's order.
func validateVersion(h *hoisted, v *apiextv1.CustomResourceDefinitionVersion, o strictness, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, text := range warningErrors(v.Deprecated, v.DeprecationWarning) {
		errs = append(errs, field.Invalid(path.Child("deprecationWarning"), v.DeprecationWarning, text))
	}
	errs = append(errs, validateSchema(v.Schema, h.statusOf(v), o, o.unchanged[v.Name], path.Child("schema"))...)
	errs = append(errs, validateSubresources(v.Subresources, path.Child("subresources"))...)
	for i := range v.AdditionalPrinterColumns {
		errs = append(errs, validateColumn(&v.AdditionalPrinterColumns[i], path.Child("additionalPrinterColumns").Index(i))...)
	}
	switch {
	case len(v.SelectableFields) == 0:
	case openAPI(v.Schema) == nil:
		errs = append(errs, field.Invalid(path.Child("selectableFields"), "",
			"may only be set when `version.schema.openAPIV3Schema` is not included"))
	default:
		errs = append(errs, validateSelectable(v.SelectableFields, v.Schema, o.manySelectable[v.Name], path)...)
	}
	return errs
}

// warningErrors returns the errors of a deprecation warning.
func warningErrors(deprecated bool, warning *string) []string {
	if warning == nil {
		return nil
	}
	if !deprecated {
		return []string{"can only be set for deprecated versions"}
	}
	const printable = "must only contain printable UTF-8 characters"
	var texts []string
	if len(*warning) > 256 {
		texts = append(texts, "must be <= 256 characters long")
	}
	if *warning == "" {
		texts = append(texts, "must not be an empty string")
	}
	for i, r := range *warning {
		// One message is enough: control characters, which upstream checks apart, are not printable
		// either.
		if !unicode.IsPrint(r) {
			texts = append(texts, fmt.Sprintf("%s; non-printable character found at index %d", printable, i))
			break
		}
	}
	if !utf8.ValidString(*warning) {
		texts = append(texts, printable)
	}
	return texts
}

// validateSubresources checks the paths of the scale subresource.
func validateSubresources(s *apiextv1.CustomResourceSubresources, path *field.Path) field.ErrorList {
	if s == nil || s.Scale == nil {
		return nil
	}
	check := func(name, value, detail string, under ...string) field.ErrorList {
		at := path.Child(name)
		if errs := simplePath(value, at); len(errs) > 0 {
			return errs
		}
		for _, prefix := range under {
			if strings.HasPrefix(value, prefix) {
				return nil
			}
		}
		return field.ErrorList{field.Invalid(at, value, detail)}
	}
	required := func(name, value, detail, under string) field.ErrorList {
		if value == "" {
			return field.ErrorList{field.Required(path.Child(name), "")}
		}
		return check(name, value, detail, under)
	}
	errs := required("scale.specReplicasPath", s.Scale.SpecReplicasPath, "should be a json path under .spec", ".spec.")
	errs = append(errs, required("scale.statusReplicasPath", s.Scale.StatusReplicasPath, "should be a json path under .status", ".status.")...)
	if p := s.Scale.LabelSelectorPath; p != nil && *p != "" {
		errs = append(errs, check("scale.labelSelectorPath", *p, "should be a json path under either .spec or .status", ".spec.", ".status.")...)
	}
	return errs
}

// simplePath checks that value, which is not empty, starts with a dot.
func simplePath(value string, path *field.Path) field.ErrorList {
	if value[0] != '.' {
		return field.ErrorList{field.Invalid(path, value, "must be a simple json path starting with .")}
	}
	return nil
}

var (
	columnTypes   = []string{"boolean", "date", "integer", "number", "string"}
	columnFormats = []string{"byte", "date", "date-time", "double", "float", "int32", "int64", "password"}
)

// validateColumn checks an additional printer column.
func validateColumn(c *apiextv1.CustomResourceColumnDefinition, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	types := "must be one of " + strings.Join(columnTypes, ",")
	if c.Type == "" {
		errs = append(errs, field.Required(path.Child("type"), types))
	} else if !slices.Contains(columnTypes, c.Type) {
		errs = append(errs, field.Invalid(path.Child("type"), c.Type, types))
	}
	if c.Format != "" && !slices.Contains(columnFormats, c.Format) {
		errs = append(errs, field.Invalid(path.Child("format"), c.Format, "must be one of "+strings.Join(columnFormats, ",")))
	}
	if c.JSONPath == "" {
		return append(errs, field.Required(path.Child("JSONPath"), ""))
	}
	return append(errs, simplePath(c.JSONPath, path.Child("JSONPath"))...)
}

// validateSelectable checks selectable fields against the schema in v. path is the path of the
// object that has both. mayBeMany disables the limit.
func validateSelectable(list []apiextv1.SelectableField, v *apiextv1.CustomResourceValidation, mayBeMany bool, path *field.Path) field.ErrorList {
	s, errs := structural.Parse(openAPI(v), path.Child("schema.openAPIV3Schema"))
	at := path.Child("selectableFields")
	unique := map[string]bool{}
	for i, f := range list {
		here := at.Index(i).Child("jsonPath")
		if f.JSONPath == "" {
			errs = append(errs, field.Required(here, ""))
			continue
		}
		names, _, found, err := schema.FieldPath(f.JSONPath, s, false)
		if err != nil {
			errs = append(errs, field.Invalid(here, f.JSONPath, fmt.Sprintf("is an invalid path: %v", err)))
			continue
		}
		if names[0] == "metadata" {
			errs = append(errs, field.Invalid(here, f.JSONPath, "must not point to fields in metadata"))
		}
		if found == nil || found.Type != "string" && found.Type != "boolean" && found.Type != "integer" {
			errs = append(errs, field.Invalid(here, f.JSONPath,
				"must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."))
		}
		if key := strings.Join(names, "."); unique[key] {
			errs = append(errs, field.Duplicate(here, f.JSONPath))
		} else {
			unique[key] = true
		}
	}
	if len(unique) > maxSelectable && !mayBeMany {
		errs = append(errs, field.TooMany(at, len(unique), maxSelectable))
	}
	return errs
}
