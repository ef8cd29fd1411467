package openapi

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/proto"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi3"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file tests the documents with the clients that read them.

const widgetSchema = `
type: object
description: Widget is what is tested.
required: [spec]
properties:
  spec:
    type: object
    description: What is wanted.
    required: [color, gone]
    properties:
      color: {type: string, enum: [red, green], default: red, description: Its colour.}
      gone: {type: string, nullable: true}
      port: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}
      free: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: string}}}
      items: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name], items: {type: object, required: [name], properties: {name: {type: string}}}}
      inner: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
    x-kubernetes-validations: [{rule: "self.color != 'blue'", message: no blue}]
`

func parseSchema(t testing.TB, text string) *structural.Schema {
	t.Helper()
	var props apiextv1.JSONSchemaProps
	if err := yaml.Unmarshal([]byte(text), &props); err != nil {
		t.Fatal(err)
	}
	s, errs := structural.Parse(&props, nil)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return s
}

func widgets(t testing.TB, group, plural, name string) *kind.Kind {
	k := &kind.Kind{Group: group, Plural: plural, Singular: strings.ToLower(name), Name: name, ListKind: name + "List", Namespaced: true, Established: true, UID: plural, Generation: 1}
	v := &kind.Version{
		Kind: k, Name: "v1", Structural: kind.Fixed(parseSchema(t, widgetSchema)), Served: true, Status: true,
		Scale:            &kind.Scale{SpecReplicas: ".spec.replicas"},
		SelectableFields: []kind.Selectable{{JSONPath: ".spec.color", Label: "spec.color"}},
	}
	k.Versions, k.All, k.Storage = []*kind.Version{v}, []*kind.Version{v}, v
	return k
}

func start(t testing.TB) (*kind.Registry, *Handler, string) {
	t.Helper()
	ns := widgets(t, "", "namespaces", "Namespace")
	ns.Namespaced = false
	r := kind.NewRegistry(ns)
	r.Put(widgets(t, "demo.io", "widgets", "Widget"))
	r.Put(widgets(t, "other.io", "gadgets", "Gadget"))
	h := New(r.Load)
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return r, h, s.URL
}

func get(t testing.TB, url, accept string, header ...string) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req) // redirects are not followed
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, body
}

func TestClientReadsVersion3(t *testing.T) {
	_, _, url := start(t)
	client, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: url})
	if err != nil {
		t.Fatal(err)
	}
	root := openapi3.NewRoot(client.OpenAPIV3())
	gvs, err := root.GroupVersions()
	if err != nil || len(gvs) != 3 {
		t.Fatalf("group versions %v, %v; want 3", gvs, err)
	}
	doc, err := root.GVSpec(schema.GroupVersion{Group: "demo.io", Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	patch := doc.Paths.Paths["/apis/demo.io/v1/namespaces/{namespace}/widgets/{name}"].Patch
	if patch.OperationId != "patchDemoIoV1NamespacedWidget" || patch.Extensions["x-kubernetes-action"] != "patch" {
		t.Errorf("patch operation %s, %v", patch.OperationId, patch.Extensions)
	}
	validates := false
	for _, p := range patch.Parameters {
		validates = validates || p.Name == "fieldValidation" && p.In == "query"
	}
	if !validates {
		t.Error("patch has no parameter fieldValidation")
	}
	widget := doc.Components.Schemas["io.demo.v1.Widget"]
	if got := widget.Properties["metadata"].AllOf[0].Ref.String(); got != "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta" {
		t.Errorf("metadata refers to %q", got)
	}
	meta := doc.Components.Schemas["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]
	if got := meta.Properties["labels"].Description; !strings.HasPrefix(got, "Map of string keys and values") {
		t.Errorf("description of metadata.labels: %q", got)
	}
	for name, s := range doc.Components.Schemas {
		for field, p := range s.Properties {
			if strings.HasPrefix(name, metaPrefix) && p.Description == "" {
				t.Errorf("%s.%s has no description", name, field)
			}
		}
	}
}

// TestReferencesResolve holds that every reference has its schema.
func TestReferencesResolve(t *testing.T) {
	_, _, url := start(t)
	for path, prefix := range map[string]string{"/openapi/v3/apis/demo.io/v1": "#/components/schemas/", "/openapi/v2": "#/definitions/"} {
		_, body := get(t, url+path, typeJSON)
		var doc struct {
			Components  struct{ Schemas map[string]any }
			Definitions map[string]any
			Parameters  map[string]any
		}
		if err := json.Unmarshal(body, &doc); err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, part := range strings.Split(string(body), `"$ref":"`)[1:] {
			name := strings.TrimPrefix(part[:strings.IndexByte(part, '"')], prefix)
			if doc.Components.Schemas[name] == nil && doc.Definitions[name] == nil && doc.Parameters[strings.TrimPrefix(name, "#/parameters/")] == nil {
				t.Errorf("%s: nothing is called %q", path, name)
			}
			n++
		}
		if n == 0 {
			t.Errorf("%s: no references", path)
		}
	}
}

func TestClientReadsVersion2(t *testing.T) {
	_, _, url := start(t)
	client, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: url})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := client.OpenAPISchema()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, d := range doc.Definitions.AdditionalProperties {
		names[d.Name] = true
	}
	for _, want := range []string{"io.demo.v1.Widget", "io.other.v1.GadgetList", metaPrefix + "ObjectMeta", scalePrefix + "Scale"} {
		if !names[want] {
			t.Errorf("no definition of %s", want)
		}
	}
}

func TestVersion2LeavesOutWhatItCannotSay(t *testing.T) {
	_, _, url := start(t)
	_, body := get(t, url+"/openapi/v2", typeJSON)
	var doc struct {
		Definitions map[string]struct {
			Properties map[string]struct {
				Required   []string
				Properties map[string]json.RawMessage
			}
		}
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		t.Fatal(err)
	}
	spec := doc.Definitions["io.demo.v1.Widget"].Properties["spec"]
	if len(spec.Required) != 1 || spec.Required[0] != "color" {
		t.Errorf("required %q, want color only: what may be null is not", spec.Required)
	}
	for name, want := range map[string]string{
		"gone": `{}`,
		"free": `{"x-kubernetes-preserve-unknown-fields":true}`,
		"port": `{"x-kubernetes-int-or-string":true}`,
	} {
		if got := string(spec.Properties[name]); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

// Ledger: openapi-v3.
func TestAddressesAndCaching(t *testing.T) {
	r, h, url := start(t)
	resp, body := get(t, url+"/openapi/v3", typeJSON)
	var index struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	if err := json.Unmarshal(body, &index); err != nil {
		t.Fatal(err)
	}
	if again, _ := get(t, url+"/openapi/v3", typeJSON, "If-None-Match", resp.Header.Get("Etag")); again.StatusCode != http.StatusNotModified {
		t.Errorf("known index: status %d, want 304", again.StatusCode)
	}
	at := index.Paths["apis/demo.io/v1"].ServerRelativeURL
	if !strings.HasPrefix(at, "/openapi/v3/apis/demo.io/v1?hash=") {
		t.Fatalf("address %q", at)
	}
	resp, _ = get(t, url+at, "application/json")
	if resp.StatusCode != 200 || resp.Header.Get("Cache-Control") != "public, immutable" || resp.Header.Get("Expires") == "" {
		t.Errorf("document at its hash: %d %v", resp.StatusCode, resp.Header)
	}
	if resp, _ := get(t, url+"/openapi/v3/", "application/json"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("the index with a slash: %s", resp.Status)
	}
	resp, body = get(t, url+"/openapi/v3/apis/demo.io/v1?hash=OLD", "application/json")
	if resp.StatusCode != http.StatusMovedPermanently || resp.Header.Get("Location") != at || len(body) > 0 {
		t.Errorf("document at another hash: %d to %q with %q, want 301 to %q", resp.StatusCode, resp.Header.Get("Location"), body, at)
	}
	resp, body = get(t, url+at, typeOldProtoV3)
	if got := resp.Header.Get("Content-Type"); got != typeProtoV3 {
		t.Errorf("protobuf: content type %q, want %q", got, typeProtoV3)
	}
	var doc openapi_v3.Document
	if err := proto.Unmarshal(body, &doc); err != nil || doc.Openapi != "3.0.0" {
		t.Errorf("protobuf: %v, version %q", err, doc.Openapi)
	}
	for path, want := range map[string]int{"/openapi/v3/apis/no.io/v1": 404, "/openapi/v4": 404} {
		if resp, _ := get(t, url+path, "*/*"); resp.StatusCode != want {
			t.Errorf("%s: status %d, want %d", path, resp.StatusCode, want)
		}
	}
	if resp, _ := get(t, url+at, "text/html"); resp.StatusCode != http.StatusNotAcceptable {
		t.Errorf("text/html: status %d, want 406", resp.StatusCode)
	}

	// The one document of version 2 is large, and compressed for who accepts that.
	_, plain := get(t, url+"/openapi/v2", typeJSON)
	resp, body = get(t, url+"/openapi/v2", typeJSON, "Accept-Encoding", "gzip")
	if resp.Header.Get("Content-Encoding") != "gzip" || !slices.Equal(resp.Header["Vary"], []string{"Accept-Encoding", "Accept"}) {
		t.Errorf("version 2 for who accepts gzip: %v", resp.Header)
	}
	if z, err := gzip.NewReader(bytes.NewReader(body)); err != nil {
		t.Error(err)
	} else if body, err = io.ReadAll(z); err != nil || !bytes.Equal(body, plain) {
		t.Errorf("version 2, compressed, is another document: %v", err)
	}
	resp, body = get(t, url+"/openapi/v2", typeJSON, "Accept-Encoding", "gzip", "Range", "bytes=0-9")
	if resp.StatusCode != http.StatusPartialContent || !bytes.Equal(body, plain[:10]) {
		t.Errorf("a range of version 2: %d %q", resp.StatusCode, body)
	}

	before := h.view()
	changed := widgets(t, "other.io", "gadgets", "Gadget")
	changed.Generation = 2
	r.Put(changed)
	after := h.view()
	if after.docs["apis/demo.io/v1"] != before.docs["apis/demo.io/v1"] {
		t.Error("one kind's change made another's document anew")
	}
	if after.docs["apis/other.io/v1"].hash == before.docs["apis/other.io/v1"].hash || after.indexTag == before.indexTag {
		t.Error("a changed kind has the hash that it had")
	}
}

func BenchmarkDocument(b *testing.B) {
	k := widgets(b, "demo.io", "widgets", "Widget")
	b.ReportAllocs()
	for b.Loop() {
		d := &document{versions: k.Versions, parts: newParts()}
		if _, err := d.encoding(typeJSON); err != nil {
			b.Fatal(err)
		}
	}
}
