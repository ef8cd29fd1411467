package roles

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/authz/rbac"
)

// gathering returns a role with a label that gathers the rules of those with another one.
func gathering(name, label, from string) rbac.Change {
	return rbac.Change{ClusterRole: &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: "true"}},
		AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{from: "true"}}}},
		Rules:           []rbacv1.PolicyRule{rule("get", "core", name)}}}
}

// TestAggregateRefuses holds that roles whose rules never come to rest, and selectors that cannot be parsed, are errors.
func TestAggregateRefuses(t *testing.T) {
	circle := []rbac.Change{gathering("a", "a", "b"), gathering("b", "b", "c"), gathering("c", "c", "a")}
	if err := Aggregate(circle); err == nil || !strings.Contains(err.Error(), "never come to rest") {
		t.Errorf("a circle: got error %v", err)
	}
	if err := Aggregate([]rbac.Change{gathering("a", "a", "not a label")}); err == nil || !strings.Contains(err.Error(), "ClusterRole a") {
		t.Errorf("a bad selector: got error %v", err)
	}
}

// TestAggregateInAnyOrder holds that a chain of roles is gathered to its end, and that the last of several changes counts.
func TestAggregateInAnyOrder(t *testing.T) {
	end := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "z", Labels: map[string]string{"l3": "true"}}, Rules: []rbacv1.PolicyRule{rule("list", "core", "pods")}}
	chain := []rbac.Change{gathering("z", "l3", "l9"), gathering("a", "l1", "l2"), gathering("b", "l2", "l3"), {ClusterRole: end}}
	if err := Aggregate(chain); err != nil {
		t.Fatal(err)
	}
	if got := chain[1].ClusterRole.Rules; len(got) != 1 || got[0].Verbs[0] != "list" {
		t.Errorf("rules: got %v, want those of the end of the chain", got)
	}
}
