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

// This file authenticates by TLS client certificate: the subject's common name
// is the user, its organizations are the groups.

// maxVerified bounds how many certificates are remembered as verified; beyond
// it the memory starts afresh, which costs one verification per connection.
const maxVerified = 4096

// verified is what one certificate was verified to be.
type verified[T any] struct {
	value T
	pool  *x509.CertPool
	until time.Time
}

// verifier verifies client certificates once each. crypto/tls hands out the
// same *x509.Certificate for every request of a connection, so its address is
// the key: a request on a known connection costs one look-up, no cryptography.
type verifier[T any] struct {
	pool  func() *x509.CertPool
	read  func(leaf *x509.Certificate) (T, error)
	known atomic.Pointer[sync.Map] // *x509.Certificate to *verified
	count atomic.Int64
}

func newVerifier[T any](pool func() *x509.CertPool, read func(*x509.Certificate) (T, error)) *verifier[T] {
	v := &verifier[T]{pool: pool, read: read}
	v.known.Store(new(sync.Map))
	return v
}

// verify is what the certificate of a request is, once its chain is verified.
func (v *verifier[T]) verify(sent []*x509.Certificate, now time.Time) (T, error) {
	leaf, pool := sent[0], v.pool()
	if known, ok := v.known.Load().Load(leaf); ok {
		if known := known.(*verified[T]); known.pool == pool && now.Before(known.until) {
			return known.value, nil
		}
	}
	var none T
	until, err := verifyChain(sent, pool, now)
	if err != nil {
		return none, err
	}
	value, err := v.read(leaf)
	if err != nil {
		return none, err
	}
	if v.count.Add(1) > maxVerified {
		v.count.Store(0)
		v.known.Store(new(sync.Map))
	}
	v.known.Load().Store(leaf, &verified[T]{value: value, pool: pool, until: until})
	return value, nil
}

// verifyChain checks the chain that a client sent, and says how long it is good.
func verifyChain(sent []*x509.Certificate, pool *x509.CertPool, now time.Time) (time.Time, error) {
	if pool == nil {
		pool = x509.NewCertPool() // nil would mean the authorities of the machine
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

// clientCerts takes the subject of a client certificate for the user.
type clientCerts struct {
	*verifier[*Response]
	metrics *Metrics
}

// ClientCerts authenticates by client certificates that chain up to the pool.
// The pool is asked for at every request, so that it can be reloaded; a changed
// pool must be a new pool. Metrics may be nil.
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
	if err != nil && !errors.As(err, new(subjectError)) {
		return nil, fmt.Errorf("verifying certificate %s failed: %w", certificateID(leaf), err)
	}
	return response, err
}

// subjectError is what is wrong with the subject of a certificate that is good
// otherwise.
type subjectError string

func (e subjectError) Error() string { return string(e) }

// certificateUser reads the user off a verified certificate.
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

// certificateUID is the UID in the subject of a certificate, "" if there is
// none.
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

// certificateID names a certificate in an error.
func certificateID(c *x509.Certificate) string {
	return fmt.Sprintf("SN=%d, SKID=%s, AKID=%s", c.SerialNumber, colonHex(c.SubjectKeyId), colonHex(c.AuthorityKeyId))
}

func colonHex(data []byte) string {
	var out strings.Builder
	for i, b := range data {
		if i > 0 {
			out.WriteByte(':')
		}
		fmt.Fprintf(&out, "%02X", b)
	}
	return out.String()
}
