package authz

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/manifest"
	"github.com/keelson-io/keelson/internal/testkit"
	"github.com/keelson-io/keelson/servertest"
)

// This file compares the decisions of keelson authz with those of a server that has the same roles.

// roleSet is a generated set of roles and bindings.
type roleSet struct {
	clusterRoles []*rbacv1.ClusterRole
	roles        []*rbacv1.Role
	bindings     []*rbacv1.RoleBinding
	clusterWide  []*rbacv1.ClusterRoleBinding
}

const roleGroup = rbacv1.GroupName

var (
	testVerbs     = []string{"get", "list", "create", "delete", "deletecollection", "*"}
	testResources = []string{"pods", "pods/log", "configmaps", "resourcequotas", "*/scale", "*"}
	testUsers     = []string{"jane", "nina", "gus"}
	testLabels    = []string{"rbac.authorization.k8s.io/aggregate-to-edit", "rbac.authorization.k8s.io/aggregate-to-view", "one.io/part", "two.io/part"}
)

// generate returns a set of roles. Some cluster roles gather the rules of others, which may gather, too.
func generate(rng *rand.Rand) *roleSet {
	pick := func(list []string) string { return list[rng.IntN(len(list))] }
	some := func(list []string, most int) (out []string) {
		for range 1 + rng.IntN(most) {
			out = append(out, pick(list))
		}
		return out
	}
	rules := func() (out []rbacv1.PolicyRule) {
		for range rng.IntN(3) {
			r := rbacv1.PolicyRule{Verbs: some(testVerbs, 2), APIGroups: []string{""}, Resources: some(testResources, 2)}
			if rng.IntN(4) == 0 {
				r.ResourceNames = []string{"one"}
			}
			out = append(out, r)
		}
		return out
	}
	// A role is labelled for roles of later names only, so that no two of them gather each other.
	s := &roleSet{}
	for i := range 6 {
		r := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("r%d", i), Labels: map[string]string{}}, Rules: rules()}
		if i < 4 && rng.IntN(2) == 0 {
			r.Labels[pick(testLabels)] = "true"
		}
		if label := testLabels[2+i%2]; i >= 4 || r.Labels[label] == "" && r.Labels[testLabels[3-i%2]] == "" && rng.IntN(3) == 0 {
			r.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{label: "true"}}}}
		}
		s.clusterRoles = append(s.clusterRoles, r)
	}
	s.roles = append(s.roles, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "own", Namespace: "prod"}, Rules: rules()})
	bound := []string{"r0", "r1", "r2", "r3", "r4", "r5", "view", "edit", "admin", "none"}
	for i, user := range testUsers {
		subjects := []rbacv1.Subject{{Kind: "User", Name: user, APIGroup: roleGroup}}
		ref := rbacv1.RoleRef{APIGroup: roleGroup, Kind: "ClusterRole", Name: pick(bound)}
		if rng.IntN(4) == 0 {
			ref.Kind, ref.Name = "Role", "own"
		}
		s.bindings = append(s.bindings, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("b%d", i), Namespace: "prod"}, RoleRef: ref, Subjects: subjects})
		if rng.IntN(3) == 0 {
			s.clusterWide = append(s.clusterWide, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%d", i)},
				RoleRef: rbacv1.RoleRef{APIGroup: roleGroup, Kind: "ClusterRole", Name: pick(bound)}, Subjects: subjects})
		}
	}
	return s
}

// documents returns the set as files have it.
func (s *roleSet) documents(t *testing.T) []manifest.Document {
	t.Helper()
	var docs []manifest.Document
	add := func(kind string, object any) {
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, manifest.Document{JSON: append([]byte(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"`+kind+`",`), text[1:]...)})
	}
	for _, r := range s.clusterRoles {
		add("ClusterRole", r)
	}
	for _, r := range s.roles {
		add("Role", r)
	}
	for _, b := range s.bindings {
		add("RoleBinding", b)
	}
	for _, b := range s.clusterWide {
		add("ClusterRoleBinding", b)
	}
	return docs
}

// store makes the server's roles those of the set.
func (s *roleSet) store(ctx context.Context, t *testing.T, client *kubernetes.Clientset) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	api := client.RbacV1()
	for i := range testUsers {
		must(api.RoleBindings("prod").Delete(ctx, fmt.Sprintf("b%d", i), metav1.DeleteOptions{}))
		must(api.ClusterRoleBindings().Delete(ctx, fmt.Sprintf("c%d", i), metav1.DeleteOptions{}))
	}
	for _, r := range s.clusterRoles {
		must(api.ClusterRoles().Delete(ctx, r.Name, metav1.DeleteOptions{}))
	}
	must(api.Roles("prod").Delete(ctx, "own", metav1.DeleteOptions{}))
	for _, r := range s.clusterRoles {
		_, err := api.ClusterRoles().Create(ctx, r, metav1.CreateOptions{})
		must(err)
	}
	for _, r := range s.roles {
		_, err := api.Roles("prod").Create(ctx, r, metav1.CreateOptions{})
		must(err)
	}
	for _, b := range s.bindings {
		_, err := api.RoleBindings("prod").Create(ctx, b, metav1.CreateOptions{})
		must(err)
	}
	for _, b := range s.clusterWide {
		_, err := api.ClusterRoleBindings().Create(ctx, b, metav1.CreateOptions{})
		must(err)
	}
}

// questions are what is asked about each set.
func questions() (all []authz.Attributes) {
	for _, user := range testUsers {
		for _, verb := range testVerbs[:5] {
			for _, resource := range []string{"pods", "pods/log", "configmaps", "resourcequotas", "deployments/scale", "secrets"} {
				for _, namespace := range []string{"prod", ""} {
					a := authz.Attributes{User: &authn.User{Name: user}, ResourceRequest: true, Verb: verb, Version: "*", Namespace: namespace}
					a.Resource, a.Subresource, _ = strings.Cut(resource, "/")
					if resource == "configmaps" {
						a.Name = "one"
					}
					all = append(all, a)
				}
			}
		}
	}
	return all
}

// TestDecisionsAreTheServers holds for generated sets of roles, aggregated ones and labels for the default ones among
// them, that keelson authz decides as a server that has them.
func TestDecisionsAreTheServers(t *testing.T) {
	s := servertest.Start(t)
	client, err := kubernetes.NewForConfig(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if _, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "prod"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const sets = 25
	allowed, asked := 0, questions()
	for seed := range uint64(sets) {
		set := generate(rand.New(rand.NewPCG(seed, 1)))
		index, err := indexOf(set.documents(t))
		if err != nil {
			t.Fatal(err)
		}
		set.store(ctx, t, client)
		// The server aggregates in its own time.
		testkit.EventuallySay(t, func() (string, bool) {
			for _, a := range asked {
				want := index.Authorize(ctx, &a).Decision == authz.Allow
				review, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
					Spec: authorizationv1.SubjectAccessReviewSpec{User: a.User.Name, ResourceAttributes: &authorizationv1.ResourceAttributes{
						Namespace: a.Namespace, Verb: a.Verb, Resource: a.Resource, Subresource: a.Subresource, Name: a.Name}}}, metav1.CreateOptions{})
				if err != nil {
					return err.Error(), false
				}
				if review.Status.Allowed != want {
					return fmt.Sprintf("seed %d: may %s %s %s/%s in %q: the server says %v, the command %v", seed, a.User.Name, a.Verb, a.Resource, a.Subresource, a.Namespace, review.Status.Allowed, want), false
				}
			}
			return "", true
		})
		allowed += len(slices.DeleteFunc(slices.Clone(asked), func(a authz.Attributes) bool { return index.Authorize(ctx, &a).Decision != authz.Allow }))
	}
	if n := sets * len(asked); allowed < n/10 || allowed > n*9/10 {
		t.Errorf("%d of %d questions are allowed: the sets compare nothing", allowed, n)
	}
}
