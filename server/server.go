// Package server puts the parts of Keelson together and runs them: store,
// cache, registry of kinds, controllers and the API, behind TLS.
//
// A [Config] says what to run, its zero value works. [New] opens everything
// and binds the port, so that every mistake in the configuration is an error
// of New; [Server.Run] serves until its context ends and then stops in order.
//
// # Invariants
//
//   - One server at a time uses a data directory.
//   - When Run returns everything has been flushed: no write that a client saw
//     acknowledged is lost.
//   - This package is the only wiring: no other package of the product makes
//     one from the configuration.
package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/keelson-io/keelson/allocator"
	"github.com/keelson-io/keelson/api"
	"github.com/keelson-io/keelson/audit"
	"github.com/keelson-io/keelson/authn"
	"github.com/keelson-io/keelson/authn/jwt"
	"github.com/keelson-io/keelson/authz/config"
	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/controller/crd"
	"github.com/keelson-io/keelson/controller/trust"
	"github.com/keelson-io/keelson/conversion"
	"github.com/keelson-io/keelson/internal/reloads"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/store"
	"github.com/keelson-io/keelson/store/etcd"
)

// Defaults of Config.
const (
	DefaultDataDir     = "keelson-data"
	DefaultBindAddress = "127.0.0.1"
	DefaultSecurePort  = 6443
)

// KubeconfigFile is the name of the administrator's kubeconfig in the data directory.
const KubeconfigFile = "admin.kubeconfig"

// Config says what to run. Empty fields take the defaults named.
type Config struct {
	DataDir     string // "keelson-data"; with a Store, "" means that nothing is written to disk
	BindAddress string // "127.0.0.1"
	SecurePort  int    // 6443; negative: any free port

	// An etcd cluster to use in place of the embedded one.
	EtcdServers  []string
	EtcdCAFile   string
	EtcdCertFile string
	EtcdKeyFile  string
	EtcdPrefix   string // "/registry"

	ClientCAFile  string // whose client certificates are accepted, besides the server's own
	TLSCertFile   string // to serve with, in place of a certificate of the server's own authority
	TLSKeyFile    string
	TLSNames      []string // names and addresses that a certificate of the server's own authority is for, besides this machine's
	TokenAuthFile string   // bearer tokens, CSV: token,user,uid,"group,…"

	// Authentication is who is believed besides.
	Authentication Authentication

	// AuditPolicyFile says which requests are recorded; without it none are.
	AuditPolicyFile string
	AuditLog        audit.LogConfig     // where they are recorded, with a Path
	AuditWebhook    audit.WebhookConfig // likewise, with a ConfigFile

	// Authorization chooses the authorizers; the zero value is RBAC.
	Authorization config.Flags

	// ReloadInterval is how often the files of authentication and authorization
	// are looked at, besides when the system tells of a change; 0: each minute.
	ReloadInterval time.Duration

	// EnableAdmission and DisableAdmission name admission plugins that are to
	// run, and not to run, as kube-apiserver names them, see
	// DefaultAdmission and OptionalAdmission.
	EnableAdmission  []string
	DisableAdmission []string

	// Controllers says which controllers run, as kube-controller-manager does:
	// "*" all of them, a name that one, "-name" not that one; nil: all.
	// Definitions, system namespaces and the expiry of events are always cared
	// for.
	Controllers []string

	// ServiceClusterIPRange is the range, such as 10.0.0.0/24, of which the
	// first address is that of the service default/kubernetes; "": that one.
	// Those of services are of it, too, unless the store has ServiceCIDRs that
	// say otherwise. There is one range, of one family.
	ServiceClusterIPRange string
	// ServiceNodePortRange is the range, such as 30000-32767, of the ports of
	// nodes that services get; "": that one.
	ServiceNodePortRange string
	// AdvertiseAddress is the address among the endpoints of that service; "":
	// BindAddress, or that of this machine if that is for this machine alone or
	// for all addresses.
	AdvertiseAddress string
	// EndpointReconciler is "lease", or "none" for a service whose endpoints are
	// somebody else's to keep; "": lease.
	EndpointReconciler string

	Logger *slog.Logger // slog.Default()
	Store  store.Store  // in place of etcd; the server closes it

	// Metrics is where the server's metrics are registered, and what /metrics
	// shows; nil: a registry of its own.
	Metrics *prometheus.Registry

	// How many requests are served at a time, watches not counted; 0: 400 reads
	// and 200 writes; negative: no limit.
	MaxRequestsInFlight, MaxMutatingRequestsInFlight int

	// StopTimeout is how long requests may take to finish when the server
	// stops; 0: 10 s.
	StopTimeout time.Duration
}

// withDefaults is c with its empty fields filled in.
func (c Config) withDefaults() Config {
	if c.DataDir == "" && c.Store == nil {
		c.DataDir = DefaultDataDir
	}
	if c.BindAddress == "" {
		c.BindAddress = DefaultBindAddress
	}
	switch {
	case c.SecurePort == 0:
		c.SecurePort = DefaultSecurePort
	case c.SecurePort < 0:
		c.SecurePort = 0
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.StopTimeout == 0 {
		c.StopTimeout = 10 * time.Second
	}
	return c
}

// Server is a server that is open. Run it, or Close it.
type Server struct {
	config   Config
	logger   *slog.Logger
	started  time.Time
	listener net.Listener
	identity *identity
	network  network
	metrics  *prometheus.Registry
	id       string // as metrics know the server, by a hash
	authn    authn.Authenticator
	// What tokens have to be for, and what those of service accounts are issued with.
	audiences []string
	tokens    api.Tokens
	issuers   *jwt.Authenticator

	kinds   *kind.Registry
	cache   *cache.Cache
	authz   authorization
	handler *api.Handler
	counted counted
	http    *http.Server
	crds    *crd.Controller

	allocator   *allocator.Allocator
	authorities *trust.Bundle           // of all servers of the store
	enabled     map[string]bool         // controllers by name
	controllers []func(context.Context) // that run besides the one of definitions

	// What New opened, last opened last; closed from the back.
	opened []io.Closer
	close  sync.Once
	broken chan error // the listener failed
}

// closer makes a function an io.Closer.
type closer func() error

func (f closer) Close() error { return f() }

// New opens a server: its data, its certificates and its port. What it opened
// before an error is closed again.
func New(ctx context.Context, c Config) (*Server, error) {
	c = c.withDefaults()
	s := &Server{config: c, logger: c.Logger, started: time.Now(), broken: make(chan error, 1)}
	if err := s.open(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Server) open(ctx context.Context) error {
	c := &s.config
	if c.Store != nil {
		s.opened = append(s.opened, c.Store)
	}
	on, err := choosePlugins(c.EnableAdmission, c.DisableAdmission)
	if err != nil {
		return err
	}
	chain, text, err := c.Authorization.Load()
	if err != nil {
		return err
	}
	s.keepStrangersOut()
	if s.network, err = newNetwork(c); err != nil {
		return err
	}
	if s.enabled, err = enabled(c.Controllers); err != nil {
		return err
	}
	if err := s.openDir(); err != nil {
		return err
	}
	// The port before the data: it is what most often goes wrong, and quickly.
	listener, err := net.Listen("tcp", net.JoinHostPort(c.BindAddress, strconv.Itoa(c.SecurePort)))
	if err != nil {
		return err
	}
	s.listener = listener
	s.opened = append(s.opened, listener)

	// Certificates are made while the store starts.
	made := make(chan error, 1)
	go func() {
		var err error
		s.identity, err = newIdentity(c, s.port(), s.network.names()...)
		made <- err
	}()
	st, storeErr := s.openStore(ctx)
	if err := <-made; err != nil {
		return err
	}
	if storeErr != nil {
		return storeErr
	}
	if s.metrics = c.Metrics; s.metrics == nil {
		s.metrics = prometheus.NewRegistry()
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	s.id = reloads.ServerID(host)
	if err := s.openAuthn(); err != nil {
		return err
	}
	recorder, err := s.openAudit()
	if err != nil {
		return err
	}
	err = s.assemble(ctx, &parts{store: st, plugins: on, authorization: chain, authorizationText: text, recorder: recorder, converter: converters(conversion.NewMetrics(s.metrics))})
	if err != nil {
		return err
	}
	s.startControllers(st)
	s.counted.Handler = s.handler
	s.http = s.newHTTP()
	return nil
}

// openDir makes the data directory and takes its lock.
func (s *Server) openDir() error {
	dir := s.config.DataDir
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return err
	}
	held, err := lock(filepath.Join(dir, "lock"))
	if errors.Is(err, errLocked) {
		return fmt.Errorf("data directory %s: %w", dir, err)
	}
	if err != nil {
		return err
	}
	s.opened = append(s.opened, held)
	return nil
}

// openStore opens the store of the configuration.
func (s *Server) openStore(ctx context.Context) (store.Store, error) {
	c := &s.config
	if c.Store != nil {
		return c.Store, nil
	}
	e := etcd.Config{Prefix: c.EtcdPrefix, Logger: s.logger}
	if len(c.EtcdServers) == 0 && (c.EtcdCAFile != "" || c.EtcdCertFile != "" || c.EtcdKeyFile != "") {
		return nil, errors.New("opening etcd: certificates are given for a cluster, and no servers of one")
	}
	if len(c.EtcdServers) > 0 {
		e.Endpoints, e.CAFile, e.CertFile, e.KeyFile = c.EtcdServers, c.EtcdCAFile, c.EtcdCertFile, c.EtcdKeyFile
	} else {
		e.DataDir = etcdDir(c.DataDir)
	}
	st, err := etcd.Open(ctx, e)
	if err != nil {
		return nil, fmt.Errorf("opening etcd: %w", err)
	}
	s.opened = append(s.opened, st)
	return st, nil
}

// snapshotOf returns nil for a store that no snapshot can be taken of.
func snapshotOf(st store.Store) api.Snapshot {
	if s, ok := st.(etcd.Snapshotter); ok {
		return s.Snapshot
	}
	return nil
}

// etcdDir is where in a data directory the embedded etcd is.
func etcdDir(dataDir string) string { return filepath.Join(dataDir, "etcd") }

// Restore lays out a data directory that has no etcd in it for a server that goes on from a snapshot, a file that /snapshot or
// etcd's own tools made.
func Restore(file, dataDir string, logger *slog.Logger) error {
	return etcd.Restore(file, etcdDir(dataDir), logger)
}

// Run serves until ctx ends, then stops: it says it is not ready, ends watches,
// lets other requests finish, and closes what New opened.
func (s *Server) Run(ctx context.Context) error {
	defer s.Close()
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	var workers sync.WaitGroup
	for _, run := range append(append(s.authz.workers(), s.controllers...), s.renew, s.issuers.Run) {
		workers.Go(func() { run(work) })
	}
	workers.Go(kind.Prepare)
	s.crds.Begin(work)
	workers.Go(func() {
		if err := s.crds.Run(work); err != nil {
			s.fail(err)
		}
	})
	go func() {
		limited := limitListener{s.listener, &connections{limit: maxConnections(openFiles()), log: s.logger}}
		if err := s.http.ServeTLS(corkListener{limited}, "", ""); err != nil && !errors.Is(err, http.ErrServerClosed) {
			s.fail(err)
		}
	}()
	s.logger.Info("ready", "url", "https://"+s.Addr(), "kubeconfig", s.KubeconfigPath(),
		"took", time.Since(s.started).Round(time.Millisecond))
	var failed error
	select {
	case <-ctx.Done():
	case failed = <-s.broken:
	}
	s.logger.Info("stopping")
	s.handler.Stop()
	s.drain()
	stop()
	workers.Wait()
	if err := s.closeAll(); failed == nil {
		failed = err
	}
	return failed
}

// fail makes Run stop with an error. Only the first one counts.
func (s *Server) fail(err error) {
	select {
	case s.broken <- err:
	default:
	}
}

// Close closes a server that does not run.
func (s *Server) Close() error { return s.closeAll() }

func (s *Server) closeAll() error {
	var errs []error
	s.close.Do(func() {
		for i := len(s.opened) - 1; i >= 0; i-- {
			if err := s.opened[i].Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				errs = append(errs, err)
			}
		}
	})
	return errors.Join(errs...)
}

// port is the port that the server listens at.
func (s *Server) port() int { return s.listener.Addr().(*net.TCPAddr).Port }

// Addr is the address that clients on this machine reach the server at,
// host:port.
func (s *Server) Addr() string {
	return net.JoinHostPort(s.identity.host, strconv.Itoa(s.port()))
}

// KubeconfigPath is the path of the administrator's kubeconfig, "" if none was
// written.
func (s *Server) KubeconfigPath() string { return s.identity.kubeconfigPath }

// Kubeconfig is the administrator's kubeconfig.
func (s *Server) Kubeconfig() []byte { return s.identity.Kubeconfig() }

// Handler is what serves requests, without TLS in front of it.
func (s *Server) Handler() http.Handler { return s.handler }

// ClientCertificate issues a certificate and a key, both PEM, with which a
// client is known as name and a member of groups.
func (s *Server) ClientCertificate(name string, groups ...string) (cert, key []byte, err error) {
	return s.identity.clientCertificate(name, groups)
}
