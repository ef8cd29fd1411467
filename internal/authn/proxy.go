package authn

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"time"
)

// This file authenticates users that a proxy in front of the server names in headers. The proxy
// authenticates by a client certificate.

// Proxy configures the trusted proxies and the headers that they set.
type Proxy struct {
	// Pool returns the authorities of the proxies' certificates.
	Pool func() *x509.CertPool
	// AllowedNames are the accepted common names of proxies. If it is empty, all names are.
	AllowedNames []string

	UserHeaders   []string // the first one present names the user
	UIDHeaders    []string // the first one present is the user's UID
	GroupHeaders  []string // each value of each header is a group
	ExtraPrefixes []string // the rest of a header's name, in lower case and %-decoded, is a key of extra
}

// NewProxy returns the Authenticator for a proxy's headers.
func NewProxy(p Proxy) (Authenticator, error) {
	a := &proxy{Proxy: p}
	for _, list := range []*[]string{&a.UserHeaders, &a.UIDHeaders, &a.GroupHeaders, &a.ExtraPrefixes} {
		names := make([]string, 0, len(*list))
		for _, name := range *list {
			trimmed := strings.TrimSpace(name)
			if trimmed == "" {
				return nil, fmt.Errorf("empty header %q", name)
			}
			names = append(names, trimmed)
		}
		*list = names
	}
	a.verifier = newVerifier(p.Pool, a.allowed)
	return a, nil
}

// proxy authenticates the requests of trusted proxies.
type proxy struct {
	Proxy
	*verifier[bool]
}

// allowed refuses a certificate whose common name is not accepted.
func (p *proxy) allowed(leaf *x509.Certificate) (bool, error) {
	if len(p.AllowedNames) > 0 && !slices.Contains(p.AllowedNames, leaf.Subject.CommonName) {
		return false, fmt.Errorf("x509: subject with cn=%s is not in the allowed list", leaf.Subject.CommonName)
	}
	return true, nil
}

// Authenticate implements Authenticator.
func (p *proxy) Authenticate(r *http.Request, _ []string) (*Response, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, nil
	}
	// Without a user header the request does not come from a proxy. Checking this first avoids the
	// verification.
	name := firstValue(r.Header, p.UserHeaders)
	if name == "" {
		return nil, nil
	}
	if _, err := p.verify(r.TLS.PeerCertificates, time.Now()); err != nil {
		return nil, &reason{error: err, by: "request header proxy", detail: subjects(r.TLS.PeerCertificates[0]), kind: certificateKind(err)}
	}
	u := &User{Name: name, UID: firstValue(r.Header, p.UIDHeaders)}
	for _, header := range p.GroupHeaders {
		for _, group := range r.Header[textproto.CanonicalMIMEHeaderKey(header)] {
			if group != "" {
				u.Groups = append(u.Groups, group)
			}
		}
	}
	for _, prefix := range p.ExtraPrefixes {
		for header, values := range r.Header {
			if len(header) < len(prefix) || !strings.EqualFold(header[:len(prefix)], prefix) {
				continue
			}
			key := ExtraKey(header[len(prefix):])
			if u.Extra == nil {
				u.Extra = map[string][]string{}
			}
			u.Extra[key] = append(u.Extra[key], values...)
		}
	}
	return authenticated(&Response{User: u}), nil
}

// firstValue returns the first value of the headers that is not empty.
func firstValue(h http.Header, names []string) string {
	for _, name := range names {
		if v := h.Get(name); v != "" {
			return v
		}
	}
	return ""
}

// ExtraKey returns the key of extra in the rest of a header's name. Headers are case-insensitive;
// bytes that they cannot hold are %-encoded.
func ExtraKey(spelled string) string {
	key := strings.ToLower(spelled)
	if plain, err := url.PathUnescape(key); err == nil {
		return plain
	}
	return key
}
