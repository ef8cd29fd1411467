package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strings"
)

// This file has what an operator can say about TLS: versions, cipher suites, key exchanges, and the
// header that tells browsers to use nothing else.

// TLS restricts the TLS of the server. The zero value means Go's defaults, from TLS 1.2 on.
type TLS struct {
	MinVersion       string   // VersionTLS12 or VersionTLS13
	CipherSuites     []string // names, for TLS 1.2; those of TLS 1.3 cannot be chosen
	CurvePreferences []int32  // numbers of key exchanges, as crypto/tls has them

	// StrictTransportSecurity has the directives of the header Strict-Transport-Security; empty for
	// no header.
	StrictTransportSecurity []string
}

// http2Ciphers are the suites of which HTTP/2 needs one, if TLS 1.2 is allowed (RFC 7540, 9.2.2).
var http2Ciphers = []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}

// restrict sets the restrictions in a configuration. It logs insecure cipher suites.
func (t *TLS) restrict(c *tls.Config, logger *slog.Logger) error {
	switch t.MinVersion {
	case "":
	case "VersionTLS12":
		c.MinVersion = tls.VersionTLS12
	case "VersionTLS13":
		c.MinVersion = tls.VersionTLS13
	case "VersionTLS10", "VersionTLS11":
		return fmt.Errorf("--tls-min-version: got %s, want VersionTLS12 or VersionTLS13: older versions are broken", t.MinVersion)
	default:
		return fmt.Errorf("--tls-min-version: unknown tls version %q", t.MinVersion)
	}
	for _, name := range t.CipherSuites {
		suite, insecure := cipherSuite(name)
		if suite == 0 {
			return fmt.Errorf("--tls-cipher-suites: Cipher suite %s not supported or doesn't exist", name)
		}
		if insecure {
			logger.Warn("insecure cipher suite in --tls-cipher-suites", "suite", name)
		}
		c.CipherSuites = append(c.CipherSuites, suite)
	}
	if c.CipherSuites != nil && c.MinVersion < tls.VersionTLS13 &&
		!slices.ContainsFunc(http2Ciphers, func(id uint16) bool { return slices.Contains(c.CipherSuites, id) }) {
		return fmt.Errorf("--tls-cipher-suites: HTTP/2 needs %s or %s", tls.CipherSuiteName(http2Ciphers[0]), tls.CipherSuiteName(http2Ciphers[1]))
	}
	for i, number := range t.CurvePreferences {
		id := tls.CurveID(number)
		switch {
		case number <= 0 || number > math.MaxUint16:
			return fmt.Errorf("--tls-curve-preferences: curve preference %d is out of range (must be 1-%d)", number, math.MaxUint16)
		case slices.Contains(t.CurvePreferences[:i], number):
			return fmt.Errorf("--tls-curve-preferences: duplicate curve preference %d", number)
		case strings.HasPrefix(id.String(), "CurveID("):
			return fmt.Errorf("--tls-curve-preferences: curve preference %d is not supported by the current Go version", number)
		}
		c.CurvePreferences = append(c.CurvePreferences, id)
	}
	return nil
}

// cipherSuite returns the number of a cipher suite, 0 if the name is unknown, and whether the suite is
// insecure. The names without a hash function are older ones.
func cipherSuite(name string) (id uint16, insecure bool) {
	switch name {
	case "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305":
		return tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, false
	case "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305":
		return tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, false
	}
	for _, s := range tls.CipherSuites() {
		if s.Name == name {
			return s.ID, false
		}
	}
	for _, s := range tls.InsecureCipherSuites() {
		if s.Name == name {
			return s.ID, true
		}
	}
	return 0, false
}

// withHSTS returns a handler that adds the header Strict-Transport-Security to all answers, or next
// if there are no directives. The errors are kube-apiserver's.
func (t *TLS) withHSTS(next http.Handler) (http.Handler, error) {
	var errs []error
	for _, d := range t.StrictTransportSecurity {
		name, value, pair := strings.Cut(d, "=")
		switch {
		case strings.TrimSpace(d) == "":
			errs = append(errs, errors.New("empty value in strict-transport-security-directives"))
		case d == "includeSubDomains" || d == "preload":
		case !pair || name != "max-age" || strings.Contains(value, "="):
			errs = append(errs, errors.New("--strict-transport-security-directives invalid, allowed values: max-age=expireTime, includeSubDomains, preload. see https://tools.ietf.org/html/rfc6797#section-6.1 for more information"))
		}
	}
	if len(errs) > 0 || len(t.StrictTransportSecurity) == 0 {
		return next, errors.Join(errs...)
	}
	directives := []string{strings.Join(t.StrictTransportSecurity, "; ")}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Strict-Transport-Security"] = directives
		next.ServeHTTP(w, r)
	}), nil
}
