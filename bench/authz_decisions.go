// This file measures single decisions: by roles, and by match conditions, beside upstream's.

package main

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	rbacregistry "k8s.io/kubernetes/pkg/registry/rbac/validation"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/authz/match"
	ourrbac "github.com/keelson-io/keelson/internal/authz/rbac"
	"github.com/keelson-io/keelson/internal/authz/webhook"
)

// decision is one question, for both sides; each function answers it once.
type decision struct {
	name           string
	ours, upstream func()
	wanted         float64 // microseconds
}

// usualConditions are the conditions of KEP-3221's first story; all of them hold.
var usualConditions = []string{
	`has(request.resourceAttributes)`,
	`request.resourceAttributes.namespace == 'default'`,
	`!('system:serviceaccounts:kube-system' in request.groups)`,
	`request.resourceAttributes.verb in ['update', 'delete', 'deletecollection']`,
}

// measureDecisions measures every decision on both sides.
func measureDecisions(ctx context.Context, rounds int) (string, error) {
	list, err := roleDecisions(ctx)
	if err != nil {
		return "", err
	}
	for _, r := range []struct {
		name        string
		expressions []string
	}{{"match condition `" + usualConditions[1] + "`", usualConditions[1:2]}, {"the four conditions of KEP-3221's first story", usualConditions}} {
		d, err := matchDecision(ctx, r.name, r.expressions)
		if err != nil {
			return "", err
		}
		list = append(list, d)
	}
	var b strings.Builder
	b.WriteString("| a decision | keelson µs | upstream µs | ratio | allocations (upstream) | wanted | as wanted |\n| --- | ---: | ---: | ---: | ---: | ---: | --- |\n")
	for _, d := range list {
		var ours, up []float64
		for range rounds {
			t := leastOf(20, d.ours, d.upstream)
			ours, up = append(ours, t[0]), append(up, t[1])
		}
		allocs, upAllocs := allocations(100, d.ours), allocations(10, d.upstream)
		fmt.Fprintf(&b, "| %s | %.2f | %s | **%s** | %.0f (%s) | %s µs, no allocation | %s |\n", d.name, median(ours), figure(median(up)), figure(median(quotients(up, ours))),
			allocs, figure(upAllocs), figure(d.wanted), yes(median(ours) < d.wanted && allocs == 0))
	}
	return b.String(), nil
}

// roles are n cluster roles, each with a binding of its own and one in a namespace: 2n bindings.
func roles(n int) (clusterRoles []*rbacv1.ClusterRole, bindings []*rbacv1.RoleBinding, clusterBindings []*rbacv1.ClusterRoleBinding) {
	for i := range n {
		id := fmt.Sprintf("%05d", i)
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: id}
		subjects := []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "u" + id}, {Kind: "Group", APIGroup: rbacv1.GroupName, Name: "team" + id}}
		clusterRoles = append(clusterRoles, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: id},
			Rules: []rbacv1.PolicyRule{{Verbs: []string{"get", "list"}, APIGroups: []string{"g" + id}, Resources: []string{"foos"}}}})
		clusterBindings = append(clusterBindings, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: id}, RoleRef: ref, Subjects: subjects})
		bindings = append(bindings, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: id, Namespace: fmt.Sprintf("ns%d", i%100)}, RoleRef: ref, Subjects: subjects})
	}
	return clusterRoles, bindings, clusterBindings
}

// roleDecisions are decisions by RBAC among many bindings.
func roleDecisions(ctx context.Context) ([]*decision, error) {
	var out []*decision
	for _, n := range []int{5_000, 10_000} {
		clusterRoles, bindings, clusterBindings := roles(n)
		var changes []ourrbac.Change
		for i := range n {
			changes = append(changes, ourrbac.Change{ClusterRole: clusterRoles[i]}, ourrbac.Change{ClusterRoleBinding: clusterBindings[i]}, ourrbac.Change{RoleBinding: bindings[i]})
		}
		ix := ourrbac.NewIndex()
		ix.Apply(changes...)
		_, static := rbacregistry.NewTestRuleResolver(nil, bindings, clusterRoles, clusterBindings)
		up := rbac.New(static, static, static, static)
		u := &authn.User{Name: fmt.Sprintf("u%05d", n/2), Groups: []string{"dev", fmt.Sprintf("team%05d", n/2+50), "system:authenticated"}}
		for _, r := range []struct {
			name  string
			group int
		}{{"allowed by the user's own binding", n / 2}, {"allowed by a group's binding", n/2 + 50}, {"not allowed", 7}} {
			name, group := r.name, r.group
			a := &authz.Attributes{User: u, Verb: "get", ResourceRequest: true, Group: fmt.Sprintf("g%05d", group), Version: "v1", Resource: "foos", Namespace: fmt.Sprintf("ns%d", group%100), Name: "x"}
			theirs := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: u.Name, Groups: u.Groups}, Verb: a.Verb, ResourceRequest: true, APIGroup: a.Group,
				APIVersion: a.Version, Resource: a.Resource, Namespace: a.Namespace, Name: a.Name}
			got := ix.Authorize(ctx, a)
			want, _, err := up.Authorize(ctx, theirs)
			if err != nil || (got.Decision == authz.Allow) != (want == authorizer.DecisionAllow) || (got.Decision == authz.Allow) != (group != 7) {
				return nil, fmt.Errorf("%s: keelson %v, upstream %v, %v", name, got.Decision, want, err)
			}
			out = append(out, &decision{fmt.Sprintf("RBAC, %s bindings: %s", figure(float64(2*n)), name),
				func() { ix.Authorize(ctx, a) }, func() { up.Authorize(ctx, theirs) }, wantedDecision})
		}
	}
	return out, nil
}

// matchDecision is match conditions, all of which hold. The variables that upstream computes from a request are prepared before the measurement.
func matchDecision(ctx context.Context, name string, expressions []string) (*decision, error) {
	conditions, errs := match.Compile(expressions, field.NewPath("matchConditions"))
	if err := errs.ToAggregate(); err != nil {
		return nil, err
	}
	var theirs []apiserver.WebhookMatchCondition
	for _, e := range expressions {
		theirs = append(theirs, apiserver.WebhookMatchCondition{Expression: e})
	}
	up, errs := validation.ValidateAndCompileMatchConditions(authorizationcel.NewDefaultCompiler(), theirs)
	if err := errs.ToAggregate(); err != nil {
		return nil, err
	}
	a := &authz.Attributes{User: &authn.User{Name: "ann", Groups: []string{"dev", "ops"}}, Verb: "update", ResourceRequest: true, Version: "v1", Resource: "pods", Namespace: "default", Name: "x"}
	review := &authorizationv1.SubjectAccessReview{Spec: webhook.Spec(a)}
	var got match.Outcome
	chain := authz.NewChain(nil, authz.Named{Name: "x", Authorizer: authz.Func(func(ctx context.Context, a *authz.Attributes) authz.Result {
		got = conditions.Eval(ctx, a)
		return authz.Result{}
	})})
	chain.Authorize(ctx, a)
	want, err := up.Eval(ctx, review)
	if err != nil || got.Match != want || !want {
		return nil, fmt.Errorf("%s: keelson %+v, upstream %v, %v", name, got, want, err)
	}
	return &decision{name, func() { chain.Authorize(ctx, a) }, func() { up.Eval(ctx, review) }, wantedMatch}, nil
}
