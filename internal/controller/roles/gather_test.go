package roles

import (
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This file holds how rules are gathered.

func roleOf(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"a": "b"}}, Rules: rules}
}

var everywhere = []metav1.LabelSelector{{MatchLabels: map[string]string{"a": "b"}}, {}}

// TestGatherEachRuleOnce: equal rules are gathered once; lists that are joined differently are not
// equal, missing and empty ones are.
func TestGatherEachRuleOnce(t *testing.T) {
	got, err := Gather("all", everywhere, []*rbacv1.ClusterRole{
		roleOf("b", rbacv1.PolicyRule{Verbs: []string{"get", "list"}}, rbacv1.PolicyRule{Verbs: []string{"getlist"}}),
		roleOf("a", rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{}}, rbacv1.PolicyRule{Verbs: []string{"get"}}),
		roleOf("c", rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{"list"}}, rbacv1.PolicyRule{APIGroups: []string{"get"}}),
		roleOf("all", rbacv1.PolicyRule{Verbs: []string{"delete"}}),
	})
	if err != nil || len(got) != 5 {
		t.Errorf("got %v, %v, want 5 rules", got, err)
	}
}

// TestGatherManyRules checks that 60,000 rules do not cause 1,800,000,000 comparisons, which take
// minutes.
func TestGatherManyRules(t *testing.T) {
	var all []*rbacv1.ClusterRole
	for i := range 60 {
		r := roleOf(fmt.Sprint("r", i))
		for n := range 1000 {
			r.Rules = append(r.Rules, rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{fmt.Sprint("r", i, "-", n)}})
		}
		all = append(all, r)
	}
	got, err := Gather("all", everywhere, all)
	if err != nil || len(got) != 60_000 {
		t.Errorf("got %d rules, %v, want 60000", len(got), err)
	}
}
