// Package server builds Keelson from its parts and runs it: store, cache, registry of kinds,
// controllers and the API, behind TLS.
//
// A [Config] says what to run. It needs a place for the data, Database or Store; everything else has
// a default. [New] opens everything and binds the port,
// so that a mistake in the configuration is an error of New. [Server.Run] serves until its context
// ends, and then stops the parts in order.
//
// # Invariants
//
//   - One server at a time uses a data directory.
//   - When Run returns, everything has been flushed: no acknowledged write is
//     lost.
//   - This package is the only wiring: no other package builds parts from the
//     configuration.
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
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/admission/plugins"
	"github.com/keelson-io/keelson/internal/allocator"
	"github.com/keelson-io/keelson/internal/api"
	"github.com/keelson-io/keelson/internal/api/stream"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/authn/jwt"
	"github.com/keelson-io/keelson/internal/authz/config"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/controller/definitions"
	"github.com/keelson-io/keelson/internal/controller/trust"
	"github.com/keelson-io/keelson/internal/conversion"
	"github.com/keelson-io/keelson/internal/datadir"
	"github.com/keelson-io/keelson/internal/flow"
	"github.com/keelson-io/keelson/internal/memory"
	"github.com/keelson-io/keelson/internal/objects"
	"github.com/keelson-io/keelson/internal/often"
	"github.com/keelson-io/keelson/internal/reloads"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/internal/weakcert"
	"github.com/keelson-io/keelson/internal/webhook"
	"github.com/keelson-io/keelson/kind"
)

// Defaults of Config.
const (
	DefaultDataDir     = "keelson-data"
	DefaultBindAddress = "127.0.0.1"
	DefaultSecurePort  = 6443
)

// KubeconfigFile is the name of the administrator's kubeconfig in the data directory.
const KubeconfigFile = "admin.kubeconfig"

// Config is the configuration of a server. Empty fields have the defaults given here.
type Config struct {
	DataDir     string // "keelson-data"; with a Store, "" means that nothing is written to disk
	BindAddress string // "127.0.0.1"
	SecurePort  int    // 6443; negative means any free port

	// HealthBindAddress is a host and port at which /livez, /readyz and /healthz are answered without TLS, also while strangers take all
	// connections to the other port; "" is none.
	HealthBindAddress string

	// An etcd cluster to use in place of the embedded one.
	EtcdServers  []string
	EtcdCAFile   string
	EtcdCertFile string
	EtcdKeyFile  string
	EtcdPrefix   string // "/registry"

	// EncryptionConfigFile is the file with the resources that are encrypted in the store, and
	// their keys. With EncryptionReload it is read again when it changes.
	EncryptionConfigFile string
	EncryptionReload     bool
	// KMS connects to KMS plugins that this file names. Without it, such a file is refused: this package does not link gRPC.
	// etcd.Use of package server/etcd sets it.
	KMS DialKMS
	// TokenSigner connects to the program that signs service account tokens, if
	// Authentication.ServiceAccounts.SigningEndpoint names one. etcd.Use of package server/etcd sets it.
	TokenSigner DialSigner

	ClientCAFile  string // authorities of client certificates, in addition to the server's own
	TLSCertFile   string // serving certificate, in place of one of the server's own authority
	TLSKeyFile    string
	TLSNames      []string // additional names and addresses for a certificate of the server's own authority
	TLS           TLS      // versions, cipher suites and key exchanges
	TokenAuthFile string   // bearer tokens, CSV: token,user,uid,"group,…"

	// Authentication configures authenticators other than client certificates.
	Authentication Authentication

	// AuditPolicyFile is the file with the rules for requests that are recorded. Without it, none
	// are.
	AuditPolicyFile string
	AuditLog        AuditLog     // used if it has a Path
	AuditWebhook    AuditWebhook // used if it has a ConfigFile

	// Authorization configures the authorizers. The zero value means RBAC.
	Authorization Authorization

	// ReloadInterval is the time between checks of the files that are read again when they change, in
	// addition to file system events; 0 means one minute.
	ReloadInterval time.Duration

	// EnableAdmission and DisableAdmission enable and disable admission plugins by kube-apiserver's
	// names; see DefaultAdmission and OptionalAdmission.
	EnableAdmission  []string
	DisableAdmission []string

	// AdmissionConfigFile is the path of a file with the configuration of admission plugins, an
	// AdmissionConfiguration.
	AdmissionConfigFile string

	// NotReadyTolerationSeconds and UnreachableTolerationSeconds are how long pods without a
	// toleration of their own tolerate such a node, in seconds; nil means 300.
	NotReadyTolerationSeconds, UnreachableTolerationSeconds *int64

	// Controllers selects the controllers that run, by kube-controller-manager's rules: "*" means
	// all others, "name" enables one, "-name" disables one; nil means all. The controllers of
	// definitions, system namespaces and expiring events always run.
	Controllers []string

	// ServiceClusterIPRange is the range of Service addresses, such as 10.0.0.0/24 (the default), or
	// two ranges of different IP families, separated by a comma. Services that do not name a family
	// get addresses of the first range. Its first address is that of default/kubernetes. ServiceCIDRs
	// in the store can replace the ranges for other Services.
	ServiceClusterIPRange string
	// ServiceNodePortRange is the range of node ports of Services, such as 30000-32767 (the
	// default).
	ServiceNodePortRange string
	// AdvertiseAddress is the server's endpoint of default/kubernetes. If it is empty, it is
	// BindAddress, or this machine's address if BindAddress is unspecified or a loopback address.
	AdvertiseAddress string
	// EndpointReconciler is "lease" (the default), or "none" if the endpoints of default/kubernetes
	// are maintained elsewhere.
	EndpointReconciler string

	Logger *slog.Logger // slog.Default()

	// Database opens the store, in DataDir or at EtcdServers. It is etcd.Database{}, of package
	// server/etcd: this package does not link etcd. Set either Database or Store.
	Database Database
	Store    Store // in place of a Database, such as InMemory(); the server closes it

	// EventTTL is how long events are kept after their last write; 0 means one hour, a negative number
	// no end.
	EventTTL time.Duration

	// RuntimeConfig has kube-apiserver's settings of API versions, as key=value. The server does not start
	// if they ask for other versions than are served. apiextensions.k8s.io/v1beta1=false switches off
	// the one version that kube-apiserver lacks.
	RuntimeConfig []string

	// DisableProfiling switches /debug/pprof off.
	DisableProfiling bool
	// FreshReads: reads at resource version 0 are as new as the last write. Otherwise they get what the cache has.
	FreshReads bool

	// Flags are the flags of the command line with their values, which /flagz shows.
	Flags map[string]string

	// Metrics is the registry for the server's metrics, which /metrics shows; nil means a new one.
	Metrics *prometheus.Registry

	// The number of requests that are served at a time, except for watches. 0 means 400 reads and
	// 200 writes, a negative number no limit.
	MaxRequestsInFlight, MaxMutatingRequestsInFlight int

	// DisableFairness turns priority and fairness off. Otherwise the sum of the two numbers above is
	// what FlowSchemas and PriorityLevelConfigurations divide; if neither is a limit, there is none.
	DisableFairness bool

	// RequestTimeout bounds a request other than a watch, from its header to the last byte of its
	// answer; 0 means 60 s.
	RequestTimeout time.Duration

	// MinRequestTimeout is the least duration of a watch that does not name one; such watches end at
	// different times, until twice as long. 0 means 30 minutes.
	MinRequestTimeout time.Duration

	// MemoryLimit is the number of bytes that the process may take, see package internal/memory; 0
	// means no limit. While the server runs, the limit holds for Go's collector, which all servers of
	// a process share.
	MemoryLimit int64

	// StopTimeout bounds the requests in progress when the server stops; 0 means 10 s.
	StopTimeout time.Duration
}

// withDefaults returns c with defaults for empty fields.
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
	c.Logger = slog.New(often.New(c.Logger.Handler()))
	if c.RequestTimeout == 0 {
		c.RequestTimeout = time.Minute
	}
	if c.StopTimeout == 0 {
		c.StopTimeout = 10 * time.Second
	}
	return c
}

// Server is an open server. Either Run or Close it.
type Server struct {
	config   Config
	logger   *slog.Logger
	started  time.Time
	listener net.Listener
	probes   net.Listener // of the health endpoints alone; nil if there is none
	identity *identity
	files    *reloads.Files // certificates and kubeconfigs, which are read again when they change
	network  network
	metrics  *prometheus.Registry
	noBeta   bool // definitions are not served in BetaDefinitions
	swept    swept
	memory   *memory.Governor // nil: no limit
	hooks    webhook.Shared   // what the clients of all webhooks share
	id       string           // identifies the server in metrics, which show its hash
	authn    authn.Authenticator
	// The accepted audiences of tokens, and the issuer of service account tokens.
	audiences []string
	tokens    api.Tokens
	issuers   *jwt.Authenticator

	kinds      *kind.Registry
	cache      *cache.Cache
	store      store.Store
	durable    store.Store // what store is kept in: store itself, unless its values are encrypted
	encryption *encryption // nil: nothing is encrypted
	authz      authorization
	own        *ownParts
	objects    *objects.Verbs
	handler    *api.Handler
	counted    counted
	flow       *flow.Controller // nil: priority and fairness is off
	http       *http.Server
	crds       *definitions.Controller

	allocator   *allocator.Allocator
	authorities *trust.Bundle           // of all servers that share the store
	enabled     map[string]bool         // by name
	controllers []func(context.Context) // run functions, apart from that of the definition controller
	background  []func(context.Context) // run functions of other parts: folders with admission configuration, a signer of tokens

	// The parts that New opened. They are closed in reverse order.
	opened []io.Closer
	close  sync.Once
	broken chan error // the error of a failed listener
}

// closer adapts a function to io.Closer.
type closer func() error

// Close implements io.Closer.
func (f closer) Close() error { return f() }

// New opens a server: its data, certificates and port. If it fails, it closes what it opened.
func New(ctx context.Context, c Config) (*Server, error) {
	c = c.withDefaults()
	s := &Server{config: c, logger: c.Logger, started: time.Now(), broken: make(chan error, 1)}
	if err := s.open(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// open validates the configuration and opens all parts. New closes what was opened if it fails.
func (s *Server) open(ctx context.Context) error {
	c := &s.config
	switch {
	case c.Store != nil:
		s.opened = append(s.opened, c.Store)
	case c.Database == nil:
		return errors.New("server configuration: got neither a Database nor a Store; set Database: etcd.Database{} (package server/etcd) for data on disk, or Store: server.InMemory() for data in memory")
	}
	versions, err := readRuntimeConfig(c.RuntimeConfig)
	if err != nil {
		return fmt.Errorf("--runtime-config: %w", err)
	}
	if len(versions.partly) > 0 {
		s.logger.Warn("--runtime-config asks for versions that are not served: the stable ones are, and apiextensions.k8s.io/v1beta1 unless it is off", "settings", versions.partly)
	}
	s.noBeta = versions.noBeta
	chain, text, err := c.Authorization.Load()
	if err != nil {
		return err
	}
	nodes := chain.Has(config.Node)
	on, err := plugins.Choose(c.EnableAdmission, c.DisableAdmission, nodes)
	if err != nil {
		return err
	}
	configs, err := plugins.Load(c.AdmissionConfigFile, on, s.logger)
	if err != nil {
		return err
	}
	if nodes && !on[plugins.NodeRestriction] {
		s.logger.Warn("the Node authorizer runs without the NodeRestriction admission plugin: a node can read every Secret and take over other nodes")
	}
	s.disableAnonymousWithAlwaysAllow()
	if s.network, err = newNetwork(c); err != nil {
		return err
	}
	if s.enabled, err = enabled(c.Controllers); err != nil {
		return err
	}
	if s.metrics = c.Metrics; s.metrics == nil {
		s.metrics = prometheus.NewRegistry()
	}
	s.files = reloads.NewFiles(s.metrics, s.logger, c.ReloadInterval)
	if err := s.openData(ctx); err != nil {
		return err
	}
	s.hooks.Certificates = weakcert.New(s.metrics, s.logger)
	if s.encryption != nil {
		s.metrics.MustRegister(s.encryption.transformations)
	}
	if s.memory = memory.New(c.MemoryLimit, s.logger); s.memory != nil {
		s.metrics.MustRegister(s.memory)
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
	s.swept.conversions = conversion.NewMetrics(s.metrics)
	err = s.assemble(ctx, &parts{store: s.store, plugins: on, pluginConfigs: configs, authorization: chain, authorizationText: text, recorder: recorder, ownRecorder: recorder, converter: s.converters(s.swept.conversions),
		messagesUnused: s.logUnusedMessages})
	if err != nil {
		return err
	}
	s.startControllers(s.store)
	s.http, err = s.newHTTP()
	return err
}

// openData opens what a server has to itself: the data directory, the port, the store and the
// certificates.
func (s *Server) openData(ctx context.Context) error {
	if err := s.openDir(); err != nil {
		return err
	}
	// The port first: it is the most frequent mistake, and found quickly.
	listen := net.ListenConfig{KeepAlive: -1} // see clientConn.Admit
	listener, err := listen.Listen(ctx, "tcp", net.JoinHostPort(s.config.BindAddress, strconv.Itoa(s.config.SecurePort)))
	if err != nil {
		return err
	}
	s.listener = listener
	s.opened = append(s.opened, listener)
	if err := s.openProbes(); err != nil {
		return err
	}

	// The store first: certificates without a store are a sign that it was lost.
	created, err := s.createStore(ctx)
	if err != nil {
		return err
	}
	// Certificates are made while the store starts.
	made := make(chan error, 1)
	go func() {
		var err error
		s.identity, err = newIdentity(&s.config, s.files, s.port(), created, s.network.names()...)
		made <- err
	}()
	st, storeErr := s.openStore(ctx)
	identityErr := <-made
	if storeErr != nil { // this error has the cause if the disk is full
		return storeErr
	}
	if identityErr != nil {
		return identityErr
	}
	s.durable = st
	if err := s.upgrade(ctx, st, created); err != nil {
		return err
	}
	s.store, err = s.encrypted(ctx, st)
	return err
}

// Run serves until ctx ends. Then it reports that it is not ready, ends watches, waits for other
// requests, and closes what New opened.
func (s *Server) Run(ctx context.Context) error {
	defer s.Close()
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	var workers sync.WaitGroup
	for _, run := range s.authz.workers() {
		workers.Go(func() { run(work) })
	}
	s.crds.Begin(work)
	workers.Go(func() {
		if err := s.crds.Run(work); err != nil {
			s.fail(err)
		}
	})
	all := newConnections(datadir.OpenFiles(), s.memory.Shares().Pending, stream.StallLimit(s.config.RequestTimeout), s.logger)
	s.identity.trusted.onChange(all.closeUntrusted)
	go func() {
		if err := s.http.ServeTLS(corkListener{all.limitListener(s.listener)}, "", ""); err != nil && !errors.Is(err, http.ErrServerClosed) {
			s.fail(err)
		}
	}()
	s.logger.Info("ready", "url", "https://"+s.Addr(), "kubeconfig", s.KubeconfigPath(),
		"took", time.Since(s.started).Round(time.Millisecond))
	workers.Go(func() { s.memory.Run(work) })
	workers.Go(func() { all.lookForStalls(work.Done()) })
	workers.Go(func() { s.endWithStore(work) })
	workers.Go(func() { s.serveProbes(work) })
	workers.Go(func() { s.followFormat(work) })
	if s.encryption != nil && s.config.EncryptionReload {
		workers.Go(func() { s.encryption.run(work) })
	}
	workers.Go(crd.Prepare)
	last := []func(context.Context){s.renew, s.issuers.Run, s.files.Run, s.sweepRegularly}
	workers.Go(func() { startInTurn(work, &workers, slices.Concat(s.background, s.controllers, last)) })
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

// startPause is how long the next controller waits when one has started.
const startPause = 2 * time.Millisecond

// startInTurn starts what runs until ctx ends. All controllers at once have many objects to create at the first start, and requests that
// have waited for the server would wait for them, too.
func startInTurn(ctx context.Context, workers *sync.WaitGroup, runs []func(context.Context)) {
	for _, run := range runs {
		workers.Go(func() { run(ctx) })
		select {
		case <-time.After(startPause):
		case <-ctx.Done(): // the others see it, too
		}
	}
}

// fail makes Run stop with an error. Only the first call counts.
func (s *Server) fail(err error) {
	select {
	case s.broken <- err:
	default:
	}
}

// Close closes a server that is not running.
func (s *Server) Close() error { return s.closeAll() }

// closeAll closes everything that New opened, in reverse order.
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

// port returns the port on which the server listens.
func (s *Server) port() int { return s.listener.Addr().(*net.TCPAddr).Port }

// Addr returns host:port for clients on this machine.
func (s *Server) Addr() string {
	return net.JoinHostPort(s.identity.host, strconv.Itoa(s.port()))
}

// KubeconfigPath returns the path of the administrator's kubeconfig, "" if none was
// written.
func (s *Server) KubeconfigPath() string { return s.identity.kubeconfigPath }

// Kubeconfig returns the administrator's kubeconfig.
func (s *Server) Kubeconfig() []byte { return s.identity.Kubeconfig() }

// Handler returns the handler of requests, without TLS.
func (s *Server) Handler() http.Handler { return s.handler }

// ClientCertificate issues a client certificate for a user and groups. It returns the certificate
// and its key as PEM.
func (s *Server) ClientCertificate(name string, groups ...string) (cert, key []byte, err error) {
	return s.identity.clientCertificate(name, groups)
}
