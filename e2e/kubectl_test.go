package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/keelson-io/keelson/internal/testkit"
)

// kubectl runs the real kubectl against one server.
type kubectl struct {
	dir string // for files and kubectl's own cache
	env []string
}

func newKubectl(t *testing.T, s *server) *kubectl {
	t.Helper()
	k := &kubectl{dir: t.TempDir()}
	k.env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig(), "HOME="+k.dir, "TMPDIR="+k.dir, "KUBECTL_COMMAND_HEADERS=")
	return k
}

func (k *kubectl) command(ctx context.Context, stdin string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, kubectlBin, args...)
	cmd.Dir, cmd.Env = k.dir, k.env
	cmd.Stdin = strings.NewReader(stdin)
	return cmd
}

// run returns what kubectl printed, on both outputs, and its exit code.
func (k *kubectl) run(t *testing.T, stdin string, args ...string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := k.command(ctx, stdin, args...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// ok wants exit code 0 and the texts in the output.
func (k *kubectl) ok(t *testing.T, args []string, want ...string) string {
	t.Helper()
	return k.in(t, "", args, want...)
}

// in is ok with a text on standard input.
func (k *kubectl) in(t *testing.T, stdin string, args []string, want ...string) string {
	t.Helper()
	out, code := k.run(t, stdin, args...)
	if code != 0 {
		t.Errorf("kubectl %s: exit code %d\n%s", strings.Join(args, " "), code, out)
	}
	contains(t, args, out, want)
	return out
}

// established waits until definitions are served. Until one has a status at all, kubectl wait gives up at once.
func (k *kubectl) established(t *testing.T, which string) {
	t.Helper()
	var out string
	eventually(t, "definitions are served", func() bool {
		var code int
		out, code = k.run(t, "", args("wait --for=condition=Established --timeout=20s crd "+which)...)
		return code == 0 || !strings.Contains(out, "accessor error")
	})
	if !strings.Contains(out, "condition met") {
		t.Errorf("waiting for definitions: %s", out)
	}
}

// fails wants an exit code other than 0 and the texts in the output.
func (k *kubectl) fails(t *testing.T, stdin string, args []string, want ...string) string {
	t.Helper()
	out, code := k.run(t, stdin, args...)
	if code == 0 {
		t.Errorf("kubectl %s: exit code 0, want a failure\n%s", strings.Join(args, " "), out)
	}
	contains(t, args, out, want)
	return out
}

func contains(t *testing.T, args []string, out string, want []string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(out, w) {
			t.Errorf("kubectl %s: output lacks %q:\n%s", strings.Join(args, " "), w, tail(out, 3000))
		}
	}
}

// write puts a file into kubectl's folder.
func (k *kubectl) write(t *testing.T, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(k.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// follow runs kubectl in the background until stop is called; its output can be read all the while.
func (k *kubectl) follow(t *testing.T, args ...string) (out *syncBuffer, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := k.command(ctx, "", args...)
	out = &syncBuffer{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { cmd.Wait(); close(done) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return out, stop
}

// patience is how long tests wait for what is to happen in a moment: no machine is so slow.
const patience = time.Minute

// eventually waits until the function says yes.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	testkit.Eventually(t, what, ok)
}

func args(line string) []string { return strings.Fields(line) }

func joinYAML(docs ...[]byte) []byte { return bytes.Join(docs, []byte("\n---\n")) }
