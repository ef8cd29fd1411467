// Package weakcert counts calls to webhooks whose certificates are out of date: without subject
// alternative names, or signed with SHA-1.
//
// Go refuses both, unless the client does not verify certificates. The counters, under
// kube-apiserver's names, tell operators which webhooks fail for this reason, and which will. All
// webhook clients of a server share one [Counters], whose [Counters.Wrap] goes around their
// transports.
package weakcert

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Counters counts certificates. A nil *Counters counts nothing.
type Counters struct {
	missingSAN prometheus.Counter
	sha1       prometheus.Counter
	logger     *slog.Logger
}

// New registers the counters. Each finding is logged, too.
func New(reg prometheus.Registerer, logger *slog.Logger) *Counters {
	counter := func(name, flaw, failure string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{
			Name: "apiserver_webhooks_x509_" + name,
			Help: "[BETA] Counts the number of requests to servers " + flaw + " in their serving certificate OR the number of connection failures " +
				"due to the " + failure + " (either/or, based on the runtime environment)",
		})
	}
	c := &Counters{
		missingSAN: counter("missing_san_total", "missing SAN extension", "lack of x509 certificate SAN extension missing"),
		sha1:       counter("insecure_sha1_total", "with insecure SHA1 signatures", "insecure SHA1 signatures"),
		logger:     logger,
	}
	reg.MustRegister(c.missingSAN, c.sha1)
	return c
}

// Wrap returns a transport that counts the certificates of the connections of next.
func (c *Counters) Wrap(next http.RoundTripper) http.RoundTripper {
	if c == nil {
		return next
	}
	return &transport{next, c}
}

// transport is a transport whose connections are counted.
type transport struct {
	next     http.RoundTripper
	counters *Counters
}

// RoundTrip sends the request and looks at the certificates of the connection.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	t.counters.count(r.URL.Hostname(), resp, err)
	return resp, err
}

// count counts a connection whose certificates have a flaw, whether the connection failed because
// of it or not. crypto/x509 has no error values or types that tell these two failures apart, so that
// their texts have to be compared. A changed text would only leave a failure uncounted.
func (c *Counters) count(host string, resp *http.Response, err error) {
	var wrongName x509.HostnameError
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &wrongName) && strings.Contains(err.Error(), "x509: certificate relies on legacy Common Name field"):
		c.foundMissingSAN(host)
	case errors.As(err, &unknown):
		if _, why, found := strings.Cut(err.Error(), "x509: cannot verify signature: insecure algorithm"); found && strings.Contains(why, "SHA1") {
			c.foundSHA1(host)
		}
	case err == nil && resp.TLS != nil && len(resp.TLS.PeerCertificates) > 0:
		certs := resp.TLS.PeerCertificates
		if !hasSAN(certs[0]) {
			c.foundMissingSAN(host)
		}
		if slices.ContainsFunc(certs, hasWeakSignature) {
			c.foundSHA1(host)
		}
	}
}

// foundMissingSAN records a certificate without subject alternative names.
func (c *Counters) foundMissingSAN(host string) {
	c.missingSAN.Inc()
	c.logger.Info("the certificate of a webhook has no subject alternative names; issue one that has", "host", host)
}

// foundSHA1 records a certificate that is signed with SHA-1.
func (c *Counters) foundSHA1(host string) {
	c.sha1.Inc()
	c.logger.Info("the certificate of a webhook is signed with SHA-1; issue one that is signed with SHA-256", "host", host)
}

var subjectAlternativeName = asn1.ObjectIdentifier{2, 5, 29, 17}

// hasSAN reports whether the certificate has subject alternative names.
func hasSAN(c *x509.Certificate) bool {
	return slices.ContainsFunc(c.Extensions, func(e pkix.Extension) bool { return e.Id.Equal(subjectAlternativeName) })
}

// hasWeakSignature reports whether a certificate that is not self-signed has a SHA-1 signature.
func hasWeakSignature(c *x509.Certificate) bool {
	weak := c.SignatureAlgorithm == x509.SHA1WithRSA || c.SignatureAlgorithm == x509.ECDSAWithSHA1
	return weak && c.Issuer.String() != c.Subject.String()
}
