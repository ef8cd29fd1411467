package authz_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/authz/config"
	"github.com/keelson-io/keelson/internal/authz/node"
	"github.com/keelson-io/keelson/internal/authz/rbac"
	"github.com/keelson-io/keelson/internal/authz/reload"
	"github.com/keelson-io/keelson/internal/authz/webhook"
)

// What "keelson authz check" does: the chain of a configuration decides about a request, by roles and
// bindings that are given. Webhooks are not called; this configuration has none.
func Example() {
	chosen, err := config.LoadElsewhere([]byte(`
apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- {type: Node, name: node}
- {type: RBAC, name: rbac}
`))
	if err != nil {
		log.Fatal(err)
	}
	index := rbac.NewIndex()
	index.Apply(
		rbac.Change{Role: &rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "readers"},
			Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get", "list"}, APIGroups: []string{"example.org"}, Resources: []string{"widgets"}}},
		}},
		rbac.Change{RoleBinding: &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "developers-read"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "readers"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "developers"}},
		}},
	)
	chain, err := reload.New(reload.Config{
		Configuration: chosen, RBAC: index, Node: &node.Authorizer{}, Logger: slog.New(slog.DiscardHandler),
		Asker: func(a *config.AuthorizerConfiguration) (webhook.Asker, error) {
			return nil, fmt.Errorf("webhook %s is not called", a.Name)
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, verb := range []string{"get", "delete"} {
		r := chain.Authorize(context.Background(), &authz.Attributes{
			User: &authn.User{Name: "jane", Groups: []string{"developers"}},
			Verb: verb, ResourceRequest: true, Group: "example.org", Version: "v1", Resource: "widgets", Namespace: "prod",
		})
		fmt.Println(verb, r.Decision, r.By, r.Reason)
	}
	// Output:
	// get allow rbac RBAC: allowed by RoleBinding "developers-read/prod" of Role "readers" to Group "developers"
	// delete no opinion
}

// A chain of own authorizers: the first one with an opinion decides.
func ExampleNewChain() {
	readOnly := authz.Func(func(_ context.Context, a *authz.Attributes) authz.Result {
		if a.Verb == "delete" {
			return authz.Result{Decision: authz.Deny, Reason: "nothing is deleted here"}
		}
		return authz.Result{}
	})
	chain := authz.NewChain(nil, authz.Named{Name: "read-only", Authorizer: readOnly}, authz.Named{Name: "everybody", Authorizer: authz.AlwaysAllow{}})
	for _, verb := range []string{"get", "delete"} {
		r := chain.Authorize(context.Background(), &authz.Attributes{User: &authn.User{Name: "jane"}, Verb: verb, Path: "/x"})
		fmt.Printf("%s: %s by %s %q\n", verb, r.Decision, r.By, r.Reason)
	}
	// Output:
	// get: allow by everybody ""
	// delete: deny by read-only "nothing is deleted here"
}
