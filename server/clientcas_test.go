package server

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
	"time"
)

// This file replaces authorities of clients and of proxies.

// newTestAuthority returns an authority and its certificate in PEM.
func newTestAuthority(t *testing.T) (*x509.Certificate, []byte) {
	t.Helper()
	made, err := new(pki).issue("ca", authorityTemplate(time.Now()), nil)
	if err != nil {
		t.Fatal(err)
	}
	return made.cert, made.certPEM
}

func TestTrusted(t *testing.T) {
	own, ownPEM := newTestAuthority(t)
	first, firstPEM := newTestAuthority(t)
	second, secondPEM := newTestAuthority(t)
	trusted := newTrusted(own)
	trusted.strict = true
	var changes int
	trusted.onChange(func(before, now *authorities) {
		if changes++; before == now {
			t.Error("a change to the same authorities")
		}
	})
	s := &Server{identity: &identity{trusted: trusted}}
	for _, row := range []struct {
		what    string
		set     func([]*x509.Certificate) error
		certs   []*x509.Certificate
		clients []byte
		proxies []byte
		refused bool
		changes int
	}{
		{"clients", trusted.setClients, []*x509.Certificate{first}, bytes.Join([][]byte{ownPEM, firstPEM}, nil), nil, false, 1},
		{"the same clients", trusted.setClients, []*x509.Certificate{first}, bytes.Join([][]byte{ownPEM, firstPEM}, nil), nil, false, 1},
		{"proxies", trusted.setProxies, []*x509.Certificate{second}, bytes.Join([][]byte{ownPEM, firstPEM}, nil), secondPEM, false, 2},
		{"proxies of the clients' authority", trusted.setProxies, []*x509.Certificate{first}, bytes.Join([][]byte{ownPEM, firstPEM}, nil), secondPEM, true, 2},
		{"proxies of the server's authority", trusted.setProxies, []*x509.Certificate{own}, bytes.Join([][]byte{ownPEM, firstPEM}, nil), secondPEM, true, 2},
		{"clients of the proxies' authority", trusted.setClients, []*x509.Certificate{first, second}, bytes.Join([][]byte{ownPEM, firstPEM}, nil), secondPEM, true, 2},
	} {
		if err := row.set(row.certs); (err != nil) != row.refused {
			t.Errorf("%s: got %v", row.what, err)
		}
		got := s.authenticationSettings()
		if got.ClientCA != string(row.clients) || got.ProxyCA != string(row.proxies) || changes != row.changes {
			t.Errorf("%s: got %d changes, clients %s, proxies %s", row.what, changes, got.ClientCA, got.ProxyCA)
		}
	}
}

func TestParseAuthorities(t *testing.T) {
	_, one := newTestAuthority(t)
	_, two := newTestAuthority(t)
	both := string(one) + string(two)
	for text, want := range map[string]string{
		string(one): "", both: "", "# comment\n" + both + "\n": "",
		"": "no certificate in it", "text": "no certificate in it",
		both[:len(both)-30]: "the last certificate is incomplete",
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})): "malformed certificate",
	} {
		certs, err := parseAuthorities([]byte(text))
		if got := ""; err != nil {
			if got = err.Error(); want == "" || !strings.Contains(got, want) {
				t.Errorf("%.40q: got %s, want %q", text, got, want)
			}
		} else if want != "" || len(certs) != strings.Count(text, "BEGIN") {
			t.Errorf("%.40q: got %d certificates, want %q", text, len(certs), want)
		}
	}
}
