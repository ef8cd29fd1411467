package keelsontest

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestMain is also the program of TestServerEndsWithItsTest.
func TestMain(m *testing.M) {
	if os.Getenv("KEELSONTEST_WAIT") != "" {
		s, err := New(context.Background())
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(s.process.Pid)
		select {}
	}
	os.Exit(m.Run())
}

func TestStart(t *testing.T) {
	var log bytes.Buffer
	s := Start(t, CRDs("testdata"), Output(&log))
	path := "/apis/example.org/v1/namespaces/default/widgets"
	create := func(a *access, name string) (int, string) {
		t.Helper()
		object := fmt.Sprintf(`{"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": %q}, "spec": {}}`, name)
		code, answer, err := a.do(context.Background(), http.MethodPost, path, "application/json", []byte(object))
		if err != nil {
			t.Fatal(err)
		}
		return code, string(answer)
	}
	if code, answer := create(s.access, "a"); code != http.StatusCreated {
		t.Errorf("as administrator: got %d %s", code, answer)
	}
	text, err := s.UserKubeconfig(context.Background(), "jane", "developers")
	if err != nil {
		t.Fatal(err)
	}
	jane, err := newAccess(text)
	if err != nil {
		t.Fatal(err)
	}
	if code, answer := create(jane, "b"); code != http.StatusForbidden || !strings.Contains(answer, `User \"jane\" cannot create`) {
		t.Errorf("as jane: got %d %s", code, answer)
	}
	// Installing again is an update.
	if err := s.InstallCRDs(context.Background(), "testdata/widgets.yaml"); err != nil {
		t.Error(err)
	}
	on, err := os.ReadFile(s.KubeconfigPath())
	if err != nil || !bytes.Equal(on, s.Kubeconfig()) {
		t.Errorf("the file of the kubeconfig: %v", err)
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), s.URL()) {
		t.Errorf("the log does not name %s: %s", s.URL(), &log)
	}
	if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
		t.Errorf("the data is still there: %v", err)
	}
}

// TestErrors holds that errors name the cause, and leave nothing behind.
func TestErrors(t *testing.T) {
	binary, err := Find(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	wrong := filepath.Join(t.TempDir(), "wrong.yaml")
	if err := os.WriteFile(wrong, []byte("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.example.org}\nspec: {group: example.org, scope: 7}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	malformed := filepath.Join(t.TempDir(), "malformed.yaml")
	if err := os.WriteFile(malformed, []byte("kind: CustomResourceDefinition\nmetadata: {name: [\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		opts []Option
		want string
	}{
		{"a binary that is not there", []Option{Binary("/none/keelson")}, "Binary is /none/keelson: "},
		{"a binary that is another program", []Option{Binary(program("false"))}, "ended before it was ready"},
		{"a wrong flag", []Option{Flags("--no-such-flag")}, "unknown flag: --no-such-flag"},
		{"a missing path", []Option{CRDs("none.yaml")}, "none.yaml"},
		{"a path without definitions", []Option{CRDs("../docs/tour")}, "no CustomResourceDefinition in it"},
		{"a wrong definition", []Option{CRDs(wrong)}, "wrong.yaml: "},
		{"a malformed file", []Option{CRDs(malformed)}, "malformed.yaml"},
		{"a server that needs longer", []Option{Timeout(time.Nanosecond)}, "is not ready: context deadline exceeded"},
	} {
		temp := t.TempDir()
		t.Setenv("TMPDIR", temp)
		s, err := New(context.Background(), append([]Option{Binary(binary)}, c.opts...)...)
		s.Stop() // nil after an error
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.name, err, c.want)
		}
		if left, _ := filepath.Glob(filepath.Join(temp, "*")); len(left) > 0 {
			t.Errorf("%s: left behind: %s", c.name, left)
		}
	}
}

// program returns the path of a program.
func program(name string) string {
	path, err := exec.LookPath(name)
	if err != nil {
		return name
	}
	return path
}

// TestSharedBuild: however many ask for a version at once, it is built once, and then never again.
func TestSharedBuild(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a shell script stands for go")
	}
	tools := t.TempDir()
	// This go installs a program that says which version it is, and notes how it was called.
	script := "#!/bin/sh\necho \"$*\" >> " + tools + "/calls\ncp " + tools + "/made \"$GOBIN/keelson\"\n"
	if err := os.WriteFile(filepath.Join(tools, "go"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tools, "made"), []byte("#!/bin/sh\necho '{\"program\": \"v9.9.9\"}'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", tools+":/usr/bin:/bin")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", os.Getenv("XDG_CACHE_HOME"))
	t.Setenv(binaryVariable, "")
	var all sync.WaitGroup
	for range [8]struct{}{} {
		all.Add(1)
		go func() {
			defer all.Done()
			path, err := Find(context.Background(), Version("v9.9.9"))
			if err != nil || versionOf(context.Background(), path) != "v9.9.9" {
				t.Errorf("got %s, %v", path, err)
			}
		}()
	}
	all.Wait()
	calls, err := os.ReadFile(filepath.Join(tools, "calls"))
	if want := "install github.com/keelson-io/keelson/cmd/keelson@v9.9.9\n"; err != nil || string(calls) != want {
		t.Errorf("go was called with %q, %v; want %q", calls, err, want)
	}
	if _, err := Find(context.Background(), Version("../../x")); err == nil || !strings.Contains(err.Error(), "want one such as v0.3.0") {
		t.Errorf("a version that is none: got %v", err)
	}

	// A binary on the PATH is used if it has the version.
	if err := os.Rename(filepath.Join(tools, "made"), filepath.Join(tools, "keelson")); err != nil {
		t.Fatal(err)
	}
	for _, opts := range [][]Option{{Version("v9.9.9")}, nil} {
		if path, err := Find(context.Background(), opts...); err != nil || path != filepath.Join(tools, "keelson") {
			t.Errorf("with one on the PATH: got %s, %v", path, err)
		}
	}
	if _, err := Find(context.Background(), Version("v9.9.8")); err == nil || !strings.Contains(err.Error(), "building keelson") || !strings.Contains(err.Error(), binaryVariable) {
		t.Errorf("a build that fails: got %v", err)
	}
	if err := os.Remove(filepath.Join(tools, "keelson")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(tools, "go")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", tools)
	if _, err := Find(context.Background()); err == nil || !strings.Contains(err.Error(), "no keelson binary: set KEELSON_BINARY") {
		t.Errorf("without go: got %v", err)
	}
}

// TestServerEndsWithItsTest: a test binary that is killed takes its server with it.
func TestServerEndsWithItsTest(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends processes with their parents")
	}
	binary, err := Find(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "KEELSONTEST_WAIT=1", binaryVariable+"="+binary, "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	_, err = fmt.Fscan(out, &pid)
	cmd.Process.Kill()
	cmd.Wait()
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if os.IsNotExist(err) || bytes.Contains(status, []byte("State:\tZ")) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("process %d still runs", pid)
		}
		runtime.Gosched()
	}
}

// failing is a test that fails, and keeps what it logs.
type failing struct {
	testing.TB
	cleanups []func()
	logged   strings.Builder
}

func (f *failing) Failed() bool                    { return true }
func (f *failing) Cleanup(fn func())               { f.cleanups = append(f.cleanups, fn) }
func (f *failing) Logf(format string, args ...any) { fmt.Fprintf(&f.logged, format, args...) }

// TestFailureShowsTheLog holds that a test that fails shows what the server logged until it was stopped.
func TestFailureShowsTheLog(t *testing.T) {
	f := &failing{TB: t}
	Start(f, LikeEnvtest())
	for _, fn := range f.cleanups {
		fn()
	}
	if text := f.logged.String(); !strings.Contains(text, "msg=ready") || !strings.Contains(text, "msg=stopping") {
		t.Errorf("got %q, want the server's log", text)
	}
}
