package crd

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keelson-io/keelson/internal/fastpath"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file tests the kind CustomResourceDefinition: how it is decoded, stored and read.

func definitionJSON(t *testing.T, replace ...string) []byte {
	t.Helper()
	crd := definition(t, replace...)
	text, err := json.Marshal(crd)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestDefinitionKind(t *testing.T) {
	fastpath.SchemaReader.Need(t)
	v := new(Compiler).Definitions().Storage
	text := strings.Replace(string(definitionJSON(t)), `"served"`, `"odd":1,"served"`, 1)
	d := new(jsondoc.Doc)
	found, err := v.Decode(d, []byte(text))
	if err != nil || found == 0 {
		t.Fatalf("found %d, error %v", found, err)
	}
	compare(t, where(), jsondoc.StrictTexts(v.Strict([]byte(text))), []string{`unknown field "spec.versions[0].odd"`})
	v.PrepareCreate(d)
	want := `"status":{"acceptedNames":{"kind":"","plural":""},"conditions":null,"storedVersions":["v1"]}`
	if got := print(d); !strings.Contains(got, want) || !strings.Contains(got, `"listKind":"WidgetList"`) || strings.Contains(got, "odd") {
		t.Errorf("got %s", got)
	}
	compare(t, where(), texts(v.Validate(context.Background(), d, nil, schema.Whole).Errors), nil)
	raw, err := v.Encode(d, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Render(raw, 5); err != nil {
		t.Errorf("error %v", err)
	}
	crd, err := Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	NameConditions(crd, Names{}, time.Now())
	updated, err := Update(raw, crd, nil)
	if err != nil {
		t.Fatal(err)
	}
	if view, err := v.Render(updated, 6); err != nil || !strings.Contains(string(view.JSON), `"reason":"InitialNamesAccepted"`) {
		t.Errorf("error %v: %s", err, updated)
	}
	v1, err := (*Compiler)(nil).fromBeta(raw)
	if err != nil || !strings.Contains(string(v1), `"apiextensions.k8s.io/v1"`) {
		t.Errorf("error %v: got %s, want it in v1", err, v1)
	} else if again, err := Update(v1, crd, nil); err != nil || string(again) != string(updated) {
		t.Errorf("error %v: of its text in v1\n%s, of the stored one\n%s", err, again, updated)
	}
}

// TestRemembered holds that a spec that is remembered is the one that was read,
// whatever others did to theirs.
func TestRemembered(t *testing.T) {
	fastpath.Schemas.Need(t)
	c := new(Compiler)
	v := c.Definitions().Storage
	text := `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"as.b.c","labels":{"x":"y"}},
		"spec":{"group":"b.c","scope":"Cluster","names":{"plural":"as","kind":"A"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`
	d := decode(t, v, text)
	first, err := c.fromDoc(d)
	if err != nil {
		t.Fatal(err)
	}
	first.Spec.Group, first.Spec.Versions = "changed", nil
	raw, err := v.Encode(d, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.recent = recentSchemas{}
	read, err := c.parseRaw(raw)
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.parseRaw(raw)
	if err != nil || !equality.Semantic.DeepEqual(read, again) || read.Spec.Versions[0].Schema.OpenAPIV3Schema != again.Spec.Versions[0].Schema.OpenAPIV3Schema {
		t.Errorf("got %+v, error %v, want %+v", again, err, read)
	}
	remembered, err := c.fromDoc(d)
	if err != nil || !equality.Semantic.DeepEqual(remembered, read) || read.Labels["x"] != "y" || read.Spec.Names.ListKind != "AList" {
		t.Errorf("got %+v, error %v, want %+v", remembered, err, read)
	}
}

// TestPublishedSchema holds that every field of a definition is described, and
// that no description is of something else.
func TestPublishedSchema(t *testing.T) {
	used := map[*structural.Schema]bool{}
	count := 0
	var walk func(path string, s *structural.Schema)
	walk = func(path string, s *structural.Schema) {
		if s == nil || used[s] {
			return
		}
		used[s] = true
		for _, name := range s.Names {
			count++
			if s.Properties[name].Description == "" {
				t.Errorf("%s.%s has no description", path, name)
			}
			walk(path+"."+name, s.Properties[name])
		}
		walk(path+"[]", s.Items)
		walk(path+".*", s.Additional)
	}
	s := new(Compiler).Definitions().Storage.Structural()
	walk("", s)
	if count < len(docs)*9/10 {
		t.Errorf("got %d fields for %d descriptions", count, len(docs))
	}
	version := s.Properties["spec"].Properties["versions"].Items
	if got := version.Values.Required; !slices.Equal(got, []string{"name", "served", "storage"}) {
		t.Errorf("got required %v", got)
	}
	root := version.Properties["schema"].Properties["openAPIV3Schema"]
	if !root.Properties["properties"].Additional.Preserve || root.Properties["x-kubernetes-validations"].ListMapKeys[0] != "rule" {
		t.Error("schemas in schemas are not open")
	}
	if errs := structural.Validate(s, nil); len(errs) > 0 {
		t.Error(errs.ToAggregate())
	}
}

func TestBetaDefinition(t *testing.T) {
	raw := []byte(`{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.org","uid":"u"},
		"spec":{"group":"example.org","version":"v1","names":{"plural":"widgets","kind":"Widget"},"preserveUnknownFields":false,
		"validation":{"openAPIV3Schema":{"type":"object"}},"subresources":{"status":{}},"additionalPrinterColumns":[{"name":"A","type":"string","JSONPath":".spec.a"}]}}` + "\n")
	crd, err := Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	if v := crd.Spec.Versions[0]; v.Name != "v1" || v.Schema == nil || v.Subresources == nil || v.AdditionalPrinterColumns[0].JSONPath != ".spec.a" || crd.Spec.Scope != "Namespaced" {
		t.Errorf("got %+v", crd.Spec)
	}
	// What is at the top goes for all versions, and review versions stay without a client.
	raw2 := []byte(`{"apiVersion":"apiextensions.k8s.io/v1beta1","spec":{"versions":[{"name":"v1","schema":{"openAPIV3Schema":{"type":"string"}},"storage":true}],
		"validation":{"openAPIV3Schema":{"type":"object"}},"conversion":{"strategy":"Webhook"}}}`)
	if crd, err = Parse(raw2); err != nil {
		t.Fatal(err)
	}
	if got := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Type; got != "object" || !crd.Spec.PreserveUnknownFields {
		t.Errorf("got type %q of %+v", got, crd.Spec)
	}
	if w := crd.Spec.Conversion.Webhook; w == nil || w.ClientConfig != nil || len(w.ConversionReviewVersions) != 1 || w.ConversionReviewVersions[0] != "v1beta1" {
		t.Errorf("got %+v", w)
	}
	view, err := new(Compiler).Definitions().Storage.Render(raw, 2)
	if err != nil || !strings.Contains(string(view.JSON), `"jsonPath":".spec.a"`) || !strings.Contains(string(view.JSON), "apiextensions.k8s.io/v1\"") {
		t.Errorf("got %v, error %v", view, err)
	}
}

// TestDefinitionIsStoredAsBeta holds the form in which definitions are in etcd, and that nothing is lost on the way.
func TestDefinitionIsStoredAsBeta(t *testing.T) {
	v := new(Compiler).Definitions().Storage
	text := string(definitionJSON(t, "MORE", twoVersions))
	d := decode(t, v, text)
	v.PrepareCreate(d)
	before := string(d.AppendJSON(nil, d.Root().Node))
	raw, err := v.Encode(d, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"apiVersion":"apiextensions.k8s.io/v1beta1"`, `"version":"v1"`, `"preserveUnknownFields":false`} {
		if !strings.Contains(string(raw), part) {
			t.Errorf("got %s, want in it %s", raw, part)
		}
	}
	back := jsondoc.Get()
	defer back.Release()
	if err := v.Load(back, raw, 7); err != nil {
		t.Fatal(err)
	}
	back.Remove("metadata", "resourceVersion")
	if after := string(back.AppendJSON(nil, back.Root().Node)); after != before {
		t.Errorf("got %s, want %s", after, before)
	}
}

// Ledger: nonstructural-schemas.
func TestCompileLegacy(t *testing.T) {
	legacy := func(schema string) error {
		crd := definition(t, "SCHEMA", schema)
		crd.Spec.PreserveUnknownFields = true
		_, err := Compile(crd)
		return err
	}
	if err := legacy("{properties: {a: {}}}"); err != nil {
		t.Errorf("types are missing: %v", err)
	}
	if err := legacy("{type: object, properties: {a: {type: array, items: {type: object, anyOf: [{properties: {metadata: {type: string}}}]}}}}"); err == nil {
		t.Error("a schema with types in value validations is served")
	}
	crd := definition(t, "SCHEMA", "{type: object, properties: {a: {}}}")
	if _, err := Compile(crd); err == nil {
		t.Error("a definition that is not legacy is served with open types")
	}
}
