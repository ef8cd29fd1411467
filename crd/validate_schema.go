package crd

import (
	"fmt"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file checks a schema as a whole. validate_node.go checks its nodes.

// rootFields are the fields that the root of a schema may have if the status subresource is
// enabled: the fields that upstream keeps when it derives the schema of the status.
var rootFields = []string{
	"Description", "Type", "Format", "Title", "Maximum", "ExclusiveMaximum", "Minimum", "ExclusiveMinimum",
	"MaxLength", "MinLength", "Pattern", "MaxItems", "MinItems", "UniqueItems", "MultipleOf", "Required",
	"Items", "Properties", "ExternalDocs", "Example", "XPreserveUnknownFields", "XValidations",
}

// validateSchema checks the schema in v. status says whether the version has a status subresource,
// unchanged whether the live definition has the same schema.
func validateSchema(v *apiextv1.CustomResourceValidation, status bool, o strictness, unchanged bool, path *field.Path) field.ErrorList {
	s := openAPI(v)
	if s == nil {
		return nil
	}
	path = path.Child("openAPIV3Schema")
	var errs field.ErrorList
	if status {
		errs = append(errs, validateStatusRoot(s, path)...)
	}
	if s.Nullable {
		errs = append(errs, field.Forbidden(path.Child("nullable"), "nullable cannot be true at the root"))
	}

	var parsed *structural.Schema
	var program *schema.Program
	var parseErrs field.ErrorList
	if o.structural {
		parsed, parseErrs = o.compiler.parsedSchema(s, path)
		if parsed != nil {
			found := o.compiler.structuralErrors(s, parsed, path)
			if len(found) == 0 {
				program = o.compiler.programOf(s, parsed)
				found = validateDefaults(parsed, program, path, o.prunedDefaults)
			}
			if len(found) > 0 {
				parsed = nil // rules can only be checked in a structural schema
			}
			errs = append(errs, found...)
		}
	}

	w := &schemaWalk{strictness: &o, bad: map[string]bool{}, loose: map[string]bool{}}
	w.node(s, path, inherited{root: true, noDefaults: o.noDefaults})
	errs = append(errs, w.errs...)
	if parsed != nil {
		errs = append(errs, validateRules(parsed, program, unchanged, w, path)...)
	}
	// Parse errors usually repeat errors of the walk, so that they are reported only by themselves.
	if len(errs) == 0 {
		return parseErrs
	}
	return errs
}

// validateStatusRoot checks the fields at the root of a schema whose version has a status
// subresource. The first field in the order of the internal type that is wrong is reported.
func validateStatusRoot(s *apiextv1.JSONSchemaProps, path *field.Path) field.ErrorList {
	for _, name := range schemaFields {
		switch {
		case isZeroField(s, name):
		case name == "Type" && s.Type != "object":
			return field.ErrorList{field.Invalid(path.Child("type"), s.Type,
				`only "object" is allowed as the type at the root of the schema if the status subresource is enabled`)}
		case name != "Type" && !contains(rootFields, name):
			return field.ErrorList{field.Invalid(path, internal(s), fmt.Sprintf(
				"only %v fields are allowed at the root of the schema if the status subresource is enabled", rootFields))}
		}
	}
	return nil
}

// contains reports whether list has s.
func contains(list []string, s string) bool {
	for _, have := range list {
		if have == s {
			return true
		}
	}
	return false
}

// schemaWalk visits all nodes of a schema.
type schemaWalk struct {
	*strictness
	errs field.ErrorList
	// bad has the paths of nodes with errors at or below them. Their rules are not checked.
	bad map[string]bool
	// loose has the paths of nodes with an unknown map type. Their members have no correlated old
	// values.
	loose map[string]bool
}

// inherited is the context that a node inherits from the nodes above it.
type inherited struct {
	root       bool   // the node is the root
	meta       bool   // the node is in apiVersion, kind or metadata of a resource
	noDefaults string // the reason why default values are forbidden, "" if they are allowed
}

func (w *schemaWalk) add(e *field.Error) { w.errs = append(w.errs, e) }

// node checks s and everything below it.
func (w *schemaWalk) node(s *apiextv1.JSONSchemaProps, path *field.Path, in inherited) {
	if s == nil {
		return
	}
	before := len(w.errs)
	w.keywords(s, path, in)
	if s.UniqueItems {
		w.add(field.Forbidden(path.Child("uniqueItems"), "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"))
	}
	w.children(s, path, in)
	w.extensions(s, path)
	w.ruleTexts(s, path)
	if len(w.errs) > before {
		w.bad[path.String()] = true
	}
}

// children checks the nodes directly below s, in upstream's order.
func (w *schemaWalk) children(s *apiextv1.JSONSchemaProps, path *field.Path, in inherited) {
	below := in
	below.root = false
	if a := s.AdditionalProperties; a != nil {
		if len(s.Properties) > 0 && (!a.Allows || a.Schema != nil) {
			w.add(field.Forbidden(path.Child("additionalProperties"), "additionalProperties and properties are mutual exclusive"))
		}
		sub := below
		if in.meta {
			sub.noDefaults = "inside additionalProperties applying to object metadata"
		}
		w.node(a.Schema, path.Child("additionalProperties"), sub)
	}
	if len(s.Properties) > 0 {
		w.properties(s, path, in)
	}
	w.node(s.Not, path.Child("not"), below)
	for i := range s.AllOf {
		w.node(&s.AllOf[i], path.Child("allOf").Index(i), below)
	}
	for i := range s.OneOf {
		w.node(&s.OneOf[i], path.Child("oneOf").Index(i), below)
	}
	for i := range s.AnyOf {
		w.node(&s.AnyOf[i], path.Child("anyOf").Index(i), below)
	}
	for _, name := range sortedKeys(s.Definitions) {
		d := s.Definitions[name]
		w.node(&d, path.Child("definitions").Key(name), below)
	}
	if s.Items != nil {
		w.node(s.Items.Schema, path.Child("items"), below)
		for i := range s.Items.JSONSchemas {
			w.node(&s.Items.JSONSchemas[i], path.Child("items").Index(i), below)
		}
	}
	for _, name := range sortedKeys(s.Dependencies) {
		w.node(s.Dependencies[name].Schema, path.Child("dependencies").Key(name), below)
	}
}

// properties checks the properties of s.
func (w *schemaWalk) properties(s *apiextv1.JSONSchemaProps, path *field.Path, in inherited) {
	at := path.Child("properties")
	for _, name := range sortedKeys(s.Properties) {
		sub := in
		sub.root = false
		if (in.root || s.XEmbeddedResource) && (name == "metadata" || name == "kind" || name == "apiVersion") {
			sub.meta = true
			if in.root {
				sub.noDefaults = "in top-level " + name
			}
		}
		p := s.Properties[name]
		w.node(&p, at.Key(name), sub)
	}
}

// ruleTexts makes the checks of rules that need no compilation.
func (w *schemaWalk) ruleTexts(s *apiextv1.JSONSchemaProps, path *field.Path) {
	for i := range s.XValidations {
		r := &s.XValidations[i]
		at := path.Child("x-kubernetes-validations").Index(i)
		rule, message := strings.TrimSpace(r.Rule), strings.TrimSpace(r.Message)
		switch {
		case rule == "":
			w.add(field.Required(at.Child("rule"), "rule is not specified"))
		case r.Message != "" && message == "":
			w.add(field.Invalid(at.Child("message"), r.Message, "must be non-empty if specified"))
		case hasBreak(message):
			w.add(field.Invalid(at.Child("message"), r.Message, "must not contain line breaks"))
		case hasBreak(rule) && message == "":
			w.add(field.Required(at.Child("message"), "message must be specified if rule contains line breaks"))
		}
		if r.MessageExpression != "" && strings.TrimSpace(r.MessageExpression) == "" {
			w.add(field.Required(at.Child("messageExpression"), "messageExpression must be non-empty if specified"))
		}
		if r.Reason != nil && !contains(reasons, string(*r.Reason)) {
			w.add(field.NotSupported(at.Child("reason"), *r.Reason, reasons))
		}
		if r.FieldPath == "" {
			continue
		}
		if strings.TrimSpace(r.FieldPath) == "" {
			w.add(field.Invalid(at.Child("fieldPath"), r.FieldPath, "must be non-empty if specified"))
		}
		if hasBreak(r.FieldPath) {
			w.add(field.Invalid(at.Child("fieldPath"), r.FieldPath, "must not contain line breaks"))
		}
		if parsed, _ := structural.Parse(s, path); parsed != nil {
			if _, _, _, err := schema.FieldPath(r.FieldPath, parsed, true); err != nil {
				w.add(field.Invalid(at.Child("fieldPath"), r.FieldPath, "must be a valid path"))
			}
		}
	}
}

// reasons are the values that a rule's reason may have.
var reasons = []string{"FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"}

// hasBreak reports whether s has a line break.
func hasBreak(s string) bool { return strings.ContainsAny(s, "\n\r") }
