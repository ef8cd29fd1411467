package kubectl

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	_ "embed"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/keelson-io/keelson/internal/testports"
)

// This file builds the programs, and runs a function.

// The two servers, and what runs beside them if the flag manager says so.
const (
	upstream    = "kube-apiserver"
	keelson     = "keelson"
	controllers = "kube-controller-manager"
)

// kubernetes is the module with the functions and the programs that they use.
const kubernetes = "k8s.io/kubernetes"

// reported is the version that the programs print. Without it, kubectl takes its own version for a development version.
const reported = "v1.37.1"

// programs are the packages of the programs that the functions run, by name.
var programs = map[string]string{
	"kubectl":         kubernetes + "/cmd/kubectl",
	"kubectl-convert": kubernetes + "/cmd/kubectl-convert",
	upstream:          kubernetes + "/cmd/kube-apiserver",
	controllers:       kubernetes + "/cmd/kube-controller-manager",
	"etcd":            "go.etcd.io/etcd/server/v3",
}

// parts are the folders of the module that the functions read.
var parts = []string{"hack", "test/cmd", "test/fixtures", "test/e2e/testing-manifests", "third_party/forked/shell2junit"}

//go:embed testdata/runner.sh
var runner string

// suite has a copy of upstream's files for each server, which differ in the program kube-apiserver.
type suite struct {
	roots map[string]string // server -> folder
	key   string            // file of the key of service account tokens
}

// newSuite builds the programs and copies upstream's files.
func newSuite(t *testing.T) *suite {
	t.Helper()
	for _, tool := range []string{"bash", "jq", "curl", "openssl", "script", "diff"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("%v: upstream's functions need it; make conformance-kubectl installs it on Debian", err)
		}
	}
	s := &suite{roots: map[string]string{}, key: filepath.Join(t.TempDir(), "sa.key")}
	bin := t.TempDir()
	paths := map[string]string{keelson: build(t, bin, keelson, filepath.Join("..", ".."), "./cmd/keelson")}
	flags := fmt.Sprintf("-X k8s.io/component-base/version.gitVersion=%[1]s -X k8s.io/client-go/pkg/version.gitVersion=%[1]s", reported)
	for name, from := range programs {
		if name == upstream && *server == keelson || name == controllers && !*manager {
			continue
		}
		paths[name] = build(t, bin, name, ".", "-ldflags", flags, from)
	}
	from, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", kubernetes).Output()
	if err != nil {
		t.Fatalf("go list -m %s: %v", kubernetes, err)
	}
	for _, server := range []string{upstream, keelson} {
		root := filepath.Join(t.TempDir(), "kubernetes")
		s.roots[server] = root
		if err := copyParts(strings.TrimSpace(string(from)), root); err != nil {
			t.Fatal(err)
		}
		for name := range programs {
			path := paths[name]
			if name == upstream && server == keelson {
				path = paths[keelson]
			}
			if path == "" {
				continue
			}
			if err := os.Symlink(path, filepath.Join(root, "_output", "bin", name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	if err := os.WriteFile(s.key, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// build builds a program with go build, run in from, and returns its path. If the variable NAME_BIN is set, it names the program to use.
func build(t *testing.T, bin, name, from string, args ...string) string {
	t.Helper()
	if path := os.Getenv(strings.ToUpper(strings.ReplaceAll(name, "-", "_")) + "_BIN"); path != "" {
		return path
	}
	path := filepath.Join(bin, name)
	cmd := exec.Command("go", append([]string{"build", "-o", path}, args...)...)
	cmd.Dir = from
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return path
}

// copyParts copies the files of the module that the functions read to a folder where scripts can be run and files be written.
func copyParts(from, to string) error {
	if err := os.MkdirAll(filepath.Join(to, "_output", "bin"), 0o755); err != nil {
		return err
	}
	for _, part := range parts {
		err := filepath.WalkDir(filepath.Join(from, part), func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(from, path)
			if err != nil {
				return err
			}
			if e.IsDir() {
				return os.MkdirAll(filepath.Join(to, rel), 0o755)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			mode := os.FileMode(0o644)
			if strings.HasPrefix(string(text), "#!") {
				mode = 0o755 // modules do not say which files are programs
			}
			return os.WriteFile(filepath.Join(to, rel), text, mode)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// list returns the functions that apply to the resources that Keelson serves, and what is checked between them.
func (s *suite) list(t *testing.T) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "functions")
	out, err := s.start(t, keelson, t.TempDir(), "list", file)
	if err != nil {
		t.Fatalf("listing the functions: %v\n%s", err, tail(out, 40))
	}
	names, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Fields(string(names))
	if len(all) < 50 {
		t.Fatalf("got %d functions, want those of legacy-script.sh: %q", len(all), all)
	}
	return append(all, between)
}

// run runs a function against a server. Upstream's scripts wait half a minute for a server, which a busy machine may need longer
// for: a run that did not reach the function is repeated.
func (s *suite) run(t *testing.T, server, function string) *outcome {
	t.Helper()
	o := s.runOnce(t, server, function)
	for range 2 {
		if o.passes() || len(o.ended) > 0 {
			break
		}
		o = s.runOnce(t, server, function)
	}
	return o
}

// runOnce runs a function once.
func (s *suite) runOnce(t *testing.T, server, function string) *outcome {
	t.Helper()
	dir := t.TempDir()
	out, err := s.start(t, server, dir, "run", function)
	trace, readErr := os.ReadFile(filepath.Join(dir, "trace"))
	if readErr != nil && !os.IsNotExist(readErr) {
		t.Fatal(readErr)
	}
	for ext, file := range map[string]string{".log": "out", ".server.log": "server.log", ".trace": "trace", ".manager.log": "server.log.manager"} {
		keep(t, server, function, ext, filepath.Join(dir, file))
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Logf("%s: %v", function, err) // a process that was killed may have been about to write
	}
	return newOutcome(function, out, trace, err)
}

// errLimit is the error of a run that took too long.
var errLimit = errors.New("time limit")

// start starts runner.sh in the copy for a server, and returns what it printed when all of its processes have ended.
func (s *suite) start(t *testing.T, server, dir string, args ...string) ([]byte, error) {
	t.Helper()
	ports, err := testports.Free(2)
	if err != nil {
		t.Fatal(err)
	}
	allowed := *limit
	if slices.Contains(args, between) {
		allowed *= 3 // what many functions' worth of commands needs
	}
	ctx, cancel := context.WithTimeout(t.Context(), allowed)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", append([]string{"-c", runner, "runner.sh"}, args...)...)
	cmd.Dir = s.roots[server]
	file := func(name string) string { return filepath.Join(dir, name) }
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir, "TERM=xterm", "SHELL=/bin/bash", "USER=conformance",
		fmt.Sprint("ETCD_PORT=", ports[0]), fmt.Sprint("SECURE_API_PORT=", ports[1]),
		"SERVICE_ACCOUNT_KEY=" + s.key, "TRACE=" + file("trace"), "SERVER_LOG=" + file("server.log"), "ETCD_LOGFILE=" + file("etcd.log"),
	}
	if *manager {
		cmd.Env = append(cmd.Env, "MANAGER=yes")
	}
	out, err := os.Create(file("out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	failed := cmd.Run()
	if cmd.Process != nil {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Errorf("ending what %s left: %v", strings.Join(args, " "), err)
		}
	}
	if failed != nil && ctx.Err() != nil {
		failed = errLimit
	}
	text, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	return text, failed
}
