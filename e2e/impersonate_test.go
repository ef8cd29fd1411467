package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// This file is users who want to be others, by right and without.

func has(text, part string) bool { return strings.Contains(text, part) }

// grant lets a user do what rules say, everywhere.
func (s *server) grant(t *testing.T, name, user, rules string) {
	t.Helper()
	s.do(t, 201, "POST", rbacPath+"clusterroles", []byte(fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":%q},"rules":%s}`, name, rules)))
	s.do(t, 201, "POST", rbacPath+"clusterrolebindings", []byte(clusterBinding(name, name, user)))
}

const rbacPath = "/apis/rbac.authorization.k8s.io/v1/"

func clusterBinding(name, role, user string) string {
	return fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":%q},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":%q},"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":%q}]}`,
		name, role, user)
}

func TestImpersonation(t *testing.T) {
	users := []string{"nobody", "users", "groups", "extra", "account", "on", "mode", "both", "robot"}
	file := "root,root,,system:masters\n"
	for _, u := range users {
		file += u + "," + u + ",,\n"
	}
	s := startServer(t, "--token-auth-file", putFile(t, "tokens.csv", file))
	const core, authn = `"apiGroups":[""]`, `"apiGroups":["authentication.k8s.io"]`
	s.grant(t, "users", "users", `[{"verbs":["impersonate"],`+core+`,"resources":["users"],"resourceNames":["bob"]}]`)
	s.grant(t, "groups", "groups", `[{"verbs":["impersonate"],`+core+`,"resources":["users"],"resourceNames":["bob"]},{"verbs":["impersonate"],`+core+`,"resources":["groups"],"resourceNames":["dev"]},{"verbs":["impersonate"],`+authn+`,"resources":["uids"],"resourceNames":["7"]}]`)
	s.grant(t, "extra", "extra", `[{"verbs":["impersonate"],`+core+`,"resources":["users"]},{"verbs":["impersonate"],`+authn+`,"resources":["userextras/scopes"],"resourceNames":["view"]}]`)
	s.grant(t, "account", "account", `[{"verbs":["impersonate"],`+core+`,"resources":["serviceaccounts"],"resourceNames":["robot"]}]`)
	// Constrained: what may be done, as whom, and both.
	const review = `{"verbs":["impersonate-on:user-info:create"],"apiGroups":["authentication.k8s.io"],"resources":["selfsubjectreviews"]}`
	const asBob = `{"verbs":["impersonate:user-info"],"apiGroups":["authentication.k8s.io"],"resources":["users"],"resourceNames":["bob"]}`
	s.grant(t, "on", "on", `[`+review+`]`)
	s.grant(t, "mode", "mode", `[`+asBob+`]`)
	s.grant(t, "both", "both", `[`+review+`,`+asBob+`,{"verbs":["impersonate:user-info"],"apiGroups":["authentication.k8s.io"],"resources":["groups"],"resourceNames":["system:masters","dev"]}]`)
	s.grant(t, "robot", "robot", `[{"verbs":["impersonate-on:serviceaccount:create"],"apiGroups":["authentication.k8s.io"],"resources":["selfsubjectreviews"]},{"verbs":["impersonate:serviceaccount"],"apiGroups":["authentication.k8s.io"],"resources":["serviceaccounts"],"resourceNames":["robot"]}]`)
	v := newVisitor(t, s, nil)
	eventually(t, "the last role", func() bool {
		return has(v.who(t, append(bearer("robot"), "Impersonate-User", "system:serviceaccount:default:robot")...), "system:serviceaccounts")
	})
	const bob, dev, sa = "Impersonate-User: bob", "Impersonate-Group: dev", "Impersonate-User: system:serviceaccount:default:robot"
	const asRobot = "system:serviceaccount:default:robot [system:serviceaccounts system:serviceaccounts:default system:authenticated]"
	for i, row := range []struct {
		as     string
		header []string
		want   string
	}{
		{"root", []string{bob, dev, "Impersonate-Uid: 7", "Impersonate-Extra-scopes: view"}, "bob 7 [dev system:authenticated] map[scopes:[view]]"},
		{"root", []string{"Impersonate-User: system:anonymous"}, "403"},
		{"root", []string{"Impersonate-User: system:anonymous", "Impersonate-Group: system:authenticated"}, "system:anonymous [system:authenticated system:unauthenticated]"},
		{"root", []string{"Impersonate-User: bob", "Impersonate-Group: system:unauthenticated"}, `User "bob" cannot create`},
		{"root", []string{dev}, "400"},
		{"root", []string{"Impersonate-Uid: 7"}, "400"},
		{"root", []string{"Impersonate-User: ", dev}, "400"},
		{"root", []string{"Impersonate-User: ", "Impersonate-User: bob", dev}, "400"},
		{"root", []string{"Impersonate-User: "}, "root [system:masters system:authenticated]"},
		{"root", []string{"Impersonate_User: bob"}, "root [system:masters system:authenticated]"},

		{"nobody", []string{bob}, `User "nobody" cannot impersonate-on:user-info:create`},
		{"nobody", []string{"impersonate-user: bob"}, "cannot impersonate"},
		{"nobody", []string{"Impersonate-User: nobody"}, "cannot impersonate"},
		{"nobody", []string{"Impersonate-User: nobody", "Impersonate-Group: system:masters"}, "cannot impersonate"},
		{"nobody", []string{sa}, "cannot impersonate-on:serviceaccount:create"},
		{"nobody", []string{"Impersonate-User: system:node:n"}, "cannot impersonate-on:arbitrary-node:create"},
		{"nobody", []string{dev}, "400"},

		{"users", []string{bob}, "bob [system:authenticated]"},
		{"users", []string{"Impersonate-User: bob", "Impersonate-User: root"}, "bob [system:authenticated]"},
		{"users", []string{"Impersonate-User: root", "Impersonate-User: bob"}, "cannot impersonate"},
		{"users", []string{"Impersonate-User: Bob"}, "cannot impersonate"},
		{"users", []string{"Impersonate-User: bob,root"}, "cannot impersonate"},
		{"users", []string{bob, dev}, "cannot impersonate"},
		{"users", []string{bob, "Impersonate-Group: system:masters"}, "cannot impersonate"},
		{"users", []string{bob, "Impersonate-Group: "}, "cannot impersonate"},
		{"users", []string{bob, "Impersonate-Uid: 7"}, "cannot impersonate"},
		{"users", []string{bob, "Impersonate-Extra-scopes: view"}, "cannot impersonate"},
		{"users", []string{sa}, "cannot impersonate"},

		{"groups", []string{bob, dev, "Impersonate-Uid: 7"}, "bob 7 [dev system:authenticated]"},
		{"groups", []string{bob, dev, "Impersonate-Group: ops"}, "cannot impersonate"},
		{"groups", []string{bob, "Impersonate-Group: dev,system:masters"}, "cannot impersonate"},
		{"groups", []string{bob, "Impersonate-Uid: 8"}, "cannot impersonate"},
		{"extra", []string{bob, "Impersonate-Extra-scopes: view"}, "bob [system:authenticated] map[scopes:[view]]"},
		{"extra", []string{bob, "Impersonate-Extra-SCOPES: view"}, "bob [system:authenticated] map[scopes:[view]]"},
		{"extra", []string{bob, "Impersonate-Extra-scopes: view", "Impersonate-Extra-scopes: edit"}, "cannot impersonate"},
		{"extra", []string{bob, "Impersonate-Extra-other: view"}, "cannot impersonate"},
		{"extra", []string{bob, "Impersonate-Extra-scopes%2Fx: view"}, "cannot impersonate"},
		{"account", []string{sa}, asRobot},
		{"account", []string{"Impersonate-User: system:serviceaccount:default:root"}, "cannot impersonate"},
		{"account", []string{sa, "Impersonate-Group: system:masters"}, "cannot impersonate"},
		{"account", []string{"Impersonate-User: robot"}, "cannot impersonate"},

		{"on", []string{bob}, "cannot impersonate:user-info"},
		{"mode", []string{bob}, "cannot impersonate-on:user-info:create"},
		{"both", []string{bob}, "bob [system:authenticated]"},
		{"both", []string{bob, dev}, "bob [dev system:authenticated]"},
		{"both", []string{"Impersonate-User: root"}, "cannot impersonate"},
		{"both", []string{bob, "Impersonate-Group: system:masters"}, "impersonating the system:masters group is not allowed"},
		{"both", []string{bob, "Impersonate-Uid: 7"}, "cannot impersonate"},
		{"both", []string{sa}, "cannot impersonate"},
		{"robot", []string{sa}, asRobot},
		{"robot", []string{sa, "Impersonate-Uid: 7"}, "cannot impersonate"},
		{"robot", []string{bob}, "cannot impersonate"},
	} {
		header := bearer(row.as)
		for _, h := range row.header {
			name, value, _ := strings.Cut(h, ": ")
			header = append(header, name, value)
		}
		got := strings.ReplaceAll(v.who(t, header...), `\"`, `"`)
		if got != row.want && !(has(row.want, " cannot ") || strings.HasPrefix(row.want, "cannot ") || strings.HasPrefix(row.want, "impersonating ")) || !has(got, row.want) {
			t.Errorf("row %d: %s with %q: got %s, want %s", i, row.as, row.header, got, row.want)
		}
	}
	// The right to review as bob is no right to anything else as bob.
	if code, text := v.send(t, "GET", "/api/v1/namespaces", "", append(bearer("both"), "Impersonate-User", "bob")...); code != 403 || !has(text, `cannot impersonate-on:user-info:list resource \"namespaces\"`) {
		t.Errorf("another request: got %d %s", code, text)
	}
	for _, series := range []string{`attempts_total{decision="allowed",mode="legacy"}`, `attempts_total{decision="allowed",mode="user-info"}`, `attempts_total{decision="allowed",mode="serviceaccount"}`,
		`attempts_total{decision="denied",mode=""}`, `authorization_attempts_total{decision="denied",mode="user-info"}`, `attempts_duration_seconds_count{decision="allowed",mode="legacy"}`} {
		if s.metric(t, "apiserver_impersonation_"+series) == "" {
			t.Errorf("no apiserver_impersonation_%s", series)
		}
	}
}
