package etcd

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"

	"google.golang.org/grpc/credentials"

	"github.com/keelson-io/keelson/internal/keysize"
)

// This file replaces the authorities by which the members of a cluster prove themselves.

// trusting makes TLS connections with the configuration in force.
type trusting struct {
	credentials.TransportCredentials // of the first configuration, for what does not depend on authorities
	config                           *atomic.Pointer[tls.Config]
}

// newTrusting returns credentials that use a configuration until it is replaced.
func newTrusting(c *tls.Config) *trusting {
	t := &trusting{TransportCredentials: credentials.NewTLS(c), config: &atomic.Pointer[tls.Config]{}}
	t.config.Store(c)
	return t
}

// ClientHandshake implements credentials.TransportCredentials.
func (t *trusting) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return credentials.NewTLS(t.config.Load()).ClientHandshake(ctx, authority, conn)
}

// Clone implements credentials.TransportCredentials. The clone follows the same configuration.
func (t *trusting) Clone() credentials.TransportCredentials {
	return &trusting{TransportCredentials: t.TransportCredentials.Clone(), config: t.config}
}

// trust replaces the authorities for the next handshakes.
func (t *trusting) trust(authorities []byte) error {
	pool, err := keysize.Pool(authorities)
	if err != nil {
		return err
	}
	next := t.config.Load().Clone()
	next.RootCAs = pool
	t.config.Store(next)
	return nil
}

// Trust implements store.Truster. It does nothing for an embedded server.
func (c *client) Trust(authorities []byte) error {
	if remote, ok := c.server.(*cluster); ok && remote.trusting != nil {
		return remote.trusting.trust(authorities)
	}
	return nil
}
