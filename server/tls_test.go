package server

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/store/mem"
)

// TestTLS connects with what the configuration allows and with what it does not.
func TestTLS(t *testing.T) {
	const strong, weak = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA"
	for _, row := range []struct {
		name     string
		config   TLS
		client   *tls.Config
		accepted bool
	}{
		{"a suite that is allowed", TLS{CipherSuites: []string{strong}}, &tls.Config{MaxVersion: tls.VersionTLS12}, true},
		{"a suite that is not", TLS{CipherSuites: []string{strong}}, &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384}}, false},
		{"an insecure suite that is allowed", TLS{CipherSuites: []string{strong, weak}}, &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA}}, true},
		{"an older version", TLS{MinVersion: "VersionTLS13"}, &tls.Config{MaxVersion: tls.VersionTLS12}, false},
		{"the version", TLS{MinVersion: "VersionTLS13"}, &tls.Config{}, true},
		{"a key exchange that is allowed", TLS{CurvePreferences: []int32{29, 4588}}, &tls.Config{CurvePreferences: []tls.CurveID{tls.X25519}}, true},
		{"a key exchange that is not", TLS{CurvePreferences: []int32{29}}, &tls.Config{CurvePreferences: []tls.CurveID{tls.CurveP384}}, false},
	} {
		r := start(t, Config{Store: mem.New(mem.Options{}), TLS: row.config})
		row.client.InsecureSkipVerify = true
		conn, err := tls.Dial("tcp", r.Addr(), row.client)
		if err == nil {
			conn.Close()
		}
		if accepted := err == nil; accepted != row.accepted {
			t.Errorf("%s: accepted: got %t (%v), want %t", row.name, accepted, err, row.accepted)
		}
		r.end()
	}
}

// TestBadTLS refuses what cannot be served.
// Ledger: old-tls.
func TestBadTLS(t *testing.T) {
	for _, row := range []struct {
		config TLS
		want   string
	}{
		{TLS{MinVersion: "VersionTLS11"}, "--tls-min-version: got VersionTLS11, want VersionTLS12 or VersionTLS13: older versions are broken"},
		{TLS{MinVersion: "1.2"}, `--tls-min-version: unknown tls version "1.2"`},
		{TLS{CipherSuites: []string{"NULL"}}, "--tls-cipher-suites: Cipher suite NULL not supported or doesn't exist"},
		{TLS{CipherSuites: []string{"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305"}}, "--tls-cipher-suites: HTTP/2 needs TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 or TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"},
		{TLS{CurvePreferences: []int32{23, 23}}, "--tls-curve-preferences: duplicate curve preference 23"},
		{TLS{CurvePreferences: []int32{0}}, "--tls-curve-preferences: curve preference 0 is out of range (must be 1-65535)"},
		{TLS{CurvePreferences: []int32{9999}}, "--tls-curve-preferences: curve preference 9999 is not supported by the current Go version"},
		{TLS{StrictTransportSecurity: []string{" "}}, "empty value in strict-transport-security-directives"},
		{TLS{StrictTransportSecurity: []string{"max-age"}}, "--strict-transport-security-directives invalid, allowed values: max-age=expireTime, includeSubDomains, preload. see https://tools.ietf.org/html/rfc6797#section-6.1 for more information"},
	} {
		s, err := New(context.Background(), Config{Store: mem.New(mem.Options{}), SecurePort: -1, TLS: row.config, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
		if err == nil || err.Error() != row.want {
			t.Errorf("%+v: got error %v, want %s", row.config, err, row.want)
		}
		if s != nil {
			s.Close()
		}
	}
}

// TestHSTS looks for the header in answers of all kinds.
func TestHSTS(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{}), TLS: TLS{StrictTransportSecurity: []string{"max-age=31536000", "includeSubDomains"}}})
	anybody := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for _, path := range []string{"/version", "/healthz", "/nowhere", "/api/v1/namespaces"} {
		resp, err := anybody.Get("https://" + r.Addr() + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := strings.Join(resp.Header.Values("Strict-Transport-Security"), ","); got != "max-age=31536000; includeSubDomains" {
			t.Errorf("%s: got %q", path, got)
		}
	}
}
