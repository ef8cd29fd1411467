package crd

import (
	"testing"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file tests what becomes of a definition.

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
	k, err := Compile(definition(t, "MORE", "subresources: {status: {}}"+twoVersions,
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

func TestCompile(t *testing.T) {
	k := compileTest(t)
	if k.Storage.Name != "v1" || k.Versions[0].Name != "v1" || k.Versions[1].Name != "v1beta1" || k.StoragePrefix != "example.org/widgets" {
		t.Errorf("got %+v", k)
	}
	beta := k.Version("v1beta1")
	if got, want := beta.Warning, "example.org/v1beta1 Widget is deprecated; use example.org/v1 Widget"; got != want {
		t.Errorf("got warning %q, want %q", got, want)
	}
	if beta.Columns[0].Name != "Age" || beta.Scale == nil || beta.SelectableFields[1].Label != "spec.a" {
		t.Errorf("got version %+v", beta)
	}
	with := k.With(true, true)
	if !with.Terminating || with.Storage == k.Storage || with.Storage.Kind != with || with.Versions[1] != with.Version("v1beta1") || with.All[1] != with.Versions[1] {
		t.Error("With mixes the copy with the original")
	}
}

func TestCompileRefuses(t *testing.T) {
	for _, row := range []struct {
		at      string
		replace []string
		want    string
	}{
		{where(), []string{"storage: true", "storage: false"}, "widgets.example.org: no version is the storage version"},
		{where(), []string{"SCHEMA", "{type: string}"}, `widgets.example.org: version v1: schema is not structural, which custom resources need here: schema.openAPIV3Schema.type: Invalid value: "string": must be object at the root`},
	} {
		if _, err := Compile(definition(t, row.replace...)); err == nil || err.Error() != row.want {
			t.Errorf("%s: got %v, want %s", row.at, err, row.want)
		}
	}
}
