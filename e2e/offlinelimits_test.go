package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// This file gives offline commands inputs that take much memory or time.

// runBounded runs a command in a folder, and returns what it printed and the most memory that it had resident, in bytes.
func runBounded(t *testing.T, dir string, args ...string) (said string, peak int64) {
	t.Helper()
	cmd := exec.Command(keelsonBin, args...)
	cmd.Dir = dir
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // it may say no
	}()
	// What the kernel tells at the end begins with the memory of this process, from which the other one was forked.
	for running := true; running; {
		select {
		case <-ended:
			running = false
		case <-time.After(2 * time.Millisecond):
			peak = max(peak, peakOf(cmd.Process.Pid))
		}
	}
	t.Logf("keelson %s: %v", strings.Join(args, " "), time.Since(began).Round(time.Millisecond))
	if peak == 0 {
		t.Skip("this system does not say how much memory a process has")
	}
	if strings.Contains(out.String(), "goroutine ") {
		t.Fatalf("keelson %v: %s", args, tail(out.String(), 2000))
	}
	return out.String(), peak
}

// TestOfflineMemory gives offline commands documents that aliases make large: each is within the bounds of a document.
func TestOfflineMemory(t *testing.T) {
	t.Parallel()
	const limit = 300 << 20
	dir := t.TempDir()
	write := func(name string, text []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	value := strings.Repeat("A", 10_000)
	var many []byte
	for i := range 400 {
		many = fmt.Appendf(many, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a%d}\nx: &a %q\ndata: {", i, value)
		for j := range 2000 {
			many = fmt.Appendf(many, "k%d: *a,", j)
		}
		many = append(many, "}\n---\n"...)
	}
	write("many.yaml", many)
	suite := fmt.Appendf(nil, "crd: crd.yaml\nx: &a %q\ncases:\n- name: a\n  object:\n    apiVersion: v1\n    kind: ConfigMap\n    metadata: {name: a}\n    data: {", strings.Repeat("A", 1<<20))
	for j := range 20_000 {
		suite = fmt.Appendf(suite, "k%d: *a,", j)
	}
	write("suite.yaml", append(suite, "}\n"...))
	write("crd.yaml", []byte(widgets))
	for _, args := range [][]string{
		{"validate", "many.yaml"}, {"lint", "many.yaml"}, {"normalize", "-f", "crd.yaml", "many.yaml"}, {"test", "suite.yaml"},
		{"authz", "can", "--as", "jane", "--rbac", "many.yaml", "get", "pods"}, {"eval", "self.size()", "--data", "many.yaml"},
	} {
		said, peak := runBounded(t, dir, append(args, "--memory-limit", "300Mi")...)
		// What a program takes before the limit is noticed comes on top.
		if peak > limit+limit/2 {
			t.Errorf("keelson %v: the process took %d MiB, want about %d at most; it said %s", args, peak>>20, limit>>20, tail(said, 300))
		}
		t.Logf("%d MiB; %s", peak>>20, tail(said, 200))
	}
}

// TestOfflineGlobs gives offline commands globs with very many ways to match.
func TestOfflineGlobs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	deep := filepath.Join(dir, strings.Repeat("d/", 40))
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	object := []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: BAD}\n")
	for _, file := range []string{filepath.Join(dir, strings.Repeat("a", 40)+".yaml"), filepath.Join(deep, strings.Repeat("a", 40)+".yaml")} {
		if err := os.WriteFile(file, object, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, setting := range map[string]string{
		"braces":     "exclude: ['" + strings.Repeat("{a,aa,a}", 24) + "zz']",
		"stars":      "exclude: ['" + strings.Repeat("*a", 24) + "zz']",
		"doublestar": "exclude: ['" + strings.Repeat("**/d/", 16) + "zz']",
		"crds":       "crds: ['" + strings.Repeat("{d,d}/", 26) + "*.yaml']",
		"crds deep":  "crds: ['" + strings.Repeat("**/", 12) + "q.yaml']",
		"suppress":   "suppress: [{id: FieldValueInvalid, reason: x, path: '" + strings.Repeat("{a,aa,a}", 24) + "zz'}]",
		"suppress**": "suppress: [{id: FieldValueInvalid, reason: x, path: '" + strings.Repeat("**/d/", 16) + "zz'}]",
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(dir, ".keelson.yaml"), []byte("apiVersion: cli.keelson.io/v1\nkind: Configuration\n"+setting+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(keelsonBin, "validate", ".")
			cmd.Dir = dir
			ended := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
			out, _ := cmd.CombinedOutput()
			if !ended.Stop() {
				t.Errorf("it does not end; it said %s", out)
			}
		})
	}
}

// TestSignalsEndOfflineCommands sends a signal to a command that has work for a minute.
func TestSignalsEndOfflineCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var text []byte
	for i := range 400_000 {
		text = fmt.Appendf(text, "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a%d}\nspec: {a: [%d, b, {c: d}]}\n---\n", i, i)
	}
	for name, content := range map[string]string{"many.yaml": string(text), "crd.yaml": widgets} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		cmd := exec.Command(keelsonBin, "validate", "-f", "crd.yaml", "many.yaml")
		cmd.Dir = dir
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(500 * time.Millisecond) // it reads for seconds; that it has begun does not matter
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatalf("it ended before it got the signal: %v", err)
		}
		began := time.Now()
		_ = cmd.Wait()
		if took := time.Since(began); took > 10*time.Second { // a second, on an idle machine
			t.Errorf("it ends %v after %v", took, signal)
		} else {
			t.Logf("it ends %v after %v", took.Round(time.Millisecond), signal)
		}
	}
}
