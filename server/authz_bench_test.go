package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/authz/config"
	"github.com/keelson-io/keelson/authz/rbac"
	"github.com/keelson-io/keelson/store/mem"
)

// This file measures what authorization costs a request: the same one with
// everything allowed, by RBAC, and behind 100 webhooks none of which is asked.

func BenchmarkAuthorization(b *testing.B) {
	dir := b.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
		return path
	}
	users := put("tokens.csv", "ann,ann,,\"dev,ops\"\n")
	kubeconfig := put("kubeconfig", (&hook{Server: &httptest.Server{URL: "https://127.0.0.1:1"}}).kubeconfig())
	var hooks strings.Builder
	hooks.WriteString(configHead)
	for i := range 100 {
		hooks.WriteString(entry(fmt.Sprint("w", i), kubeconfig, "Deny", "has(request.resourceAttributes) && request.resourceAttributes.namespace == 'kube-system'"))
	}
	for name, flags := range map[string]config.Flags{
		"AlwaysAllow": {Modes: []string{config.AlwaysAllow}},
		"RBAC":        {},
		"100Webhooks": {File: put("authz.yaml", hooks.String()+rbacEntry)},
	} {
		b.Run(name, func(b *testing.B) {
			s, err := New(context.Background(), Config{Store: mem.New(mem.Options{}), SecurePort: -1, TokenAuthFile: users, Authorization: flags,
				Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			ask := func(user, method, path, body string) int {
				r := httptest.NewRequest(method, path, strings.NewReader(body))
				r.Header.Set("Authorization", "Bearer "+user)
				r.Header.Set("Content-Type", "application/json")
				w := httptest.NewRecorder()
				s.Handler().ServeHTTP(w, r)
				return w.Code
			}
			s.authz.follower.Index.Apply(benchRoles()...)
			if code := ask("ann", "GET", "/api/v1/namespaces/default", ""); code != http.StatusOK {
				b.Fatalf("got %d", code)
			}
			b.ReportAllocs()
			for b.Loop() {
				ask("ann", "GET", "/api/v1/namespaces/default", "")
			}
		})
	}
}

// benchRoles let the group dev read namespaces, and others something else.
func benchRoles() []rbac.Change {
	changes := []rbac.Change{{ClusterRole: &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "read"},
		Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"namespaces"}}}}}}
	for i := range 10_000 {
		group := fmt.Sprint("g", i)
		if i == 5000 {
			group = "dev"
		}
		changes = append(changes, rbac.Change{ClusterRoleBinding: &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("b", i)},
			RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "read"}, Subjects: []rbacv1.Subject{{Kind: "Group", Name: group}}}})
	}
	return changes
}
