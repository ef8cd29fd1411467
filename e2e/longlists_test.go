package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// TestLongLists stores objects with 1,000 items in their lists, of which the server keeps an index or a graph besides, until it takes no
// more. It stays within its limit, and somebody in another namespace reads long lists all the time, also after a restart. Each request
// is shorter than what waits when memory is tight.
// Ledger: memory-limit.
func TestLongLists(t *testing.T) {
	t.Parallel()
	const most = 256 << 20
	items := func(n int, format string) string {
		var b strings.Builder
		for i := range 1000 {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(strings.ReplaceAll(format, "%d", fmt.Sprintf("%x", n*1000+i)))
		}
		return b.String()
	}
	for _, row := range []struct{ what, list, object, item string }{
		{"owners", "/api/v1/namespaces/dev/configmaps",
			`{"metadata":{"name":"NAME","ownerReferences":[ITEMS]}}`, `{"apiVersion":"a/v","kind":"A","name":"a","uid":"%d"}`},
		{"subjects", "/apis/rbac.authorization.k8s.io/v1/namespaces/dev/rolebindings",
			`{"metadata":{"name":"NAME"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"edit"},"subjects":[ITEMS]}`, `{"kind":"User","name":"u%d"}`},
		{"names", "/apis/rbac.authorization.k8s.io/v1/namespaces/dev/roles",
			`{"metadata":{"name":"NAME"},"rules":[{"verbs":["get"],"apiGroups":[""],"resources":["pods"],"resourceNames":[ITEMS]}]}`, `"%d"`},
		{"references", "/api/v1/namespaces/dev/pods",
			`{"metadata":{"name":"NAME"},"spec":{"nodeName":"n","containers":[{"name":"c","image":"i","envFrom":[ITEMS]}]}}`, `{"secretRef":{"name":"s%d"}}`},
	} {
		t.Run(row.what, func(t *testing.T) {
			s := startServer(t, "--memory-limit=256Mi")
			s.do(t, 201, "POST", "/api/v1/namespaces", []byte(`{"metadata":{"name":"dev"}}`))
			for user, in := range map[string][2]string{"ed": {"dev", "cluster-admin"}, "bob": {"default", "edit"}} {
				s.do(t, 201, "POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/"+in[0]+"/rolebindings", fmt.Appendf(nil,
					`{"metadata":{"name":%q},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":%q},"subjects":[{"kind":"User","name":%q}]}`, user, in[1], user))
			}
			for i := range 300 {
				s.do(t, 201, "POST", configMapList, fmt.Appendf(nil, `{"metadata":{"name":"o%d"}}`, i))
			}
			reads := func() {
				t.Helper()
				if code, body, err := s.try("GET", configMapList, nil, "Impersonate-User", "bob"); err != nil || code != 200 {
					t.Fatalf("somebody else's list: got %d, %v: %.300s", code, err, body)
				}
			}
			stored, refused := 0, false
			for n := 0; n < 1500 && !refused; n++ {
				code, body, err := s.try("POST", row.list, []byte(strings.NewReplacer("NAME", fmt.Sprint("n", n), "ITEMS", items(n, row.item)).Replace(row.object)), "Impersonate-User", "ed")
				switch {
				case err == nil && code == 201:
					stored++
				case err == nil && code == 500 && strings.Contains(string(body), "etcdserver: mvcc: database space exceeded: what is stored takes "):
					refused = true
				default:
					t.Fatalf("object %d: got %d, %v: %.300s", n, code, err, body)
				}
				if n%20 == 0 {
					reads()
				}
			}
			if !refused {
				t.Errorf("%d objects were stored, want a refusal before", stored)
			}
			reads()
			full := s.peakMemory(t)
			s.stop(syscall.SIGTERM)
			s.start()
			reads()
			again := s.peakMemory(t)
			t.Logf("%d objects; at most %d MiB, %d MiB after a restart", stored, full>>20, again>>20)
			if full > most || again > most {
				t.Errorf("the server took %d MiB, and %d MiB after a restart, want at most %d", full>>20, again>>20, most>>20)
			}
		})
	}
}
