package rbac

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/authz/feed"
	"github.com/keelson-io/keelson/internal/testkit"
)

// What is counted for roles and bindings with long lists is at least what an index has for them, and at most three times that.
func TestMemoryIsCounted(t *testing.T) {
	meta := func(i int) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("o", i)} }
	names := func(i int, format string) (list []string) {
		for j := range 1000 {
			list = append(list, fmt.Sprintf(format, i*1000+j))
		}
		return list
	}
	subjects := func(i int, kind, format string) (list []rbacv1.Subject) {
		for _, name := range names(i, format) {
			s := rbacv1.Subject{Kind: kind, Name: name, APIGroup: rbacv1.GroupName}
			if kind == rbacv1.ServiceAccountKind {
				s.APIGroup, s.Namespace = "", "ns"
			}
			list = append(list, s)
		}
		return list
	}
	binding := func(kind, format string) func(int) any {
		return func(i int) any {
			return rbacv1.RoleBinding{ObjectMeta: meta(i), RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "r"}, Subjects: subjects(i, kind, format)}
		}
	}
	role := func(change func(r *rbacv1.PolicyRule, i int)) func(int) any {
		return func(i int) any {
			r := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}
			change(&r, i)
			return rbacv1.Role{ObjectMeta: meta(i), Rules: []rbacv1.PolicyRule{r}}
		}
	}
	for what, row := range map[string]struct {
		kind   string
		memory func([]byte) int64
		make   func(i int) any
	}{
		"users":    {"RoleBinding", BindingMemory, binding(rbacv1.UserKind, "u%d")},
		"accounts": {"RoleBinding", BindingMemory, binding(rbacv1.ServiceAccountKind, "account-%d")},
		"names":    {"Role", RoleMemory, role(func(r *rbacv1.PolicyRule, i int) { r.ResourceNames = names(i, "%x") })},
		"groups":   {"Role", RoleMemory, role(func(r *rbacv1.PolicyRule, i int) { r.APIGroups = names(i, "g%x") })},
		"rules": {"Role", RoleMemory, func(i int) any {
			o := rbacv1.Role{ObjectMeta: meta(i)}
			for _, n := range names(i, "%x") {
				o.Rules = append(o.Rules, rbacv1.PolicyRule{Verbs: []string{n}, APIGroups: []string{n}, Resources: []string{n}})
			}
			return o
		}},
	} {
		t.Run(what, func(t *testing.T) {
			const objects = 100
			ix := NewIndex()
			before, counted := testkit.Heap(), int64(0)
			for i := range objects {
				o := row.make(i)
				raw, err := json.Marshal(o)
				if err != nil {
					t.Fatal(err)
				}
				counted += row.memory(raw) - int64(len(raw))
				if err := (keeper{ix}).Change(row.kind, []feed.Object{{Namespace: "ns", Name: fmt.Sprint("o", i), JSON: raw}}); err != nil {
					t.Fatal(err)
				}
			}
			has := testkit.Heap() - before
			t.Logf("%d bytes for each of %d items, %d counted", has/objects/1000, objects*1000, counted/objects/1000)
			if counted < has || counted > 3*has {
				t.Errorf("%d bytes are counted, want %d to %d", counted, has, 3*has)
			}
			runtime.KeepAlive(ix)
		})
	}
}
