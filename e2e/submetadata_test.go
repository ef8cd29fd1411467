package e2e

import (
	"strings"
	"testing"
)

// TestSubresourceMetadata holds what a subresource does with metadata that a request has: it refuses another UID, and writes metadata only
// where Kubernetes does, in the name of the manager.
func TestSubresourceMetadata(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	const deployments, pods, spaces = "/apis/apps/v1/namespaces/default/deployments", "/api/v1/namespaces/default/pods", "/api/v1/namespaces"
	s.do(t, 201, "POST", deployments, []byte(`{"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`))
	s.do(t, 201, "POST", pods, []byte(`{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`))
	s.do(t, 201, "POST", spaces, []byte(`{"metadata":{"name":"n"}}`))
	const other, owner = `{"metadata":{"uid":"00000000-0000-0000-0000-000000000009"}}`, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"o","uid":"u"}]}}`
	const owners = `"ownerReferences":[`
	for _, row := range []struct {
		path, body string
		code       int
		has, lacks string
	}{
		{deployments + "/d/scale", other, 409, `deployments/scale.apps \"d\": Precondition failed: UID in precondition: 00000000-0000-0000-0000-000000000009`, ""},
		{pods + "/p/resize", other, 422, `metadata.uid: Invalid value`, ""},
		{pods + "/p/ephemeralcontainers", other, 422, `metadata.uid: Invalid value`, ""},
		{pods + "/p/resize", owner, 200, "", owners},
		{pods + "/p/status", owner, 200, "", owners},
		{deployments + "/d/status", owner, 200, owners, ""},
		{spaces + "/n/status", owner, 200, owners, ""},
		{"/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/exempt/status", other, 200, "", "000000000009"},
		{"/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/exempt/status", owner, 200, "", owners},
	} {
		got := string(s.do(t, row.code, "PATCH", row.path, []byte(row.body), "Content-Type", "application/merge-patch+json"))
		if row.has == owners && !strings.Contains(got, `"f:ownerReferences"`) {
			t.Errorf("PATCH %s: no manager owns the references: %s", row.path, got)
		}
		if !strings.Contains(got, row.has) || row.lacks != "" && strings.Contains(got, row.lacks) {
			t.Errorf("PATCH %s %s: got %s, want it with %q and without %q", row.path, row.body, got, row.has, row.lacks)
		}
	}
}
