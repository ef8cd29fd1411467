package lib

import (
	"net/url"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
)

// This file defines Kubernetes' named formats.

// FormatType is the type of named formats.
var FormatType = types.NewObjectType("kubernetes.NamedFormat")

// NamedFormat is a format of strings. Validate returns the errors of a string, none if it is valid.
type NamedFormat struct {
	Object
	Name         string
	Validate     func(string) []string
	MaxRegexSize int // size of its regular expression, for the cost of a check
}

func (f NamedFormat) String() string                   { return f.Name }
func (f NamedFormat) Value() any                       { return f }
func (f NamedFormat) ConvertToType(t ref.Type) ref.Val { return Convert(f, t) }
func (f NamedFormat) Equal(other ref.Val) ref.Val {
	o, ok := other.(NamedFormat)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	return types.Bool(f.Name == o.Name)
}

// prefixCheck returns the check of a prefix of a name, which may end with a dash: upstream checks the
// name that has an "a" in place of the last two characters. It does so itself in a package that links
// an HTTP client.
func prefixCheck(check func(string) []string) func(string) []string {
	return func(s string) []string {
		if len(s) > 1 && strings.HasSuffix(s, "-") {
			s = s[:len(s)-2] + "a"
		}
		return check(s)
	}
}

// known returns the check of a string format of OpenAPI.
func known(format, complaint string) func(string) []string {
	return func(s string) []string {
		if strfmt.Default.Validates(format, s) {
			return nil
		}
		return []string{complaint}
	}
}

// Formats returns the formats by their names in rules. The sizes are upstream's.
func Formats() map[string]NamedFormat {
	f := func(name string, size int, validate func(string) []string) NamedFormat {
		return NamedFormat{Object{FormatType}, name, validate, size}
	}
	return map[string]NamedFormat{
		"dns1123Label":           f("DNS1123Label", 30, validation.IsDNS1123Label),
		"dns1123Subdomain":       f("DNS1123Subdomain", 60, validation.IsDNS1123Subdomain),
		"dns1035Label":           f("DNS1035Label", 30, validation.IsDNS1035Label),
		"dns1123LabelPrefix":     f("DNS1123LabelPrefix", 30, prefixCheck(validation.IsDNS1123Label)),
		"dns1123SubdomainPrefix": f("DNS1123SubdomainPrefix", 60, prefixCheck(validation.IsDNS1123Subdomain)),
		"dns1035LabelPrefix":     f("DNS1035LabelPrefix", 30, prefixCheck(validation.IsDNS1035Label)),
		"qualifiedName":          f("QualifiedName", 60, validation.IsQualifiedName),
		"labelValue":             f("LabelValue", 40, validation.IsValidLabelValue),
		"uri": f("URI", 1103, func(s string) []string {
			if _, err := url.ParseRequestURI(s); err != nil {
				return []string{err.Error()}
			}
			return nil
		}),
		"uuid":     f("uuid", len(strfmt.UUIDPattern), known("uuid", "does not match the UUID format")),
		"byte":     f("byte", 84, known("byte", "invalid base64")),
		"date":     f("date", len(strfmt.DateTimePattern), known("date", "invalid date")),
		"datetime": f("datetime", len(strfmt.DateTimePattern), known("datetime", "invalid datetime")),
	}
}

// FormatLibrary returns the named formats.
func FormatLibrary() []cel.EnvOption {
	all := Formats()
	out := []cel.EnvOption{
		cel.Function("format.named", cel.Overload("format-named", []*types.Type{types.StringType}, types.NewOptionalType(FormatType), unary(
			func(name types.String) ref.Val {
				f, ok := all[string(name)]
				if !ok {
					return types.OptionalNone
				}
				return types.OptionalOf(f)
			}))),
		cel.Function("validate", cel.MemberOverload("format-validate", []*types.Type{FormatType, types.StringType},
			types.NewOptionalType(types.NewListType(types.StringType)), binary(
				func(f NamedFormat, s types.String) ref.Val {
					complaints := f.Validate(string(s))
					if len(complaints) == 0 {
						return types.OptionalNone
					}
					return types.OptionalOf(types.NewStringList(types.DefaultTypeAdapter, complaints))
				}))),
	}
	for name, f := range all {
		out = append(out, cel.Function("format."+name, cel.Overload("format."+name, nil, FormatType, cel.FunctionBinding(
			func(...ref.Val) ref.Val { return f }))))
	}
	return out
}
