package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/cli/command"
	"github.com/keelson-io/keelson/internal/testpty"
)

// TestLintProgress holds that lint shows a count of definitions and policies on a terminal, removes
// it at the end, and shows none elsewhere.
func TestLintProgress(t *testing.T) {
	before := command.ProgressDelay
	command.ProgressDelay = 0
	defer func() { command.ProgressDelay = before }()
	dir := t.TempDir()
	for i := range 2 {
		crd := fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: w%ds.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: w%[1]ds, singular: w%[1]d, kind: W%[1]d, listKind: W%[1]dList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
`, i)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i, ".yaml")), []byte(crd), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	policy := `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations: [{expression: "object.metadata.name != 'a'"}]
`
	if err := os.WriteFile(filepath.Join(dir, "policy.yaml"), []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}

	p := testpty.Open(t)
	exit := make(chan int)
	go func() { exit <- run(context.Background(), []string{"lint", dir}, nil, io.Discard, p.Screen) }()
	if code := <-exit; code != 0 {
		t.Errorf("at a terminal: exit code %d", code)
	}
	if got := p.Take("\r\x1b[K", nil); !strings.Contains(got, "checked 1 of 3") {
		t.Errorf("at a terminal: got %q, want \"checked 1 of 3\" in it", got)
	}

	notes, err := os.Create(filepath.Join(dir, "notes"))
	if err != nil {
		t.Fatal(err)
	}
	defer notes.Close()
	if code := run(context.Background(), []string{"lint", dir}, nil, io.Discard, notes); code != 0 {
		t.Errorf("to a file: exit code %d", code)
	}
	if got, err := os.ReadFile(notes.Name()); err != nil || len(got) > 0 {
		t.Errorf("to a file: got %q, %v, want nothing", got, err)
	}
}
