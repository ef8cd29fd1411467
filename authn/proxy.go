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

// This file authenticates by the headers of a proxy in front of the server,
// which shows a client certificate of its own and names the user in headers.

// Proxy says which proxy is believed and by which headers.
type Proxy struct {
	// Pool holds the authorities of the proxies' certificates.
	Pool func() *x509.CertPool
	// AllowedNames are the common names that a proxy may have; none means that
	// any will do.
	AllowedNames []string

	UserHeaders   []string // the first that is there names the user
	UIDHeaders    []string // the first that is there is the user's UID
	GroupHeaders  []string // every value of every one is a group
	ExtraPrefixes []string // what follows one, in lower case and %-decoded, is the key of an extra
}

// NewProxy returns the Authenticator of a proxy's headers.
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

type proxy struct {
	Proxy
	*verifier[bool]
}

// allowed refuses a proxy of a name that may not be one.
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
	// The name first: who sends none is not the proxy, and is not worth the cryptography.
	name := firstValue(r.Header, p.UserHeaders)
	if name == "" {
		return nil, nil
	}
	if _, err := p.verify(r.TLS.PeerCertificates, time.Now()); err != nil {
		return nil, err
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

// firstValue is the first value that is not empty of the headers.
func firstValue(h http.Header, names []string) string {
	for _, name := range names {
		if v := h.Get(name); v != "" {
			return v
		}
	}
	return ""
}

// ExtraKey is the key of an extra as the rest of a header's name spells it:
// headers have no case, and bytes that they cannot hold are %-encoded.
func ExtraKey(spelled string) string {
	key := strings.ToLower(spelled)
	if plain, err := url.PathUnescape(key); err == nil {
		return plain
	}
	return key
}
