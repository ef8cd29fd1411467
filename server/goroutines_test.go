package server

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/internal/testkit"
)

// goroutines returns the stacks of all goroutines with code of this module but the caller's, by
// their number.
func goroutines() map[string]string {
	text := make([]byte, 64<<20)
	text = text[:runtime.Stack(text, true)]
	all := map[string]string{}
	for i, stack := range strings.Split(string(text), "\n\n") {
		number, _, _ := strings.Cut(strings.TrimPrefix(stack, "goroutine "), " ")
		if i > 0 && strings.Contains(stack, "github.com/keelson-io/keelson/") {
			all[number] = stack
		}
	}
	return all
}

// TestNoGoroutineIsLeft holds that all parts of a server, the controllers among them, end with it.
func TestNoGoroutineIsLeft(t *testing.T) {
	before := goroutines()
	r := start(t, Config{Store: mem.New(mem.Options{})})
	r.define()
	r.until("the controllers run: the namespace has its service account", func() bool {
		code, _ := r.call(r.client, "GET", "/api/v1/namespaces/default/serviceaccounts/default", "")
		return code == 200
	})
	r.end()
	r.client.CloseIdleConnections()
	testkit.EventuallySay(t, func() (string, bool) {
		left := goroutines()
		for number := range before {
			delete(left, number)
		}
		for _, stack := range left {
			return fmt.Sprintf("the goroutines of the server have ended: %d are left, such as:\n%s", len(left), stack), false
		}
		return "", true
	})
}
