package e2e

import (
	"strings"
	"testing"
)

// TestCompat holds the lines of docs/compat.md that a client can see.
// Ledger: kinds-not-served, version-name, openapi-v3.
func TestCompat(t *testing.T) {
	s := startServer(t)
	t.Run("kinds that are not served are not found", func(t *testing.T) {
		for _, path := range []string{
			"/apis/storagemigration.k8s.io/v1/storageversionmigrations", "/api/v1/componentstatuses",
		} {
			s.do(t, 404, "GET", path, nil)
			s.do(t, 404, "POST", path, []byte(`{}`))
		}
	})
	t.Run("the version says whose it is", func(t *testing.T) {
		if b := s.do(t, 200, "GET", "/version", nil); !strings.Contains(string(b), "+keelson.") {
			t.Errorf("got %s, want +keelson. in gitVersion", b)
		}
	})
	t.Run("documents of group versions only", func(t *testing.T) {
		s.do(t, 200, "GET", "/openapi/v3/api/v1", nil)
		s.do(t, 404, "GET", "/openapi/v3/nothing/of/the/kind", nil)
	})
}
