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
	"syscall"
	"time"

	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/datadir"
	"github.com/keelson-io/keelson/internal/keysize"
)

// This file creates the server's own certificates: an authority, and certificates for serving and
// for the administrator. The authority is kept as long as it is valid. The others are issued again
// when they expire soon or do not fit any more.

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	issuedLife    = 365 * 24 * time.Hour
	renewBefore   = 30 * 24 * time.Hour
	clockSkew     = time.Hour // by which a client's clock may be slow

	adminUser = "keelson-admin"

	// oldAuthority names the files of an authority that has expired. The clock may have been wrong.
	oldAuthority = "ca.old"
)

// pair is a certificate with its key, parsed and as PEM.
type pair struct {
	cert            *x509.Certificate
	key             crypto.Signer
	certPEM, keyPEM []byte
}

// TLS returns p for crypto/tls.
func (p *pair) TLS() *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{p.cert.Raw}, PrivateKey: p.key, Leaf: p.cert}
}

// fresh reports whether p is valid, allowing for clock skew, and does not expire soon.
func (p *pair) fresh(now time.Time) bool { return now.After(p.cert.NotBefore) && !p.ends(now) }

// ends reports whether p expires soon, or has expired.
func (p *pair) ends(now time.Time) bool { return !now.Add(renewBefore).Before(p.cert.NotAfter) }

// pki issues certificates. If dir is empty, it does not use the disk.
type pki struct {
	dir       string
	authority *pair
	missing   func(path, consequence string) // logs that an expected file is missing and made anew; nil if none is expected
}

// lacks reports that a missing file is made anew.
func (p *pki) lacks(path, consequence string) {
	if p.missing != nil {
		p.missing(path, consequence)
	}
}

// openPKI loads the authority from dir. If there is none, it makes one and reports that to missing.
func openPKI(dir string, missing func(path, consequence string)) (*pki, error) {
	p := &pki{dir: dir, missing: missing}
	if dir != "" {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	now := time.Now()
	authority, err := p.load(datadir.Authority)
	if err != nil {
		return nil, fmt.Errorf("the server's authority: %w; put copies of ca.crt and ca.key in their places, or remove both for a new authority, which clients have to be told of", err)
	}
	// An authority that is not valid yet is kept: the clock of the machine is wrong, and a new
	// authority would lock out those who trust this one for good.
	if authority == nil || authority.ends(now) || !authority.cert.IsCA {
		consequence := "clients do not know the server by the new authority, and their certificates of the old one are not valid any more"
		if authority != nil && dir != "" {
			if err := p.save(oldAuthority, authority); err != nil {
				return nil, err
			}
			consequence += "; the old one is in " + oldAuthority + ".crt and " + oldAuthority + ".key"
		}
		if dir != "" {
			p.lacks(filepath.Join(dir, "ca.crt"), consequence)
		}
		if authority, err = p.issue(datadir.Authority, authorityTemplate(now), nil); err != nil {
			return nil, err
		}
	}
	p.authority = authority
	return p, nil
}

// serving returns the certificate for a server at the given names and addresses.
func (p *pki) serving(hosts []string, now time.Time) (*pair, error) {
	want := servingTemplate(hosts, now)
	return p.ensure(datadir.Serving, want, now, func(c *x509.Certificate) bool {
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

// admin returns the client certificate of the administrator.
func (p *pki) admin(now time.Time) (*pair, error) {
	return p.ensure(datadir.Admin, adminTemplate(now), now, func(c *x509.Certificate) bool {
		return c.Subject.CommonName == adminUser && slices.Contains(c.Subject.Organization, authn.Masters)
	})
}

// ensure loads a certificate. If there is none, or it is not fresh, of another authority, or does
// not fit, ensure issues a new one.
func (p *pki) ensure(name string, template *x509.Certificate, now time.Time, fits func(*x509.Certificate) bool) (*pair, error) {
	have, err := p.load(name)
	var damaged *pairError
	if err != nil && !errors.As(err, &damaged) {
		return nil, err
	}
	if have != nil && have.fresh(now) && have.cert.CheckSignatureFrom(p.authority.cert) == nil && fits(have.cert) {
		return have, nil
	}
	return p.issue(name, template, p.authority)
}

// pairError is the error of a certificate and a key that do not belong together.
type pairError struct {
	path string
	err  error
}

// Error implements error.
func (e *pairError) Error() string { return e.path + ": " + e.err.Error() }

// Unwrap is for package errors.
func (e *pairError) Unwrap() error { return e.err }

// load reads a pair from the directory, nil if it does not exist.
func (p *pki) load(name string) (*pair, error) {
	if p.dir == "" {
		return nil, nil
	}
	if err := p.finish(name); err != nil {
		return nil, err
	}
	path := filepath.Join(p.dir, name+".crt")
	certPEM, err := os.ReadFile(path)
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
	loaded, err := parsePair(certPEM, keyPEM)
	if err != nil {
		return nil, &pairError{path, err}
	}
	return loaded, nil
}

// parsePair parses a certificate with its key, in PEM.
func parsePair(certPEM, keyPEM []byte) (*pair, error) {
	loaded, err := keysize.KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, err
	}
	key, ok := loaded.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("its key is a %T, which cannot sign", loaded.PrivateKey)
	}
	return &pair{cert: loaded.Leaf, key: key, certPEM: certPEM, keyPEM: keyPEM}, nil
}

// save writes a certificate and its key: either both files change or none. If it replaces files, it
// first writes both to a third one, from which the next start completes an interrupted save. The
// first files need none: half of a pair counts as missing, and is issued again.
func (p *pki) save(name string, made *pair) error {
	if !p.exists(name+".key") && !p.exists(name+".crt") {
		return p.write(name, made.keyPEM, made.certPEM)
	}
	next := filepath.Join(p.dir, name+datadir.Next)
	if err := writeAtomically(next, append(bytes.Clone(made.keyPEM), made.certPEM...), 0o600); err != nil {
		return err
	}
	return p.finish(name)
}

// exists reports whether the directory has a file, which may be unreadable.
func (p *pki) exists(file string) bool {
	_, err := os.Lstat(filepath.Join(p.dir, file))
	return !errors.Is(err, fs.ErrNotExist)
}

// write replaces the files of a pair, one after the other.
func (p *pki) write(name string, keyPEM, certPEM []byte) error {
	err := replaceFile(filepath.Join(p.dir, name+".key"), keyPEM, 0o600)
	if err == nil {
		err = replaceFile(filepath.Join(p.dir, name+".crt"), certPEM, 0o644)
	}
	if err == nil {
		err = syncDir(p.dir)
	}
	return err
}

// finish completes an interrupted save.
func (p *pki) finish(name string) error {
	next := filepath.Join(p.dir, name+datadir.Next)
	both, err := os.ReadFile(next)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	key, rest := pem.Decode(both)
	if _, err := parsePair(rest, both); key == nil || err != nil {
		return fmt.Errorf("%s: it holds no certificate with its key; remove it", next)
	}
	if err := p.write(name, both[:len(both)-len(rest)], rest); err != nil {
		return err
	}
	return os.Remove(next) // not synced: if the file comes back, it holds the same pair
}

// issue creates a key and a certificate signed by the authority, or self-signed if authority is
// nil.
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
	return made, p.save(name, made)
}

// authorityTemplate returns the certificate of the authority that signs all others.
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

// servingTemplate returns the certificate of the server for some hosts.
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

// adminTemplate returns the client certificate of the administrator.
func adminTemplate(now time.Time) *x509.Certificate {
	return &x509.Certificate{
		Subject:     pkix.Name{CommonName: adminUser, Organization: []string{authn.Masters}},
		NotBefore:   now.Add(-clockSkew),
		NotAfter:    now.Add(issuedLife),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

// writeAtomically is replaceFile with the file's name on disk, too, when it returns.
func writeAtomically(path string, data []byte, mode fs.FileMode) error {
	if err := replaceFile(path, data, mode); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// replaceFile replaces a file in one step, its content on disk when it returns, and leaves it alone if it
// already holds the data.
func replaceFile(path string, data []byte, mode fs.FileMode) error {
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, data) {
		return nil
	}
	// The name is always the same, so that nothing gathers when servers are killed. One server at a
	// time uses the directory.
	part := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".part")
	if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		os.Remove(part)
		return err
	}
	return nil
}

// syncDir flushes the entries of a directory to disk.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if e := d.Close(); err == nil {
		err = e
	}
	if errors.Is(err, syscall.EINVAL) {
		return nil // the file system does not support it
	}
	return err
}
