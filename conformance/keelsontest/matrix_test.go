// Package keelsontest tests the module keelsontest as operators use it: beside each minor version of
// controller-runtime since 0.19, in plain tests and with Ginkgo, with a controller and a webhook.
//
// Each version gets a module of its own, written at test time, because it needs other versions of
// Kubernetes' modules.
package keelsontest

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var versions = flag.String("versions", "", "test beside these versions of controller-runtime, such as v0.19.7,v0.25.2, or all; each needs minutes to compile")

// all has the last release of each minor version.
var all = []string{"v0.19.7", "v0.20.4", "v0.21.0", "v0.22.4", "v0.23.1", "v0.24.1", "v0.25.2"}

// TestControllerRuntime runs the project in testdata beside each version.
func TestControllerRuntime(t *testing.T) {
	if *versions == "" {
		t.Skip("needs -versions")
	}
	chosen := strings.Split(*versions, ",")
	if *versions == "all" {
		chosen = all
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/suite_test.go.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range chosen {
		t.Run(version, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, text string) {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write("go.mod", "module project\n\ngo 1.22.0\n\nrequire (\n\tgithub.com/keelson-io/keelson/keelsontest v0.0.0\n\tsigs.k8s.io/controller-runtime "+version+
				"\n)\n\nreplace github.com/keelson-io/keelson/keelsontest => "+root+"/keelsontest\n")
			write("suite_test.go", string(text))
			run := func(args ...string) string {
				cmd := exec.Command("go", args...)
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", "CRDS="+root+"/keelsontest/testdata")
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
				}
				return string(out)
			}
			run("mod", "tidy")
			out := run("test", "-count=1", "-v", ".")
			for _, want := range []string{"--- PASS: TestPlain", "--- PASS: TestGinkgo", "Ran 1 of 1 Specs"} {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in:\n%s", want, out)
				}
			}
			if mods := run("list", "-m", "all"); strings.Contains(mods, "github.com/keelson-io/keelson v") {
				t.Errorf("the project requires keelson's module:\n%s", mods)
			}
		})
	}
}
