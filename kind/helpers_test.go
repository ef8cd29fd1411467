package kind_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file makes kinds for the tests of versions.

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
	d := new(apiextv1.CustomResourceDefinition)
	if err := yaml.UnmarshalStrict([]byte(text), d); err != nil {
		tb.Fatal(err)
	}
	crd.Default(d)
	return d
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

const twoVersions = `
  - name: v1beta1
    served: true
    storage: false
    deprecated: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {a: {type: string, default: beta}, old: {type: string}, num: {type: integer}}}, status: {type: object, properties: {replicas: {type: integer}}}}}}
    subresources: {status: {}, scale: {specReplicasPath: .spec.num, statusReplicasPath: .status.replicas}}
    selectableFields: [{jsonPath: .spec.num}, {jsonPath: .spec.a}]
`

func compileTest(t testing.TB) *kind.Kind {
	t.Helper()
	k, err := crd.Compile(definition(t, "MORE", "subresources: {status: {}}"+twoVersions,
		"SCHEMA", `{type: object, properties: {spec: {type: object, properties: {a: {type: string}, d: {type: string, default: store}, num: {type: integer}}}, status: {type: object, x-kubernetes-preserve-unknown-fields: true}}}`))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func decode(t *testing.T, v *kind.Version, text string) *jsondoc.Doc {
	t.Helper()
	d := new(jsondoc.Doc)
	if _, err := v.Decode(d, []byte(text)); err != nil {
		t.Fatal(err)
	}
	return d
}

func print(d *jsondoc.Doc) string { return string(d.AppendJSON(nil, d.Root().Node)) }
