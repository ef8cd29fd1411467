package testpeers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// This file makes certificates.

// PKI is a temporary authority with certificates of a server on loopback and of an administrator in
// system:masters.
type PKI struct {
	CA, Cert, Key string      // file names: of the authority and the server
	Admin         *tls.Config // TLS configuration of the administrator
}

// NewPKI creates an authority and writes its files into a folder.
func NewPKI(dir string) (*PKI, error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	ca := certificate(1, pkix.Name{CommonName: "ca"})
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return nil, err
	}
	caPEM := block("CERTIFICATE", der)
	cert, key, err := issue(certificate(2, pkix.Name{CommonName: "upstream"}), ca, caKey)
	if err != nil {
		return nil, err
	}
	adminCert, adminKey, err := issue(certificate(3, pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}}), ca, caKey)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(adminCert, adminKey)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(caPEM)
	p := &PKI{
		CA: filepath.Join(dir, "ca.crt"), Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"),
		Admin: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}},
	}
	return p, errors.Join(os.WriteFile(p.CA, caPEM, 0o600), os.WriteFile(p.Cert, cert, 0o600), os.WriteFile(p.Key, key, 0o600))
}

// issue creates a key and a certificate signed by an authority.
func issue(c, ca *x509.Certificate, by *ecdsa.PrivateKey) (cert, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, c, ca, key.Public(), by)
	if err != nil {
		return nil, nil, err
	}
	k, err := x509.MarshalPKCS8PrivateKey(key)
	return block("CERTIFICATE", der), block("PRIVATE KEY", k), err
}

func certificate(serial int64, who pkix.Name) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: who,
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
	}
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
