package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/keelson-io/keelson/internal/testkit"
)

// TestKilledExport kills exports to SQLite again and again. The database stays readable, says that it
// is not complete, and is complete after the next export that nobody kills.
func TestKilledExport(t *testing.T) {
	const objects = 60_000
	dir := t.TempDir()
	file, db := filepath.Join(dir, "objects.yaml"), filepath.Join(dir, "a.db")
	var text bytes.Buffer
	for i := range objects {
		fmt.Fprintf(&text, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d, namespace: default}\ndata: {n: \"%d\"}\n---\n", i, i)
	}
	if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	count := func() (out, errs string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		cmd := exec.CommandContext(t.Context(), keelsonBin, "query", "true", "--db", "sqlite://"+db, "--kind", "ConfigMap", "--count")
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil {
			t.Fatalf("query: %v\n%s", err, stderr.Bytes())
		}
		return strings.TrimSpace(stdout.String()), stderr.String()
	}
	for round := range 3 {
		cmd := exec.CommandContext(t.Context(), keelsonBin, "export", "--to", "sqlite://"+db, file)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			testkit.Eventually(t, "rows of a transaction", func() bool {
				out, err := exec.CommandContext(t.Context(), keelsonBin, "query", "true", "--db", "sqlite://"+db, "--kind", "ConfigMap", "--count").Output()
				return err == nil && strings.TrimSpace(string(out)) != "0"
			})
		} else {
			time.Sleep(time.Duration(round) * 300 * time.Millisecond) // any moment will do
		}
		cmd.Process.Kill()
		if cmd.Wait() == nil {
			t.Logf("round %d: it had ended", round)
			continue
		}
		if n, errs := count(); !strings.Contains(errs, "the export of ConfigMap is not complete") {
			t.Errorf("after a kill: got %s objects and %q, want that the export is not complete", n, errs)
		}
	}
	if out, err := exec.CommandContext(t.Context(), keelsonBin, "export", "--to", "sqlite://"+db, file).CombinedOutput(); err != nil {
		t.Fatalf("export: %v\n%s", err, out)
	}
	if n, errs := count(); n != fmt.Sprint(objects) || errs != "" {
		t.Errorf("got %s objects and %q, want %d", n, errs, objects)
	}
}
