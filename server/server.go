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
//   - What Run returns from has been flushed: no write that a client saw
//     acknowledged is lost.
//   - This package is the only wiring: no other package of the product makes
//     one from the configuration.
package server

import (
	"context"
	"log/slog"

	"github.com/keelson-io/keelson/store"
)

// Config says what to run. Empty fields take the defaults named.
type Config struct {
	DataDir     string // "keelson-data"; with a Store: nothing is written to disk
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
	TokenAuthFile string // bearer tokens, CSV: token,user,uid,"group,…"

	Logger *slog.Logger // slog.Default()
	Store  store.Store  // in place of etcd; closed by the server
}

// New opens a server.
func New(ctx context.Context, c Config) (*Server, error) { panic("BUG: not built yet") }

// Server is a server that is open. Run it, or Close it.
type Server struct{}

// Run serves until ctx ends.
func (s *Server) Run(ctx context.Context) error { panic("BUG: not built yet") }

// Addr is the address that the server listens at, host:port.
func (s *Server) Addr() string { panic("BUG: not built yet") }

// KubeconfigPath is the path of the administrator's kubeconfig, "" if none was written.
func (s *Server) KubeconfigPath() string { panic("BUG: not built yet") }

// Kubeconfig is the administrator's kubeconfig.
func (s *Server) Kubeconfig() []byte { panic("BUG: not built yet") }
