package crd

import (
	"reflect"
	"slices"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/schema/structural"
)

// This file describes definitions to their readers: the schema that OpenAPI
// publishes and that apply merges by. Its shape is that of the Go types. A
// schema contains schemas; a structural schema cannot say so, and stops below
// the first one.

// publishedSchema is the schema of definitions as OpenAPI publishes it.
func publishedSchema() *structural.Schema {
	s := described(reflect.TypeFor[apiextv1.CustomResourceDefinition](), false)
	for _, name := range []string{"apiVersion", "kind", "metadata"} {
		delete(s.Properties, name) // every resource has them
	}
	s.Names = sortedKeys(s.Properties)
	s.Values = &structural.Values{Required: []string{"spec"}}
	return s
}

// described is the schema of a Go type of the API. nested says that it stands
// inside of a schema of the API.
func described(t reflect.Type, nested bool) *structural.Schema {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[metav1.Time]():
		return &structural.Schema{Type: "string", Format: "date-time"}
	case reflect.TypeFor[[]byte]():
		return &structural.Schema{Type: "string", Format: "byte"}
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
		return &structural.Schema{Type: "array", Items: described(t.Elem(), nested), ListType: "atomic"}
	case reflect.Map:
		return &structural.Schema{Type: "object", Additional: described(t.Elem(), nested)}
	case reflect.Struct:
		return describedStruct(t, nested)
	}
	panic("BUG: no schema for the type " + t.String())
}

func describedStruct(t reflect.Type, nested bool) *structural.Schema {
	properties := map[string]*structural.Schema{}
	var required []string
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if len(f.Index) > 1 || name == "" || name == "-" || f.Type == reflect.TypeFor[metav1.ObjectMeta]() {
			continue
		}
		p := described(f.Type, nested)
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

var listKeys = map[string][]string{
	"CustomResourceDefinitionStatus.conditions": {"type"},
	"JSONSchemaProps.x-kubernetes-validations":  {"rule"},
}

// docs describes types and their fields.
var docs = map[string]string{
	"CustomResourceDefinition":        "A resource type that this server is to serve. Its name is <.spec.names.plural>.<.spec.group>.",
	"CustomResourceDefinition.spec":   "What the type is called and what its objects look like.",
	"CustomResourceDefinition.status": "What the server has made of the definition.",

	"CustomResourceDefinitionSpec.group":                 "The API group that the type is served in, at /apis/<group>/. It cannot be changed.",
	"CustomResourceDefinitionSpec.names":                 "What the type is called.",
	"CustomResourceDefinitionSpec.scope":                 "Whether objects are in namespaces: Namespaced or Cluster.",
	"CustomResourceDefinitionSpec.versions":              "The versions of the type, each with its own schema. Exactly one of them is the one that objects are stored in.",
	"CustomResourceDefinitionSpec.conversion":            "How objects get from one version to another.",
	"CustomResourceDefinitionSpec.preserveUnknownFields": "Deprecated: keep fields that no schema declares. Use x-kubernetes-preserve-unknown-fields in the schema instead.",

	"CustomResourceDefinitionNames.plural":     "The name in URLs, in lower case: /apis/<group>/<version>/…/<plural>. It cannot be changed.",
	"CustomResourceDefinitionNames.singular":   "The name of one object on the command line, in lower case. Default: kind in lower case.",
	"CustomResourceDefinitionNames.kind":       "The kind of the objects, usually in CamelCase and singular.",
	"CustomResourceDefinitionNames.listKind":   "The kind of lists of the objects. Default: kind followed by List.",
	"CustomResourceDefinitionNames.shortNames": "Abbreviations for the command line, in lower case.",
	"CustomResourceDefinitionNames.categories": "Groups of types that commands such as 'kubectl get all' ask for by one word.",

	"CustomResourceDefinitionVersion.name":                     "The name of the version, such as v1 or v2beta1.",
	"CustomResourceDefinitionVersion.served":                   "Whether clients can use this version.",
	"CustomResourceDefinitionVersion.storage":                  "Whether objects are stored in this version.",
	"CustomResourceDefinitionVersion.deprecated":               "Whether clients that use this version are warned.",
	"CustomResourceDefinitionVersion.deprecationWarning":       "What clients of a deprecated version are told instead of the usual text.",
	"CustomResourceDefinitionVersion.schema":                   "What objects of this version look like: what is pruned, defaulted and validated.",
	"CustomResourceDefinitionVersion.subresources":             "Further endpoints of each object.",
	"CustomResourceDefinitionVersion.additionalPrinterColumns": "Columns that tables show besides the name. Default: the age.",
	"CustomResourceDefinitionVersion.selectableFields":         "Fields that field selectors may name.",

	"CustomResourceValidation.openAPIV3Schema": "The structural schema of the objects.",

	"CustomResourceSubresources.status": "If it is there, /status is served: updates of it change nothing but the status, and all other updates leave the status as it is.",
	"CustomResourceSubresources.scale":  "If it is there, /scale is served as an autoscaling/v1 Scale.",

	"CustomResourceSubresourceScale.specReplicasPath":   "Path of the wanted number of replicas, dots only, under .spec.",
	"CustomResourceSubresourceScale.statusReplicasPath": "Path of the present number of replicas, dots only, under .status.",
	"CustomResourceSubresourceScale.labelSelectorPath":  "Path of a label selector as text, under .spec or .status. Horizontal pod autoscaling needs it.",

	"CustomResourceColumnDefinition.name":        "The heading.",
	"CustomResourceColumnDefinition.type":        "The OpenAPI type of the values: integer, number, string, boolean or date.",
	"CustomResourceColumnDefinition.format":      "The OpenAPI format of the values; clients may print some formats in a way of their own.",
	"CustomResourceColumnDefinition.description": "What the column shows.",
	"CustomResourceColumnDefinition.priority":    "0 for columns that are always shown; columns with greater numbers need room, as with 'kubectl get -o wide'.",
	"CustomResourceColumnDefinition.jsonPath":    "Where in the object the value is, as a simple JSON path.",

	"SelectableField.jsonPath": "Path of a field that is a string, boolean or integer, such as .spec.color; not of an item of a list, and not in metadata.",

	"CustomResourceConversion.strategy": "None: only apiVersion changes. Webhook: a server elsewhere converts, which this server does not support.",
	"CustomResourceConversion.webhook":  "The server that converts, for the strategy Webhook.",

	"WebhookConversion.clientConfig":             "How to reach the server that converts.",
	"WebhookConversion.conversionReviewVersions": "The versions of ConversionReview that the server understands, the best one first.",
	"WebhookClientConfig.url":                    "Its address, https://host:port/path. Either this or service.",
	"WebhookClientConfig.service":                "The Service in front of it. Either this or url.",
	"WebhookClientConfig.caBundle":               "PEM certificates that its certificate is checked with. Default: those of the system.",
	"ServiceReference.namespace":                 "The namespace of the Service.",
	"ServiceReference.name":                      "The name of the Service.",
	"ServiceReference.path":                      "The path of the URL.",
	"ServiceReference.port":                      "The port of the Service, 443 by default.",

	"CustomResourceDefinitionStatus.conditions":         "How far the server is with the definition: NamesAccepted, Established, Terminating and others.",
	"CustomResourceDefinitionStatus.acceptedNames":      "The names that the type is served under; those in the spec may be taken by another type.",
	"CustomResourceDefinitionStatus.storedVersions":     "Every version that objects were ever stored in. None of them can leave the spec; take one out of here once all objects are stored in another.",
	"CustomResourceDefinitionStatus.observedGeneration": "The generation of the definition that the status is about.",

	"CustomResourceDefinitionCondition.type":               "What the condition is about, such as Established.",
	"CustomResourceDefinitionCondition.status":             "True, False or Unknown.",
	"CustomResourceDefinitionCondition.lastTransitionTime": "When status changed last.",
	"CustomResourceDefinitionCondition.reason":             "Why, in one word for programs.",
	"CustomResourceDefinitionCondition.message":            "Why, in words for people.",
	"CustomResourceDefinitionCondition.observedGeneration": "The generation of the definition that the condition is about.",

	"JSONSchemaProps":                                      "A schema: what a value is and what it may be.",
	"JSONSchemaProps.type":                                 "object, array, string, integer, number or boolean. Every field of a structural schema has one, unless it is int-or-string or preserves unknown fields.",
	"JSONSchemaProps.description":                          "What the value means, for people.",
	"JSONSchemaProps.title":                                "A short name of the value, for people.",
	"JSONSchemaProps.format":                               "What the text of a string or the size of a number must be like, such as date-time, byte or int32. Unknown formats are ignored.",
	"JSONSchemaProps.default":                              "The value of the field where an object does not have it.",
	"JSONSchemaProps.example":                              "An example of a value.",
	"JSONSchemaProps.externalDocs":                         "Where to read more.",
	"JSONSchemaProps.nullable":                             "Whether null is a value. Where it is not, fields that are null are dropped or get their default.",
	"JSONSchemaProps.properties":                           "The fields of an object. Fields that are not listed are pruned.",
	"JSONSchemaProps.additionalProperties":                 "The schema of the values of a map with any keys. It excludes properties.",
	"JSONSchemaProps.required":                             "Fields that must be there.",
	"JSONSchemaProps.items":                                "The schema of the items of an array.",
	"JSONSchemaProps.enum":                                 "The values that are allowed, if not all are.",
	"JSONSchemaProps.maximum":                              "The greatest number allowed.",
	"JSONSchemaProps.exclusiveMaximum":                     "Whether maximum itself is too great.",
	"JSONSchemaProps.minimum":                              "The least number allowed.",
	"JSONSchemaProps.exclusiveMinimum":                     "Whether minimum itself is too little.",
	"JSONSchemaProps.multipleOf":                           "What a number must be a multiple of.",
	"JSONSchemaProps.maxLength":                            "How many characters a string may have.",
	"JSONSchemaProps.minLength":                            "How many characters a string must have.",
	"JSONSchemaProps.pattern":                              "A regular expression (RE2) that must match some part of a string.",
	"JSONSchemaProps.maxItems":                             "How many items an array may have.",
	"JSONSchemaProps.minItems":                             "How many items an array must have.",
	"JSONSchemaProps.uniqueItems":                          "Must not be true: use x-kubernetes-list-type: set.",
	"JSONSchemaProps.maxProperties":                        "How many fields an object may have.",
	"JSONSchemaProps.minProperties":                        "How many fields an object must have.",
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

	"ExternalDocumentation.description": "What is to be read there.",
	"ExternalDocumentation.url":         "Where it is.",

	"ValidationRule.rule":              "The expression. It sees the value as self, and the value before an update as oldSelf; it must be true.",
	"ValidationRule.message":           "What to say if the rule does not hold.",
	"ValidationRule.messageExpression": "An expression that makes the message. If it fails, message is used.",
	"ValidationRule.reason":            "The reason in the error: FieldValueInvalid, FieldValueForbidden, FieldValueRequired or FieldValueDuplicate.",
	"ValidationRule.fieldPath":         "The field below this one that the error is about, such as .a['b'].",
	"ValidationRule.optionalOldSelf":   "If true, oldSelf is an optional value and the rule is evaluated where there is no old value, too.",
}
