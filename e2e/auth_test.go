package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// This file is kubectl's commands about who somebody is and what they may do.

func TestKubectlAuth(t *testing.T) {
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
}
