// Program definitions writes the files in internal/builtin/definitions: the structure of the schemas of
// the built-in kinds. It runs upstream's generator of OpenAPI definitions over the Go types of the
// module versions in conformance/go.mod, and prints the result without descriptions.
// "go generate ./internal/builtin" runs it. It is in this module because the product does not need the
// generator.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// target is the folder of the generated files.
const target = "../../internal/builtin/definitions"

// groups are the packages of k8s.io/api whose types are printed.
var groups = []string{
	"admissionregistration/v1", "apps/v1", "authentication/v1", "authorization/v1", "autoscaling/v1", "autoscaling/v2",
	"batch/v1", "certificates/v1", "coordination/v1", "core/v1", "discovery/v1", "events/v1", "flowcontrol/v1",
	"networking/v1", "node/v1", "policy/v1", "rbac/v1", "resource/v1", "scheduling/v1", "scheduling/v1alpha3", "storage/v1", "storagemigration/v1",
}

// machinery are the packages of k8s.io/apimachinery that these refer to.
var machinery = []string{"pkg/apis/meta/v1", "pkg/api/resource", "pkg/runtime", "pkg/util/intstr", "pkg/version"}

// extensions is the package of definitions of custom resources.
const extensions = "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

func main() {
	if err := generate(target); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// generate writes one file for each package of types to the folder into. If docs is given, it
// writes the descriptions to that folder, too: tests compare them.
func generate(into string, docs ...string) error {
	const dir = "generated"
	header := filepath.Join(os.TempDir(), "keelson-gen-header")
	if err := os.WriteFile(header, nil, 0o600); err != nil {
		return err
	}
	defer os.Remove(header)
	defer os.RemoveAll(dir)
	args := []string{
		"run", "k8s.io/kube-openapi/cmd/openapi-gen", "--go-header-file", header, "--report-filename", os.DevNull,
		"--output-dir", dir, "--output-pkg", "github.com/keelson-io/keelson/conformance/definitions/generated", "--output-file", "definitions.go",
	}
	for _, g := range groups {
		args = append(args, "k8s.io/api/"+g)
	}
	for _, m := range machinery {
		args = append(args, "k8s.io/apimachinery/"+m)
	}
	args = append(args, extensions)
	for _, command := range [][]string{args, append([]string{"run", "./print/main.go", into}, docs...)} {
		cmd := exec.Command("go", command...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("go %s: %w", command[0], err)
		}
	}
	return nil
}
