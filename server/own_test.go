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

	"github.com/keelson-io/keelson/internal/audit"
	"github.com/keelson-io/keelson/internal/authz/config"
	"github.com/keelson-io/keelson/internal/store/mem"
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

// Ledger: controller-audit.
//
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
	r.define()
	r.must("POST", widgetsPath, `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"w"}}`)
	r.must("DELETE", definitionsPath+"/widgets.demo.io", "")
	r.until("the definition is gone", func() bool { return !has(definitionsPath + "/widgets.demo.io") })
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
		"system:apiserver create /apis/rbac.authorization.k8s.io/v1/clusterroles Created",
		"system:apiserver update " + definitionsPath + "/widgets.demo.io/status OK",
		"system:apiserver delete " + widgetsPath + "/w OK",
		"system:apiserver delete " + definitionsPath + "/widgets.demo.io OK",
		"namespace-controller deletecollection " + maps + " OK",
		"namespace-controller update /api/v1/namespaces/a/finalize OK",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("no event %q in\n%s", want, strings.Join(lines, "\n"))
		}
	}
}

// Ledger: controller-permissions.
//
// TestGuardsExemptControllers holds that a guard which lets the controllers of a cluster pass holds up neither
// a namespace nor a definition, and that it sees no member of system:masters. The authorizers do not matter.
func TestGuardsExemptControllers(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{}), Authorization: config.Flags{Modes: []string{config.AlwaysDeny}}})
	r.define()
	const maps = "/api/v1/namespaces/a/configmaps"
	r.must("POST", "/api/v1/namespaces", `{"metadata":{"name":"a"}}`)
	r.must("POST", maps, `{"metadata":{"name":"kept"}}`)
	r.must("POST", widgetsPath, `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"w"}}`)
	r.must("POST", admissionPath+"validatingadmissionpolicies", `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"keep"},"spec":{
		"matchConstraints":{"resourceRules":[{"operations":["DELETE"],"apiGroups":["","demo.io"],"apiVersions":["*"],"resources":["configmaps","widgets"]}]},
		"validations":[{"expression":"request.userInfo.username == 'system:serviceaccount:kube-system:namespace-controller' && !('system:masters' in request.userInfo.groups) && authorizer.group('').resource('configmaps').namespace('a').check('delete').allowed()"}]}}`)
	r.must("POST", admissionPath+"validatingadmissionpolicybindings", bindingBody("keep", "keep", `"validationActions":["Deny"]`))
	r.settle()
	if code, answer := r.call(r.client, "DELETE", maps+"/kept", ""); code != 422 {
		t.Errorf("the guard lets an administrator pass: %d %s", code, answer)
	}
	r.must("DELETE", "/api/v1/namespaces/a", "")
	r.must("DELETE", definitionsPath+"/widgets.demo.io", "")
	for _, path := range []string{"/api/v1/namespaces/a", definitionsPath + "/widgets.demo.io"} {
		r.until(path+" is gone", func() bool {
			code, _ := r.call(r.client, "GET", path, "")
			return code == http.StatusNotFound
		})
	}
	const roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
	r.must("POST", roles, `{"metadata":{"name":"all"},"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"part":"true"}}]}}`)
	r.must("POST", roles, `{"metadata":{"name":"part","labels":{"part":"true"}},"rules":[{"verbs":["get"],"apiGroups":["a.io"],"resources":["b"]}]}`)
	r.until("the role is aggregated", func() bool { return strings.Contains(r.must("GET", roles+"/all", ""), "a.io") })
}
