package server

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/keelson-io/keelson/internal/authz/config"
	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/internal/testkit"
)

// This file asks whole servers who may do what: over HTTP, with chains of
// webhooks, roles and files that change.

// tokens writes a token file: each user is his own token; groups follow him
// after a slash.
func tokens(t *testing.T, users ...string) string {
	t.Helper()
	var b strings.Builder
	for _, u := range users {
		name, groups, _ := strings.Cut(u, "/")
		fmt.Fprintf(&b, "%s,%s,,\"%s\"\n", name, name, groups)
	}
	return write(t, "tokens.csv", b.String())
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// as sends a request as a user.
func (r *running) as(user, method, path, body string) (int, string) {
	r.t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	return r.call(client, method, path, body, "Authorization", "Bearer "+user, "Content-Type", "application/json")
}

// eventually waits until a user's request is answered with a code.
func (r *running) eventually(user, method, path, body string, code int) {
	r.t.Helper()
	testkit.EventuallySay(r.t, func() (string, bool) {
		got, text := r.as(user, method, path, body)
		return fmt.Sprintf("%s: %s %s: got %d %s, want %d", user, method, path, got, text, code), got == code
	})
}

const rbacPath = "/apis/rbac.authorization.k8s.io/v1/"

// object is JSON of an RBAC object.
func object(kind, name, rest string) string {
	return fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":%q,"metadata":{"name":%q},%s}`, kind, name, rest)
}

func role(kind, name, verbs, groups, resources string) string {
	list := func(s string) string { return `["` + strings.Join(strings.Fields(s), `","`) + `"]` }
	return object(kind, name, fmt.Sprintf(`"rules":[{"verbs":%s,"apiGroups":%s,"resources":%s}]`, list(verbs), list(groups), list(resources)))
}

func binding(kind, name, roleKind, role, subjectKind, subject string) string {
	return object(kind, name, fmt.Sprintf(`"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":%q,"name":%q},"subjects":[{"kind":%q,"name":%q,"apiGroup":"rbac.authorization.k8s.io"}]`,
		roleKind, role, subjectKind, subject))
}

// Ledger: anonymous-requests, default-authorization.
func TestRolesDecide(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{}), TokenAuthFile: tokens(t, "ann/dev", "bob", "mon/system:monitoring")})
	r.define()
	const refused = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"widgets.demo.io is forbidden: User \"ann\" cannot list resource \"widgets\" in API group \"demo.io\" in the namespace \"default\"","reason":"Forbidden","details":{"group":"demo.io","kind":"widgets"},"code":403}` + "\n"
	if code, text := r.as("ann", "GET", widgetsPath, ""); code != 403 || text != refused {
		t.Errorf("before: got %d %s", code, text)
	}
	r.must("POST", rbacPath+"clusterroles", role("ClusterRole", "widgets", "get list", "demo.io", "widgets"))
	r.must("POST", rbacPath+"namespaces/default/rolebindings", binding("RoleBinding", "ann", "ClusterRole", "widgets", "Group", "dev"))
	r.eventually("ann", "GET", widgetsPath, "", 200)
	for _, row := range []struct {
		user, method, path string
		code               int
		text               string
	}{
		{"ann", "GET", "/apis/demo.io/v1/namespaces/kube-system/widgets", 403, ""},
		{"ann", "GET", "/apis/demo.io/v1/widgets", 403, `cannot list resource \"widgets\" in API group \"demo.io\" at the cluster scope`},
		{"ann", "GET", widgetsPath + "?watch=1&timeoutSeconds=1", 403, `cannot watch resource`},
		{"ann", "GET", widgetsPath + "/x", 404, ""},
		{"ann", "GET", widgetsPath + "/x/status", 403, `cannot get resource \"widgets/status\"`},
		{"ann", "DELETE", widgetsPath, 403, `cannot deletecollection resource`},
		{"bob", "GET", widgetsPath, 403, ""},
		{"bob", "GET", "/metrics", 403, `forbidden: User \"bob\" cannot get path \"/metrics\"`},
		{"mon", "GET", "/metrics", 200, ""},
		{"mon", "GET", "/readyz/etcd", 200, ""},
		{"mon", "GET", "/readyz/poststarthook/rbac/bootstrap-roles", 200, "ok"},
		{"mon", "GET", "/livez/poststarthook/rbac/bootstrap-roles", 200, "ok"},
		{"mon", "GET", "/readyz/poststarthook/rbac", 404, "404 page not found"},
		{"bob", "GET", "/apis", 200, ""},
		{"bob", "GET", "/openapi/v3", 200, ""},
		{"bob", "GET", "/nothing", 403, ""},
		{"bob", "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", 403, ""},
		// Paths that are written oddly are those that they name.
		{"bob", "GET", "/%6detrics", 403, `path \"/metrics\"`},
		{"bob", "GET", "/apis/..%2f..%2fmetrics", 403, ""},
		{"bob", "GET", "//metrics", 403, ""},
		{"bob", "GET", "/healthz/../metrics", 403, ""},
		{"bob", "GET", "/api/v1/namespaces/default%2Fsecrets", 403, ""},
		{"ann", "GET", "/apis/demo.io/v1/namespaces/default/widgets%2Fx%2Fstatus", 403, `widgets/status`},
		{"ann", "GET", "/apis/demo.io/v1/namespaces/default%2Fwidgets", 200, ""}, // the same four segments
		{"ann", "GET", "/apis/demo.io/v1/namespaces/kube-system/widgets?x=/namespaces/default", 403, ""},
		{"ann", "GET", "/apis/demo.io/v1/namespaces/default/../kube-system/widgets", 403, ""},
	} {
		if code, text := r.as(row.user, row.method, row.path, ""); code != row.code || !strings.Contains(text, row.text) {
			t.Errorf("%s: %s %s: got %d %s", row.user, row.method, row.path, code, text)
		}
	}
	r.must("DELETE", rbacPath+"namespaces/default/rolebindings/ann", "")
	r.eventually("ann", "GET", widgetsPath, "", 403)
}

// Nobody gets by roles what he has not got.
func TestNobodyEscalates(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{}), TokenAuthFile: tokens(t, "eve/dev", "esc", "binder", "one", "root/system:masters")})
	r.define()
	const all = "roles rolebindings clusterroles clusterrolebindings"
	const group = "rbac.authorization.k8s.io"
	for _, o := range []string{
		role("ClusterRole", "manage", "*", group, all), // but not the verbs escalate and bind of other resources
		role("ClusterRole", "some", "get list", "demo.io", "widgets"),
		role("ClusterRole", "other", "delete", "demo.io", "widgets"),
		role("ClusterRole", "write", "create update patch get list", group, all),
		role("ClusterRole", "escalate", "escalate", group, "roles clusterroles"),
		object("ClusterRole", "one", `"rules":[{"verbs":["escalate"],"apiGroups":["`+group+`"],"resources":["clusterroles"],"resourceNames":["named"]}]`),
		object("ClusterRole", "bind", `"rules":[{"verbs":["bind"],"apiGroups":["`+group+`"],"resources":["clusterroles"],"resourceNames":["other","gone"]}]`),
	} {
		r.must("POST", rbacPath+"clusterroles", o)
	}
	for i, b := range [][2]string{{"write", "eve"}, {"some", "eve"}, {"write", "esc"}, {"escalate", "esc"}, {"write", "binder"}, {"bind", "binder"}, {"write", "one"}, {"one", "one"}} {
		r.must("POST", rbacPath+"clusterrolebindings", binding("ClusterRoleBinding", fmt.Sprint("b", i), "ClusterRole", b[0], "User", b[1]))
	}
	r.eventually("eve", "GET", widgetsPath, "", 200)
	r.eventually("binder", "GET", rbacPath+"clusterroles", "", 200)
	r.eventually("esc", "GET", rbacPath+"clusterroles", "", 200)
	r.eventually("one", "GET", rbacPath+"clusterroles", "", 200)
	const roles, bindings = rbacPath + "clusterroles", rbacPath + "clusterrolebindings"
	const nsRoles, nsBindings = rbacPath + "namespaces/default/roles", rbacPath + "namespaces/default/rolebindings"
	aggregated := object("ClusterRole", "agg", `"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"x":"y"}}]}`)
	missing := `user \"eve\" (groups=[\"dev\" \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"demo.io\"], Resources:[\"widgets\"], Verbs:[\"delete\"]}`
	for i, row := range []struct {
		user, method, path, body string
		code                     int
		text                     string
	}{
		{"eve", "POST", roles, role("ClusterRole", "mine", "get", "demo.io", "widgets"), 201, ""},
		{"eve", "POST", roles, role("ClusterRole", "x", "get delete", "demo.io", "widgets"), 403, `clusterroles.rbac.authorization.k8s.io \"x\" is forbidden: ` + missing},
		{"eve", "POST", nsRoles, role("Role", "x", "delete", "demo.io", "widgets"), 403, `roles.rbac.authorization.k8s.io \"x\" is forbidden: ` + missing},
		{"eve", "POST", roles, role("ClusterRole", "x", "*", "*", "*"), 403, "not currently held"},
		{"eve", "PUT", roles + "/mine", role("ClusterRole", "mine", "delete", "demo.io", "widgets"), 403, missing},
		{"eve", "PUT", roles + "/new", role("ClusterRole", "new", "delete", "demo.io", "widgets"), 403, missing},
		{"eve", "PUT", roles + "/new", role("ClusterRole", "new", "get", "demo.io", "widgets"), 201, ""},
		{"eve", "PUT", roles + "/some", role("ClusterRole", "some", "get list delete", "demo.io", "widgets"), 403, missing}, // which would be his own
		{"eve", "POST", roles, aggregated, 403, "must have cluster-admin privileges to use the aggregationRule"},
		{"eve", "POST", bindings, binding("ClusterRoleBinding", "x", "ClusterRole", "cluster-admin", "User", "eve"), 403, `clusterrolebindings.rbac.authorization.k8s.io \"x\" is forbidden: user \"eve\"`},
		{"eve", "POST", bindings, binding("ClusterRoleBinding", "ok", "ClusterRole", "some", "User", "max"), 201, ""},
		{"eve", "POST", nsBindings, binding("RoleBinding", "x", "ClusterRole", "other", "User", "eve"), 403, `rolebindings.rbac.authorization.k8s.io \"x\" is forbidden: ` + missing},
		{"eve", "PUT", nsBindings + "/x", binding("RoleBinding", "x", "ClusterRole", "other", "User", "eve"), 403, missing},
		{"eve", "PUT", bindings + "/b3", binding("ClusterRoleBinding", "b3", "ClusterRole", "escalate", "User", "eve"), 403, "not currently held"}, // other subjects of a role that he has not got
		// A binding of a role that does not exist would be a trap.
		{"eve", "POST", bindings, binding("ClusterRoleBinding", "x", "ClusterRole", "gone", "User", "eve"), 404, `clusterroles.rbac.authorization.k8s.io \"gone\" not found`},
		{"eve", "POST", nsBindings, binding("RoleBinding", "x", "Role", "gone", "User", "eve"), 404, `roles.rbac.authorization.k8s.io \"gone\" not found`},
		{"binder", "POST", bindings, binding("ClusterRoleBinding", "dangling", "ClusterRole", "gone", "User", "eve"), 201, ""},
		{"binder", "POST", bindings, binding("ClusterRoleBinding", "y", "ClusterRole", "other", "User", "max"), 201, ""},
		{"binder", "POST", bindings, binding("ClusterRoleBinding", "z", "ClusterRole", "cluster-admin", "User", "binder"), 403, "not currently held"},
		{"esc", "POST", roles, role("ClusterRole", "big", "*", "*", "*"), 201, ""},
		{"esc", "POST", roles, aggregated, 201, ""},
		{"esc", "POST", bindings, binding("ClusterRoleBinding", "z", "ClusterRole", "big", "User", "esc"), 403, "not currently held"}, // escalate is not bind
		{"one", "POST", roles, role("ClusterRole", "named", "*", "*", "*"), 403, "not currently held"},                                // the URL does not say that it is that one
		{"one", "PUT", roles + "/two", role("ClusterRole", "two", "*", "*", "*"), 403, "not currently held"},
		{"one", "PUT", roles + "/named", role("ClusterRole", "named", "*", "*", "*"), 201, ""},
		{"root", "POST", bindings, binding("ClusterRoleBinding", "root", "ClusterRole", "gone", "User", "max"), 201, ""},
		{"eve", "POST", roles, `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"bad"},"rules":[{"verbs":[]}]}`, 422, "rules[0].verbs: Required value"},
		{"eve", "POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles?dryRun=All", role("Role", "x", "delete", "demo.io", "widgets"), 403, missing},
	} {
		code, text := r.as(row.user, row.method, row.path, row.body)
		if code != row.code || !strings.Contains(text, row.text) {
			t.Errorf("row %d: %s: %s %s: got %d %s", i, row.user, row.method, row.path, code, text)
		}
	}
	// What a merge patch makes of a role is looked at like what a client sends.
	code, text := r.callAs("eve", "PATCH", roles+"/mine", `{"rules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}]}`, "application/merge-patch+json")
	if code != 403 {
		t.Errorf("patch: got %d %s", code, text)
	}
	code, text = r.callAs("eve", "PATCH", roles+"/applied?fieldManager=x", role("ClusterRole", "applied", "*", "*", "*"), "application/apply-patch+yaml")
	if code != 403 {
		t.Errorf("apply: got %d %s", code, text)
	}
	// Labels and finalizers: the one is looked at, the other is the garbage collector's.
	code, text = r.callAs("eve", "PATCH", roles+"/other", `{"metadata":{"finalizers":["x.io/y"]}}`, "application/merge-patch+json")
	if code != 200 {
		t.Errorf("finalizers: got %d %s", code, text)
	}
	code, text = r.callAs("eve", "PATCH", roles+"/other", `{"metadata":{"labels":{"x":"y"}}}`, "application/merge-patch+json")
	if code != 403 {
		t.Errorf("labels: got %d %s", code, text)
	}
}

func (r *running) callAs(user, method, path, body, contentType string) (int, string) {
	r.t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	return r.call(client, method, path, body, "Authorization", "Bearer "+user, "Content-Type", contentType)
}

// Default roles come back when they are gone, are completed, and are left alone
// if their owner says so; aggregated roles follow what they gather.
// Ledger: aggregated-roles, component-roles.
func TestDefaultRoles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	r := start(t, Config{DataDir: dir})
	get := func(path string) map[string]any {
		t.Helper()
		var out map[string]any
		if err := json.Unmarshal([]byte(r.must("GET", rbacPath+path, "")), &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	count := func(path string) int {
		rules, _ := get(path)["rules"].([]any)
		return len(rules)
	}
	components := func() {
		t.Helper()
		testkit.EventuallySay(t, func() (string, bool) {
			var missing []string
			for _, path := range []string{"clusterroles/system:kube-scheduler", "clusterrolebindings/system:kube-scheduler", "clusterrolebindings/system:controller:job-controller",
				"namespaces/kube-system/roles/system:controller:token-cleaner", "namespaces/kube-public/rolebindings/system:controller:bootstrap-signer"} {
				if code, _ := r.call(r.client, "GET", rbacPath+path, ""); code != 200 {
					missing = append(missing, path)
				}
			}
			return fmt.Sprintf("missing: %v", missing), missing == nil
		})
	}
	components()
	discovery, edit := count("clusterroles/system:discovery"), count("clusterroles/edit")
	if discovery != 1 || edit == 0 || count("clusterroles/admin") != edit+2 {
		t.Errorf("rules: %d %d %d", discovery, edit, count("clusterroles/admin"))
	}
	r.must("DELETE", rbacPath+"clusterroles/system:basic-user", "")
	r.must("DELETE", rbacPath+"clusterrolebindings/system:kube-scheduler", "")
	r.must("PATCH", rbacPath+"clusterroles/system:discovery", `{"rules":[{"verbs":["get"],"nonResourceURLs":["/mine"]}]}`, "Content-Type", "application/merge-patch+json")
	r.must("PATCH", rbacPath+"clusterrolebindings/system:monitoring", `{"subjects":[]}`, "Content-Type", "application/merge-patch+json")
	r.must("PATCH", rbacPath+"clusterroles/system:monitoring", `{"metadata":{"annotations":{"rbac.authorization.kubernetes.io/autoupdate":"false"}},"rules":[]}`, "Content-Type", "application/merge-patch+json")
	r.must("DELETE", rbacPath+"clusterrolebindings/system:discovery", "")
	r.must("POST", rbacPath+"clusterrolebindings", binding("ClusterRoleBinding", "system:discovery", "ClusterRole", "view", "User", "x"))
	r.must("POST", rbacPath+"clusterroles", strings.Replace(role("ClusterRole", "more", "get", "demo.io", "widgets"), `"name":"more"`, `"name":"more","labels":{"rbac.authorization.k8s.io/aggregate-to-edit":"true"}`, 1))
	testkit.EventuallySay(t, func() (string, bool) {
		gotEdit, gotAdmin := count("clusterroles/edit"), count("clusterroles/admin")
		return fmt.Sprintf("edit has %d rules, admin %d", gotEdit, gotAdmin), gotEdit == edit+1 && gotAdmin == edit+3
	})
	r.end()
	r = start(t, Config{DataDir: dir})
	components()
	if n := count("clusterroles/system:basic-user"); n != 2 {
		t.Errorf("a role that was deleted: got %d rules", n)
	}
	if n := count("clusterroles/system:discovery"); n != 2 {
		t.Errorf("a role that was changed: got %d rules", n)
	}
	if n := count("clusterroles/system:monitoring"); n != 0 {
		t.Errorf("a role that is not to be touched: got %d rules", n)
	}
	if subjects, _ := get("clusterrolebindings/system:monitoring")["subjects"].([]any); len(subjects) != 1 {
		t.Errorf("subjects: got %v", subjects)
	}
	if ref := get("clusterrolebindings/system:discovery")["roleRef"].(map[string]any); ref["name"] != "system:discovery" {
		t.Errorf("a binding of another role: got %v", ref)
	}
	if n := count("clusterroles/edit"); n != edit+1 {
		t.Errorf("an aggregated role: got %d rules", n)
	}
}

// TestPublicBindingFollowsDiscovery holds that the binding of system:public-info-viewer begins like that of
// system:discovery, so that a server that anonymous users could not ask for its version stays so.
func TestPublicBindingFollowsDiscovery(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	r := start(t, Config{DataDir: dir})
	r.must("DELETE", rbacPath+"clusterrolebindings/system:public-info-viewer", "")
	r.must("PATCH", rbacPath+"clusterrolebindings/system:discovery", `{"metadata":{"labels":{"ours":"yes"},"annotations":{"rbac.authorization.kubernetes.io/autoupdate":"false"}},
		"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"x"}]}`, "Content-Type", "application/merge-patch+json")
	r.end()
	r = start(t, Config{DataDir: dir})
	var got rbacv1.ClusterRoleBinding
	if err := json.Unmarshal([]byte(r.must("GET", rbacPath+"clusterrolebindings/system:public-info-viewer", "")), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Subjects) != 1 || got.Subjects[0].Name != "x" || got.Labels["ours"] != "yes" || got.RoleRef.Name != got.Name {
		t.Errorf("got %+v, want the subjects and labels of system:discovery", got)
	}
}

// hook is a webhook whose answers are set.
type hook struct {
	*httptest.Server
	mu     sync.Mutex
	status string // of reviews; "" for not found
}

func newHook(t *testing.T, status string) *hook {
	h := &hook{status: status}
	h.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.status == "" {
			w.WriteHeader(404)
			return
		}
		fmt.Fprintf(w, `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":%s}`, h.status)
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hook) set(status string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status = status
}

// kubeconfig returns the text of one for the hook.
func (h *hook) kubeconfig() string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],
"clusters":[{"name":"c","cluster":{"server":%q,"insecure-skip-tls-verify":true}}],"users":[{"name":"u"}]}`, h.URL)
}

// entry returns an authorizer in a configuration; conditions are expressions.
func entry(name, kubeconfig, policy string, conditions ...string) string {
	s := fmt.Sprintf(`- type: Webhook
  name: %s
  webhook: {timeout: 2s, subjectAccessReviewVersion: v1, matchConditionSubjectAccessReviewVersion: v1, failurePolicy: %s, cacheAuthorizedRequests: false, cacheUnauthorizedRequests: false,
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: %s}`, name, policy, kubeconfig)
	if len(conditions) > 0 {
		s += ", matchConditions: [{expression: \"" + strings.Join(conditions, "\"}, {expression: \"") + "\"}]"
	}
	return s + "}\n"
}

const configHead = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n"

const rbacEntry = "- {type: RBAC, name: rbac}\n"

func TestChainOverHTTP(t *testing.T) {
	first, second := newHook(t, `{"allowed":true,"reason":"r1"}`), newHook(t, `{"allowed":true,"reason":"r2"}`)
	file := write(t, "authz.yaml", configHead+
		entry("first", write(t, "k1", first.kubeconfig()), "Deny", "has(request.resourceAttributes)", "request.resourceAttributes.verb != 'delete' || request.resourceAttributes.subresource == 'x'")+
		entry("broken-condition", write(t, "k3", first.kubeconfig()), "NoOpinion", "request.user != 'cond'", "request.resourceAttributes.verb == 'x'")+
		rbacEntry+entry("second", write(t, "k2", second.kubeconfig()), "NoOpinion")+"- {type: AlwaysDeny, name: alwaysdeny}\n")
	r := start(t, Config{Store: mem.New(mem.Options{}), TokenAuthFile: tokens(t, "ann", "cond"), Authorization: config.Flags{File: file}})
	const allowed, denied, silent = `{"allowed":true,"reason":"yes"}`, `{"denied":true,"reason":"never <b>"}`, `{"reason":"hm"}`
	const path = "/api/v1/namespaces/default/configmaps"
	for i, row := range []struct {
		first, second string
		method, path  string
		code          int
		text          string
	}{
		{allowed, denied, "GET", path, 200, ""},
		{denied, allowed, "GET", path, 403, `configmaps is forbidden: User \"ann\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"default\": never \u003cb\u003e`},
		{silent, allowed, "GET", path, 200, ""},
		{silent, denied, "GET", path, 403, `: never \u003cb\u003e`},
		{silent, silent, "GET", path, 403, `in the namespace \"default\": first: hm\nsecond: hm\nalwaysdeny: Everything is forbidden."`},
		{`{"allowed":true,"denied":true}`, allowed, "GET", path, 500, `Internal Server Error: "` + path + `": webhook subject access review returned both allow and deny response` + "\n"},
		{"", allowed, "GET", path, 500, `Internal Server Error: "` + path + `": the server could not find the requested resource` + "\n"}, // Deny on failure
		{silent, "", "GET", path, 500, `Internal Server Error: "` + path + `": the server could not find the requested resource` + "\n"},  // nobody else allows
		{denied, silent, "GET", "/nothing/<x>", 500, `Internal Server Error: "/nothing/%3Cx%3E": cel evaluation error: expression 'request.resourceAttributes.verb == 'x'' resulted in error: no such key: resourceAttributes` + "\n"},
		{denied, allowed, "GET", "/healthz", 200, ""},                       // not the first one's business; the condition that fails has no opinion; RBAC allows
		{denied, allowed, "DELETE", path + "/x", 404, ""},                   // left out by the second condition
		{denied, silent, "DELETE", "/api/v1/namespaces/default", 403, "hm"}, // likewise
	} {
		first.set(row.first)
		second.set(row.second)
		code, text := r.as("ann", row.method, row.path, "")
		if code != row.code || !strings.Contains(text, row.text) {
			t.Errorf("row %d: got %d %s", i, code, text)
		}
	}
	first.set(silent)
	second.set(allowed)
	if code, text := r.as("cond", "GET", "/nothing", ""); code != 404 {
		t.Errorf("no condition fails: got %d %s", code, text)
	}
	text := r.must("GET", "/metrics", "")
	for _, line := range []string{
		`apiserver_authorization_decisions_total{decision="allowed",name="first",type="Webhook"} 1`,
		`apiserver_authorization_decisions_total{decision="denied",name="first",type="Webhook"} 3`,
		`apiserver_authorization_decisions_total{decision="allowed",name="rbac",type="RBAC"} 1`,
		`apiserver_authorization_decisions_total{decision="denied",name="second",type="Webhook"} 1`,
		`apiserver_authorization_match_condition_exclusions_total{name="first",type="Webhook"} 5`,
		`apiserver_authorization_match_condition_exclusions_total{name="broken-condition",type="Webhook"} `,
		`apiserver_authorization_match_condition_evaluation_errors_total{name="broken-condition",type="Webhook"} 2`,
		`apiserver_authorization_match_condition_evaluation_seconds_bucket{name="first",type="Webhook",le="0.001"}`,
		`apiserver_authorization_webhook_evaluations_total{name="first",result="error"} 1`,
		`apiserver_authorization_webhook_evaluations_total{name="first",result="success"} `,
		`apiserver_authorization_webhook_duration_seconds_count{name="second",result="success"} `,
		`apiserver_authorization_webhook_evaluations_fail_open_total{name="second",result="error"} 1`,
		`authorization_attempts_total{result="denied"} `,
		`authorization_attempts_total{result="error"} 4`,
		`authorization_attempts_total{result="no-opinion"} `,
		`authorization_duration_seconds_bucket{result="allowed",le="0.001"} `,
	} {
		if !strings.Contains(text, "\n"+line) {
			t.Errorf("metrics have no %s", line)
		}
	}
	for _, line := range []string{`name="alwaysdeny"`, `fail_open_total{name="first"`} {
		if strings.Contains(text, line) {
			t.Errorf("metrics have %s", line)
		}
	}
}

// Before the default roles are there, a server that decides by them is not well.
func TestDefaultRolesAreWaitedFor(t *testing.T) {
	z := &authorization{rbacEnabled: true}
	check := z.checks()[0]
	if err := check.Do(t.Context()); err == nil || err.Error() != "not finished" || check.Name != "poststarthook/rbac/bootstrap-roles" {
		t.Errorf("before: got %v of %s", err, check.Name)
	}
	z.defaultRolesExist.Store(true)
	if err := check.Do(t.Context()); err != nil {
		t.Errorf("after: got %v", err)
	}
	if checks := (&authorization{}).checks(); len(checks) > 0 {
		t.Errorf("without roles: got %v", checks)
	}
}
