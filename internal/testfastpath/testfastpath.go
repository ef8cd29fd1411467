// Package testfastpath lets the environment variable KEELSON_FASTPATHS switch off fast paths in the
// tests of the packages that import it.
package testfastpath

import (
	"fmt"
	"os"
	"testing"

	"github.com/keelson-io/keelson/internal/fastpath"
)

// atStart is the value of the variable that the switches follow.
var atStart = start()

// start sets the switches when the tests start. A malformed value ends the process, as it ends the
// command keelson.
func start() string {
	if err := fastpath.FromEnvironment(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(2)
	}
	return os.Getenv(fastpath.Variable)
}

// Check fails if the switches do not follow the environment variable. It reads the variable while
// tests run. Otherwise go test would answer from its cache with the result for another value.
func Check(t *testing.T) {
	t.Helper()
	if now := os.Getenv(fastpath.Variable); now != atStart {
		t.Errorf("%s: got %q, and %q when the tests started", fastpath.Variable, now, atStart)
	}
}
