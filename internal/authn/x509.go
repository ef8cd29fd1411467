package authn

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/asn1"
)

// This file authenticates by TLS client certificate. The common name of the subject is the user,
// the organizations are the groups.

// maxVerified is the number of cached verifications. When it is exceeded, the cache is emptied,
// which costs each connection one verification.
const maxVerified = 4096

// maxSent is the number of certificates that a client may send. Each can be a candidate for each link
// of the chain, and a signature by one of them takes 2 ms to check.
const maxSent = 16

// refusedTime is how long a certificate stays refused before it is verified again. A client needs
// no credentials to send requests with a certificate that nobody trusts.
const refusedTime = 10 * time.Second

// verified is the result of verifying one certificate.
type verified[T any] struct {
	value T
	err   error // the certificate is refused
	pool  *x509.CertPool
	until time.Time
}

// verifier verifies each client certificate once, and one that it refused once in refusedTime.
// crypto/tls returns the same *x509.Certificate for
// all requests of a connection, so that its address can be the key: a request on a known connection
// costs one look-up and no cryptography.
type verifier[T any] struct {
	pool  func() *x509.CertPool
	read  func(leaf *x509.Certificate) (T, error)
	known atomic.Pointer[sync.Map] // *x509.Certificate -> *verified
	count atomic.Int64
}

// newVerifier returns a verifier with an empty cache. read converts a verified certificate.
func newVerifier[T any](pool func() *x509.CertPool, read func(*x509.Certificate) (T, error)) *verifier[T] {
	v := &verifier[T]{pool: pool, read: read}
	v.known.Store(new(sync.Map))
	return v
}

// verify verifies the certificate chain of a request and returns what read returned for it.
func (v *verifier[T]) verify(sent []*x509.Certificate, now time.Time) (T, error) {
	leaf, pool := sent[0], v.pool()
	if known, ok := v.known.Load().Load(leaf); ok {
		if known := known.(*verified[T]); known.pool == pool && now.Before(known.until) {
			return known.value, known.err
		}
	}
	var value T
	until, err := verifyChain(sent, pool, now)
	if err == nil {
		value, err = v.read(leaf)
	}
	if err != nil {
		until = now.Add(refusedTime)
	}
	if v.count.Add(1) > maxVerified {
		v.count.Store(0)
		v.known.Store(new(sync.Map))
	}
	v.known.Load().Store(leaf, &verified[T]{value: value, err: err, pool: pool, until: until})
	return value, err
}

// VerifyClient verifies the certificates that a client sent, the client's own first, by the authorities in a pool.
func VerifyClient(sent []*x509.Certificate, pool *x509.CertPool) error {
	_, err := verifyChain(sent, pool, time.Now())
	return err
}

// verifyChain verifies the chain of a client, and returns until when it is valid.
func verifyChain(sent []*x509.Certificate, pool *x509.CertPool, now time.Time) (time.Time, error) {
	if len(sent) > maxSent {
		return time.Time{}, fmt.Errorf("x509: got %d certificates, want at most %d", len(sent), maxSent)
	}
	if pool == nil {
		pool = x509.NewCertPool() // a nil pool would mean the system's authorities
	}
	between := x509.NewCertPool()
	for _, c := range sent[1:] {
		between.AddCert(c)
	}
	chains, err := sent[0].Verify(x509.VerifyOptions{
		Roots:         pool,
		Intermediates: between,
		CurrentTime:   now,
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return time.Time{}, err
	}
	until := sent[0].NotAfter
	for _, c := range chains[0] {
		if c.NotAfter.Before(until) {
			until = c.NotAfter
		}
	}
	return until, nil
}

// clientCerts authenticates the subject of a client certificate as the user.
type clientCerts struct {
	*verifier[*Response]
	metrics *Metrics
}

// ClientCerts authenticates by client certificates that chain up to the pool. It calls pool for
// every request, so that the pool can be replaced; do not modify a pool. metrics may be nil.
func ClientCerts(pool func() *x509.CertPool, metrics *Metrics) Authenticator {
	return &clientCerts{newVerifier(pool, certificateUser), metrics}
}

// Authenticate implements Authenticator.
func (c *clientCerts) Authenticate(r *http.Request, _ []string) (*Response, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, nil
	}
	leaf, now := r.TLS.PeerCertificates[0], time.Now()
	c.metrics.certificate(leaf.NotAfter.Sub(now))
	response, err := c.verify(r.TLS.PeerCertificates, now)
	if err == nil {
		return response, nil
	}
	kind := certificateKind(err)
	if !errors.As(err, new(subjectError)) {
		err = fmt.Errorf("verifying certificate %s failed: %w", certificateID(leaf), err)
	}
	return nil, &reason{error: err, by: "client certificate", detail: subjects(leaf), kind: kind}
}

// certificateKind returns the kind of a reason to refuse a certificate, without texts of the certificate.
func certificateKind(err error) string {
	if invalid := (x509.CertificateInvalidError{}); errors.As(err, &invalid) {
		return fmt.Sprintf("%T %d", invalid, invalid.Reason)
	}
	return fmt.Sprintf("%T", err)
}

// subjects names the subject and the issuer of a certificate, for the log.
func subjects(leaf *x509.Certificate) string {
	return "subject " + Quote(leaf.Subject.String()) + ", issuer " + Quote(leaf.Issuer.String())
}

// subjectError describes the subject of a valid certificate that names no user.
type subjectError string

// Error returns the text.
func (e subjectError) Error() string { return string(e) }

// certificateUser returns the user of a verified certificate.
func certificateUser(leaf *x509.Certificate) (*Response, error) {
	if leaf.Subject.CommonName == "" {
		return nil, subjectError(fmt.Sprintf("certificate %s has no common name", certificateID(leaf)))
	}
	uid, err := certificateUID(leaf)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(leaf.Raw)
	return &Response{User: &User{
		Name:   leaf.Subject.CommonName,
		UID:    uid,
		Groups: WithAuthenticated(leaf.Subject.CommonName, leaf.Subject.Organization),
		Extra:  map[string][]string{CredentialID: {"X509SHA256=" + hex.EncodeToString(sum[:])}},
	}}, nil
}

var uidOID = asn1.X509UID()

// certificateUID returns the UID in a certificate's subject, "" if it has none.
func certificateUID(leaf *x509.Certificate) (string, error) {
	uids := []string{}
	for _, name := range leaf.Subject.Names {
		if !name.Type.Equal(uidOID) {
			continue
		}
		uid, ok := name.Value.(string)
		if !ok {
			return "", subjectError("unable to parse UID into a string")
		}
		uids = append(uids, uid)
	}
	switch {
	case len(uids) == 0:
		return "", nil
	case len(uids) > 1:
		return "", subjectError(fmt.Sprintf("expected 1 UID, but found multiple: %v", uids))
	case uids[0] == "":
		return "", subjectError("UID cannot be an empty string")
	}
	return uids[0], nil
}

// maxID is the length of a number or ID of a certificate that is printed, in bytes. RFC 5280 allows 20.
const maxID = 64

// certificateID identifies a certificate in an error. It cuts off what is longer than maxID.
func certificateID(c *x509.Certificate) string {
	serial := c.SerialNumber
	if serial.BitLen() > 8*maxID {
		return fmt.Sprintf("SN of %d bits", serial.BitLen())
	}
	return fmt.Sprintf("SN=%d, SKID=%s, AKID=%s", serial, colonHex(c.SubjectKeyId), colonHex(c.AuthorityKeyId))
}

// colonHex returns bytes in hexadecimal, separated by colons.
func colonHex(data []byte) string {
	var out strings.Builder
	for i, b := range data[:min(len(data), maxID)] {
		if i > 0 {
			out.WriteByte(':')
		}
		fmt.Fprintf(&out, "%02X", b)
	}
	return out.String()
}
