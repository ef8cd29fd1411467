package etcd

import (
	"context"
	"strings"
	"testing"
	"time"
)

// TestProbe asks a member about itself, and holds that one that is missing is noticed at once.
func TestProbe(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	url := listen(t, openTest(t, Config{Fast: true}), nil)
	if m, err := Probe(ctx, Config{}, url); err != nil || !strings.HasPrefix(m.Version, "3.") || !m.HasLeader || len(m.Problems) > 0 {
		t.Errorf("got %+v, %v, want a member of a healthy cluster", m, err)
	}
	for endpoint, want := range map[string]string{"http://127.0.0.1:1": "connection refused", "127.0.0.1": "want a URL"} {
		if _, err := Probe(ctx, Config{}, endpoint); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", endpoint, err, want)
		}
	}
}
