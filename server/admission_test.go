package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/store/mem"
)

// This file switches admission steps on and off, and tries those that do not
// run by themselves.

// TestOwnerReferences holds that only users who may delete an object may change its owners, and
// only users who may update an owner's finalizers may block its deletion.
func TestOwnerReferences(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{}), TokenAuthFile: tokens(t, "ann", "del", "fin"), EnableAdmission: []string{"OwnerReferencesPermissionEnforcement"},
		Controllers: []string{"*", "-garbage-collector-controller"}}) // the owners are nobody
	r.define()
	const rbac = "/apis/rbac.authorization.k8s.io/v1/"
	grant := func(user, rules string) {
		r.must("POST", rbac+"clusterroles", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"`+user+`"},"rules":[`+rules+`]}`)
		r.must("POST", rbac+"clusterrolebindings", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"`+user+
			`"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"`+user+`"},"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"`+user+`"}]}`)
		r.eventually(user, "GET", widgetsPath, "", 200)
	}
	grant("ann", `{"apiGroups":["demo.io"],"resources":["widgets"],"verbs":["get","list","create","update","patch"]}`)
	grant("del", `{"apiGroups":["demo.io"],"resources":["widgets"],"verbs":["get","list","create","update","patch","delete"]}`)
	grant("fin", `{"apiGroups":["demo.io"],"resources":["widgets","widgets/finalizers"],"verbs":["*"]}`)
	const unblocking = `{"apiVersion":"demo.io/v1","kind":"Widget","name":"x","uid":"u"}`
	blocking := func(apiVersion string) string {
		return `{"apiVersion":"` + apiVersion + `","kind":"Widget","name":"x","uid":"v","blockOwnerDeletion":true}`
	}
	create := func(owners string) string {
		return `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"generateName":"w-","ownerReferences":[` + owners + `]}}`
	}
	patch := func(owners string) string { return `{"metadata":{"ownerReferences":[` + owners + `]}}` }
	r.must("POST", widgetsPath, widgetA)
	const refused = `widgets.demo.io \"%s\" is forbidden: cannot set `
	for _, row := range []struct {
		user, method, body string
		code               int
		want               string
	}{
		{"ann", "POST", create(unblocking), 201, `"uid":"u"`}, // who may create it may say whose it is
		{"ann", "POST", create(blocking("demo.io/v1")), 403, `blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , \u003cnil\u003e`},
		{"fin", "POST", create(blocking("demo.io/v1")), 201, `"uid":"v"`},
		{"fin", "POST", create(blocking("demo.io/v9")), 403, `blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion demo.io/v9 Kind Widget: no matches for kind \"Widget\" in version \"demo.io/v9\"`},
		{"fin", "POST", create(blocking("a/b/c")), 422, `must be`},
		{"ann", "PATCH", `{"spec":{"color":"blue"}}`, 200, `"blue"`},
		{"ann", "PATCH", patch(unblocking), 403, fmt.Sprintf(refused, "a") + `an ownerRef on a resource you can't delete: , \u003cnil\u003e`},
		{"del", "PATCH", patch(unblocking), 200, `"uid":"u"`},
		{"ann", "PATCH", `{"spec":{"color":"red"}}`, 200, `"uid":"u"`},
		{"del", "PATCH", patch(unblocking + "," + blocking("demo.io/v1")), 403, fmt.Sprintf(refused, "a") + `blockOwnerDeletion if`},
		{"fin", "PATCH", patch(unblocking + "," + blocking("demo.io/v1")), 200, `"uid":"v"`},
		{"del", "PATCH", patch(blocking("demo.io/v1")), 200, `"uid":"v"`}, // it blocked before
		{"ann", "PATCH", patch(``), 403, fmt.Sprintf(refused, "a") + `an ownerRef`},
	} {
		path := widgetsPath
		media := "application/json"
		if row.method == "PATCH" {
			path, media = path+"/a", "application/merge-patch+json"
		}
		code, text := r.callAs(row.user, row.method, path, row.body, media)
		if code != row.code || !strings.Contains(text, row.want) {
			t.Errorf("%s %s %s:\ngot  %d %s\nwant %d %s", row.user, row.method, row.body, code, text, row.code, row.want)
		}
	}
}

// TestNamespaceExists checks the step that replaces NamespaceLifecycle if that is disabled.
func TestNamespaceExists(t *testing.T) {
	const nowhere = "/apis/demo.io/v1/namespaces/nowhere/widgets"
	r := start(t, Config{Store: mem.New(mem.Options{}), EnableAdmission: []string{"NamespaceExists", "AlwaysAdmit"}, DisableAdmission: []string{"NamespaceLifecycle"}})
	r.define()
	if code, text := r.call(r.client, "POST", nowhere, widgetA); code != 404 || !strings.Contains(text, `namespaces \"nowhere\" not found`) {
		t.Errorf("NamespaceExists: got %d %s", code, text)
	}
	r.must("POST", widgetsPath, widgetA)
}
