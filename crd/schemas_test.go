package crd

import (
	"fmt"
	"strings"
	"testing"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// This file tests what is said of schemas in corners that the comparison with
// Kubernetes over random definitions has found.

func TestCornersOfSchemas(t *testing.T) {
	const root = "spec.validation.openAPIV3Schema."
	for _, row := range []struct {
		at, schema string
		want       []string
	}{
		{where(), `{a: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true, default: {metadata: {name: 1}}}}`, []string{
			root + `properties[a].default.metadata: Invalid value: {"name":1}: json: cannot unmarshal number into Go struct field ObjectMeta.name of type string`,
		}},
		{where(), `{a: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true, default: {apiVersion: v1, kind: K, metadata: {nope: 1}}}}`, nil},
		// Values are looked at if the embedded resources are all right.
		{where(), `{a: {type: array, default: [{}], items: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true, required: [b]}}}`, []string{
			root + `properties[a].default[0].apiVersion: Required value`,
			root + `properties[a].default[0].kind: Required value`,
		}},
		{where(), `{a: {x-kubernetes-int-or-string: true, default: 1.5, x-kubernetes-validations: [{rule: "self % 2 == 0"}]}}`, []string{
			root + `properties[a].default: Invalid value: "": invalid data, expected XIntOrString value to be either a string or integer evaluating rule: self % 2 == 0`,
		}},
		{where(), `{a: {x-kubernetes-int-or-string: true, default: x, x-kubernetes-validations: [{rule: "self % 2 == 0"}]}}`, []string{
			root + `properties[a].default: Invalid value: "": 'no such overload': call arguments did not match a supported operator, function or macro signature for rule: self % 2 == 0`,
		}},
		// A format that means nothing still lets lists pass.
		{where(), `{a: {type: string, format: odd, default: [1]}, b: {type: string, format: odd, default: x}}`, nil},
		{where(), `{a: {type: integer, format: float, default: 1.5}}`, []string{
			root + `properties[a].default: Invalid value: "float64":  in body must be of type float: "float64"`,
			root + `properties[a].default: Invalid value: "": Checked value must be of type integer (default format) in `,
		}},
		{where(), `{kind: {type: string, format: date-time, x-kubernetes-validations: [{rule: "self > timestamp('2020-01-01T00:00:00Z')"}]}}`, nil},
		{where(), `{a: {x-kubernetes-int-or-string: true, x-kubernetes-validations: [{rule: "true"}], items: {type: string, x-kubernetes-validations: [{rule: "true"}]}}}`, []string{
			root + `properties[a].items.x-kubernetes-validations: Internal error: failed to convert to declType for CEL validation rules`,
		}},
		{where(), `{a: {type: object, additionalProperties: true, x-kubernetes-validations: [{rule: "true", fieldPath: ".x"}, {rule: "true", fieldPath: ".x.y"}]}}`, []string{
			root + `properties[a].x-kubernetes-validations[1].fieldPath: Invalid value: ".x.y": must be a valid path`,
		}},
		// All that fails is said, whether or not it looks at the old value.
		{where(), `{a: {type: array, default: [x], items: {type: string}, x-kubernetes-validations: [{rule: "self == []"}, {rule: "oldSelf != self"}]}}`, []string{
			root + `properties[a].default: Invalid value: failed rule: self == []`,
			root + `properties[a].default: Invalid value: failed rule: oldSelf != self`,
		}},
	} {
		crd := definition(t, "SCHEMA", "{type: object, properties: "+row.schema+"}")
		compare(t, row.at, texts(Validate(crd)), row.want)
	}
}

// TestOddMapType holds that members of a map whose type does not exist have no
// old values.
func TestOddMapType(t *testing.T) {
	for _, typ := range []string{"odd", `""`} {
		crd := definition(t, "SCHEMA", `{type: object, x-kubernetes-map-type: `+typ+`, properties: {a: {type: boolean, x-kubernetes-validations: [{rule: "self == oldSelf"}]}}}`)
		compare(t, where(), texts(Validate(crd)), []string{
			`spec.validation.openAPIV3Schema.x-kubernetes-map-type: Unsupported value: "` + strings.Trim(typ, `"`) + `": supported values: "atomic", "granular"`,
			`spec.validation.openAPIV3Schema.properties[a].x-kubernetes-validations[0].rule: Invalid value: "self == oldSelf": oldSelf cannot be used on the uncorrelatable portion of the schema within spec.validation.openAPIV3Schema`,
		})
	}
}

// TestEmptyTypes holds that a list or map type that is the empty text is given.
func TestEmptyTypes(t *testing.T) {
	for _, keyword := range []string{"x-kubernetes-map-type", "x-kubernetes-list-type"} {
		crd := definition(t, "SCHEMA", `{type: object, properties: {metadata: {type: object, `+keyword+`: ""}}}`)
		const want = `spec.validation.openAPIV3Schema.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified`
		if got := texts(Validate(crd)); !contains(got, want) {
			t.Errorf("%s: got %q", keyword, got)
		}
	}
}

// TestBudgetOfDefaults holds that the rules of all defaults share one budget.
func TestBudgetOfDefaults(t *testing.T) {
	dear := func(name string) string {
		var rules []string
		for i := range 100 {
			rules = append(rules, fmt.Sprintf(`{rule: "self.all(x%d, self.all(y, x%d == y))"}`, i, i))
		}
		return fmt.Sprintf(`%s: {type: array, maxItems: 100, items: {type: string, maxLength: 5}, default: [%s], x-kubernetes-validations: [%s]}`,
			name, strings.TrimSuffix(strings.Repeat("x,", 100), ","), strings.Join(rules, ","))
	}
	crd := definition(t, "SCHEMA", `{type: object, properties: {`+dear("a")+`}}`)
	compare(t, where(), texts(Validate(crd)), nil)
	crd = definition(t, "SCHEMA", `{type: object, properties: {`+dear("a")+","+dear("b")+","+dear("c")+`}}`)
	compare(t, where(), texts(Validate(crd)), []string{`spec.validation.openAPIV3Schema.properties[b].default: Invalid value: "array": ` +
		`validation failed due to running out of cost budget, no further validation rules will be run`})
}

// TestStepsOfDefaults holds that the values of all defaults share one bound of what
// they take below junctors.
func TestStepsOfDefaults(t *testing.T) {
	dear := func(name string) string {
		return fmt.Sprintf(`%s: {type: string, default: %s, allOf: [%s]}`, name, strings.Repeat("x", 280_000), strings.Repeat("{minLength: 1},", 300))
	}
	crd := definition(t, "SCHEMA", `{type: object, properties: {`+dear("a")+`}}`)
	compare(t, where(), texts(Validate(crd)), nil)
	crd = definition(t, "SCHEMA", `{type: object, properties: {`+dear("a")+","+dear("b")+","+dear("c")+`}}`)
	compare(t, where(), texts(Validate(crd)), []string{`spec.validation.openAPIV3Schema.properties[b].default: Invalid value: ` +
		`validation of values below allOf, anyOf, oneOf and not takes more than 10000000 steps, it was not completed`})
}

// TestVersionsOfOneName holds that the first one says whether there is a status.
func TestVersionsOfOneName(t *testing.T) {
	crd := definition(t)
	second := crd.Spec.Versions[0].DeepCopy()
	second.Storage = false
	second.Schema.OpenAPIV3Schema.XMapType = new("granular")
	second.Subresources = &apiextv1.CustomResourceSubresources{Status: &apiextv1.CustomResourceSubresourceStatus{}}
	crd.Spec.Versions = append(crd.Spec.Versions, *second)
	if got := Validate(crd); len(got) != 1 || !strings.HasSuffix(got[0].Error(), "must contain unique version names") {
		t.Errorf("got %v", got)
	}
}

// TestUnchangedVersionOfOneName holds that a schema is unchanged if it is that of the
// first version of its name.
func TestUnchangedVersionOfOneName(t *testing.T) {
	dear := []string{"SCHEMA", `{type: object, properties: {a: {type: array, items: {type: string}, x-kubernetes-validations: [{rule: "self.all(x, self.all(y, x == y))"}]}}}`}
	crd, old := definition(t, dear...), definition(t, dear...)
	excused := func() bool {
		for _, e := range ValidateUpdate(crd, old) {
			if strings.HasPrefix(e.Detail, "estimated rule cost exceeds") {
				return false
			}
		}
		return true
	}
	if !excused() {
		t.Error("an unchanged schema is not excused")
	}
	old.Spec.Versions = append(old.Spec.Versions, old.Spec.Versions[0])
	old.Spec.Versions[0].Schema = nil
	if excused() {
		t.Error("a schema is excused by the second version of its name")
	}
}

// TestTextsOfCABundles holds the texts about bundles that cannot be used.
func TestTextsOfCABundles(t *testing.T) {
	for bundle, want := range map[string]string{
		"x": "unable to load root certificates: unable to parse bytes as PEM block",
		"-----BEGIN CERTIFICATE-----\neA==\n-----END CERTIFICATE-----\n": "unable to load root certificates: failed to parse certificate: x509: malformed certificate",
		"-----BEGIN RSA-----\neA==\n-----END RSA-----\n":                 "unable to load root certificates: no valid certificate authority data seen",
	} {
		if err := parseCABundle([]byte(bundle)); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", bundle, err, want)
		}
	}
}

// TestSelectableFieldsWithoutSchema holds what is said first of a path.
func TestSelectableFieldsWithoutSchema(t *testing.T) {
	crd := definition(t, "MORE", `selectableFields: [{jsonPath: "['a']"}, {jsonPath: ".a"}]`)
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema = nil
	var got []string
	for _, e := range Validate(crd) {
		if strings.Contains(e.Field, "selectable") {
			got = append(got, e.Error())
		}
	}
	compare(t, where(), got, []string{
		`spec.selectableFields[0].jsonPath: Invalid value: "['a']": is an invalid path: array notation is not allowed`,
		`spec.selectableFields[1].jsonPath: Invalid value: ".a": is an invalid path: does not refer to a valid field`,
	})
}
