package authn

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// This file authenticates by TLS client certificate: the subject's common name
// is the user, its organizations are the groups.

// maxVerified bounds how many certificates are remembered as verified; beyond
// it the memory starts afresh, which costs one verification per connection.
const maxVerified = 4096

// verified is what one certificate was verified to be.
type verified struct {
	user  *User
	pool  *x509.CertPool
	until time.Time
}

// clientCerts verifies client certificates once each. crypto/tls hands out the
// same *x509.Certificate for every request of a connection, so its address is
// the key: a request on a known connection costs one look-up, no cryptography.
type clientCerts struct {
	pool  func() *x509.CertPool
	known atomic.Pointer[sync.Map] // *x509.Certificate to *verified
	count atomic.Int64
}

// ClientCerts authenticates by client certificates that chain up to the pool.
// The pool is asked for at every request, so that it can be reloaded; a changed
// pool must be a new pool.
func ClientCerts(pool func() *x509.CertPool) Authenticator {
	c := &clientCerts{pool: pool}
	c.known.Store(new(sync.Map))
	return c
}

// Authenticate implements Authenticator.
func (c *clientCerts) Authenticate(r *http.Request) (*User, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, nil
	}
	leaf, pool, now := r.TLS.PeerCertificates[0], c.pool(), time.Now()
	if v, ok := c.known.Load().Load(leaf); ok {
		if v := v.(*verified); v.pool == pool && now.Before(v.until) {
			return v.user, nil
		}
	}
	user, until, err := verify(r.TLS.PeerCertificates, pool, now)
	if err != nil {
		return nil, err
	}
	if c.count.Add(1) > maxVerified {
		c.count.Store(0)
		c.known.Store(new(sync.Map))
	}
	c.known.Load().Store(leaf, &verified{user: user, pool: pool, until: until})
	return user, nil
}

// verify checks the chain that a client sent and reads the user off its leaf.
func verify(sent []*x509.Certificate, pool *x509.CertPool, now time.Time) (*User, time.Time, error) {
	leaf := sent[0]
	if pool == nil {
		return nil, time.Time{}, fmt.Errorf("certificate %q: no certificate authority for clients", leaf.Subject.CommonName)
	}
	between := x509.NewCertPool()
	for _, c := range sent[1:] {
		between.AddCert(c)
	}
	chains, err := leaf.Verify(x509.VerifyOptions{
		Roots:         pool,
		Intermediates: between,
		CurrentTime:   now,
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("certificate %q: %w", leaf.Subject.CommonName, err)
	}
	if leaf.Subject.CommonName == "" {
		return nil, time.Time{}, fmt.Errorf("certificate with serial %s: no common name", leaf.SerialNumber)
	}
	until := leaf.NotAfter
	for _, c := range chains[0] {
		if c.NotAfter.Before(until) {
			until = c.NotAfter
		}
	}
	return &User{
		Name:   leaf.Subject.CommonName,
		Groups: withAuthenticated(leaf.Subject.Organization),
	}, until, nil
}
