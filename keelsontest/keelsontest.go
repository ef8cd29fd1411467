// Package keelsontest gives Go tests a Keelson server of their own. It starts the keelson binary and
// depends on nothing but the standard library, so that it works beside any version of client-go and
// controller-runtime.
//
//	func TestController(t *testing.T) {
//		s := keelsontest.Start(t, keelsontest.CRDs("../config/crd/bases"))
//		config, err := clientcmd.RESTConfigFromKubeConfig(s.Kubeconfig())
//		…
//	}
//
// # The binary
//
// The package uses the first of these:
//
//   - the file that [Binary] or the environment variable KEELSON_BINARY names
//   - keelson on the PATH, if no version is asked for or it has that version
//   - the binary of the version that [Version] or KEELSON_VERSION names, otherwise that of this module.
//     Package keelsontest builds it once with "go install" and keeps it in the user's cache directory.
//     Test binaries that run at the same time share the build.
//
// [Find] returns the path of the binary, and builds it if necessary.
//
// # Servers
//
// Each server has a data directory of its own, listens on a free port of the loopback interface, and
// runs until [Server.Stop]. Servers share nothing. A server ends with its test binary even if that is
// killed, on Linux; on other systems a killed test binary leaves the server running.
package keelsontest

// This file starts and stops servers.

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
	"strings"
	"sync"
	"testing"
	"time"
)

// Server is a running server.
type Server struct {
	binary     string
	dir        string // of the data; removed by Stop
	kubeconfig []byte
	access     *access
	log        *tail

	process *os.Process
	ended   chan struct{} // closed when the process has ended
	exit    error         // of the process; valid once ended is closed
	stop    sync.Once
	stopErr error
}

// Option changes how a server is started.
type Option func(*options)

type options struct {
	binary, version string
	crds, flags     []string
	output          io.Writer
	timeout         time.Duration
}

// CRDs installs CustomResourceDefinitions: from files, or from all .yaml, .yml and .json files below
// directories. Other objects in these files are ignored. A path without any definition is an error.
func CRDs(paths ...string) Option {
	return func(o *options) { o.crds = append(o.crds, paths...) }
}

// Flags adds flags for "keelson serve", such as --token-auth-file=users.csv.
func Flags(flags ...string) Option {
	return func(o *options) { o.flags = append(o.flags, flags...) }
}

// LikeEnvtest starts the server as envtest starts kube-apiserver, for tests that do the work of controllers themselves: no controllers
// run, deleted namespaces remain, and pods need no service account.
func LikeEnvtest() Option {
	return Flags("--controllers=", "--disable-admission-plugins=ServiceAccount")
}

// Binary uses this binary.
func Binary(path string) Option {
	return func(o *options) { o.binary = path }
}

// Version uses the binary of this version, such as v0.3.0 or latest.
func Version(version string) Option {
	return func(o *options) { o.version = version }
}

// Output writes the server's log to w. Without it, [Start] logs the last lines if the test fails, and errors have them.
func Output(w io.Writer) Option {
	return func(o *options) { o.output = w }
}

// Timeout bounds the time from the start of the process until it is ready and the definitions are
// served. The default is one minute. It does not bound the build of the binary.
func Timeout(d time.Duration) Option {
	return func(o *options) { o.timeout = d }
}

// Start starts a server that ends with the test. If that fails, the test fails. In Ginkgo, pass
// GinkgoTB(), or call [New] in BeforeSuite.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s, err := New(context.Background(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() && s.log.to == nil {
			t.Logf("the server's log ends with:\n%s", s.log)
		}
	})
	return s
}

// stopWithin is the time a server has to end by itself before it is killed.
const stopWithin = 15 * time.Second

// New starts a server. It returns when the server is ready and the definitions are served. The
// caller calls Stop. ctx ends the start, not the server.
func New(ctx context.Context, opts ...Option) (*Server, error) {
	s, err := start(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("keelsontest: %w", err)
	}
	return s, nil
}

// start is New without the name of the package in errors.
func start(ctx context.Context, opts []Option) (*Server, error) {
	o := options{timeout: time.Minute}
	for _, opt := range opts {
		opt(&o)
	}
	binary, err := find(ctx, &o)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "keelsontest-*")
	if err != nil {
		return nil, err
	}
	s := &Server{binary: binary, dir: dir, log: &tail{to: o.output}, ended: make(chan struct{})}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	err = s.run(o.flags)
	if err == nil {
		err = s.await(ctx)
	}
	if err == nil {
		err = s.install(ctx, o.crds)
	}
	if err != nil {
		return nil, errors.Join(err, s.end())
	}
	return s, nil
}

// data returns the data directory.
func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// run starts the process.
func (s *Server) run(flags []string) error {
	cmd := exec.Command(s.binary, append([]string{"serve", "--data-dir", s.data(), "--bind-address", "127.0.0.1", "--secure-port", "0"}, flags...)...)
	cmd.Stdout, cmd.Stderr = s.log, s.log
	started := make(chan error, 1)
	go func() {
		// The process ends with the thread that started it, so this goroutine keeps its thread.
		keepThread()
		endWithParent(cmd)
		err := cmd.Start()
		if err == nil {
			s.process = cmd.Process
		}
		started <- err
		if err == nil {
			s.exit = cmd.Wait()
			close(s.ended)
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("starting %s: %w", s.binary, err)
	}
	return nil
}

// await waits until the server is ready.
func (s *Server) await(ctx context.Context) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if s.access == nil {
			s.readKubeconfig()
		} else if status, _, err := s.access.do(ctx, http.MethodGet, "/readyz", "", nil); err == nil && status == http.StatusOK {
			return nil
		}
		select {
		case <-s.ended:
			return fmt.Errorf("%s serve ended before it was ready (%v); its log ends with:\n%s", s.binary, s.exit, s.log)
		case <-ctx.Done():
			return fmt.Errorf("%s serve is not ready: %w; its log ends with:\n%s", s.binary, ctx.Err(), s.log)
		case <-tick.C:
		}
	}
}

// readKubeconfig reads the administrator's kubeconfig, if the server has written it.
func (s *Server) readKubeconfig() {
	text, err := os.ReadFile(s.KubeconfigPath())
	if err != nil || !bytes.HasSuffix(text, []byte("\n")) {
		return
	}
	if a, err := newAccess(text); err == nil {
		s.access, s.kubeconfig = a, text
	}
}

// Kubeconfig returns a kubeconfig with all permissions, for clientcmd.RESTConfigFromKubeConfig.
func (s *Server) Kubeconfig() []byte { return bytes.Clone(s.kubeconfig) }

// KubeconfigPath returns the path of a file with the same kubeconfig, for programs that take one.
func (s *Server) KubeconfigPath() string { return filepath.Join(s.data(), "admin.kubeconfig") }

// URL returns the address of the server.
func (s *Server) URL() string { return s.access.server }

// UserKubeconfig returns the kubeconfig of a user with a client certificate, who has the permissions
// that roles and bindings give to the name and the groups.
func (s *Server) UserKubeconfig(ctx context.Context, name string, groups ...string) ([]byte, error) {
	args := []string{"kubeconfig", "--data-dir", s.data(), "--user", name}
	for _, g := range groups {
		args = append(args, "--group", g)
	}
	out, err := output(exec.CommandContext(ctx, s.binary, args...))
	if err != nil {
		return nil, fmt.Errorf("keelsontest: a kubeconfig for %s: %w", name, err)
	}
	return out, nil
}

// Stop stops the server and removes its data. It may be called again, and on a nil Server, such as in
// AfterSuite when New has failed.
func (s *Server) Stop() error {
	if s == nil {
		return nil
	}
	s.stop.Do(func() {
		if err := s.end(); err != nil {
			s.stopErr = fmt.Errorf("keelsontest: %w", err)
		}
	})
	return s.stopErr
}

// end ends the process, if it was started, and removes the directory.
func (s *Server) end() error {
	var failed error
	if s.process != nil {
		select {
		case <-s.ended:
			failed = fmt.Errorf("%s serve had ended before it was stopped (%v); its log ends with:\n%s", s.binary, s.exit, s.log)
		default:
			if askToEnd(s.process) != nil {
				s.process.Kill()
			}
			timer := time.NewTimer(stopWithin)
			defer timer.Stop()
			select {
			case <-s.ended:
			case <-timer.C:
				s.process.Kill()
				<-s.ended
				failed = fmt.Errorf("%s serve did not end within %s and was killed; its log ends with:\n%s", s.binary, stopWithin, s.log)
			}
		}
	}
	if s.access != nil {
		s.access.client.CloseIdleConnections()
	}
	return errors.Join(failed, os.RemoveAll(s.dir))
}

// output runs a command and returns what it prints. Its error has what the command prints as one.
func output(cmd *exec.Cmd) ([]byte, error) {
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(errs.String()))
	}
	return out.Bytes(), nil
}

// tail keeps the last bytes that were written to it.
type tail struct {
	to io.Writer // also written to, if not nil

	mu   sync.Mutex
	kept []byte
}

// tailSize is what a tail keeps.
const tailSize = 16 << 10

// Write implements io.Writer.
func (w *tail) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept = append(w.kept, b...)
	if n := len(w.kept); n > 2*tailSize {
		w.kept = append(w.kept[:0], w.kept[n-tailSize:]...)
	}
	if w.to != nil {
		w.to.Write(b) // an error of the test's writer must not stop the server
	}
	return len(b), nil
}

// String returns the last lines.
func (w *tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	kept := w.kept[max(0, len(w.kept)-tailSize):]
	return strings.TrimSpace(string(kept))
}
