package server

import (
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/store/mem"
)

// TestRuntimeConfig holds that --runtime-config asks for what is served, or stops the start.
func TestRuntimeConfig(t *testing.T) {
	for settings, want := range map[string]string{
		"": "", "api/all=true": "", "api/ga": "", "api/beta=true": "", "api/alpha=false": "", "v1=true": "",
		"rbac.authorization.k8s.io/v1beta1": "", "extensions/v1beta1/deployments=true": "", "extensions/v1beta1=false": "",
		"resource.k8s.io/v1=true": "", "apps/v1/deployments": "", "api/v1=true": "", "resource.k8s.io/v1beta2=false": "", "nothing.io/v1=false": "",
		"resource.k8s.io/v1beta2=true": "resource.k8s.io/v1beta2 is not served: of this group, resource.k8s.io/v1 is",
		"batch/v2alpha1":               "batch/v2alpha1 is not served: of this group, batch/v1 is",
		"apps/v1/things=true":          "apps/v1/things is not served: of this group, apps/v1 is",
		"nothing.io/v1=true":           `nothing.io/v1 is not served: no group "nothing.io" is`,
		"apps/v1=false":                "apps/v1: got false, want true: served versions cannot be switched off",
		"api/all=false":                "api/all: got false, want true: served versions cannot be switched off",
		"api/all=maybe":                `api/all: got "maybe", want true or false`,
		"v2":                           `got "v2", want api/all, api/ga, api/beta, api/alpha, v1, group/version or group/version/resource`,
		"v1=false":                     "api/v1: got false, want true: served versions cannot be switched off",
	} {
		_, err := readRuntimeConfig(strings.Fields(settings))
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", settings, got, want)
		}
	}
	if got, err := readRuntimeConfig([]string{"api/all=true", "api/ga=true", "api/beta=false"}); err != nil || len(got.partly) != 1 {
		t.Errorf("settings that are only partly followed: got %q and %v, want api/all", got.partly, err)
	}
	const beta = BetaDefinitions
	for settings, want := range map[string]bool{
		"": false, "api/all=true": false, beta: false, beta + "=false": true, beta + "/customresourcedefinitions=false": true,
		"api/beta=false": true, "api/beta=false " + beta + "=true": false, beta + "=false api/beta=true": true, beta + "=false " + beta + "=true": false,
	} {
		if got, err := readRuntimeConfig(strings.Fields(settings)); err != nil || got.noBeta != want {
			t.Errorf("%q: got definitions in v1beta1 off: %v, error %v, want %v", settings, got.noBeta, err, want)
		}
	}
	if _, err := New(t.Context(), Config{Store: mem.New(mem.Options{}), SecurePort: -1, RuntimeConfig: []string{"resource.k8s.io/v1beta2=true"}}); err == nil || !strings.HasPrefix(err.Error(), "--runtime-config: ") {
		t.Errorf("a server with an API that is not served: got %v", err)
	}
}

// TestNoBetaDefinitions holds that definitions in v1beta1 can be switched off, as kube-apiserver has none, and that
// one which was written in it stays.
// Ledger: definitions-v1beta1.
func TestNoBetaDefinitions(t *testing.T) {
	dir := t.TempDir()
	const (
		inBeta     = "/apis/" + BetaDefinitions + "/customresourcedefinitions"
		definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.demo.io"
	)
	s := start(t, Config{DataDir: dir})
	s.must("POST", inBeta+"?fieldManager=old", `{"metadata":{"name":"widgets.demo.io"},"spec":{"group":"demo.io","scope":"Namespaced",
		"names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},"version":"v1","preserveUnknownFields":false,
		"validation":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object"}}}}}}`, "Content-Type", "application/json")
	s.end()

	s = start(t, Config{DataDir: dir, RuntimeConfig: []string{BetaDefinitions + "=false"}})
	for _, path := range []string{inBeta, "/apis/" + BetaDefinitions, "/openapi/v3/apis/" + BetaDefinitions} {
		if code, answer := s.call(s.client, "GET", path, ""); code != 404 {
			t.Errorf("%s: got %d %s, want 404", path, code, answer)
		}
	}
	for _, path := range []string{"/apis", "/apis/apiextensions.k8s.io", "/openapi/v3"} {
		if answer := s.must("GET", path, ""); strings.Contains(answer, BetaDefinitions) {
			t.Errorf("%s names %s", path, BetaDefinitions)
		}
	}
	s.serves(widgetsPath)
	s.must("PATCH", definition, `{"metadata":{"labels":{"a":"b"}}}`, "Content-Type", "application/merge-patch+json")
	s.must("PATCH", definition+"?fieldManager=new&force=true", crdBody, "Content-Type", "application/apply-patch+yaml")
	if answer := s.must("GET", definition, ""); !strings.Contains(answer, `"a":"b"`) || !strings.Contains(answer, `"apiVersion":"apiextensions.k8s.io/v1",`) {
		t.Errorf("got %s", answer)
	}
}
