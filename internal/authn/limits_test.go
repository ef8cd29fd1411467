package authn

import (
	"context"
	"crypto/x509"
	"fmt"
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

func size(m *sync.Map) (n int) {
	m.Range(func(any, any) bool { n++; return true })
	return n
}
