// Package e2e drives the real keelson binary as its users do: with kubectl, with client-go, with HTTP by hand, and with kill -9.
//
// TestMain builds the binary and kubectl once. Each test starts a server of its own on a free loopback port, with a data
// directory that goes away with the test. The tests apply definitions of other projects, see internal/testcrds.
//
// KEELSON_BIN and KUBECTL_BIN name binaries to use in place of those that would be built.
package e2e

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/klog/v2"

	"github.com/keelson-io/keelson/internal/testdir"
	"github.com/keelson-io/keelson/internal/testprogram"
)

// keelsonBin and kubectlBin are the programs under test; TestMain builds them.
var keelsonBin, kubectlBin string

func TestMain(m *testing.M) {
	os.Exit(testdir.Run(func(dir string) int { return run(m, dir) }))
}

func run(m *testing.M, dir string) int {
	// The log of client-go would hide the message of a test that fails.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	for _, b := range []struct {
		bin              *string
		variable, folder string
	}{{&keelsonBin, "KEELSON_BIN", "../cmd/keelson"}, {&kubectlBin, "KUBECTL_BIN", "kubectl"}} {
		var err error
		if *b.bin, err = testprogram.Build(b.variable, b.folder, filepath.Join(dir, filepath.Base(b.folder))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}
