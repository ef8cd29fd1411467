package e2e

import (
	"strings"
	"testing"
)

// TestCompat holds the lines of docs/compat.md that a client can see.
func TestCompat(t *testing.T) {
	s := startServer(t)
	const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	t.Run("conversion webhooks are refused", func(t *testing.T) {
		crd := strings.Replace(gadgetCRD, "  scope: Namespaced\n", "  scope: Namespaced\n  conversion:\n    strategy: Webhook\n"+
			"    webhook: {conversionReviewVersions: [v1], clientConfig: {url: 'https://127.0.0.1:1/convert'}}\n", 1)
		b := s.do(t, 422, "POST", definitions, toJSON(t, crd))
		if want := "this server does not call conversion webhooks"; !strings.Contains(string(b), want) {
			t.Errorf("got %s, want in it %q", b, want)
		}
	})
	t.Run("kinds that are not served are not found", func(t *testing.T) {
		for _, path := range []string{
			"/api/v1/namespaces/default/secrets", "/api/v1/namespaces/default/configmaps",
			"/apis/rbac.authorization.k8s.io/v1/clusterroles", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
			"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
			"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", "/apis/apiregistration.k8s.io/v1/apiservices",
		} {
			s.do(t, 404, "GET", path, nil)
			s.do(t, 404, "POST", path, []byte(`{}`))
		}
	})
	t.Run("the version says whose it is", func(t *testing.T) {
		if b := s.do(t, 200, "GET", "/version", nil); !strings.Contains(string(b), "+keelson.") {
			t.Errorf("got %s, want +keelson. in gitVersion", b)
		}
	})
}
