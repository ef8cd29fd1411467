package server

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/keysize"
	"github.com/keelson-io/keelson/internal/reloads"
)

// This file holds the authorities of client certificates and of proxies, and replaces them when their files change.

// authorities are certificates of authorities in the forms in which they are needed.
type authorities struct {
	certs []*x509.Certificate
	pool  *x509.CertPool
	pem   []byte
}

// noAuthorities accepts no certificate.
var noAuthorities = &authorities{pool: x509.NewCertPool()}

// newAuthorities returns authorities from certificates.
func newAuthorities(certs []*x509.Certificate) *authorities {
	a := &authorities{certs: certs, pool: x509.NewCertPool()}
	var text bytes.Buffer
	for _, c := range certs {
		a.pool.AddCert(c)
		if err := pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}); err != nil {
			panic("BUG: a certificate has no PEM: " + err.Error())
		}
	}
	a.pem = text.Bytes()
	return a
}

// parseAuthorities returns the certificates in a PEM file. A file that was not written completely is an error.
func parseAuthorities(text []byte) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	block, rest := pem.Decode(text)
	for ; block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := keysize.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		certs = append(certs, cert)
	}
	switch {
	case bytes.Contains(rest, []byte("-----BEGIN ")):
		return nil, errors.New("the last certificate is incomplete")
	case len(certs) == 0:
		return nil, errors.New("no certificate in it")
	}
	return certs, nil
}

// trusted are the authorities in force. Each set is replaced as a whole and never modified.
type trusted struct {
	clients, proxies atomic.Pointer[authorities] // never nil

	mu      sync.Mutex                     // of changes
	own     *x509.Certificate              // the server's own authority, which signs client certificates, too
	given   []*x509.Certificate            // of --client-ca-file
	strict  bool                           // every certificate of the proxies' authorities may name users
	changed func(before, now *authorities) // called after a change; nil: nothing is
}

// newTrusted returns the authorities without those of files.
func newTrusted(own *x509.Certificate) *trusted {
	t := &trusted{own: own}
	t.clients.Store(newAuthorities([]*x509.Certificate{own}))
	t.proxies.Store(noAuthorities)
	return t
}

// follow reads the files of the configuration, and follows them.
func (t *trusted) follow(c *Config, files *reloads.Files) error {
	t.strict = len(c.Authentication.RequestHeader.AllowedNames) == 0
	for _, f := range []struct {
		flag, path string
		use        func([]*x509.Certificate) error
	}{
		{"client-ca-file", c.ClientCAFile, t.setClients},
		{"requestheader-client-ca-file", c.Authentication.RequestHeader.ClientCAFile, t.setProxies},
	} {
		if f.path == "" {
			continue
		}
		err := files.Add(reloads.File{Name: f.flag, Paths: reloads.Paths(f.path), Use: func(texts map[string][]byte) error {
			certs, err := parseAuthorities(texts[f.path])
			if err != nil {
				return fmt.Errorf("%s: %w", f.path, err)
			}
			return f.use(certs)
		}})
		if err != nil {
			return fmt.Errorf("%s: %w", f.flag, err)
		}
	}
	return nil
}

// setClients replaces the authorities of clients, apart from the server's own.
func (t *trusted) setClients(certs []*x509.Certificate) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := newAuthorities(append([]*x509.Certificate{t.own}, certs...))
	if err := t.distinct(next, t.proxies.Load()); err != nil {
		return err
	}
	t.given = certs
	t.replace(&t.clients, next)
	return nil
}

// setProxies replaces the authorities of proxies.
func (t *trusted) setProxies(certs []*x509.Certificate) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := newAuthorities(certs)
	if err := t.distinct(t.clients.Load(), next); err != nil {
		return err
	}
	t.replace(&t.proxies, next)
	return nil
}

// replace puts authorities into force. Certificates that were verified by the old ones are verified again. The caller holds the lock.
func (t *trusted) replace(in *atomic.Pointer[authorities], next *authorities) {
	before := in.Load()
	if bytes.Equal(before.pem, next.pem) {
		return
	}
	in.Store(next)
	if t.changed != nil {
		t.changed(before, next)
	}
}

// onChange sets the function that is called after a change.
func (t *trusted) onChange(do func(before, now *authorities)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changed = do
}

// closeUntrusted closes the connections whose client certificates before trusted and now does not, with the watches on them.
func (c *connections) closeUntrusted(before, now *authorities) {
	var closed []*clientConn
	c.mu.Lock()
	for conn := range c.open {
		if conn.certs.Load() != nil {
			closed = append(closed, conn)
		}
	}
	c.mu.Unlock()
	closed = slices.DeleteFunc(closed, func(conn *clientConn) bool {
		certs := *conn.certs.Load()
		return authn.VerifyClient(certs, before.pool) != nil || authn.VerifyClient(certs, now.pool) == nil
	})
	for _, conn := range closed {
		conn.abort()
	}
	if len(closed) > 0 {
		c.log.Info("connections were closed: the authorities of their client certificates are not trusted any more", "connections", len(closed))
	}
}

// distinct refuses authorities that issue certificates of clients and of proxies, unless proxies are known by their names: a
// certificate of the proxies' authority lets its holder act as any user.
func (t *trusted) distinct(clients, proxies *authorities) error {
	if !t.strict {
		return nil
	}
	for _, a := range proxies.certs {
		for _, b := range clients.certs {
			if bytes.Equal(a.Raw, b.Raw) {
				return errors.New("--requestheader-client-ca-file and --client-ca-file contain overlapping certificates; --requestheader-allowed-names must be specified to ensure regular client certificates cannot set authenticating proxy headers for arbitrary users")
			}
		}
	}
	return nil
}
