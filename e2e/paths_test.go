package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// This file is a user who may read one secret and is after another one: by paths that are written oddly, and by roles that he
// would like to have.

const sealed = "c2VhbGVk" // what nobody but the administrator may see

func TestOddPaths(t *testing.T) {
	s := startServer(t, "--token-auth-file", putFile(t, "tokens.csv", "eve,eve,,\n"))
	for _, ns := range []string{"default", "kube-system"} {
		s.do(t, 201, "POST", "/api/v1/namespaces/"+ns+"/secrets", fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"in-%s":%q}}`, ns, sealed))
	}
	s.do(t, 201, "POST", rbacPath+"namespaces/default/roles", []byte(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"one"},"rules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"],"resourceNames":["s"]},{"verbs":["*"],"apiGroups":[""],"resources":["configmaps"]}]}`))
	s.do(t, 201, "POST", rbacPath+"namespaces/default/rolebindings", []byte(strings.Replace(strings.Replace(clusterBinding("one", "one", "eve"), "ClusterRoleBinding", "RoleBinding", 1), `"kind":"ClusterRole"`, `"kind":"Role"`, 1)))
	ask := func(method, path string, header ...string) (int, string) {
		t.Helper()
		text := method + " " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer eve\r\nConnection: close\r\n"
		for _, h := range header {
			text += h + "\r\n"
		}
		return rawRequest(t, s, text+"\r\n")
	}
	eventually(t, "the role", func() bool { code, _ := ask("GET", "/api/v1/namespaces/default/secrets/s"); return code == 200 })
	const want = "/api/v1/namespaces/kube-system/secrets/s"
	for _, path := range []string{
		want, want + "/", want + "//", want + "?namespace=default", want + "#x", want + ";x=/default/", "/" + want, "/.//" + want[1:], want + "%00", want + "%20",
		"/api/v1/namespaces/default/../kube-system/secrets/s", "/api/v1/namespaces/default/%2e%2e/kube-system/secrets/s", "/api/v1/namespaces/default/..%2fkube-system/secrets/s",
		"/api/v1/namespaces/default/%252e%252e/kube-system/secrets/s", "/api/v1/namespaces/default%2f..%2fkube-system/secrets/s", "/api/v1/namespaces/default\\..\\kube-system/secrets/s",
		"/api/v1/namespaces/default;/../kube-system/secrets/s", "/api/v1/namespaces/default/secrets/../../kube-system/secrets/s", "/api/v1/namespaces/default/secrets/s/../../../kube-system/secrets/s",
		"/api/v1/namespaces/default/secrets/..%2f..%2fkube-system%2fsecrets%2fs", "/api/v1/namespaces/default/secrets/s%2f..%2f..%2f..%2fkube-system%2fsecrets%2fs",
		"/api/v1//namespaces//kube-system//secrets//s", "/API/v1/namespaces/kube-system/secrets/s", "/api/V1/namespaces/kube-system/secrets/s", "/api/v1/Namespaces/kube-system/secrets/s",
		"/api/v1/namespaces/kube-system/Secrets/s", "/apis//v1/namespaces/kube-system/secrets/s", "/apis/core/v1/namespaces/kube-system/secrets/s", "/apis/%2f/v1/namespaces/kube-system/secrets/s",
		"/api/v1/watch/namespaces/kube-system/secrets/s", "/api/v1/watch/namespaces/kube-system/secrets?timeoutSeconds=1", "/api/v1/proxy/namespaces/kube-system/secrets/s",
		"/api/v1/secrets?fieldSelector=metadata.namespace%3Dkube-system", "/api/v1/secrets?fieldSelector=metadata.name%3Ds", "/api/v1/namespaces/kube-system/secrets?fieldSelector=metadata.name%3Ds",
		"/api/v1/namespaces/default/secrets/s/../../kube-system/secrets/s", "/api/v1/namespaces/default/configmaps/..%2f..%2fkube-system%2fsecrets%2fs",
		"/api/v1/namespaces//secrets/s", "/api/v1/namespaces/%6bube-system/secrets/s", "/%61pi/v1/namespaces/kube-system/secrets/s", "/api%2fv1%2fnamespaces%2fkube-system%2fsecrets%2fs",
		"/apis/../api/v1/namespaces/kube-system/secrets/s", "/openapi/../api/v1/namespaces/kube-system/secrets/s", "/healthz/../api/v1/namespaces/kube-system/secrets/s", "/version%2f..%2fapi/v1/namespaces/kube-system/secrets/s",
		"https://127.0.0.1" + want, "http://default" + want, "/api/v1/namespaces/kube-system/secrets/s?_method=GET&watch=0",
	} {
		for _, method := range []string{"GET", "HEAD", "PUT", "PATCH", "DELETE", "POST", "OPTIONS", "get", "GETX", "TRACE", "CONNECT"} {
			code, text := ask(method, path)
			if code < 300 || strings.Contains(text, sealed) {
				t.Errorf("%s %s: got %d %s", method, path, code, text)
			}
		}
	}
	for _, header := range []string{"X-HTTP-Method-Override: GET", "X-Original-URL: /api/v1/namespaces/default/secrets/s", "X-Rewrite-URL: /api/v1/namespaces/default/secrets/s",
		"X-Forwarded-Prefix: /api/v1/namespaces/default", "Upgrade: h2c", "Upgrade: websocket", "Impersonate-User: eve", "X-Remote-Group: system:masters"} {
		if code, text := ask("GET", want, header); code < 300 || strings.Contains(text, sealed) {
			t.Errorf("%s: got %d %s", header, code, text)
		}
	}
	// He gets what is his, however that is spelled.
	for _, path := range []string{"/api/v1/namespaces/default/secrets/s", "/api/v1/namespaces/%64efault/secrets/s", "//api/v1/namespaces/default//secrets/s",
		"/api/v1/namespaces/default/secrets?fieldSelector=metadata.name%3Ds"} {
		if code, text := ask("GET", path); code != 200 || !strings.Contains(text, "in-default") || strings.Contains(text, "in-kube-system") {
			t.Errorf("%s: got %d %s", path, code, text)
		}
	}
	s.do(t, 200, "GET", want, nil)
}

// TestEscalation is a user who may write roles and bindings, and create tokens, and wants more than he has.
func TestEscalation(t *testing.T) {
	s := startServer(t, "--token-auth-file", putFile(t, "tokens.csv", "eve,eve,,\nbinder,binder,,\nmaker,maker,,\n"))
	const rbac = `"apiGroups":["rbac.authorization.k8s.io"]`
	s.grant(t, "write", "eve", `[{"verbs":["create","update","patch","delete","get","list"],`+rbac+`,"resources":["*"]},{"verbs":["get"],"apiGroups":[""],"resources":["configmaps"]}]`)
	s.grant(t, "binder", "binder", `[{"verbs":["create"],`+rbac+`,"resources":["rolebindings","clusterrolebindings"]},{"verbs":["bind"],`+rbac+`,"resources":["clusterroles"],"resourceNames":["gone"]}]`)
	s.grant(t, "maker", "maker", `[{"verbs":["create"],"apiGroups":[""],"resources":["serviceaccounts","secrets"]}]`)
	s.do(t, 201, "POST", inDefault+"serviceaccounts", []byte(`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"robot"}}`))
	v := newVisitor(t, s, nil)
	eventually(t, "the roles", func() bool {
		code, _ := v.send(t, "GET", rbacPath+"clusterroles", "", bearer("eve")...)
		more, _ := v.send(t, "POST", inDefault+"serviceaccounts?dryRun=All", `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"x"}}`, bearer("maker")...)
		return code == 200 && more == 201
	})
	const head = `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":`
	role := func(kind, name, rules string) string {
		return head + fmt.Sprintf(`%q,"metadata":{"name":%q},"rules":%s}`, kind, name, rules)
	}
	const everything, secrets, held = `[{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}]`, `[{"verbs":["get"],"apiGroups":[""],"resources":["secrets"]}]`, `[{"verbs":["get"],"apiGroups":[""],"resources":["configmaps"]}]`
	const patch, apply, json = "application/merge-patch+json", "application/apply-patch+yaml", "application/json-patch+json"
	for i, row := range []struct {
		as, method, path, body, media string
		want                          int
	}{
		{"eve", "POST", "clusterroles", role("ClusterRole", "held", held), "", 201},
		{"eve", "POST", "clusterroles", role("ClusterRole", "x", everything), "", 403},
		{"eve", "POST", "clusterroles?dryRun=All", role("ClusterRole", "x", everything), "", 403},
		{"eve", "PUT", "clusterroles/x", role("ClusterRole", "x", secrets), "", 403},
		{"eve", "PUT", "clusterroles/held", role("ClusterRole", "held", secrets), "", 403},
		{"eve", "PATCH", "clusterroles/held", `{"rules":` + secrets + `}`, patch, 403},
		{"eve", "PATCH", "clusterroles/held", `[{"op":"replace","path":"/rules/0/resources/0","value":"*"}]`, json, 403},
		{"eve", "PATCH", "clusterroles/write", `[{"op":"add","path":"/rules/-","value":` + strings.Trim(everything, "[]") + `}]`, json, 403},
		{"eve", "PATCH", "clusterroles/new?fieldManager=e", role("ClusterRole", "new", secrets), apply, 403},
		{"eve", "PATCH", "clusterroles/held", `{"aggregationRule":{"clusterRoleSelectors":[{}]}}`, patch, 403},
		{"eve", "PATCH", "clusterroles/held", `{"metadata":{"labels":{"rbac.authorization.k8s.io/aggregate-to-admin":"true"}}}`, patch, 200}, // adds to admin what he has
		{"eve", "POST", "namespaces/default/roles", role("Role", "x", secrets), "", 403},
		{"eve", "POST", "clusterrolebindings", clusterBinding("x", "cluster-admin", "eve"), "", 403},
		{"eve", "POST", "clusterrolebindings", clusterBinding("held", "held", "max"), "", 201},
		{"eve", "PUT", "clusterrolebindings/held", clusterBinding("held", "cluster-admin", "eve"), "", 403},
		{"eve", "PATCH", "clusterrolebindings/cluster-admin", `{"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"eve"}]}`, patch, 403},
		{"eve", "POST", "namespaces/default/rolebindings", strings.Replace(clusterBinding("x", "admin", "eve"), "ClusterRoleBinding", "RoleBinding", 1), "", 403},
		{"eve", "POST", "clusterrolebindings", clusterBinding("dangling", "gone", "eve"), "", 404},
		{"binder", "POST", "clusterrolebindings", clusterBinding("y", "cluster-admin", "binder"), "", 403},
		{"binder", "POST", "clusterrolebindings", clusterBinding("dangling", "gone", "binder"), "", 201},
		{"binder", "POST", "clusterroles", role("ClusterRole", "gone", everything), "", 403}, // which would make the binding work
		{"eve", "POST", "clusterroles", role("ClusterRole", "gone", everything), "", 403},
	} {
		header := append(bearer(row.as), "Content-Type", "application/json")
		if row.media != "" {
			header[3] = row.media
		}
		if code, text := v.send(t, row.method, rbacPath+row.path, row.body, header...); code != row.want {
			t.Errorf("row %d: %s: %s %s: got %d %s, want %d", i, row.as, row.method, row.path, code, text, row.want)
		}
	}
	// Who may create accounts and secrets has no tokens by that.
	if code, text := v.send(t, "POST", inDefault+"serviceaccounts/robot/token", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest"}`, bearer("maker")...); code != 403 {
		t.Errorf("a token: got %d %s", code, text)
	}
	for _, user := range []string{"eve", "binder", "maker"} {
		if code, text := v.send(t, "GET", "/api/v1/secrets", "", bearer(user)...); code != 403 {
			t.Errorf("%s in the end: got %d %s", user, code, text)
		}
	}
}
