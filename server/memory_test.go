package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/authz/config"
	"github.com/keelson-io/keelson/internal/builtin"
	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/kind"
)

// TestMemoryOfKinds: each kind of which more is kept than what is stored is served under the name that memoryOf has for it, and counts more.
func TestMemoryOfKinds(t *testing.T) {
	kinds := kind.NewRegistry(builtin.All(&crd.Compiler{})...).Load()
	of := memoryOf(kinds)
	raw := []byte(`{"kind":"x","spec":{"nodeName":"n","claimRef":{"name":"x"}},"rules":[{"verbs":["x"]}],"subjects":[{"kind":"User","secretRef":{}}]}`)
	for prefix, memory := range of {
		if n := memory(raw); n <= int64(len(raw)) {
			t.Errorf("%s: %d bytes are kept for %d", prefix, n, len(raw))
		}
	}
	if len(of) != 14 {
		t.Errorf("%d kinds are served of those that are named, want 14", len(of))
	}
}

// TestClusterScopedObjectsHaveHalf: a user who may write definitions fills half of the memory for
// what is stored, and no more: others go on, and so does an administrator.
func TestClusterScopedObjectsHaveHalf(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{}), TokenAuthFile: tokens(t, "author", "ann", "root/system:masters"), MemoryLimit: 400 << 20,
		Authorization: config.Flags{Modes: []string{config.AlwaysAllow}}})
	define := func(user string, i int) (int, string) {
		return r.callAs(user, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
			"metadata":{"name":"a%d.demo.io"},"spec":{"group":"demo.io","scope":"Namespaced","names":{"plural":"a%[1]d","kind":"A%[1]d"},"versions":[{"name":"v1","served":true,"storage":true,
			"schema":{"openAPIV3Schema":{"type":"object","description":%[2]q}}}]}}`, i, strings.Repeat("d", 200_000)), "application/json")
	}
	for i := range 100 {
		code, text := define("author", i)
		if code == http.StatusCreated {
			continue
		}
		if want := "etcdserver: mvcc: database space exceeded: cluster-scoped objects take "; code != 500 || !strings.Contains(text, want) || i < 3 {
			t.Errorf("definition %d: got %d %.300s, want %q", i, code, text, want)
		}
		if code, text := r.callAs("ann", "POST", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"m"}}`, "application/json"); code != http.StatusCreated {
			t.Errorf("an object in a namespace: got %d %.300s", code, text)
		}
		if code, text := define("root", 1000); code != http.StatusCreated {
			t.Errorf("an administrator's definition: got %d %.300s", code, text)
		}
		return
	}
	t.Error("100 definitions were stored, want a refusal")
}
