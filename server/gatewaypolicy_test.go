package server

import (
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/internal/testcrds"
)

// This file enforces the policy that the Gateway API publishes with its definitions: they cannot be
// replaced by older or experimental ones.

func TestPolicyOfTheGatewayAPI(t *testing.T) {
	tree, err := testcrds.Open(testcrds.GatewayAPI)
	if err != nil {
		t.Fatal(err)
	}
	docs, err := testcrds.Docs(tree, "config/crd/standard")
	if err != nil {
		t.Fatal(err)
	}
	const (
		asYAML      = "application/yaml"
		definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	)
	r := start(t, Config{Store: mem.New(mem.Options{})})
	installed := 0
	var routes string
	for _, d := range docs {
		switch d.Kind {
		case "ValidatingAdmissionPolicy":
			r.must("POST", admissionPath+"validatingadmissionpolicies", string(d.YAML), "Content-Type", asYAML)
			installed++
		case "ValidatingAdmissionPolicyBinding":
			r.must("POST", admissionPath+"validatingadmissionpolicybindings", string(d.YAML), "Content-Type", asYAML)
			installed++
		}
		if d.Name == "httproutes.gateway.networking.k8s.io" {
			routes = string(d.YAML)
		}
	}
	if installed != 2 || routes == "" {
		t.Fatalf("found %d policies and bindings, and %d bytes of a definition", installed, len(routes))
	}
	r.settle()
	const bundle = "gateway.networking.k8s.io/bundle-version: "
	older := strings.Replace(routes, bundle+testcrds.GatewayAPI.Version, bundle+"v1.3.0", 1)
	if older == routes {
		t.Fatalf("the definition does not say that it is of %s", testcrds.GatewayAPI.Version)
	}
	refused := func(what, method, path, body, want string) {
		t.Helper()
		if code, text := r.call(r.client, method, path, body, "Content-Type", asYAML); code != 422 || !strings.Contains(text, want) {
			t.Errorf("%s: got %d %.600s, want %q", what, code, text, want)
		}
	}
	refused("an older definition", "POST", definitions, older, "Installing CRDs with version before")
	r.must("POST", definitions, routes, "Content-Type", asYAML)
	r.must("POST", definitions, crdBody) // of somebody else
	const patch = "application/merge-patch+json"
	code, text := r.call(r.client, "PATCH", definitions+"/httproutes.gateway.networking.k8s.io",
		`{"metadata":{"annotations":{"gateway.networking.k8s.io/channel":"experimental"}}}`, "Content-Type", patch)
	if code != 422 || !strings.Contains(text, "Installing experimental CRDs on top of standard channel CRDs is prohibited") {
		t.Errorf("an experimental definition on top of a standard one: got %d %.600s", code, text)
	}
	r.must("PATCH", definitions+"/httproutes.gateway.networking.k8s.io", `{"metadata":{"annotations":{"a":"b"}}}`, "Content-Type", patch)
}
