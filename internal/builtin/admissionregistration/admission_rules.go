package admissionregistration

import (
	"encoding/json"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/internal/requests"
	"github.com/keelson-io/keelson/internal/texts"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file checks the rules and match conditions that webhook configurations and policies have. It
// decodes both into Go types, because they are small and are seldom written.

// goType returns an object as a Go type, the zero value for none.
func goType[T any](d *jsondoc.Doc) (*T, *field.Error) {
	out := new(T)
	if d == nil {
		return out, nil
	}
	if err := json.Unmarshal(d.AppendJSON(nil, d.Root().Node), out); err != nil {
		return nil, field.InternalError(nil, err)
	}
	return out, nil
}

// oneOf returns an error if a value is not one of all, which are sorted.
func oneOf[T ~string](at *field.Path, value T, known ...string) field.ErrorList {
	if slices.Contains(known, string(value)) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, value, known)}
}

// checkRule checks the requests that a rule matches.
func checkRule(r *admissionv1.RuleWithOperations, at *field.Path) field.ErrorList {
	errs := isAlone(r.Operations, at.Child("operations"), "operations")
	for i, op := range texts.Each(&errs, r.Operations) {
		errs = append(errs, oneOf(at.Child("operations").Index(i), op, "*", "CONNECT", "CREATE", "DELETE", "UPDATE")...)
	}
	errs = append(errs, isAlone(r.APIGroups, at.Child("apiGroups"), "API groups")...)
	errs = append(errs, isAlone(r.APIVersions, at.Child("apiVersions"), "API versions")...)
	for i, version := range texts.Each(&errs, r.APIVersions) {
		if version == "" {
			errs = append(errs, field.Required(at.Child("apiVersions").Index(i), ""))
		}
	}
	errs = append(errs, checkResources(r.Resources, at.Child("resources"))...)
	if r.Scope != nil {
		errs = append(errs, oneOf(at.Child("scope"), *r.Scope, "*", "Cluster", "Namespaced")...)
	}
	return errs
}

// isAlone checks that there is a value, and that "*" is the only one if it is there.
func isAlone[T ~string](list []T, at *field.Path, what string) field.ErrorList {
	switch {
	case len(list) == 0:
		return field.ErrorList{field.Required(at, "")}
	case len(list) > 1 && slices.Contains(list, "*"):
		return field.ErrorList{field.Invalid(at, list, "if '*' is present, must not specify other "+what)}
	}
	return nil
}

// checkResources checks resources with subresources. A resource that a wildcard covers must not be
// named after it.
func checkResources(resources []string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(resources) == 0 {
		errs = append(errs, field.Required(at, ""))
	}
	allOf, everywhere := sets.Set[string]{}, sets.Set[string]{} // x/* and */x
	plain := false                                              // whether the last resource without a subresource is not "*"
	for i, name := range texts.Each(&errs, resources) {
		resource, sub, divided := strings.Cut(name, "/") // whether the last resource without a subresource is not "*"
		switch {
		case name == "":
			errs = append(errs, field.Required(at.Index(i), ""))
			continue
		case !divided:
			plain = name != "*"
			continue
		}
		if allOf.Has(resource) {
			errs = append(errs, field.Invalid(at.Index(i), name, "if '"+resource+"/*' is present, must not specify "+name))
		}
		if everywhere.Has(sub) {
			errs = append(errs, field.Invalid(at.Index(i), name, "if '*/"+sub+"' is present, must not specify "+name))
		}
		if sub == "*" {
			allOf.Insert(resource)
		}
		if resource == "*" {
			everywhere.Insert(sub)
		}
	}
	if len(resources) > 1 && slices.Contains(resources, "*/*") {
		errs = append(errs, field.Invalid(at, resources, "if '*/*' is present, must not specify other resources"))
	}
	if plain && slices.Contains(resources, "*") {
		errs = append(errs, field.Invalid(at, resources, "if '*' is present, must not specify other resources without subresources"))
	}
	return errs
}

// maxMatchConditions is the largest number of match conditions of one webhook or policy.
const maxMatchConditions = 64

// checkMatchConditions checks match conditions, which may have parameters. The expressions in
// stored were there before: they may use features of CEL that new expressions must not use yet.
func checkMatchConditions(list []admissionv1.MatchCondition, stored sets.Set[string], params bool, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(list) > maxMatchConditions {
		errs = append(errs, field.TooMany(at, len(list), maxMatchConditions))
	}
	names := sets.Set[string]{}
	for i, c := range texts.Each(&errs, list) {
		at := at.Index(i)
		if text := strings.TrimSpace(c.Expression); text == "" {
			errs = append(errs, field.Required(at.Child("expression"), ""))
		} else {
			l := requests.For(cel.AdmissionVariables{Params: params, Authorizer: true, New: !stored.Has(text)})
			errs = append(errs, compileError(l.Compile(text, "bool"), text, at.Child("expression"))...)
		}
		switch {
		case c.Name == "":
			errs = append(errs, field.Required(at.Child("name"), ""))
			continue
		case names.Has(c.Name):
			errs = append(errs, checkQualifiedName(c.Name, at.Child("name"))...)
			errs = append(errs, field.Duplicate(at.Child("name"), c.Name))
		default:
			errs = append(errs, checkQualifiedName(c.Name, at.Child("name"))...)
			names.Insert(c.Name)
		}
	}
	return errs
}

// compileError returns the error of an expression that does not compile. shown is the text of the
// expression in the error.
func compileError(x *requests.Expression, shown string, at *field.Path) field.ErrorList {
	switch {
	case x.Err == nil:
		return nil
	case x.Internal:
		return field.ErrorList{field.InternalError(at, x.Err)}
	}
	return field.ErrorList{field.Invalid(at, shown, x.Err.Error())}
}

// checkQualifiedName checks the name of a match condition.
func checkQualifiedName(name string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validation.IsQualifiedName(name) {
		errs = append(errs, field.Invalid(at, name, msg))
	}
	return errs
}
