package e2e

import (
	"strings"
	"testing"
)

// TestCompat holds the lines of docs/compat.md that a client can see.
// Ledger: component-statuses, version-name, openapi-v3.
func TestCompat(t *testing.T) {
	s := startServer(t)
	t.Run("the store is the component whose status is known", func(t *testing.T) {
		all := string(s.do(t, 200, "GET", "/api/v1/componentstatuses", nil))
		if strings.Count(all, `"name":`) != 1 || !strings.Contains(all, `"name":"etcd-0"`) || !strings.Contains(all, `"status":"True"`) {
			t.Errorf("got %s, want a healthy etcd-0", all)
		}
		s.do(t, 200, "GET", "/api/v1/componentstatuses/etcd-0", nil)
		if b := s.do(t, 404, "GET", "/api/v1/componentstatuses/scheduler", nil); !strings.Contains(string(b), `componentstatus \"scheduler\" not found`) {
			t.Errorf("got %s", b)
		}
		s.do(t, 405, "POST", "/api/v1/componentstatuses", []byte(`{}`))
		if b := s.do(t, 405, "GET", "/api/v1/componentstatuses?watch=1", nil); !strings.Contains(string(b), `watch is not supported on resources of kind \"componentstatuses\"`) {
			t.Errorf("got %s", b)
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
