package server

import (
	"strings"
	"testing"
)

// TestRuntimeConfig holds that --runtime-config asks for what is served, or stops the start.
func TestRuntimeConfig(t *testing.T) {
	for settings, want := range map[string]string{
		"": "", "api/all=true": "", "api/ga": "", "api/beta=true": "", "api/alpha=false": "",
		"resource.k8s.io/v1=true": "", "apps/v1/deployments": "", "api/v1=true": "", "resource.k8s.io/v1beta2=false": "", "nothing.io/v1=false": "",
		"resource.k8s.io/v1beta2=true": "resource.k8s.io/v1beta2 is not served: of this group, resource.k8s.io/v1 is",
		"batch/v2alpha1":               "batch/v2alpha1 is not served: of this group, batch/v1 is",
		"apps/v1/things=true":          "apps/v1/things is not served: of this group, apps/v1 is",
		"nothing.io/v1=true":           `nothing.io/v1 is not served: no group "nothing.io" is`,
		"apps/v1=false":                "apps/v1: got false, want true: served versions cannot be switched off",
		"api/all=false":                "api/all: got false, want true: served versions cannot be switched off",
		"api/all=maybe":                `api/all: got "maybe", want true or false`,
		"v1":                           `got "v1", want api/all, api/ga, api/beta, api/alpha, group/version or group/version/resource`,
	} {
		_, err := checkRuntimeConfig(strings.Fields(settings))
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", settings, got, want)
		}
	}
	if partly, err := checkRuntimeConfig([]string{"api/all=true", "api/ga=true", "api/beta=false"}); err != nil || len(partly) != 1 {
		t.Errorf("settings that are only partly followed: got %q and %v, want api/all", partly, err)
	}
	if _, err := New(t.Context(), Config{DataDir: t.TempDir(), SecurePort: -1, RuntimeConfig: []string{"resource.k8s.io/v1beta2=true"}}); err == nil || !strings.HasPrefix(err.Error(), "--runtime-config: ") {
		t.Errorf("a server with an API that is not served: got %v", err)
	}
}
