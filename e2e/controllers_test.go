package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestNamespacesAreFurnished holds what every namespace has, and that it comes back.
func TestNamespacesAreFurnished(t *testing.T) {
	s := startServer(t)
	const ns = "/api/v1/namespaces"
	s.do(t, 201, "POST", ns, []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"team"}}`))
	for _, path := range []string{"/serviceaccounts/default", "/configmaps/kube-root-ca.crt"} {
		for _, namespace := range []string{"default", "kube-system", "team"} {
			eventually(t, namespace+path, func() bool {
				code, _, err := s.try("GET", ns+"/"+namespace+path, nil)
				return err == nil && code == 200
			})
		}
		uid := s.do(t, 200, "GET", ns+"/team"+path, nil)
		s.do(t, 200, "DELETE", ns+"/team"+path, nil)
		eventually(t, path+" again", func() bool {
			code, b, err := s.try("GET", ns+"/team"+path, nil)
			return err == nil && code == 200 && string(b) != string(uid)
		})
	}
	if b := string(s.do(t, 200, "GET", ns+"/team/configmaps/kube-root-ca.crt", nil)); !strings.Contains(b, "BEGIN CERTIFICATE") {
		t.Errorf("got %s", b)
	}
	// Namespaces of the system stay, or come back.
	for _, name := range []string{"default", "kube-system", "kube-public"} {
		want := `namespaces \"` + name + `\" is forbidden: this namespace may not be deleted`
		if b := string(s.do(t, 403, "DELETE", ns+"/"+name, nil)); !strings.Contains(b, want) {
			t.Errorf("got %s, want %s", b, want)
		}
	}
	lease := uidOf(t, s.do(t, 200, "GET", ns+"/kube-node-lease", nil))
	s.do(t, 200, "DELETE", ns+"/kube-node-lease", nil)
	eventually(t, "another kube-node-lease", func() bool {
		code, b, err := s.try("GET", ns+"/kube-node-lease", nil)
		return err == nil && code == 200 && uidOf(t, b) != lease
	})
	s.do(t, 200, "DELETE", ns+"/team", nil)
	eventually(t, "the namespace is gone", func() bool {
		code, _, err := s.try("GET", ns+"/team", nil)
		return err == nil && code == 404
	})
}

// TestControllersAreSwitched holds that a server without controllers leaves everything to others.
func TestControllersAreSwitched(t *testing.T) {
	s := startServer(t, "--controllers=*,-namespace-controller,-garbagecollector,-serviceaccount-controller,-root-ca-certificate-publisher-controller")
	const ns = "/api/v1/namespaces"
	s.do(t, 201, "POST", ns, []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"team"}}`))
	s.do(t, 201, "POST", ns+"/team/configmaps", []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`))
	s.do(t, 200, "DELETE", ns+"/team/configmaps/a", []byte(`{"propagationPolicy":"Foreground"}`))
	s.do(t, 200, "DELETE", ns+"/team", nil)
	s.passes(t)
	if b := string(s.do(t, 200, "GET", ns+"/team", nil)); !strings.Contains(b, "Terminating") {
		t.Errorf("got %s", b)
	}
	if b := string(s.do(t, 200, "GET", ns+"/team/configmaps/a", nil)); !strings.Contains(b, "foregroundDeletion") {
		t.Errorf("got %s", b)
	}
	s.do(t, 404, "GET", ns+"/default/serviceaccounts/default", nil)
	refuses(t, `controllers: got "nodes", want *, or one of`, "serve", "--data-dir", t.TempDir(), "--secure-port", "0", "--controllers", "nodes")
}

// passes waits until the controllers that run have seen all changes before the call: the one that
// aggregates roles has seen a later one.
func (s *server) passes(t *testing.T) {
	t.Helper()
	const roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
	const role = `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":%q,"labels":{"fence":"a"}},%s}`
	s.do(t, 201, "POST", roles, fmt.Appendf(nil, role, "part", `"rules":[{"apiGroups":["fence.io"],"resources":["x"],"verbs":["get"]}]`))
	s.do(t, 201, "POST", roles, fmt.Appendf(nil, role, "whole", `"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"fence":"a"}}]}`))
	eventually(t, "the role has the rules of the other", func() bool {
		return strings.Contains(string(s.do(t, 200, "GET", roles+"/whole", nil)), "fence.io")
	})
}

func uidOf(t *testing.T, object []byte) string {
	t.Helper()
	var o metav1.PartialObjectMetadata
	if err := json.Unmarshal(object, &o); err != nil || o.UID == "" {
		t.Fatalf("%s: %v", object, err)
	}
	return string(o.UID)
}
