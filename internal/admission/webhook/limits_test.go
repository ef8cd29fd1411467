package webhook

import (
	"fmt"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/webhook"
)

// TestClientsAreBounded makes clients for more webhooks, and for longer certificates, than are kept.
func TestClientsAreBounded(t *testing.T) {
	var c clients
	most := 0
	for n := range maxClients + 50 {
		c.get(webhook.Target{URL: fmt.Sprint("https://hook/", n)})
		most = max(most, len(c.made))
	}
	if most != 10_000 || len(c.made) != 50 {
		t.Errorf("got at most %d clients, and %d at the end, want 10,000 and 50", most, len(c.made))
	}
	c = clients{}
	longest := 0
	for n := range 40 {
		c.get(webhook.Target{URL: fmt.Sprint("https://hook/", n), CABundle: []byte(strings.Repeat("c", 1<<20))})
		longest = max(longest, c.size)
	}
	if longest != 16<<20 || len(c.made) != 8 {
		t.Errorf("got at most %d bytes of certificates, and %d clients at the end, want 16 MiB and 8", longest, len(c.made))
	}
}
