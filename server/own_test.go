package server

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/audit"
	"github.com/keelson-io/keelson/store/mem"
)

// This file holds that controllers act and are recorded as in a cluster.

const account = "system:serviceaccount:kube-system:"

// everyWrite records all writes.
const everyWrite = `{"apiVersion":"audit.k8s.io/v1","kind":"Policy","omitStages":["RequestReceived"],"omitManagedFields":true,
	"rules":[{"level":"RequestResponse","verbs":["create","update","patch","delete","deletecollection"]}]}`

// startRecorded starts a server that records all writes, and returns the path of its log.
func startRecorded(t *testing.T, c Config) (*running, string) {
	t.Helper()
	dir := t.TempDir()
	c.Store, c.AuditPolicyFile = mem.New(mem.Options{}), filepath.Join(dir, "policy.yaml")
	c.AuditLog = audit.LogConfig{Path: filepath.Join(dir, "audit.log")}
	if err := os.WriteFile(c.AuditPolicyFile, []byte(everyWrite), 0o600); err != nil {
		t.Fatal(err)
	}
	return start(t, c), c.AuditLog.Path
}

// event returns a line for an event: user, verb, URI and code.
func event(e *audit.Event) string {
	return strings.TrimPrefix(e.User.Username, account) + " " + e.Verb + " " + e.RequestURI + " " + http.StatusText(int(e.ResponseStatus.Code))
}

// TestControllersAreRecorded lets controllers of each sort work and reads what the audit log has of it.
func TestControllersAreRecorded(t *testing.T) {
	r, log := startRecorded(t, Config{})
	has := func(path string) bool {
		code, _ := r.call(r.client, "GET", path, "")
		return code == http.StatusOK
	}
	r.must("POST", "/api/v1/namespaces", `{"metadata":{"name":"a"}}`)
	const maps = "/api/v1/namespaces/a/configmaps"
	r.until("there are the objects of every namespace", func() bool {
		return has(maps+"/kube-root-ca.crt") && has("/api/v1/namespaces/a/serviceaccounts/default")
	})
	r.must("POST", maps, `{"metadata":{"name":"owner"}}`)
	var owner metav1.PartialObjectMetadata
	if err := json.Unmarshal([]byte(r.must("GET", maps+"/owner", "")), &owner); err != nil {
		t.Fatal(err)
	}
	r.must("POST", maps, `{"metadata":{"name":"dependent","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"`+string(owner.UID)+`"}]}}`)
	r.must("DELETE", maps+"/owner", "")
	r.until("the dependent is gone", func() bool { return !has(maps + "/dependent") })
	r.must("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", `{"metadata":{"name":"more","labels":{"rbac.authorization.k8s.io/aggregate-to-view":"true"}},
		"rules":[{"verbs":["get"],"apiGroups":["a.io"],"resources":["b"]}]}`)
	r.until("the role is aggregated", func() bool {
		return strings.Contains(r.must("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/view", ""), "a.io")
	})
	r.must("POST", "/api/v1/namespaces/a/resourcequotas", `{"metadata":{"name":"q"},"spec":{"hard":{"configmaps":"5"}}}`)
	r.until("the quota is counted", func() bool {
		return strings.Contains(r.must("GET", "/api/v1/namespaces/a/resourcequotas/q", ""), `"used"`)
	})
	r.must("DELETE", "/api/v1/namespaces/a", "")
	r.until("the namespace is gone", func() bool { return !has("/api/v1/namespaces/a") })
	r.end()
	var lines []string
	for _, e := range auditLog(t, log) {
		lines = append(lines, event(&e))
		if !strings.HasPrefix(e.User.Username, account) {
			continue
		}
		if want := []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"}; !slices.Equal(e.User.Groups, want) {
			t.Errorf("%s: groups: got %v, want %v", event(&e), e.User.Groups, want)
		}
		if a := e.Annotations; a["authorization.k8s.io/decision"] != "allow" || !strings.HasPrefix(a["authorization.k8s.io/reason"], `RBAC: allowed by ClusterRoleBinding "system:controller:`) {
			t.Errorf("%s: annotations: %v", event(&e), a)
		}
		if len(e.RequestObject) == 0 || e.AuditID == "" || !strings.HasPrefix(e.UserAgent, "keelson/") || e.ObjectRef.Name == "" && e.Verb != "deletecollection" {
			t.Errorf("event lacks what it has to have: %+v", e)
		}
	}
	for _, want := range []string{
		"service-account-controller create /api/v1/namespaces/a/serviceaccounts Created",
		"root-ca-cert-publisher create " + maps + " Created",
		"generic-garbage-collector delete " + maps + "/dependent OK",
		"clusterrole-aggregation-controller patch /apis/rbac.authorization.k8s.io/v1/clusterroles/view OK",
		"resourcequota-controller update /api/v1/namespaces/a/resourcequotas/q/status OK",
		"namespace-controller deletecollection " + maps + " OK",
		"namespace-controller update /api/v1/namespaces/a/finalize OK",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("no event %q in\n%s", want, strings.Join(lines, "\n"))
		}
	}
}
