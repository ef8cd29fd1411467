package authn

import (
	"context"
	"crypto/x509"
	"fmt"
	"math/big"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// This file fills the caches of this package to their bounds.

// TestUsersOfTokensAreBounded sends more tokens than the cache of users has room for.
func TestUsersOfTokensAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		tokens := Cache(TokenFunc(func(_ context.Context, token string, _ []string) (*Response, error) {
			asked++
			return &Response{User: &User{Name: token}}, nil
		}), CacheOptions{Success: SuccessTTL})
		send := func(n int) {
			t.Helper()
			name := fmt.Sprint("user", n)
			if got, err := tokens.AuthenticateToken(t.Context(), name, nil); err != nil || got.User.Name != name {
				t.Fatalf("token %d: got %v, %v", n, got, err)
			}
		}
		held := func() int {
			synctest.Wait() // an answer is there before it is cached
			return len(tokens.(*cache).known)
		}
		for n := range maxCached + 1000 {
			send(n)
		}
		if n := held(); n != 16384 {
			t.Errorf("got %d users, want 16,384", n)
		}
		asked = 0
		send(1)                // is held
		send(maxCached + 10)   // is not
		time.Sleep(SuccessTTL) // of the bubble's clock
		time.Sleep(time.Second)
		send(1)
		if n := held(); asked != 2 || n != 1 {
			t.Errorf("asked %d times, and hold %d users after 11 s, want 2 and 1", asked, n)
		}
	})
}

// TestVerifiedCertificatesAreBounded sends more certificates than their cache has room for.
func TestVerifiedCertificatesAreBounded(t *testing.T) {
	ours := newAuthority(t)
	pool := x509.NewCertPool()
	pool.AddCert(ours.cert)
	v := newVerifier(func() *x509.CertPool { return pool }, func(c *x509.Certificate) (string, error) { return c.Subject.CommonName, nil })
	one := ours.issue(t, nil)
	most := 0
	for n := range maxVerified + 100 {
		each := *one // another connection has a certificate of its own
		if name, err := v.verify([]*x509.Certificate{&each}, time.Now()); err != nil || name != "ann" {
			t.Fatalf("got %q, %v", name, err)
		}
		if n%100 == 99 || n == maxVerified-1 {
			most = max(most, size(v.known.Load()))
		}
	}
	if most != 4096 || size(v.known.Load()) > 200 {
		t.Errorf("got at most %d certificates, and %d at the end, want 4,096 and few", most, size(v.known.Load()))
	}
}

// TestRefusedCertificates holds that a connection with a certificate that is refused does not have it
// verified for each request, and that a long chain is not verified at all.
// Ledger: client-chains.
func TestRefusedCertificates(t *testing.T) {
	ours := newAuthority(t)
	pool := x509.NewCertPool()
	pool.AddCert(ours.cert)
	v := newVerifier(func() *x509.CertPool { return pool }, func(c *x509.Certificate) (string, error) { return c.Subject.CommonName, nil })
	one, now := ours.issue(t, nil), time.Now()
	sent := make([]*x509.Certificate, maxSent+1)
	for i := range sent {
		sent[i] = one
	}
	if _, err := v.verify(sent, now); err == nil || err.Error() != "x509: got 17 certificates, want at most 16" {
		t.Errorf("17 certificates: got %v", err)
	}
	// The same certificate in a chain that would be accepted shows whether it is verified again.
	if _, err := v.verify(sent[:1], now.Add(refusedTime-1)); err == nil {
		t.Error("it was verified again at once")
	}
	if name, err := v.verify(sent[:1], now.Add(refusedTime)); err != nil || name != "ann" {
		t.Errorf("later: got %q, %v", name, err)
	}
	if _, err := v.verify(sent, now.Add(refusedTime)); err != nil {
		t.Errorf("verified before: got %v", err)
	}
	long := *one
	long.SerialNumber, long.SubjectKeyId = new(big.Int).Lsh(big.NewInt(1), 1<<20), make([]byte, 1<<20)
	if got := certificateID(&long); got != "SN of 1048577 bits" {
		t.Errorf("a long serial number: got %.100s", got)
	}
	if long.SerialNumber = big.NewInt(1); len(certificateID(&long)) > 300 {
		t.Errorf("a long ID: got %d bytes", len(certificateID(&long)))
	}
	another := *one
	if _, err := v.verify([]*x509.Certificate{&another}, now); err != nil {
		t.Errorf("16 certificates: got %v", err)
	}
}

func size(m *sync.Map) (n int) {
	m.Range(func(any, any) bool { n++; return true })
	return n
}
