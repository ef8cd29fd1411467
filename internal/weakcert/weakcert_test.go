package weakcert

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/keelson-io/keelson/internal/testcerts"
)

// This file calls servers whose certificates are out of date.

// TestFlawsAreCounted holds that a flaw of a certificate is counted and logged once, whether the
// connection fails because of it or not.
func TestFlawsAreCounted(t *testing.T) {
	authority := testcerts.Sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil)
	roots := x509.NewCertPool()
	roots.AddCert(authority.Leaf)
	local := []net.IP{net.IPv4(127, 0, 0, 1)}
	for _, row := range []struct {
		name          string
		cert          *x509.Certificate
		trusting      bool
		err           string
		noNames, sha1 float64
	}{
		{"as it should be", &x509.Certificate{IPAddresses: local}, false, "", 0, 0},
		{"as it should be, not looked at", &x509.Certificate{IPAddresses: local}, true, "", 0, 0},
		{"only a common name", &x509.Certificate{Subject: pkix.Name{CommonName: "localhost"}}, false, "x509: certificate relies on legacy Common Name field", 1, 0},
		{"only a common name, not looked at", &x509.Certificate{Subject: pkix.Name{CommonName: "localhost"}}, true, "", 1, 0},
		{"SHA-1", &x509.Certificate{IPAddresses: local, SignatureAlgorithm: x509.SHA1WithRSA}, false, "insecure algorithm SHA1-RSA", 0, 1},
		{"SHA-1, not looked at", &x509.Certificate{IPAddresses: local, SignatureAlgorithm: x509.SHA1WithRSA}, true, "", 0, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := httptest.NewUnstartedServer(http.NotFoundHandler())
			s.TLS = &tls.Config{Certificates: []tls.Certificate{testcerts.Sign(t, row.cert, &authority)}}
			s.Config.ErrorLog = log.New(io.Discard, "", 0)
			s.StartTLS()
			defer s.Close()
			address := s.URL
			if row.cert.Subject.CommonName != "" {
				address = strings.Replace(address, "127.0.0.1", "localhost", 1)
			}
			var log bytes.Buffer
			c := New(prometheus.NewRegistry(), slog.New(slog.NewTextHandler(&log, nil)))
			next := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, InsecureSkipVerify: row.trusting}}
			defer next.CloseIdleConnections()
			resp, err := (&http.Client{Transport: c.Wrap(next)}).Get(address)
			if err == nil {
				resp.Body.Close()
			}
			if (err == nil) != (row.err == "") || err != nil && !strings.Contains(err.Error(), row.err) {
				t.Errorf("got %v, want %q", err, row.err)
			}
			if got := testutil.ToFloat64(c.missingSAN); got != row.noNames {
				t.Errorf("missing names: got %v, want %v", got, row.noNames)
			}
			if got := testutil.ToFloat64(c.sha1); got != row.sha1 {
				t.Errorf("SHA-1: got %v, want %v", got, row.sha1)
			}
			if got := strings.Count(log.String(), "host="); got != int(row.noNames+row.sha1) {
				t.Errorf("got %d lines in the log, want %v: %s", got, row.noNames+row.sha1, &log)
			}
		})
	}
}
