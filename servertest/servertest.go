// Package servertest gives Go tests an API server of their own: in the process of the test, in memory, ready in milliseconds.
//
//	func TestController(t *testing.T) {
//		t.Parallel()
//		s := servertest.Start(t, servertest.CRDs("config/crd"))
//		mgr, err := manager.New(s.Config, manager.Options{…})
//		…
//	}
//
// [Start] returns a [Server] whose Config is a rest.Config with all rights, for client-go, controller-runtime or whatever takes one.
// The server ends with the test. It is the whole server: TLS, authentication, RBAC, admission, definitions with their rules,
// built-in kinds, watches, garbage collection. Servers share nothing, so that tests may run in parallel.
//
// # Beside envtest
//
// There is nothing to download and nothing to clean up. Unlike envtest, it has controllers by default: owner
// references are collected, namespaces that are deleted go, each namespace has its default service account. [Controllers] switches
// them.
package servertest

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/keelson-io/keelson/server"
)

// Server is a server that runs until its test ends.
type Server struct {
	// Config is who may do everything: a member of system:masters. Its requests are not throttled. It is the caller's to change.
	Config *rest.Config
	// Client is a client of Config.
	Client dynamic.Interface

	t      testing.TB
	server *server.Server
	stop   context.CancelFunc
	done   chan struct{}
	err    error
}

// Option changes how [Start] starts a server.
type Option func(*options)

type options struct {
	config server.Config
	crds   []string
	change []func(*server.Config)
}

// CRDs has definitions installed: of files, or of all .yaml, .yml and .json files below directories. Documents of other kinds are
// passed over. Start returns when their kinds are served.
func CRDs(paths ...string) Option {
	return func(o *options) { o.crds = append(o.crds, paths...) }
}

// Database keeps the data in a database in a directory of the test, in place of memory:
// Database(etcd.Database{}), of package server/etcd, is the embedded etcd. The server takes some
// hundredths of a second longer to start, and each write waits for the disk.
func Database(db server.Database) Option {
	return func(o *options) { o.config.Database = db }
}

// Controllers says which controllers run, as keelson serve --controllers does: "*" all of them, a name that one, "*" and "-name" all but
// that one; nothing at all: none.
func Controllers(list ...string) Option {
	return func(o *options) { o.config.Controllers = append([]string{}, list...) }
}

// Logger has the server log there. Without it, the end of the log is shown if the test fails.
func Logger(l *slog.Logger) Option {
	return func(o *options) { o.config.Logger = l }
}

// Configure changes the configuration that the server is made with, for what no other option is for. It is called when the other
// options are in it, and the place of the data.
func Configure(change func(*server.Config)) Option {
	return func(o *options) { o.change = append(o.change, change) }
}

// stopWithin is how long requests may go on when the test ends.
const stopWithin = time.Second

// Start starts a server, which ends with the test. If that fails, the test does.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	o := options{config: server.Config{SecurePort: -1, StopTimeout: stopWithin}}
	for _, opt := range opts {
		opt(&o)
	}
	if o.config.Logger == nil {
		o.config.Logger = logOnFailure(t)
	}
	if o.config.Database != nil {
		o.config.DataDir = t.TempDir()
	} else {
		o.config.Store = server.InMemory()
	}
	for _, change := range o.change {
		change(&o.config)
	}
	crds, err := readCRDs(o.crds)
	if err != nil {
		t.Fatalf("servertest: %v", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	opened, err := server.New(ctx, o.config)
	if err != nil {
		stop()
		t.Fatalf("servertest: %v", err)
	}
	s := &Server{t: t, server: opened, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		s.err = opened.Run(ctx)
	}()
	t.Cleanup(s.Stop)
	if s.Config, err = clientcmd.RESTConfigFromKubeConfig(opened.Kubeconfig()); err == nil {
		s.Config.QPS = -1
		s.Client, err = dynamic.NewForConfig(s.Config)
	}
	if err == nil {
		err = s.install(ctx, crds)
	}
	if err != nil {
		t.Fatalf("servertest: %v", err)
	}
	return s
}

// logOnFailure returns a logger whose last lines the test logs if it fails.
func logOnFailure(t testing.TB) *slog.Logger {
	log := new(tail)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the server's log ends with:\n%s", log)
		}
	})
	return slog.New(slog.NewTextHandler(log, nil))
}

// Stop stops the server before its test ends.
func (s *Server) Stop() {
	s.stop()
	<-s.done
	if s.err != nil && !errors.Is(s.err, context.Canceled) {
		s.t.Errorf("servertest: %v", s.err)
		s.err = nil
	}
}

// User returns the configuration of somebody else, whom the server knows by a client certificate as name and a member of groups. What
// they may do is up to the roles that the test binds.
func (s *Server) User(name string, groups ...string) *rest.Config {
	s.t.Helper()
	cert, key, err := s.server.ClientCertificate(name, groups...)
	if err != nil {
		s.t.Fatalf("servertest: %v", err)
	}
	c := rest.AnonymousClientConfig(s.Config)
	c.QPS = -1
	c.CertData, c.KeyData = cert, key
	return c
}

// Kubeconfig writes a kubeconfig of Config to a file of the test, for programs that take one, and returns the file's path.
func (s *Server) Kubeconfig() string {
	s.t.Helper()
	f, err := os.CreateTemp(s.t.TempDir(), "kubeconfig-*")
	if err == nil {
		_, err = f.Write(s.server.Kubeconfig())
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		s.t.Fatalf("servertest: %v", err)
	}
	return f.Name()
}
