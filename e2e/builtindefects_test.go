package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestEmptyBytes writes empty values where built-in kinds hold bytes: create, patches and applies take them, and they stay.
func TestEmptyBytes(t *testing.T) {
	s := startServer(t)
	k := newKubectl(t, s)
	k.ok(t, []string{"create", "secret", "generic", "literal", "--from-literal=a="}, "secret/literal created")
	k.in(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: binary}, binaryData: {a: ""}}`, args("apply -f -"), "configmap/binary created")
	k.in(t, `{apiVersion: v1, kind: Secret, metadata: {name: applied}, data: {a: ""}, stringData: {b: ""}}`, args("apply --server-side -f -"), "secret/applied serverside-applied")
	secret := "/api/v1/namespaces/default/secrets/"
	s.do(t, http.StatusOK, "PATCH", secret+"literal", []byte(`{"data":{"b":""}}`), "Content-Type", "application/merge-patch+json")
	s.do(t, http.StatusOK, "PATCH", secret+"literal", []byte(`{"data":{"c":""}}`), "Content-Type", "application/strategic-merge-patch+json")
	s.do(t, http.StatusOK, "PATCH", secret+"literal", []byte(`[{"op":"add","path":"/data/d","value":""}]`), "Content-Type", "application/json-patch+json")
	for path, want := range map[string]string{
		secret + "literal": `"data":{"a":"","b":"","c":"","d":""}`,
		secret + "applied": `"data":{"a":"","b":""}`,
		"/api/v1/namespaces/default/configmaps/binary": `"binaryData":{"a":""}`,
	} {
		if b := s.do(t, http.StatusOK, "GET", path, nil); !strings.Contains(string(b), want) {
			t.Errorf("GET %s: got %s, want %s", path, b, want)
		}
	}
	// What is not base64 is refused still, in the words of the decoder.
	body := `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x"},"data":{"a":"%"}}`
	if b := s.do(t, http.StatusBadRequest, "POST", secret[:len(secret)-1], []byte(body)); !strings.Contains(string(b), "illegal base64 data at input byte 0") {
		t.Errorf("data that is not base64: got %s", b)
	}
	hook := `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":{"name":"h"},"webhooks":[{"name":"a.example.com",
		"sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://localhost:1/","caBundle":""}}]}`
	s.do(t, http.StatusCreated, "POST", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", []byte(hook))
}

// TestGeneratedNamespaceIsLabelled creates namespaces whose names the server generates: each has the label with its name.
func TestGeneratedNamespaceIsLabelled(t *testing.T) {
	s := startServer(t)
	for _, path := range []string{"/api/v1/namespaces", "/api/v1/namespaces?dryRun=All"} {
		b := s.do(t, http.StatusCreated, "POST", path, []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"generateName":"test-","labels":{"a":"b"}}}`))
		var ns corev1.Namespace
		if err := json.Unmarshal(b, &ns); err != nil {
			t.Fatal(err)
		}
		if got := ns.Labels[corev1.LabelMetadataName]; got != ns.Name || ns.Labels["a"] != "b" || !strings.HasPrefix(ns.Name, "test-") {
			t.Errorf("POST %s: got %s, want its name as a label", path, b)
		}
	}
}

// TestUnknownPathsOfBuiltinGroups asks for subresources, resources and versions that no built-in kind has: upstream's router says that
// there is nothing, with empty details. Custom resources answer as upstream's handler of theirs does.
func TestUnknownPathsOfBuiltinGroups(t *testing.T) {
	s := startServer(t)
	s.do(t, http.StatusCreated, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", []byte(widgetsCRD))
	const (
		notFound   = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server could not find the requested resource","reason":"NotFound","details":{},"code":404}`
		notAllowed = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server does not allow this method on the requested resource","reason":"MethodNotAllowed","details":{},"code":405}`
		page       = "404 page not found"
	)
	for _, row := range []struct {
		method, path string
		code         int
		want         string
	}{
		{"GET", "/api/v1/namespaces/default/configmaps/a/status", 404, notFound},
		{"GET", "/api/v1/namespaces/default/configmaps/a/other", 404, notFound},
		{"PUT", "/api/v1/namespaces/default/pods/a/other", 404, notFound},
		{"PATCH", "/apis/apps/v1/namespaces/default/deployments/a/other", 404, notFound},
		{"GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/a/other", 404, notFound},
		{"GET", "/api/v1/nodes/a/other", 404, notFound},
		{"GET", "/api/v1/namespaces/default/configmaps/a/b/c", 404, notFound},
		{"GET", "/api/v1/others", 404, notFound},
		{"GET", "/api/v1/namespaces/default/others/a", 404, notFound},
		{"GET", "/api/v1/namespaces/default/nodes", 404, notFound},
		{"GET", "/api/v1/configmaps/a", 404, notFound},
		{"GET", "/apis/apps/v7/namespaces/default/deployments", 404, notFound},
		{"POST", "/api/v1/configmaps", 405, notAllowed},
		{"DELETE", "/apis/apps/v1/deployments", 405, notAllowed},
		{"GET", "/apis/stable.example.com/v1/others", 404, page},
		{"GET", "/apis/stable.example.com/v7/widgets", 404, page},
		{"POST", "/apis/stable.example.com/v1/widgets", 404, page},
		{"GET", "/apis/other.example.com/v1/others", 404, page},
		{"GET", "/apis/stable.example.com/v1/namespaces/default/widgets/a/other", 404, `"message":"widgets.stable.example.com \"a\" not found"`},
	} {
		code, b, err := s.try(row.method, row.path, []byte("{}"))
		if err != nil || code != row.code || !strings.Contains(string(b), row.want) {
			t.Errorf("%s %s: got %d, %v, %s; want %d, %s", row.method, row.path, code, err, b, row.code, row.want)
		}
	}
}

// widgetsCRD defines a namespaced kind without subresources.
const widgetsCRD = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.stable.example.com"},
	"spec":{"group":"stable.example.com","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},
	"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`
