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
	"github.com/keelson-io/keelson/cel/requests"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file checks what webhook configurations and policies have in common:
// rules and match conditions. Both are worked on as Go types: they are written
// seldom and are small.

// goType is an object as a Go type; the zero value if there is none.
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

// oneOf is the error that a value is unless it is one of those that there are,
// which are sorted.
func oneOf[T ~string](at *field.Path, value T, known ...string) field.ErrorList {
	if slices.Contains(known, string(value)) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, value, known)}
}

// checkRule checks which requests a rule is for.
func checkRule(r *admissionv1.RuleWithOperations, at *field.Path) field.ErrorList {
	errs := alone(r.Operations, at.Child("operations"), "operations")
	for i, op := range r.Operations {
		errs = append(errs, oneOf(at.Child("operations").Index(i), op, "*", "CONNECT", "CREATE", "DELETE", "UPDATE")...)
	}
	errs = append(errs, alone(r.APIGroups, at.Child("apiGroups"), "API groups")...)
	errs = append(errs, alone(r.APIVersions, at.Child("apiVersions"), "API versions")...)
	for i, version := range r.APIVersions {
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

// alone: there is something, and "*" stands alone.
func alone[T ~string](list []T, at *field.Path, what string) field.ErrorList {
	switch {
	case len(list) == 0:
		return field.ErrorList{field.Required(at, "")}
	case len(list) > 1 && slices.Contains(list, "*"):
		return field.ErrorList{field.Invalid(at, list, "if '*' is present, must not specify other "+what)}
	}
	return nil
}

// checkResources checks resources with subresources: what a wildcard is for is
// not named again after it.
func checkResources(resources []string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(resources) == 0 {
		errs = append(errs, field.Required(at, ""))
	}
	allOf, everywhere := sets.Set[string]{}, sets.Set[string]{} // x/* and */x
	plain := false                                              // the last one without a subresource is no wildcard
	for i, name := range resources {
		resource, sub, divided := strings.Cut(name, "/")
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

// maxMatchConditions bounds the match conditions of one webhook or policy.
const maxMatchConditions = 64

// checkMatchConditions checks match conditions, which may have parameters.
// stored are expressions that were there before: they may use what only this
// version of the language has.
func checkMatchConditions(list []admissionv1.MatchCondition, stored sets.Set[string], params bool, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(list) > maxMatchConditions {
		errs = append(errs, field.TooMany(at, len(list), maxMatchConditions))
	}
	names := sets.Set[string]{}
	for i, c := range list {
		at := at.Index(i)
		if text := strings.TrimSpace(c.Expression); text == "" {
			errs = append(errs, field.Required(at.Child("expression"), ""))
		} else {
			l := requests.For(cel.AdmissionVariables{Params: params, Authorizer: true, New: !stored.Has(text)})
			errs = append(errs, compiles(l.Compile(text, "bool"), text, at.Child("expression"))...)
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

// compiles is the error of an expression that does not compile; shown is the
// text that the error shows.
func compiles(x *requests.Expression, shown string, at *field.Path) field.ErrorList {
	switch {
	case x.Err == nil:
		return nil
	case x.Internal:
		return field.ErrorList{field.InternalError(at, x.Err)}
	}
	return field.ErrorList{field.Invalid(at, shown, x.Err.Error())}
}

func checkQualifiedName(name string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validation.IsQualifiedName(name) {
		errs = append(errs, field.Invalid(at, name, msg))
	}
	return errs
}
