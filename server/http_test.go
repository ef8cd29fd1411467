package server

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/keelson-io/keelson/internal/store/mem"
)

// This file tests what the server says in the TLS handshake.

// TestAnnouncedAuthorities holds that the handshake names the authorities of client certificates: the server's own, that of
// --client-ca-file and that of the proxies. Clients choose one of several certificates by them.
func TestAnnouncedAuthorities(t *testing.T) {
	authority := func(name string) string {
		issued, err := new(pki).issue(name, &x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "ca.crt")
		if err := os.WriteFile(path, issued.certPEM, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	r := start(t, Config{
		Store: mem.New(mem.Options{}), ClientCAFile: authority("clients"),
		Authentication: Authentication{RequestHeader: RequestHeader{ClientCAFile: authority("proxies"), UsernameHeaders: []string{"X-Remote-User"}}},
	})
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		var announced [][]byte
		conn, err := tls.Dial("tcp", r.Addr(), &tls.Config{InsecureSkipVerify: true, MaxVersion: version, NextProtos: []string{"h2"},
			GetClientCertificate: func(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
				announced = info.AcceptableCAs
				return new(tls.Certificate), nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		if got := conn.ConnectionState().NegotiatedProtocol; got != "h2" {
			t.Errorf("%s: got protocol %q, want h2", tls.VersionName(version), got)
		}
		conn.Close()
		var names []string
		for _, raw := range announced {
			var sequence pkix.RDNSequence
			if _, err := asn1.Unmarshal(raw, &sequence); err != nil {
				t.Fatal(err)
			}
			var name pkix.Name
			name.FillFromRDNSequence(&sequence)
			names = append(names, name.CommonName)
		}
		slices.Sort(names)
		want := []string{"clients", r.identity.pki.authority.cert.Subject.CommonName, "proxies"}
		slices.Sort(want)
		if !slices.Equal(names, want) {
			t.Errorf("%s: got %q, want %q", tls.VersionName(version), names, want)
		}
	}
}
