package chain_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/authz/chain"
)

// A configuration with a webhook before RBAC. A function answers for the webhook.
func Example() {
	decisions, err := chain.New(chain.Config{
		Configuration: []byte(`
apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- type: Webhook
  name: secrets
  webhook:
    timeout: 3s
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: Deny
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: /etc/webhook.kubeconfig}
    matchConditions:
    - expression: request.resourceAttributes.resource == 'secrets'
- {type: RBAC, name: rbac}
`),
		Objects: []runtime.Object{
			&rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "developers-admin"},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
				Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "developers"}},
			},
		},
		Webhook: func(_ context.Context, name string, _ *authorizationv1.SubjectAccessReview) (authorizationv1.SubjectAccessReviewStatus, error) {
			return authorizationv1.SubjectAccessReviewStatus{Denied: true, Reason: name + " are not for people"}, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, resource := range []string{"configmaps", "secrets", "nodes"} {
		r := decisions.Authorize(context.Background(), &authz.Attributes{
			User: &authz.User{Name: "jane", Groups: []string{"developers"}},
			Verb: "get", ResourceRequest: true, Version: "v1", Resource: resource, Namespace: "prod",
		})
		fmt.Println(strings.TrimSpace(fmt.Sprintf("%s: %s %s", resource, r.Decision, r.Reason)))
	}
	// Output:
	// configmaps: allow RBAC: allowed by RoleBinding "developers-admin/prod" of ClusterRole "admin" to Group "developers"
	// secrets: deny secrets are not for people
	// nodes: no opinion
}
