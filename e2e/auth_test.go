package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// This file is kubectl's commands about who somebody is and what they may do.

func TestKubectlAuth(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	k := newKubectl(t, s)
	k.ok(t, []string{"auth", "whoami"}, "Username", "keelson-admin", "system:masters")
	k.ok(t, []string{"auth", "can-i", "create", "namespaces"}, "yes")
	k.fails(t, "", []string{"auth", "can-i", "list", "secrets", "--as", "ann"}, "no")
	k.ok(t, []string{"auth", "can-i", "--list", "--as", "ann"}, "selfsubjectreviews.authentication.k8s.io", "[/healthz]")
	k.ok(t, []string{"auth", "whoami", "--as", "ann", "--as-group", "dev", "--as-uid", "7"}, "ann", "dev", "7")
	k.fails(t, "", []string{"get", "namespaces", "--as-group", "dev"}, "without impersonating a user")

	k.ok(t, []string{"create", "serviceaccount", "robot"})
	k.ok(t, []string{"create", "clusterrolebinding", "robot", "--clusterrole=view", "--serviceaccount=default:robot"})
	token := strings.TrimSpace(k.ok(t, []string{"create", "token", "robot", "--duration", "20m", "--audience", "https://kubernetes.default.svc.cluster.local"}))
	if strings.Count(token, ".") != 2 {
		t.Fatalf("create token: got %q", token)
	}
	// The token, and no certificate.
	plain := filepath.Join(k.dir, "robot.kubeconfig")
	text := k.ok(t, []string{"config", "view", "--raw", "--minify", "-o", "jsonpath={.clusters[0].cluster.server} {.clusters[0].cluster.certificate-authority-data}"})
	url, ca, _ := strings.Cut(strings.TrimSpace(text), " ")
	config := "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: {server: '" + url +
		"', certificate-authority-data: " + ca + "}}], users: [{name: u, user: {token: TOKEN}}]}"
	write := func(token string) {
		t.Helper()
		if err := os.WriteFile(plain, []byte(strings.Replace(config, "TOKEN", token, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(token)
	robot := []string{"--kubeconfig", plain}
	k.ok(t, append([]string{"auth", "whoami"}, robot...), "system:serviceaccount:default:robot", "system:serviceaccounts:default")
	k.ok(t, append([]string{"get", "serviceaccounts"}, robot...), "robot")
	k.fails(t, "", append([]string{"get", "secrets"}, robot...), "is forbidden")
	write(token + "x")
	k.fails(t, "", append([]string{"get", "serviceaccounts"}, robot...), "You must be logged in to the server")

	const roles = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: default}
rules: [{apiGroups: [""], resources: [secrets], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: robot, namespace: default}]
`
	k.in(t, roles, []string{"auth", "reconcile", "-f", "-"}, "reader reconciled")
	k.ok(t, []string{"auth", "can-i", "list", "secrets", "--as", "system:serviceaccount:default:robot"}, "yes")
	for _, row := range []struct{ as, question, answer string }{
		{"", "* *", "yes"}, {"", "get /metrics", "yes"}, {"ann", "get /metrics", "no"}, {"ann", "get /apis", "yes"}, {"ann", "create selfsubjectreviews", "yes"},
		{"system:serviceaccount:default:robot", "list secrets -n kube-system", "no"}, {"system:serviceaccount:default:robot", "list secrets -A", "no"},
		{"system:serviceaccount:default:robot", "get secrets/x", "yes"}, {"system:serviceaccount:default:robot", "delete secrets", "no"},
		{"system:serviceaccount:default:robot", "get deployments.apps --subresource=scale -A", "yes"}, {"system:serviceaccount:default:robot", "update deployments.apps --subresource=scale", "no"},
		{"ann --as-group=system:masters", "delete nodes", "yes"}, {"ann --as-group=system:monitoring", "get /metrics", "yes"}, {"ann", "list customresourcedefinitions", "no"},
	} {
		line := append([]string{"auth", "can-i"}, strings.Fields(row.question)...)
		if row.as != "" {
			line = append(line, append([]string{"--as"}, strings.Fields(row.as)...)...)
		}
		if out, code := k.run(t, "", line...); !strings.Contains("\n"+out, "\n"+row.answer) || (code == 0) != (row.answer == "yes") {
			t.Errorf("%q: exit code %d, %s", line, code, out)
		}
	}
	k.fails(t, "", []string{"auth", "can-i", "list", "secrets", "--as", "ann", "--quiet"})
	k.ok(t, []string{"auth", "can-i", "--list", "--as", "system:serviceaccount:default:robot"}, "secrets", "[get list]", "deployments.apps/scale")
	k.ok(t, []string{"auth", "whoami", "-o", "jsonpath={.status.userInfo.groups}", "--as", "ann", "--as-group", "dev"}, `["dev","system:authenticated"]`)

	// What a file says is added; more is taken away on demand; another role is another binding.
	const less = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: default}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]
`
	rules := func() string {
		return k.ok(t, []string{"get", "role", "reader", "-o", "jsonpath={.rules[*].resources}"})
	}
	k.in(t, less, []string{"auth", "reconcile", "-f", "-", "--dry-run=client"}, "missing rules added")
	if got := rules(); got != `["secrets"]` {
		t.Errorf("a dry run: rules of %s", got)
	}
	k.in(t, less, []string{"auth", "reconcile", "-f", "-"}, "reader reconciled", "missing rules added")
	if got := rules(); got != `["secrets"] ["configmaps"]` {
		t.Errorf("rules of %s", got)
	}
	k.in(t, less, []string{"auth", "reconcile", "-f", "-", "--remove-extra-permissions"}, "extra rules removed")
	if got := rules(); got != `["configmaps"]` {
		t.Errorf("rules of %s", got)
	}
	k.in(t, strings.ReplaceAll(roles, "kind: Role, name: reader", "kind: ClusterRole, name: view"), []string{"auth", "reconcile", "-f", "-"}, "reader reconciled")
	k.ok(t, []string{"get", "rolebinding", "reader", "-o", "jsonpath={.roleRef.name}"}, "view")
}
