package server

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/keelson-io/keelson/authn"
)

// This file makes the server's own certificates: an authority that is kept for
// as long as it is valid, and a serving and an administrator's certificate that
// are issued anew when they are near their end or no longer fit.

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	issuedLife    = 365 * 24 * time.Hour
	renewBefore   = 30 * 24 * time.Hour
	clockSkew     = time.Hour // how far a client's clock may be behind

	adminUser = "keelson-admin"
)

// pair is a certificate with its key, parsed and as PEM.
type pair struct {
	cert            *x509.Certificate
	key             crypto.Signer
	certPEM, keyPEM []byte
}

// TLS is p for crypto/tls.
func (p *pair) TLS() *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{p.cert.Raw}, PrivateKey: p.key, Leaf: p.cert}
}

// fresh reports whether p has been valid for a while and stays so.
func (p *pair) fresh(now time.Time) bool {
	return now.After(p.cert.NotBefore) && now.Add(renewBefore).Before(p.cert.NotAfter)
}

// pki issues certificates. With an empty dir nothing touches the disk.
type pki struct {
	dir       string
	authority *pair
}

// openPKI loads the authority from dir, or makes one there.
func openPKI(dir string) (*pki, error) {
	p := &pki{dir: dir}
	if dir != "" {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	now := time.Now()
	authority, err := p.load("ca")
	if err != nil {
		return nil, err
	}
	if authority == nil || !authority.fresh(now) || !authority.cert.IsCA {
		if authority, err = p.issue("ca", authorityTemplate(now), nil); err != nil {
			return nil, err
		}
	}
	p.authority = authority
	return p, nil
}

// pool holds the authority alone.
func (p *pki) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(p.authority.cert)
	return pool
}

// serving is the certificate for a server at the given names and addresses.
func (p *pki) serving(hosts []string, now time.Time) (*pair, error) {
	want := servingTemplate(hosts, now)
	return p.ensure("serving", want, now, func(c *x509.Certificate) bool {
		for _, name := range want.DNSNames {
			if !slices.Contains(c.DNSNames, name) {
				return false
			}
		}
		for _, ip := range want.IPAddresses {
			if !slices.ContainsFunc(c.IPAddresses, ip.Equal) {
				return false
			}
		}
		return true
	})
}

// admin is the client certificate of the administrator.
func (p *pki) admin(now time.Time) (*pair, error) {
	return p.ensure("admin", adminTemplate(now), now, func(c *x509.Certificate) bool {
		return c.Subject.CommonName == adminUser && slices.Contains(c.Subject.Organization, authn.Masters)
	})
}

// ensure loads a certificate, or issues it if there is none that is fresh, of
// this authority, and fits.
func (p *pki) ensure(name string, template *x509.Certificate, now time.Time, fits func(*x509.Certificate) bool) (*pair, error) {
	have, err := p.load(name)
	if err != nil {
		return nil, err
	}
	if have != nil && have.fresh(now) && have.cert.CheckSignatureFrom(p.authority.cert) == nil && fits(have.cert) {
		return have, nil
	}
	return p.issue(name, template, p.authority)
}

// load reads a pair from the directory, nil if it is not there.
func (p *pki) load(name string) (*pair, error) {
	if p.dir == "" {
		return nil, nil
	}
	certPEM, err := os.ReadFile(filepath.Join(p.dir, name+".crt"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	keyPEM, err := os.ReadFile(filepath.Join(p.dir, name+".key"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	loaded, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(p.dir, name+".crt"), err)
	}
	return &pair{cert: loaded.Leaf, key: loaded.PrivateKey.(crypto.Signer), certPEM: certPEM, keyPEM: keyPEM}, nil
}

// issue makes a key and a certificate for it, signed by the authority; by
// itself if that is nil.
func (p *pki) issue(name string, template *x509.Certificate, authority *pair) (*pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	signer, parent := crypto.Signer(key), template
	if authority != nil {
		signer, parent = authority.key, authority.cert
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	made := &pair{
		cert:    cert,
		key:     key,
		certPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		keyPEM:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}
	if p.dir == "" {
		return made, nil
	}
	// The key first: a certificate without its key is taken for none at all.
	if err := writeAtomically(filepath.Join(p.dir, name+".key"), made.keyPEM, 0o600); err != nil {
		return nil, err
	}
	if err := writeAtomically(filepath.Join(p.dir, name+".crt"), made.certPEM, 0o644); err != nil {
		return nil, err
	}
	return made, nil
}

func authorityTemplate(now time.Time) *x509.Certificate {
	return &x509.Certificate{
		Subject:               pkix.Name{CommonName: fmt.Sprintf("keelson-ca@%d", now.Unix())},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(authorityLife),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
}

func servingTemplate(hosts []string, now time.Time) *x509.Certificate {
	t := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "keelson"},
		NotBefore:   now.Add(-clockSkew),
		NotAfter:    now.Add(issuedLife),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, h := range hosts {
		switch ip := net.ParseIP(h); {
		case ip != nil && !slices.ContainsFunc(t.IPAddresses, ip.Equal):
			t.IPAddresses = append(t.IPAddresses, ip)
		case ip == nil && h != "" && !slices.Contains(t.DNSNames, h):
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	return t
}

func adminTemplate(now time.Time) *x509.Certificate {
	return &x509.Certificate{
		Subject:     pkix.Name{CommonName: adminUser, Organization: []string{authn.Masters}},
		NotBefore:   now.Add(-clockSkew),
		NotAfter:    now.Add(issuedLife),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

// writeAtomically replaces a file in one step and leaves it alone if it
// already holds the data.
func writeAtomically(path string, data []byte, mode fs.FileMode) error {
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, data) {
		return os.Chmod(path, mode)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	err = f.Chmod(mode)
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}
