package server

import (
	"testing"

	"github.com/keelson-io/keelson/builtin"
	"github.com/keelson-io/keelson/crd"
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
