package lint

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/source"
)

// This file names findings. Users suppress findings by these names, so that none may change its
// meaning.

// serverErrors maps the types of a server's errors to the second part of an ID.
var serverErrors = map[field.ErrorType]string{
	field.ErrorTypeRequired: "required", field.ErrorTypeInvalid: "invalid", field.ErrorTypeNotSupported: "not-supported",
	field.ErrorTypeForbidden: "forbidden", field.ErrorTypeDuplicate: "duplicate", field.ErrorTypeNotFound: "not-found",
	field.ErrorTypeTooLong: "too-long", field.ErrorTypeTooMany: "too-many", field.ErrorTypeInternal: "internal", field.ErrorTypeTypeInvalid: "type",
}

// serverID returns the ID of a server's error.
func serverID(e *field.Error) string {
	if id := serverErrors[e.Type]; id != "" {
		return "server/" + id
	}
	return "server/invalid"
}

// parts has the last steps of paths that become the second part of an ID, besides the keywords of
// schemas.
var parts = map[string]string{
	"rule": "rule", "messageExpression": "message", "expression": "expression", "storage": "storage", "versions": "versions", "served": "versions",
	"group": "name", "scope": "scope", "plural": "name", "kind": "name", "singular": "name", "shortNames": "name", "categories": "name", "listKind": "name",
	"subresources": "subresources", "scale": "subresources", "status": "subresources", "selectableFields": "selectable-fields",
	"additionalPrinterColumns": "columns", "conversion": "conversion",
	"policyName": "policy", "paramRef": "parameter", "paramKind": "parameter",
}

// identify sets the ID of a finding that has none: by the check and the last step of its path that
// is a keyword.
func identify(f Finding) Finding {
	if f.ID != "" {
		return f
	}
	f.ID = f.Check
	switch f.Check {
	case "rule", "draft", "conflict", "unchecked", "type":
		return f
	case "server":
		f.ID = "server/invalid"
		if f.Severity == Warning {
			f.ID = "server/warning"
		}
		return f
	}
	steps := source.Split(f.Path)
	for i := len(steps) - 1; i >= 0; i-- {
		step := steps[i]
		if i > 0 && steps[i-1] == "properties" {
			break // a field, whatever its name is
		}
		if part := parts[step]; part != "" {
			f.ID += "/" + part
			return f
		}
		if _, ok := keywords[step]; ok {
			f.ID += "/" + step
			return f
		}
	}
	f.ID += "/schema"
	return f
}
