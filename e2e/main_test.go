// Package e2e drives the real keelson binary as its users do: with kubectl, with client-go, with HTTP by hand, and with kill -9.
//
// TestMain builds the binary and kubectl once. Each test starts a server of its own on a free loopback port, with a data
// directory that goes away with the test. What the tests apply are other projects' definitions, see internal/testcrds.
//
// KEELSON_BIN and KUBECTL_BIN name binaries to use in place of those that would be built.
package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/keelson-io/keelson/internal/testdir"
)

// keelsonBin and kubectlBin are the programs under test; TestMain builds them.
var keelsonBin, kubectlBin string

func TestMain(m *testing.M) {
	os.Exit(testdir.Run(func(dir string) int { return run(m, dir) }))
}

func run(m *testing.M, dir string) int {
	keelsonBin, kubectlBin = os.Getenv("KEELSON_BIN"), os.Getenv("KUBECTL_BIN")
	// kubectl is a module of its own, so each program is built from its own folder.
	for bin, from := range map[*string]string{&keelsonBin: "../cmd/keelson", &kubectlBin: "kubectl"} {
		if *bin != "" {
			continue
		}
		*bin = filepath.Join(dir, filepath.Base(from))
		cmd := exec.Command("go", "build", "-o", *bin, ".")
		cmd.Dir = from
		if out, err := cmd.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "building %s: %v\n%s", from, err, out)
			return 1
		}
	}
	return m.Run()
}
