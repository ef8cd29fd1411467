package crd

import (
	"reflect"
	"slices"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/schema/structural"
)

// This file builds the schema of definitions that OpenAPI publishes, and by which server-side apply
// merges. It has the fields of the Go types. Schemas contain schemas; a structural schema cannot
// express the recursion and stops below the first one.

// publishedSchema returns the schema of definitions that OpenAPI publishes.
func publishedSchema() *structural.Schema {
	s := describeType(reflect.TypeFor[apiextv1.CustomResourceDefinition](), false)
	for _, name := range []string{"apiVersion", "kind", "metadata"} {
		delete(s.Properties, name) // implied for every resource
	}
	s.Names = sortedKeys(s.Properties)
	s.Values = &structural.Values{Required: []string{"spec"}}
	return s
}

// describeType returns the schema of a Go type of the API. nested says that the type is within a
// JSONSchemaProps.
func describeType(t reflect.Type, nested bool) *structural.Schema {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[metav1.Time]():
		return &structural.Schema{Type: "string", Format: "date-time"}
	case reflect.TypeFor[[]byte]():
		return &structural.Schema{Type: "string", Format: "byte"}
	// These types marshal to more than one JSON type, which their Go structure does not show.
	case reflect.TypeFor[apiextv1.JSON](), reflect.TypeFor[apiextv1.JSONSchemaPropsOrArray](),
		reflect.TypeFor[apiextv1.JSONSchemaPropsOrBool](), reflect.TypeFor[apiextv1.JSONSchemaPropsOrStringArray]():
		return &structural.Schema{Preserve: true}
	case reflect.TypeFor[apiextv1.JSONSchemaProps]():
		if nested {
			return &structural.Schema{Type: "object", Preserve: true, Description: "A schema of the same form as the one that it is part of."}
		}
		nested = true
	}
	switch t.Kind() {
	case reflect.String:
		return &structural.Schema{Type: "string"}
	case reflect.Bool:
		return &structural.Schema{Type: "boolean"}
	case reflect.Int32:
		return &structural.Schema{Type: "integer", Format: "int32"}
	case reflect.Int64:
		return &structural.Schema{Type: "integer", Format: "int64"}
	case reflect.Float64:
		return &structural.Schema{Type: "number", Format: "double"}
	case reflect.Slice:
		return &structural.Schema{Type: "array", Items: describeType(t.Elem(), nested), ListType: "atomic"}
	case reflect.Map:
		return &structural.Schema{Type: "object", Additional: describeType(t.Elem(), nested)}
	case reflect.Struct:
		return describeStruct(t, nested)
	}
	panic("BUG: no schema for the type " + t.String())
}

// describeStruct returns the schema of a struct. Its field names and options are those of the json
// tags.
func describeStruct(t reflect.Type, nested bool) *structural.Schema {
	properties := map[string]*structural.Schema{}
	var required []string
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		// Fields of embedded types, such as TypeMeta and ObjectMeta, are implied.
		if len(f.Index) > 1 || name == "" || name == "-" || f.Type == reflect.TypeFor[metav1.ObjectMeta]() {
			continue
		}
		p := describeType(f.Type, nested)
		if text := docs[t.Name()+"."+name]; text != "" {
			p.Description = text
		}
		if keys := listKeys[t.Name()+"."+name]; keys != nil {
			p.ListType, p.ListMapKeys = "map", keys
		}
		if options == "" && t != reflect.TypeFor[apiextv1.CustomResourceDefinitionStatus]() {
			required = append(required, name)
		}
		properties[name] = p
	}
	s := structural.Object(properties)
	s.Description = docs[t.Name()]
	if len(required) > 0 {
		slices.Sort(required)
		s.Values = &structural.Values{Required: required}
	}
	return s
}

// listKeys has the keys of the lists that upstream merges by key; the other lists are atomic.
var listKeys = map[string][]string{
	"CustomResourceDefinitionStatus.conditions": {"type"},
	"JSONSchemaProps.x-kubernetes-validations":  {"rule"},
}

// docs has the published descriptions of types and fields. A key is a type, or a type and the JSON
// name of a field.
var docs = map[string]string{
	"CustomResourceDefinition":        "A resource type that this server is to serve. Its name is <.spec.names.plural>.<.spec.group>.",
	"CustomResourceDefinition.spec":   "The names of the type, and the schema of its objects.",
	"CustomResourceDefinition.status": "The observed state: accepted names, stored versions and conditions.",

	"CustomResourceDefinitionSpec.group":                 "The API group that the type is served in, at /apis/<group>/. It cannot be changed.",
	"CustomResourceDefinitionSpec.names":                 "The names of the type.",
	"CustomResourceDefinitionSpec.scope":                 "Whether objects are in namespaces: Namespaced or Cluster.",
	"CustomResourceDefinitionSpec.versions":              "The versions of the type, each with its own schema. Exactly one of them is the one that objects are stored in.",
	"CustomResourceDefinitionSpec.conversion":            "The conversion of objects between versions.",
	"CustomResourceDefinitionSpec.preserveUnknownFields": "Deprecated: keep fields that no schema declares. Use x-kubernetes-preserve-unknown-fields in the schema instead.",

	"CustomResourceDefinitionNames.plural":     "The name in URLs, in lower case: /apis/<group>/<version>/…/<plural>. It cannot be changed.",
	"CustomResourceDefinitionNames.singular":   "The name of one object on the command line, in lower case. Default: kind in lower case.",
	"CustomResourceDefinitionNames.kind":       "The kind of the objects, usually in CamelCase and singular.",
	"CustomResourceDefinitionNames.listKind":   "The kind of lists of the objects. Default: kind followed by List.",
	"CustomResourceDefinitionNames.shortNames": "Abbreviations for the command line, in lower case.",
	"CustomResourceDefinitionNames.categories": "Categories of types, such as all in 'kubectl get all'.",

	"CustomResourceDefinitionVersion.name":                     "The name of the version, such as v1 or v2beta1.",
	"CustomResourceDefinitionVersion.served":                   "Whether clients can use this version.",
	"CustomResourceDefinitionVersion.storage":                  "Whether objects are stored in this version.",
	"CustomResourceDefinitionVersion.deprecated":               "Whether clients that use this version get a warning.",
	"CustomResourceDefinitionVersion.deprecationWarning":       "The warning for clients of a deprecated version. Default: a text that names the version to use instead.",
	"CustomResourceDefinitionVersion.schema":                   "The schema by which objects of this version are pruned, defaulted and validated.",
	"CustomResourceDefinitionVersion.subresources":             "Further endpoints of each object.",
	"CustomResourceDefinitionVersion.additionalPrinterColumns": "Columns that tables show besides the name. Default: the age.",
	"CustomResourceDefinitionVersion.selectableFields":         "Fields that field selectors may name.",

	"CustomResourceValidation.openAPIV3Schema": "The structural schema of the objects.",

	"CustomResourceSubresources.status": "If present, /status is served: updates of it change nothing but the status, and all other updates leave the status as it is.",
	"CustomResourceSubresources.scale":  "If present, /scale is served as an autoscaling/v1 Scale.",

	"CustomResourceSubresourceScale.specReplicasPath":   "JSON path of the desired number of replicas, without brackets, under .spec.",
	"CustomResourceSubresourceScale.statusReplicasPath": "JSON path of the current number of replicas, without brackets, under .status.",
	"CustomResourceSubresourceScale.labelSelectorPath":  "Path of a label selector as text, under .spec or .status. Horizontal pod autoscaling needs it.",

	"CustomResourceColumnDefinition.name":        "The heading.",
	"CustomResourceColumnDefinition.type":        "The OpenAPI type of the values: integer, number, string, boolean or date.",
	"CustomResourceColumnDefinition.format":      "The OpenAPI format of the values; clients may print some formats in a way of their own.",
	"CustomResourceColumnDefinition.description": "The meaning of the column.",
	"CustomResourceColumnDefinition.priority":    "0 for columns that are always shown; columns with greater numbers only in wide output ('kubectl get -o wide').",
	"CustomResourceColumnDefinition.jsonPath":    "The JSON path of the value, without filters and ranges.",

	"SelectableField.jsonPath": "Path of a field that is a string, boolean or integer, such as .spec.color; not of an item of a list, and not in metadata.",

	"CustomResourceConversion.strategy": "None: only apiVersion changes. Webhook: a webhook converts the objects.",
	"CustomResourceConversion.webhook":  "The webhook, for the strategy Webhook.",

	"WebhookConversion.clientConfig":             "The address of the webhook.",
	"WebhookConversion.conversionReviewVersions": "The versions of ConversionReview that the webhook understands, the preferred one first.",
	"WebhookClientConfig.url":                    "The address, https://host:port/path. Exactly one of url and service must be set.",
	"WebhookClientConfig.service":                "The Service in front of the webhook. Exactly one of url and service must be set.",
	"WebhookClientConfig.caBundle":               "PEM certificates by which the certificate of the webhook is verified. Default: those of the system.",
	"ServiceReference.namespace":                 "The namespace of the Service.",
	"ServiceReference.name":                      "The name of the Service.",
	"ServiceReference.path":                      "The path of the URL.",
	"ServiceReference.port":                      "The port of the Service, 443 by default.",

	"CustomResourceDefinitionStatus.conditions":         "The state of the definition: NamesAccepted, Established, Terminating and others.",
	"CustomResourceDefinitionStatus.acceptedNames":      "The names under which the type is served. A name in the spec is missing here if another type has it.",
	"CustomResourceDefinitionStatus.storedVersions":     "Every version that objects were ever stored in. They cannot be removed from the spec. Remove a version here once all objects are stored in another one.",
	"CustomResourceDefinitionStatus.observedGeneration": "The generation of the definition to which the status refers.",

	"CustomResourceDefinitionCondition.type":               "The type of the condition, such as Established.",
	"CustomResourceDefinitionCondition.status":             "True, False or Unknown.",
	"CustomResourceDefinitionCondition.lastTransitionTime": "The time of the last change of status.",
	"CustomResourceDefinitionCondition.reason":             "The reason as one word, for programs.",
	"CustomResourceDefinitionCondition.message":            "The reason as a text, for people.",
	"CustomResourceDefinitionCondition.observedGeneration": "The generation of the definition to which the condition refers.",

	"JSONSchemaProps":                                      "A schema: the type of a value, and the restrictions on it.",
	"JSONSchemaProps.type":                                 "object, array, string, integer, number or boolean. Every field of a structural schema has one, unless it is int-or-string or preserves unknown fields.",
	"JSONSchemaProps.description":                          "The meaning of the value, for people.",
	"JSONSchemaProps.title":                                "A short name of the value, for people.",
	"JSONSchemaProps.format":                               "A restriction of strings and numbers, such as date-time, byte or int32. Unknown formats are ignored.",
	"JSONSchemaProps.default":                              "The value of the field if an object does not have it.",
	"JSONSchemaProps.example":                              "An example of a value.",
	"JSONSchemaProps.externalDocs":                         "A document with more information.",
	"JSONSchemaProps.nullable":                             "Whether null is a valid value. If not, fields with the value null are dropped or get their default.",
	"JSONSchemaProps.properties":                           "The fields of an object. Fields that are not listed are pruned.",
	"JSONSchemaProps.additionalProperties":                 "The schema of the values of a map with any keys. It excludes properties.",
	"JSONSchemaProps.required":                             "Fields that must be present.",
	"JSONSchemaProps.items":                                "The schema of the items of an array.",
	"JSONSchemaProps.enum":                                 "The allowed values. Default: all.",
	"JSONSchemaProps.maximum":                              "The greatest number allowed.",
	"JSONSchemaProps.exclusiveMaximum":                     "Whether maximum itself is excluded.",
	"JSONSchemaProps.minimum":                              "The least number allowed.",
	"JSONSchemaProps.exclusiveMinimum":                     "Whether minimum itself is excluded.",
	"JSONSchemaProps.multipleOf":                           "A number of which the value must be a multiple.",
	"JSONSchemaProps.maxLength":                            "The greatest number of characters of a string.",
	"JSONSchemaProps.minLength":                            "The least number of characters of a string.",
	"JSONSchemaProps.pattern":                              "A regular expression (RE2) that must match some part of a string.",
	"JSONSchemaProps.maxItems":                             "The greatest number of items of an array.",
	"JSONSchemaProps.minItems":                             "The least number of items of an array.",
	"JSONSchemaProps.uniqueItems":                          "Must not be true: use x-kubernetes-list-type: set.",
	"JSONSchemaProps.maxProperties":                        "The greatest number of fields of an object.",
	"JSONSchemaProps.minProperties":                        "The least number of fields of an object.",
	"JSONSchemaProps.allOf":                                "Further schemas, all of which the value must satisfy. They restrict values and declare nothing.",
	"JSONSchemaProps.anyOf":                                "Further schemas, at least one of which the value must satisfy.",
	"JSONSchemaProps.oneOf":                                "Further schemas, exactly one of which the value must satisfy.",
	"JSONSchemaProps.not":                                  "A schema that the value must not satisfy.",
	"JSONSchemaProps.id":                                   "Not supported.",
	"JSONSchemaProps.$schema":                              "Not supported.",
	"JSONSchemaProps.$ref":                                 "Not supported.",
	"JSONSchemaProps.patternProperties":                    "Not supported.",
	"JSONSchemaProps.dependencies":                         "Not supported.",
	"JSONSchemaProps.definitions":                          "Not supported.",
	"JSONSchemaProps.additionalItems":                      "Not supported.",
	"JSONSchemaProps.x-kubernetes-preserve-unknown-fields": "If true, fields that are not declared here are kept.",
	"JSONSchemaProps.x-kubernetes-embedded-resource":       "If true, the value is an object with apiVersion, kind and metadata.",
	"JSONSchemaProps.x-kubernetes-int-or-string":           "If true, the value is an integer or a string.",
	"JSONSchemaProps.x-kubernetes-list-type":               "How lists are merged and compared: atomic (as a whole), set (no item twice) or map (items by their keys).",
	"JSONSchemaProps.x-kubernetes-list-map-keys":           "The fields that are the key of an item, for the list type map.",
	"JSONSchemaProps.x-kubernetes-map-type":                "How objects are merged: granular (field by field) or atomic (as a whole).",
	"JSONSchemaProps.x-kubernetes-validations":             "Rules in the Common Expression Language that the value must obey.",

	"ExternalDocumentation.description": "A description of the document.",
	"ExternalDocumentation.url":         "The address of the document.",

	"ValidationRule.rule":              "The expression. It sees the value as self, and the value before an update as oldSelf; it must be true.",
	"ValidationRule.message":           "The error message if the rule is not satisfied.",
	"ValidationRule.messageExpression": "An expression whose result is the error message. If its evaluation fails, message is used.",
	"ValidationRule.reason":            "The reason in the error: FieldValueInvalid, FieldValueForbidden, FieldValueRequired or FieldValueDuplicate.",
	"ValidationRule.fieldPath":         "The field, relative to this one, to which the error refers, such as .a['b'].",
	"ValidationRule.optionalOldSelf":   "If true, oldSelf is an optional value and the rule is also evaluated if there is no old value.",
}
