package authz

import "testing"

// TestIsSubresource covers subresources that keelson serves and some that only Kubernetes has.
func TestIsSubresource(t *testing.T) {
	for _, c := range []struct {
		resource, name string
		want           bool
	}{
		{"pods", "exec", true},
		{"pods", "ephemeralcontainers", true},
		{"pods", "eviction", true},
		{"serviceaccounts", "token", true},
		{"namespaces", "finalize", true},
		{"certificatesigningrequests", "approval", true},
		{"nodes", "proxy", true},
		{"widgets", "status", true},
		{"secrets", "token", false},
		{"pods", "finalize", false},
	} {
		if got := isSubresource(c.resource, c.name); got != c.want {
			t.Errorf("%s/%s: got %v, want %v", c.resource, c.name, got, c.want)
		}
	}
}
