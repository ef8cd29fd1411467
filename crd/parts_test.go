package crd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/keelson-io/keelson/internal/fastpath"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file compares what is done with definitions apart from their schemas, and
// the reader of schemas, with their plain twins.

// sameJSON reports whether two texts are the same JSON value.
func sameJSON(a, b []byte) bool {
	x, y := new(jsondoc.Doc), new(jsondoc.Doc)
	return jsondoc.Parse(x, a) == nil && jsondoc.Parse(y, b) == nil && jsondoc.Equal(x.Root(), y.Root())
}

// checkSchema holds the reader of schemas against encoding/json. It reports
// whether it read the schema.
func checkSchema(t *testing.T, text []byte) bool {
	t.Helper()
	got, exact, ok := readSchema(text)
	if !ok {
		return false
	}
	want := new(apiextv1.JSONSchemaProps)
	strict, err := kjson.UnmarshalStrict(text, want)
	if err != nil || len(strict) > 0 {
		t.Fatalf("%s: is read; want error %v %v", text, err, strict)
	}
	if !equality.Semantic.DeepEqual(got, want) {
		t.Fatalf("%s: got %+v, want %+v", text, got, want)
	}
	printed, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if !sameJSON(text, printed) {
		t.Fatalf("%s: is read, but printed as %s", text, printed)
	}
	d := new(jsondoc.Doc)
	if err := jsondoc.Parse(d, text); err != nil {
		t.Fatal(err)
	}
	again := new(apiextv1.JSONSchemaProps)
	if err := kjson.UnmarshalCaseSensitivePreserveInts(d.Root().AppendJSON(nil), again); err != nil {
		t.Fatal(err)
	}
	if exact && !equality.Semantic.DeepEqual(got, again) {
		t.Fatalf("%s: said to be exact, but what documents print is read as %+v, want %+v", text, again, got)
	}
	return true
}

// TestHeavyReadSchema holds that schemas as machines write them are read in one pass.
func TestHeavyReadSchema(t *testing.T) {
	fastpath.SchemaReader.Need(t)
	for _, family := range []string{"gateway-standard", "cert-manager", "prometheus-operator"} {
		for i, text := range realDefinitions(t, family) {
			p, ok := separate(text)
			if !ok || len(p.schemas) == 0 {
				t.Fatalf("%s %d: has no schemas", family, i)
			}
			for _, s := range p.schemas {
				if !checkSchema(t, s) {
					t.Errorf("%s %d: is not read: %.200s", family, i, s)
				}
			}
		}
	}
}

// schemaTexts are schemas, and whether they are read.
var schemaTexts = map[string]bool{
	`{}`: true,
	`{"id":"a","$schema":"b","$ref":"","description":"c\u00e9<","type":"object","format":"date","title":"t","nullable":true}`:                                         true,
	`{"default":{"b": 1,"a":[null]},"example":"x","enum":[null,1,"a"],"externalDocs":{"description":"a","url":"b"}}`:                                                  true,
	`{"maximum":1.5,"exclusiveMaximum":true,"minimum":-3,"exclusiveMinimum":true,"multipleOf":2,"maxLength":1,"minLength":-1,"pattern":"a"}`:                          true,
	`{"maxItems":1,"minItems":0,"uniqueItems":true,"maxProperties":2,"minProperties":3,"required":["a",""]}`:                                                          true,
	`{"items":{"type":"string"},"allOf":[{}],"oneOf":[{"not":{}}],"anyOf":[{"type":"a"},{"type":"b"}],"not":{"items":[{"type":"c"}]}}`:                                true,
	`{"properties":{"a":{},"":{"type":"string"}},"additionalProperties":false,"patternProperties":{"x":{}},"definitions":{"y":{}},"additionalItems":true}`:            true,
	`{"additionalProperties":{"type":"string"},"x-kubernetes-preserve-unknown-fields":false,"x-kubernetes-embedded-resource":true,"x-kubernetes-int-or-string":true}`: true,
	`{"x-kubernetes-list-map-keys":["a"],"x-kubernetes-list-type":"","x-kubernetes-map-type":"atomic","x-kubernetes-validations":[{"rule":""}]}`:                      true,
	`{"x-kubernetes-validations":[{"rule":"a","message":"b","messageExpression":"c","reason":"d","fieldPath":"e","optionalOldSelf":false}]}`:                          true,
	`{"default":1.0}`: true, `{"enum":[1e3,-0]}`: true, `{"\u0074ype":"a"}`: true, `{"description":"\ud800"}`: true,

	// Not printed.
	`{"type":""}`: false, `{"nullable":false}`: false, `{"required":[]}`: false, `{"properties":{}}`: false, `{"enum":[]}`: false,
	`{"type":null}`: false, `{"default":null}`: false, `{"maximum":null}`: false, `{"items":null}`: false, `{"items":[]}`: false, `{"items":true}`: false,
	`{"properties":{"a":null}}`: false, `{"allOf":[null]}`: false, `{"required":[null]}`: false, `{"externalDocs":{"url":""}}`: false,
	`{"additionalProperties":null}`: false, `{"x-kubernetes-validations":[{}]}`: false, `{"x-kubernetes-validations":[{"rule":"a","message":""}]}`: false,
	// Printed otherwise.
	`{"maximum":1.0}`: false, `{"maximum":9007199254740993}`: false, `{"maximum":-0}`: false, `{"maximum":1e400}`: false,
	// Wrong, or unknown, or twice.
	`{"type":1}`: false, `{"maxLength":1.5}`: false, `{"maxLength":9223372036854775808}`: false, `{"nullable":"a"}`: false, `{"required":"a"}`: false,
	`{"Type":"a"}`: false, `{"dependencies":{"a":["b"]}}`: false, `{"unknown":1}`: false, `{"items":{"unknown":1}}`: false, `[]`: false, `null`: false, `{`: false, `{} x`: false,
	`{"type":"a","type":"a"}`: false, `{"default":1,"default":1}`: false, `{"default":{"a":1,"a":1}}`: false, `{"properties":{"a":{},"a":{}}}`: false,
	`{"nullable":true,"nullable":true}`: false, `{"x-kubernetes-validations":[{"rule":"","rule":""}]}`: false, `{"$ref":"","$ref":""}`: false,
}

func TestReadSchemaTexts(t *testing.T) {
	fastpath.SchemaReader.Need(t)
	for text, want := range schemaTexts {
		if got := checkSchema(t, []byte(text)); got != want {
			t.Errorf("%s: read %v, want %v", text, got, want)
		}
	}
	for text, want := range map[string]bool{`{"default":1.0}`: false, `{"default":{"b":1,"a":2}}`: false, `{"default": "a"}`: true, `{"enum":[1,null,{"a":1}]}`: true, `{"enum":[1e3]}`: false} {
		if _, exact, ok := readSchema([]byte(text)); !ok || exact != want {
			t.Errorf("%s: read %v, exact %v, want exact %v", text, ok, exact, want)
		}
	}
}

func FuzzReadSchema(f *testing.F) {
	for text := range schemaTexts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) { checkSchema(t, text) })
}

// checkDefinition holds what is done with a definition apart from its schemas
// against what is done with all of it. It reports whether decodeParts read it.
func checkDefinition(t *testing.T, text []byte) bool {
	t.Helper()
	v := definitionVersion()
	if got, err := (*Compiler)(nil).fromBeta(text); err == nil {
		want, err := convertBeta(text)
		if err != nil || !bytes.Equal(got, want) && !sameJSON(got, want) {
			t.Fatalf("%s: in v1 got %s, want %s, error %v", text, got, want, err)
		}
	}
	c := new(Compiler)
	d, want := new(jsondoc.Doc), new(jsondoc.Doc)
	if !c.decodeParts(v, d, text) {
		return false
	}
	crd, err := c.fromDoc(d)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	c = new(Compiler)
	found, err := c.decodeWhole(v, want, text)
	if err != nil || found != 0 {
		t.Fatalf("%s: is decoded; want error %v, found %d", text, err, found)
	}
	if got, want := print(d), print(want); got != want {
		t.Fatalf("%s: got %s, want %s", text, got, want)
	}
	wantCRD, err := c.fromDoc(want)
	if err != nil || !equality.Semantic.DeepEqual(crd, wantCRD) {
		t.Fatalf("%s: got %+v, want %+v, error %v", text, crd, wantCRD, err)
	}
	whole := new(apiextv1.CustomResourceDefinition)
	if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(print(want)), whole); err != nil {
		t.Fatal(err)
	}
	if whole.APIVersion != betaVersion { // else it is refused
		checkStored(t, d, whole)
	}
	return true
}

// checkStored holds how a definition is stored, and how its status is changed then,
// against the plain way.
func checkStored(t *testing.T, d *jsondoc.Doc, whole *apiextv1.CustomResourceDefinition) {
	t.Helper()
	raw, err := encodeBeta(d)
	if err != nil {
		t.Fatal(err)
	}
	whole.ResourceVersion = ""
	plain, err := json.Marshal(toBeta(whole))
	if err != nil {
		t.Fatal(err)
	}
	if !sameJSON(raw, plain) {
		t.Fatalf("stored as %s, want %s", raw, plain)
	}
	crd, err := Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	crd.Finalizers = []string{"x"}
	NameConditions(crd, Names{}, time.Unix(1_700_000_000, 0))
	note := func(live, next *jsondoc.Doc) error {
		meta.Object{Doc: next}.SetGeneration(meta.Object{Doc: live}.Generation() + 1)
		return nil
	}
	got, err := Update(raw, crd, note)
	if err != nil {
		t.Fatal(err)
	}
	live := new(jsondoc.Doc)
	if err := definitionVersion().Load(live, raw, 0); err != nil {
		t.Fatal(err)
	}
	meta.Object{Doc: live}.SetFinalizers(crd.Finalizers)
	meta.Object{Doc: live}.SetGeneration(meta.Object{Doc: live}.Generation() + 1)
	setStatus(live, crd)
	want, err := definitionVersion().Encode(live, nil)
	if err != nil || string(got) != string(want) {
		t.Fatalf("got %s, want %s, error %v", got, want, err)
	}
}

// TestHeavyDefinitionParts holds that real definitions are decoded apart from their
// schemas, in whatever order and with whatever space they are written.
func TestHeavyDefinitionParts(t *testing.T) {
	fastpath.SchemaReader.Need(t)
	for _, family := range []string{"gateway-standard", "cert-manager"} {
		for i, text := range realDefinitions(t, family) {
			forms := [][]byte{text, indented(t, text), betaText(t, text)}
			for _, text := range forms[i%2:] {
				beta := strings.Contains(string(text), betaVersion)
				if !checkDefinition(t, text) && !beta {
					t.Errorf("%s %d: is not decoded in parts: %.300s", family, i, text)
				}
			}
		}
	}
}

func indented(t *testing.T, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "\t"); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// partsTexts are definitions that need a closer look.
func partsTexts() []string {
	version := func(name, schema string) string {
		return fmt.Sprintf(`{"name":%q,"served":true,"storage":true,"schema":{"openAPIV3Schema":%s}}`, name, schema)
	}
	spec := func(more string, versions ...string) string {
		return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"as.b.c"},"spec":{"group":"b.c","names":{"plural":"as","kind":"A"},` +
			`"scope":"Cluster"` + more + `,"versions":[` + strings.Join(versions, ",") + `]}}`
	}
	return []string{
		spec("", version("v1", `{"type":"object"}`)),
		spec("", version("v1", `{"type":"object"}`), version("v2", `{"type":"object"}`), version("v3", `{"type":"object","nullable":true}`)),
		spec("", version("v1", `{"$ref":"0"}`), version("v2", `{"$ref":"1"}`), version("v3", `{"$ref":"7"}`)),
		spec("", version("v1", `null`), version("v2", `{}`), version("v3", `{"default":1.0}`)),
		spec("", version("v1", `[]`)), spec("", version("v1", `{"type":1}`)),
		spec("", `{"name":"v1","schema":{}}`, `{"name":"v2","schema":null}`, `null`, `{"name":"v3"}`),
		spec(`,"validation":{"openAPIV3Schema":{"type":"object"}}`, version("v1", `{"type":"object"}`)),
		spec(`,"versions":[]`, version("v1", `{"type":"object"}`)),
		strings.Replace(spec(`,"validation":{"openAPIV3Schema":{"type":"object"}},"version":"v1"`, version("v1", `{"type":"string"}`)), "/v1", "/v1beta1", 1),
		strings.Replace(spec(`,"validation":{}`, version("v1", `{"type":"string","nullable":false}`)), "/v1", "/v1beta1", 1),
		strings.Replace(spec(`,"validation":{"openAPIV3Schema":{"type":"","unknown":1}}`), "/v1", "/v1beta1", 1),
	}
}

func TestDefinitionPartsTexts(t *testing.T) {
	for _, text := range partsTexts() {
		checkDefinition(t, []byte(text))
	}
}

func FuzzDefinitionParts(f *testing.F) {
	for _, text := range partsTexts() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) { checkDefinition(t, text) })
}
