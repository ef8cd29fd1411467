package e2e

import (
	"strings"
	"testing"
)

// TestBetaDefinitions drives definitions of apiextensions.k8s.io/v1beta1, which upstream does not serve any more.
// Ledger: definitions-v1beta1.
func TestBetaDefinitions(t *testing.T) {
	s := startServer(t)
	const (
		beta   = "/apis/apiextensions.k8s.io/v1beta1/customresourcedefinitions"
		v1     = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
		name   = "/things.beta.example.org"
		things = "/apis/beta.example.org/v1/things"
	)
	has := func(what string, body []byte, texts ...string) {
		t.Helper()
		for _, text := range texts {
			if !strings.Contains(string(body), text) {
				t.Errorf("%s: got %s, want %s in it", what, body, text)
			}
		}
	}
	has("discovery", s.do(t, 200, "GET", "/apis/apiextensions.k8s.io", nil),
		`"versions":[{"groupVersion":"apiextensions.k8s.io/v1","version":"v1"},{"groupVersion":"apiextensions.k8s.io/v1beta1","version":"v1beta1"}],"preferredVersion":{"groupVersion":"apiextensions.k8s.io/v1"`)
	has("resources", s.do(t, 200, "GET", "/apis/apiextensions.k8s.io/v1beta1", nil), `"name":"customresourcedefinitions"`)

	// Definitions of v1beta1 need no schema. Then all fields are kept.
	has("create", s.do(t, 201, "POST", beta, toJSON(t, `{apiVersion: apiextensions.k8s.io/v1beta1, kind: CustomResourceDefinition, metadata: {name: things.beta.example.org},
		spec: {group: beta.example.org, version: v1, scope: Cluster, names: {plural: things, kind: Thing}, subresources: {status: {}},
		additionalPrinterColumns: [{name: A, type: string, JSONPath: .a}]}}`)),
		`"apiVersion":"apiextensions.k8s.io/v1beta1"`, `"preserveUnknownFields":true`, `"versions":[{"name":"v1","served":true,"storage":true}]`, `"JSONPath":".a"`, `"storedVersions":["v1"]`)
	eventually(t, "the kind", func() bool {
		code, _, err := s.try("GET", things, nil)
		return err == nil && code == 200
	})
	thing := []byte(`{"apiVersion":"beta.example.org/v1","kind":"Thing","metadata":{"name":"x"},"a":"b","extra":{"deep":null}}`)
	has("whatever there is", s.do(t, 201, "POST", things, thing), `"extra":{"deep":null}`)

	has("get in v1", s.do(t, 200, "GET", v1+name, nil), `"apiVersion":"apiextensions.k8s.io/v1"`, `"jsonPath":".a"`, `"subresources":{"status":{}}`, `"preserveUnknownFields":true`)
	has("list", s.do(t, 200, "GET", beta, nil), `"apiVersion":"apiextensions.k8s.io/v1beta1"`, `"JSONPath":".a"`)

	// The switch: a schema, and what it does not declare is dropped from then on.
	has("no schema", s.do(t, 422, "PATCH", beta+name, []byte(`{"spec":{"preserveUnknownFields":false}}`), "Content-Type", "application/merge-patch+json"),
		`spec.versions[0].schema.openAPIV3Schema: Required value: because otherwise all fields are pruned`)
	has("switch", s.do(t, 200, "PATCH", beta+name, []byte(`{"spec":{"preserveUnknownFields":false,"validation":{"openAPIV3Schema":{"type":"object","properties":{"a":{"type":"string"}}}}}}`),
		"Content-Type", "application/merge-patch+json"), `"validation":{"openAPIV3Schema":`, `"preserveUnknownFields":false`)
	eventually(t, "the schema", func() bool {
		_, b, err := s.try("GET", things+"/x", nil)
		return err == nil && !strings.Contains(string(b), `"extra":{"deep"`) && strings.Contains(string(b), `"a":"b"`)
	})
	has("v1 after the switch", s.do(t, 200, "GET", v1+name, nil), `"schema":{"openAPIV3Schema":`)
	s.do(t, 422, "PATCH", v1+name, []byte(`{"spec":{"preserveUnknownFields":true}}`), "Content-Type", "application/merge-patch+json")

	// What is for v1 alone.
	has("defaults", s.do(t, 422, "PATCH", beta+name, []byte(`{"spec":{"validation":{"openAPIV3Schema":{"properties":{"a":{"default":"x"}}}}}}`), "Content-Type", "application/merge-patch+json"),
		`must not be set (cannot set default values in apiextensions.k8s.io/v1beta1 CRDs, must use apiextensions.k8s.io/v1)`)
	has("unknown fields", s.do(t, 422, "PATCH", beta+name+"?fieldValidation=Strict", []byte(`{"spec":{"nope":1}}`), "Content-Type", "application/merge-patch+json"), `strict decoding error: unknown field`, `spec.nope`)

	watch := s.do(t, 200, "GET", beta+"?watch=1&timeoutSeconds=1", nil)
	has("watch", watch, `"type":"ADDED"`, `"apiVersion":"apiextensions.k8s.io/v1beta1"`)
	s.do(t, 200, "DELETE", beta+name, nil)
	eventually(t, "its end", func() bool {
		code, _, err := s.try("GET", v1+name, nil)
		return err == nil && code == 404
	})
}
