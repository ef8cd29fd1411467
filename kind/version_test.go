package kind_test

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema"
)

// This file tests what Versions do with objects.

func TestConversion(t *testing.T) {
	k := compileTest(t)
	beta := k.Version("v1beta1")
	d := decode(t, beta, `{"kind":"Widget","apiVersion":"example.org/v1beta1","metadata":{"name":"w","namespace":"n","resourceVersion":"7","labels":{"x":"y","a":"b"}},"spec":{"old":"x","num":3,"junk":1}}`)
	raw, err := beta.Encode(d, nil)
	if err != nil {
		t.Fatal(err)
	}
	if meta := (meta.Object{Doc: d}); meta.ResourceVersion() != "7" || meta.APIVersion() != "example.org/v1beta1" {
		t.Errorf("Encode changed the document: %s", print(d))
	}
	text := string(raw)
	if !strings.HasPrefix(text, `{"apiVersion":"example.org/v1",`) || !strings.HasSuffix(text, "}\n") || strings.Contains(text, "resourceVersion") || strings.Contains(text, "old") {
		t.Errorf("got stored %s", text)
	}
	view, err := beta.Render(raw, 12)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(view.JSON); !strings.Contains(s, `"resourceVersion":"12"`) || !strings.Contains(s, `"apiVersion":"example.org/v1beta1"`) || strings.Contains(s, "junk") {
		t.Errorf("got view %s", s)
	}
	if view.Labels.Get("x") != "y" || view.Labels.Get("a") != "b" || view.Fields("spec.num") != "3" || view.Fields("metadata.name") != "w" || view.Fields("metadata.namespace") != "n" {
		t.Errorf("got labels %v, field %q", view.Labels, view.Fields("spec.num"))
	}
	// Defaults are those of the version written in and of the version stored in.
	if strings.Contains(text, `"d":`) || !strings.Contains(text, `"a":"beta"`) {
		t.Errorf("got defaults of the version converted to: %s", text)
	}
	if view, err = beta.Render([]byte(strings.Replace(text, `"a":"beta",`, "", 1)), 12); err != nil || !strings.Contains(string(view.JSON), `"spec":{"num":3}`) {
		t.Errorf("got %s, error %v; want no default of the version read in", view.JSON, err)
	}
	if view, err = k.Storage.Render(raw, 12); err != nil || !strings.Contains(string(view.JSON), `"d":"store"`) {
		t.Errorf("got %s, error %v; want the default of the version stored in", view.JSON, err)
	}

	// What is served from the storage version is what is stored.
	d = decode(t, k.Storage, string(view.JSON))
	meta.Object{Doc: d}.SetAPIVersion("example.org/v1")
	meta.Object{Doc: d}.SetGeneration(1)
	if raw, err = k.Storage.Encode(d, nil); err != nil {
		t.Fatal(err)
	}
	if view, err = k.Storage.Render(raw, 13); err != nil || unlike(view.JSON, raw) {
		t.Errorf("error %v, served %s, stored %s", err, view.JSON, raw)
	}
	// Stored before the default was there.
	old := strings.Replace(string(raw), `"d":"store",`, "", 1)
	if view, err = k.Storage.Render([]byte(old), 13); err != nil || !unlike(view.JSON, []byte(old)) || !strings.Contains(string(view.JSON), `"d":"store"`) {
		t.Errorf("got %s, error %v", view.JSON, err)
	}
	if _, err = k.Storage.Render([]byte(`{"apiVersion":"example.org/v9","kind":"Widget"}`), 1); err == nil {
		t.Error("unknown stored version is served")
	}
	view, err = k.Storage.Render([]byte(`{"kind":"Widget","apiVersion":"example.org/v1","metadata":{"name":"w","labels":{"a":1},"annotations":{"b":"c"}}}`), 1)
	if err != nil || !strings.Contains(string(view.JSON), `"b":"c"`) || strings.Contains(string(view.JSON), "labels") {
		t.Errorf("malformed metadata: got %v, error %v", view, err)
	}
}

func TestPrepare(t *testing.T) {
	v := compileTest(t).Storage
	text := `{"apiVersion":"example.org/v1","kind":"Widget","metadata":{"name":"w","namespace":"n","uid":"u","generation":4},"spec":{"a":"A"},"status":{"s":"S"}}`
	d := decode(t, v, text)
	v.PrepareCreate(d)
	if d.Root().Get("status").Exists() || (meta.Object{Doc: d}).Generation() != 1 {
		t.Errorf("create: got %s", print(d))
	}
	old := decode(t, v, text)
	d = decode(t, v, strings.NewReplacer(`"A"`, `"B"`, `"S"`, `"T"`).Replace(text))
	v.PrepareUpdate(d, old, schema.Whole)
	if s := print(d); !strings.Contains(s, `"a":"B"`) || !strings.Contains(s, `"s":"S"`) || !strings.Contains(s, `"generation":5`) {
		t.Errorf("update: got %s", s)
	}
	d = decode(t, v, strings.NewReplacer(`"A"`, `"B"`, `"S"`, `"T"`, `"uid"`, `"labels":{"x":"y"},"uid"`).Replace(text))
	v.PrepareUpdate(d, old, schema.Status)
	if s := print(d); !strings.Contains(s, `"a":"A"`) || !strings.Contains(s, `"s":"T"`) || !strings.Contains(s, `"generation":4`) || strings.Contains(s, "labels") {
		t.Errorf("status: got %s", s)
	}
}

func TestValidateObject(t *testing.T) {
	k := compileTest(t)
	v := k.Version("v1beta1")
	for _, row := range []struct {
		at, text string
		want     []string
	}{
		{where(), `{"apiVersion":"example.org/v1beta1","kind":"Widget","metadata":{"name":"w","namespace":"n"},"spec":{"num":2}}`, nil},
		{where(), `{"apiVersion":"example.org/v1","kind":"Gadget","metadata":{"name":"W"}}`, []string{
			`kind: Invalid value: "Gadget": must be Widget`,
			`apiVersion: Invalid value: "example.org/v1": must be example.org/v1beta1`,
		}},
		{where(), `{"apiVersion":"example.org/v1beta1","kind":"Widget","metadata":{"name":"w","namespace":"n"},"spec":{"num":-1},"status":{"replicas":3000000000}}`, []string{
			".spec.num: Invalid value: -1: should be a non-negative integer",
			".status.replicas: Invalid value: 3000000000: should be less than or equal to 2147483647",
		}},
		{where(), `{"apiVersion":"example.org/v1beta1","kind":"Widget","metadata":{"name":"w","namespace":"n"},"spec":{"num":"x"}}`, []string{
			`spec.num: Invalid value: "string": spec.num in body must be of type integer: "string"`,
			`.spec.num: Invalid value: 0: .spec.num accessor error: x is of the type string, expected int64`,
		}},
	} {
		d := decode(t, v, row.text)
		compare(t, row.at, texts(v.Validate(context.Background(), d, nil, schema.Whole).Errors), row.want)
	}
}

// TestMistypedObject holds that an object of another kind is told of lists, embedded resources and rules as well, but not of its values;
// of its metadata if it replaces another one.
func TestMistypedObject(t *testing.T) {
	k, err := crd.Compile(definition(t, "MORE", "subresources: {status: {}, scale: {specReplicasPath: .spec.num, statusReplicasPath: .status.replicas}}",
		"SCHEMA", `{type: object, properties: {spec: {type: object, x-kubernetes-validations: [{rule: "self.num > 0"}], properties: {
			num: {type: integer, maximum: 5}, set: {type: array, x-kubernetes-list-type: set, items: {type: string}},
			inner: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}}},
			status: {type: object, properties: {replicas: {type: integer}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	const (
		unversioned = `metadata.resourceVersion: Invalid value: "": must be specified for an update`
		immutable   = `metadata.name: Invalid value: "W": field is immutable`
		wrong       = `kind: Invalid value: "Gadget": must be Widget`
		repeated    = `spec.set[1]: Duplicate value: "a"`
		blocked     = "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"
	)
	decoded := func(name, spec string) *jsondoc.Doc {
		return decode(t, k.Storage, `{"apiVersion":"example.org/v1","kind":"Gadget","metadata":{"name":"`+name+`","namespace":"n"},"spec":`+spec+`,"status":{"replicas":-1}}`)
	}
	for _, row := range []struct {
		at, spec string
		want     []string
	}{
		{where(), `{"num":9}`, []string{wrong}},
		{where(), `{"num":-1,"set":["a","a"]}`, []string{wrong, repeated, `spec: Invalid value: failed rule: self.num > 0`}},
		{where(), `{"num":"x"}`, []string{wrong, `spec: Invalid value: "object": invalid data, expected int, got string evaluating rule: self.num > 0`}},
		{where(), `{"num":-1,"inner":{"apiVersion":"v1"}}`, []string{wrong, `spec.inner.kind: Required value`, blocked}},
	} {
		d := decoded("W", row.spec)
		compare(t, row.at, texts(k.Storage.Validate(context.Background(), d, nil, schema.Whole).Errors), row.want)
		want := slices.DeleteFunc(row.want, func(e string) bool { return e == repeated }) // the old one is no better
		old := decoded("v", `{"num":1,"set":["b","b"]}`)
		compare(t, row.at, texts(k.Storage.Validate(context.Background(), d, old, schema.Whole).Errors), append([]string{unversioned, immutable}, want...))
	}
	// What is missing in the metadata is no reason not to ask rules.
	d, old := decoded("v", `{"num":-1}`), decoded("v", `{"num":1}`)
	owner := new(jsondoc.Doc)
	if err := jsondoc.Parse(owner, []byte(`[{"apiVersion":"v1","kind":"A","name":"a"}]`)); err != nil {
		t.Fatal(err)
	}
	d.Set(d.Import(owner.Root()), "metadata", "ownerReferences")
	compare(t, where(), texts(k.Storage.Validate(context.Background(), d, old, schema.Whole).Errors),
		[]string{`metadata.ownerReferences[0].uid: Required value: must not be empty`, unversioned, `metadata.ownerReferences[0].uid: Required value: must not be empty`, wrong, `spec: Invalid value: failed rule: self.num > 0`})
}

// TestErrorOrder holds the order: metadata, values, scale, embedded resources,
// lists, and rules that are not asked.
func TestErrorOrder(t *testing.T) {
	k, err := crd.Compile(definition(t, "MORE", "subresources: {status: {}, scale: {specReplicasPath: .spec.num, statusReplicasPath: .status.replicas}}",
		"SCHEMA", `{type: object, properties: {spec: {type: object, x-kubernetes-validations: [{rule: "self.num > 0"}], properties: {
			num: {type: integer}, text: {type: string}, set: {type: array, x-kubernetes-list-type: set, items: {type: string}},
			inner: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}}},
			status: {type: object, properties: {replicas: {type: integer}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	d := decode(t, k.Storage, `{"apiVersion":"example.org/v1","kind":"Widget","metadata":{"name":"W","namespace":"n"},
		"spec":{"num":-1,"text":1,"set":["a","a"],"inner":{"apiVersion":"v1"}},"status":{"replicas":-1}}`)
	var got []string
	for _, e := range k.Storage.Validate(context.Background(), d, nil, schema.Whole).Errors {
		got = append(got, e.Field)
	}
	compare(t, where(), got, []string{"metadata.name", "spec.text", ".spec.num", ".status.replicas", "spec.inner.kind", "spec.set[1]", "<nil>"})
}

// resourceVersions are what is served and not stored.
var resourceVersions = regexp.MustCompile(`,?"resourceVersion":"[0-9]+"`)

// unlike reports whether what is served differs from what is stored.
func unlike(served, stored []byte) bool {
	return string(resourceVersions.ReplaceAll(served, nil)) != strings.TrimSuffix(string(stored), "\n")
}
