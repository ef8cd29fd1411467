package crd

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// This file tests what is said about definitions, text by text. The module in
// conformance compares with Kubernetes at large.

func where() string {
	_, _, line, _ := runtime.Caller(1)
	return fmt.Sprintf("line %d", line)
}

// base is a valid definition; rows replace parts of it.
const base = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: SCHEMA}
    MORE
`

const plainSchema = `{type: object, properties: {spec: {type: object, properties: {a: {type: string}, num: {type: integer}}}, status: {type: object}}}`

// definition is base with replacements: old, new, old, new, …
func definition(tb testing.TB, replace ...string) *apiextv1.CustomResourceDefinition {
	tb.Helper()
	text := strings.NewReplacer(append(replace, "SCHEMA", plainSchema, "MORE", "")...).Replace(base)
	crd := new(apiextv1.CustomResourceDefinition)
	if err := yaml.UnmarshalStrict([]byte(text), crd); err != nil {
		tb.Fatal(err)
	}
	Default(crd)
	return crd
}

func texts(errs field.ErrorList) []string {
	var out []string
	for _, e := range errs {
		out = append(out, e.Error())
	}
	return out
}

func compare(t *testing.T, at string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got\n\t%s\nwant\n\t%s", at, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

const label1035 = `a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')`

func TestValidateCRD(t *testing.T) {
	schema := func(s string) []string { return []string{"SCHEMA", s} }
	more := func(s string) []string { return []string{"MORE", s} }
	for _, row := range []struct {
		at      string
		replace []string
		want    []string
	}{
		{where(), nil, nil},
		{where(), []string{"group: example.org", "group: example"}, []string{
			`metadata.name: Invalid value: "widgets.example.org": must be spec.names.plural+"."+spec.group`,
			`spec.group: Invalid value: "example": should be a domain with at least one dot`,
		}},
		{where(), []string{"{name: widgets.example.org}", "{name: widgets.example.org, labels: {a: -, b: -}}"}, []string{
			`metadata.labels: Invalid value: "-": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`,
		}},
		{where(), []string{"Namespaced", "Odd"}, []string{`spec.scope: Unsupported value: "Odd": supported values: "Cluster", "Namespaced"`}},
		{where(), []string{"name: v1", "name: V1"}, []string{
			`spec.versions[0].name: Invalid value: "V1": ` + label1035,
			`spec.version: Invalid value: "V1": ` + label1035,
		}},
		{where(), []string{"storage: true", "storage: false"}, []string{
			`spec.versions: Invalid value: [{"Name":"v1","Served":true,"Storage":false,"Deprecated":false,"DeprecationWarning":null,"Schema":null,"Subresources":null,"AdditionalPrinterColumns":null,"SelectableFields":null}]: must have exactly one version marked as storage version`,
			`status.storedVersions: Invalid value: null: must have at least one stored version`,
		}},
		{where(), []string{"schema: {openAPIV3Schema: SCHEMA}", ""}, []string{"spec.versions[0].schema.openAPIV3Schema: Required value"}},
		{where(), []string{"kind: Widget}", "kind: W_, listKind: W_, shortNames: [A]}"}, []string{
			`spec.names.singular: Invalid value: "w_": ` + label1035,
			`spec.names.kind: Invalid value: "W_": may have mixed case, but should otherwise match: ` + label1035,
			`spec.names.listKind: Invalid value: "W_": may have mixed case, but should otherwise match: ` + label1035,
			`spec.names.shortNames[0]: Invalid value: "A": ` + label1035,
			`spec.names.listKind: Invalid value: "W_": kind and listKind may not be the same`,
		}},
		{where(), more(`additionalPrinterColumns: [{name: "", type: odd, jsonPath: x}]`), []string{
			"spec.additionalPrinterColumns[0].name: Required value",
			`spec.additionalPrinterColumns[0].type: Invalid value: "odd": must be one of boolean,date,integer,number,string`,
			`spec.additionalPrinterColumns[0].JSONPath: Invalid value: "x": must be a simple json path starting with .`,
		}},
		{where(), more(`subresources: {scale: {specReplicasPath: .x, statusReplicasPath: "", labelSelectorPath: .y}}`), []string{
			`spec.subresources.scale.specReplicasPath: Invalid value: ".x": should be a json path under .spec`,
			"spec.subresources.scale.statusReplicasPath: Required value",
			`spec.subresources.scale.labelSelectorPath: Invalid value: ".y": should be a json path under either .spec or .status`,
		}},
		{where(), more(`selectableFields: [{jsonPath: ""}, {jsonPath: .spec}, {jsonPath: .spec.b}, {jsonPath: ".spec['a']"}, {jsonPath: .spec.a}, {jsonPath: .spec.a}, {jsonPath: .}, {jsonPath: x}]`), []string{
			"spec.selectableFields[0].jsonPath: Required value",
			`spec.selectableFields[1].jsonPath: Invalid value: ".spec": must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.`,
			`spec.selectableFields[2].jsonPath: Invalid value: ".spec.b": is an invalid path: does not refer to a valid field`,
			`spec.selectableFields[3].jsonPath: Invalid value: ".spec['a']": is an invalid path: array notation is not allowed`,
			`spec.selectableFields[5].jsonPath: Duplicate value: ".spec.a"`,
			`spec.selectableFields[6].jsonPath: Invalid value: ".": is an invalid path: unexpected end of JSON path`,
			`spec.selectableFields[7].jsonPath: Invalid value: "x": is an invalid path: expected [ or . but got: x`,
		}},
		{where(), more(`deprecationWarning: ""`), []string{`spec.versions[0].deprecationWarning: Invalid value: "": can only be set for deprecated versions`}},
		{where(), []string{"scope: Namespaced", "scope: Namespaced\n  preserveUnknownFields: true"}, []string{
			"spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
		}},
		{where(), []string{"example.org", "x.k8s.io"}, []string{
			`metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval annotation "api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111`,
		}},
		{where(), schema(`{type: object, nullable: true, properties: {l: {type: array, items: {type: object, nullable: true, properties: {k: {type: object}}}, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k, k, z]}}}`), []string{
			"spec.validation.openAPIV3Schema.nullable: Forbidden: nullable cannot be true at the root",
			`spec.validation.openAPIV3Schema.properties[l].items.properties[k].type: Invalid value: "object": must be a scalar type if parent array's x-kubernetes-list-type is map`,
			`spec.validation.openAPIV3Schema.properties[l].items.properties[k].type: Invalid value: "object": must be a scalar type if parent array's x-kubernetes-list-type is map`,
			`spec.validation.openAPIV3Schema.properties[l].x-kubernetes-list-map-keys: Invalid value: ["k","k","z"]: must not contain duplicate entries`,
			`spec.validation.openAPIV3Schema.properties[l].x-kubernetes-list-map-keys: Invalid value: ["k","k","z"]: entries must all be names of item properties`,
			"spec.validation.openAPIV3Schema.properties[l].items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is map",
			"spec.validation.openAPIV3Schema.properties[l].items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
			"spec.validation.openAPIV3Schema.properties[l].items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
		}},
		{where(), schema(`{type: object, properties: {a: {type: string, default: 1}, o: {type: object, properties: {z: {type: string, default: x}}, required: [z], default: {extra: 1}}}}`), []string{
			`spec.validation.openAPIV3Schema.properties[a].default: Invalid value: "integer":  in body must be of type string: "integer"`,
			`spec.validation.openAPIV3Schema.properties[o].default: Invalid value: {"extra":1}: must not have unknown fields`,
			"spec.validation.openAPIV3Schema.properties[o].default.z: Required value",
		}},
		{where(), schema(`{type: object, properties: {m: {type: string}}, x-kubernetes-validations: [{rule: self.n == 1}, {rule: ""}]}`), []string{
			"spec.validation.openAPIV3Schema.x-kubernetes-validations[1].rule: Required value: rule is not specified",
		}},
		{where(), schema(`{type: object, properties: {m: {type: string}}, x-kubernetes-validations: [{rule: self.n == 1}]}`), []string{
			`spec.validation.openAPIV3Schema.x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self.n == 1","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation failed: ERROR: <input>:1:5: undefined field 'n'` +
				"\n | self.n == 1\n | ....^",
		}},
		{where(), append(more("subresources: {status: {}}"), "SCHEMA", `{type: object, minProperties: 1}`), []string{
			`spec.validation.openAPIV3Schema: Invalid value: ` + wholeSchema + `: only [Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations] fields are allowed at the root of the schema if the status subresource is enabled`,
		}},
		{where(), []string{"MORE", "", "scope: Namespaced", "scope: Namespaced\n  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v9], clientConfig: {service: {name: n, namespace: ''}}}}"}, []string{
			"spec.conversion.webhookClientConfig.service.name: Required value",
			`spec.conversion.conversionReviewVersions: Invalid value: ["v9"]: must include at least one of v1, v1beta1`,
		}},
	} {
		compare(t, row.at, texts(Validate(definition(t, row.replace...))), row.want)
	}
}

const wholeSchema = `{"ID":"","Schema":"","Ref":null,"Description":"","Type":"object","Nullable":false,"Format":"","Title":"","Default":null,` +
	`"Maximum":null,"ExclusiveMaximum":false,"Minimum":null,"ExclusiveMinimum":false,"MaxLength":null,"MinLength":null,"Pattern":"","MaxItems":null,"MinItems":null,` +
	`"UniqueItems":false,"MultipleOf":null,"Enum":null,"MaxProperties":null,"MinProperties":1,"Required":null,"Items":null,"AllOf":null,"OneOf":null,"AnyOf":null,"Not":null,` +
	`"Properties":null,"AdditionalProperties":null,"PatternProperties":null,"Dependencies":null,"AdditionalItems":null,"Definitions":null,"ExternalDocs":null,"Example":null,` +
	`"XPreserveUnknownFields":null,"XEmbeddedResource":false,"XIntOrString":false,"XListMapKeys":null,"XListType":null,"XMapType":null,"XValidations":null}`

func TestValidateCRDUpdate(t *testing.T) {
	established := func(crd *apiextv1.CustomResourceDefinition) *apiextv1.CustomResourceDefinition {
		crd.Status.Conditions = []apiextv1.CustomResourceDefinitionCondition{{Type: apiextv1.Established, Status: apiextv1.ConditionTrue}}
		crd.ResourceVersion = "1"
		return crd
	}
	unknown := `{type: object, properties: {d: {type: object, default: {nope: 1}}}}`
	badMetadata := `{type: object, properties: {l: {type: array, default: [{metadata: {name: 1}}],
		items: {type: object, x-kubernetes-preserve-unknown-fields: true, x-kubernetes-embedded-resource: true}}}}`
	bad := `{type: object, properties: {l: {type: array, items: {type: object}, x-kubernetes-list-type: set}}}`
	for _, row := range []struct {
		at       string
		new, old []string
		want     []string
	}{
		{where(), nil, nil, nil},
		{where(), []string{"Namespaced", "Cluster", "kind: Widget", "kind: Gadget"}, nil, []string{
			`spec.scope: Invalid value: "Cluster": field is immutable`,
			`spec.names.kind: Invalid value: "Gadget": field is immutable`,
		}},
		{where(), []string{"name: v1", "name: v2"}, nil, []string{
			`status.storedVersions: Invalid value: ["v1"]: must have the storage version v2`,
			`status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v1 and removes v1 from status.storedVersions`,
		}},
		{where(), []string{"SCHEMA", bad}, nil, []string{
			"spec.validation.openAPIV3Schema.properties[l].items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set",
		}},
		{where(), []string{"SCHEMA", bad}, []string{"SCHEMA", bad}, nil}, // it was so before
		{where(), []string{"SCHEMA", unknown}, nil, []string{`spec.validation.openAPIV3Schema.properties[d].default: Invalid value: {"nope":1}: must not have unknown fields`}},
		{where(), []string{"SCHEMA", unknown}, []string{"SCHEMA", unknown}, nil},
		{where(), []string{"SCHEMA", unknown}, []string{"SCHEMA", badMetadata}, nil}, // what is not metadata would have been pruned as well
	} {
		crd, old := established(definition(t, row.new...)), established(definition(t, row.old...))
		crd.Status = old.Status
		compare(t, row.at, texts(ValidateUpdate(crd, old)), row.want)
	}
}

// TestNewRules: a new expression must be valid in the version before, so that a server of that version can take over; one that
// stood in the definition before need not, wherever it stands now.
func TestNewRules(t *testing.T) {
	withRule := func(rule string) []string {
		return []string{"SCHEMA", `{type: object, properties: {l: {type: array, maxItems: 9, items: {type: integer}}, m: {type: array, maxItems: 9, items: {type: integer}}}, x-kubernetes-validations: [` + rule + `]}`}
	}
	const refused = `spec.validation.openAPIV3Schema.x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self.l.includes(1)","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: ` +
		"compilation failed: ERROR: <input>:1:16: undeclared reference to 'includes' (in container '')\n | self.l.includes(1)\n | ...............^"
	const refusedMessage = `spec.validation.openAPIV3Schema.x-kubernetes-validations[0].messageExpression: Invalid value: {"Rule":"self.m.size() == 1","Message":"","MessageExpression":"string(self.l.includes(1))","Reason":null,"FieldPath":"","OptionalOldSelf":null}: ` +
		"messageExpression compilation failed: ERROR: <input>:1:23: undeclared reference to 'includes' (in container '')\n | string(self.l.includes(1))\n | ......................^"
	const rule, message = `{rule: self.l.includes(1)}`, `{rule: self.m.size() == 1, messageExpression: string(self.l.includes(1))}`
	for _, row := range []struct {
		at       string
		new, old string
		want     []string
	}{
		{where(), rule, "", []string{refused}},
		{where(), message, "", []string{refusedMessage}},
		{where(), rule, `{rule: self.l.size() > 1}`, []string{refused}},
		{where(), rule, rule, nil},
		{where(), rule + `, {rule: self.l.size() > 2}`, rule, nil},
		{where(), message, message, nil},
		{where(), message, `{rule: string(self.l.includes(1)) == 'x'}`, []string{refusedMessage}}, // it was a rule
		{where(), `{rule: "self.l.size() > 1 || 'includes' == ''"}`, "", nil},
	} {
		crd := definition(t, withRule(row.new)...)
		if row.old == "" {
			compare(t, row.at, texts(Validate(crd)), row.want)
			continue
		}
		old := definition(t, withRule(row.old)...)
		crd.ResourceVersion, crd.Status = "1", old.Status
		compare(t, row.at, texts(ValidateUpdate(crd, old)), row.want)
	}
}

// TestSpentBudget holds that nothing more is said about defaults once the rules
// about one of them used up what all may cost.
func TestSpentBudget(t *testing.T) {
	rule := "true"
	for range 6 {
		rule = "'abcdefghijklmnopqrstuvwxyz'.split('').all(x, " + rule + ")"
	}
	dear := `{type: string, default: x, x-kubernetes-validations: [{message: dear, rule: "` + rule + `"}]}`
	crd := definition(t, "SCHEMA", `{type: object, properties: {a: `+dear+`, b: `+dear+`}}`)
	compare(t, where(), texts(Validate(crd)), []string{
		`spec.validation.openAPIV3Schema.properties[a].default: Invalid value: "string": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: dear`,
	})
}

func TestCRDWarnings(t *testing.T) {
	odd := []string{"SCHEMA", `{type: object, properties: {a: {type: string, format: odd}, b: {type: string, format: k8s-short-name}, c: {type: boolean, format: date},
		s: {type: array, x-kubernetes-list-type: set, items: {type: object, x-kubernetes-map-type: atomic}}}}`}
	got := Warnings(definition(t, odd...), nil)
	slices.Sort(got)
	compare(t, where(), got, []string{
		`unrecognized format "date"`, `unrecognized format "odd"`,
		`x-kubernetes-list-type: set for items of type "object" is not supported by server-side apply or CEL validation rules`,
	})
	compare(t, where(), Warnings(definition(t, odd...), definition(t, odd...)), nil)
}
