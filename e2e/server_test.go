package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/keelson-io/keelson/internal/testports"
	"github.com/keelson-io/keelson/internal/testprogram"
)

// server is a keelson process and its data directory, which outlives the process.
type server struct {
	t    *testing.T
	dir  string
	port int
	args []string
	env  []string            // in addition to the test's
	bin  string              // "": keelsonBin
	as   *syscall.Credential // nil: the user who runs the tests
	cmd  *testprogram.Process
	log  *logFile // of all processes so far
	http *http.Client
}

// startServer starts a server with an empty data directory, ready to be used; the test's end stops it.
func startServer(t *testing.T, args ...string) *server {
	t.Helper()
	s := newServer(t, args...)
	s.start()
	return s
}

// newServer is startServer before the process is started.
func newServer(t *testing.T, args ...string) *server {
	t.Helper()
	s := &server{t: t, dir: filepath.Join(t.TempDir(), "data"), port: freePort(t), args: args, log: newLogFile(t)}
	t.Cleanup(func() {
		if s.cmd != nil && s.running() {
			s.stop(syscall.SIGKILL)
		}
		if t.Failed() {
			t.Logf("server log:\n%s", tail(s.log.String(), 4000))
		}
	})
	return s
}

// start runs the binary and waits until it is ready.
func (s *server) start() {
	s.t.Helper()
	s.spawn()
	if err := s.waitReady(); err != nil {
		s.t.Fatalf("server: %v\n%s", err, tail(s.log.String(), 4000))
	}
}

func (s *server) spawn() {
	s.t.Helper()
	args := append([]string{"serve", "--data-dir", s.dir, "--secure-port", strconv.Itoa(s.port)}, s.args...)
	bin := s.bin
	if bin == "" {
		bin = keelsonBin
	}
	cmd := exec.Command(bin, args...)
	cmd.Env = append(os.Environ(), s.env...)
	cmd.Stdout, cmd.Stderr = s.log.file, s.log.file
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as}
	s.cmd = testprogram.Start(s.t, cmd)
}

func (s *server) running() bool { return s.cmd.IsRunning() }

// stop sends the signal and returns the exit code when the process has ended.
func (s *server) stop(sig syscall.Signal) int {
	s.t.Helper()
	code := s.cmd.Stop(s.t, sig)
	if s.http != nil {
		s.http.CloseIdleConnections()
	}
	return code
}

func (s *server) kubeconfig() string { return filepath.Join(s.dir, "admin.kubeconfig") }

// waitReady waits for the kubeconfig of the first start and for /readyz.
func (s *server) waitReady() error {
	deadline := time.Now().Add(patience)
	var last error
	for time.Now().Before(deadline) && s.running() {
		if last = s.ready(); last == nil {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	if !s.running() {
		return errors.New("ended before it was ready")
	}
	return fmt.Errorf("not ready after %v: %w", patience, last)
}

func (s *server) ready() error {
	if s.http == nil {
		cfg, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig())
		if err != nil {
			return err
		}
		if s.http, err = rest.HTTPClientFor(cfg); err != nil {
			return err
		}
	}
	code, body, err := s.try("GET", "/readyz", nil)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("/readyz: %d %s", code, body)
	}
	return err
}

func (s *server) url(path string) string { return fmt.Sprintf("https://127.0.0.1:%d%s", s.port, path) }

// try sends one request as the administrator; header lists names and values in turn.
func (s *server) try(method, path string, body []byte, header ...string) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return s.send(ctx, method, path, body, header...)
}

// send is try until the context ends.
func (s *server) send(ctx context.Context, method, path string, body []byte, header ...string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url(path), bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, b, err
}

// do is try that must be answered with the code.
func (s *server) do(t *testing.T, want int, method, path string, body []byte, header ...string) []byte {
	t.Helper()
	code, b, err := s.try(method, path, body, header...)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	if code != want {
		t.Fatalf("%s %s: got %d, want %d: %s", method, path, code, want, tail(string(b), 1000))
	}
	return b
}

func (s *server) dynamic(t *testing.T) dynamic.Interface {
	t.Helper()
	c, err := dynamic.NewForConfig(s.config(t))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// config is what clients of the administrator are made with.
func (s *server) config(t *testing.T) *rest.Config {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS, cfg.Burst = -1, -1
	return cfg
}

// peakMemory is the most memory that the process ever had resident, in bytes.
func (s *server) peakMemory(t *testing.T) int64 {
	t.Helper()
	peak := peakOf(s.cmd.Process.Pid)
	if peak == 0 {
		t.Fatal("no VmHWM in the process's status")
	}
	return peak
}

// peakOf returns the most memory that a process ever had resident, in bytes; 0 if the system does not
// tell, or the process has ended.
func peakOf(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	var kib int64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		return 0
	}
	return kib << 10
}

func freePort(t *testing.T) int {
	t.Helper()
	ports, err := testports.Free(1)
	if err != nil {
		t.Fatal(err)
	}
	return ports[0]
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// logFile takes what processes print, without a pipe in between: what a process printed before it answered is there
// when the answer is.
type logFile struct {
	t    *testing.T
	file *os.File // open for appending
}

func newLogFile(t *testing.T) *logFile {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(t.TempDir(), "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return &logFile{t, file}
}

func (l *logFile) String() string {
	text, err := os.ReadFile(l.file.Name())
	if err != nil {
		l.t.Errorf("the server's log: %v", err)
	}
	return string(text)
}

func (l *logFile) reset() {
	if err := l.file.Truncate(0); err != nil {
		l.t.Errorf("the server's log: %v", err)
	}
}

// syncBuffer is a buffer that a process writes and a test reads.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// withoutCertificate trusts the server's certificate and shows none.
func withoutCertificate(t *testing.T, s *server) http.RoundTripper {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	rt, err := rest.TransportFor(rest.AnonymousClientConfig(cfg))
	if err != nil {
		t.Fatal(err)
	}
	return rt
}
