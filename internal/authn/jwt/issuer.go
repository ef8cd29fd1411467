package jwt

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/keysize"
	"github.com/keelson-io/keelson/internal/reloads"
)

// This file verifies the tokens of one issuer.

// Algorithms lists the signature algorithms that tokens of configured issuers may have.
var Algorithms = []string{oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.RS256, oidc.RS384, oidc.RS512}

// fetchTimeout bounds one request to an issuer, maxDocument the bytes of its answer.
const (
	fetchTimeout = 30 * time.Second
	maxDocument  = 4 << 20
)

// issuer verifies the tokens of one issuer.
type issuer struct {
	Issuer
	*program
	hash      string // of the URL, as a metric label
	metrics   *metrics
	config    *oidc.Config
	resolver  *resolver                   // for distributed claims; nil if the mappings need none
	found     atomic.Pointer[oidc.KeySet] // nil until the keys have been found
	unhealthy atomic.Pointer[error]
}

// newIssuer starts to look for the keys of an issuer, and continues until ctx ends.
func newIssuer(ctx context.Context, i Issuer, p *program, o *Options) (*issuer, error) {
	if e := i.Issuer.EgressSelectorType; e != "" {
		return nil, fmt.Errorf("oidc: egress lookup required with egress selector type %q", e)
	}
	client, err := o.client(&i.Issuer)
	if err != nil {
		return nil, err
	}
	out := &issuer{Issuer: i, program: p, hash: reloads.Hash(i.Issuer.URL), metrics: o.metrics}
	out.config = &oidc.Config{SkipClientIDCheck: true, SupportedSigningAlgs: o.Algorithms}
	out.resolver = newResolver(&i, client, out.config)
	out.unready(fmt.Errorf("oidc: authenticator for issuer %q is not initialized", i.Issuer.URL))
	go out.discover(ctx, client, o.Retry, o.Logger)
	return out, nil
}

// unready records why the issuer's tokens cannot be verified.
func (i *issuer) unready(err error) { i.unhealthy.Store(&err) }

// health returns why the issuer's tokens cannot be verified, nil if they can.
func (i *issuer) health() error {
	if err := i.unhealthy.Load(); err != nil {
		return fmt.Errorf("oidc: authenticator for issuer %q is not healthy: %w", i.Issuer.Issuer.URL, *err)
	}
	return nil
}

// discover fetches the issuer's keys, and tries again until it has them.
func (i *issuer) discover(ctx context.Context, client *http.Client, retry time.Duration, logger *slog.Logger) {
	ctx = oidc.ClientContext(ctx, client)
	for {
		keys, err := i.keys(ctx, client)
		if err == nil {
			i.found.Store(&keys)
			i.unhealthy.Store(nil)
			return
		}
		if ctx.Err() != nil {
			return
		}
		logger.Error("oidc authenticator: initializing plugin", "issuer", i.Issuer.Issuer.URL, "error", err)
		i.unready(err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(retry):
		}
	}
}

// keys returns the key set that the issuer's discovery document names.
func (i *issuer) keys(ctx context.Context, client *http.Client) (oidc.KeySet, error) {
	provider, err := oidc.NewProvider(ctx, i.Issuer.Issuer.URL)
	if err != nil {
		return nil, err
	}
	var where struct {
		URL string `json:"jwks_uri"`
	}
	if err := provider.Claims(&where); err != nil {
		return nil, err
	}
	if where.URL == "" {
		return nil, errors.New("provider did not return JWKS URL")
	}
	counted := *client
	counted.Transport = &fetches{base: client.Transport, url: where.URL, issuer: i, alive: ctx}
	return oidc.NewRemoteKeySet(oidc.ClientContext(ctx, &counted), where.URL), nil
}

// client returns the HTTP client that fetches the issuer's documents.
func (o *Options) client(i *Identity) (*http.Client, error) {
	t := utilnet.SetTransportDefaults(&http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}})
	if i.CertificateAuthority != "" {
		pool, err := keysize.Pool([]byte(i.CertificateAuthority))
		if err != nil {
			return nil, fmt.Errorf("Failed to read the CA contents: %w", err)
		}
		t.TLSClientConfig.RootCAs = pool
	}
	var transport http.RoundTripper = &bounded{t}
	if d := i.discoveryURL(); d != "" {
		u, err := url.Parse(d)
		if err != nil {
			return nil, fmt.Errorf("oidc: invalid discovery URL: %w", err)
		}
		transport = &elsewhere{base: transport, from: strings.TrimSuffix(i.URL, "/") + "/.well-known/openid-configuration", to: u}
	}
	return &http.Client{Transport: transport, Timeout: fetchTimeout}, nil
}

// bounded cuts off answers after maxDocument bytes, and fails those with very long keys.
type bounded struct{ base http.RoundTripper }

// RoundTrip implements http.RoundTripper. It reads the whole answer, so that nothing parses a key
// whose length was not checked.
func (b *bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument))
	if err == nil {
		err = keysize.CheckKeys(text)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.URL.Redacted(), err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(text))
	return resp, nil
}

// elsewhere sends requests for one URL, the discovery document, to another one.
type elsewhere struct {
	base http.RoundTripper
	from string
	to   *url.URL
}

// RoundTrip implements http.RoundTripper.
func (e *elsewhere) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet && r.URL.String() == e.from {
		r = r.Clone(r.Context())
		r.Host, r.URL = "", e.to
	}
	return e.base.RoundTrip(r)
}

// fetches records when keys were fetched and their hash, for metrics.
type fetches struct {
	base   http.RoundTripper
	url    string
	issuer *issuer
	alive  context.Context // ends when the configuration is replaced
}

// RoundTrip implements http.RoundTripper.
func (f *fetches) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := f.base.RoundTrip(r)
	if r.URL.String() != f.url || f.alive.Err() != nil {
		return resp, err
	}
	if err != nil || resp.StatusCode != http.StatusOK {
		f.issuer.metrics.fetched(f.issuer.hash, nil, false)
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		f.issuer.metrics.fetched(f.issuer.hash, nil, false)
		return nil, fmt.Errorf("error reading JWKS response: %w", err)
	}
	f.issuer.metrics.fetched(f.issuer.hash, body, json.Valid(body))
	resp.Body = io.NopCloser(strings.NewReader(string(body)))
	return resp, nil
}

// issuerOf returns the issuer that a token names, "" if the text is not a token.
func issuerOf(token string) string {
	issuer := authn.IssuerOf(token)
	if issuer == "accounts.google.com" {
		return "https://accounts.google.com"
	}
	return issuer
}

// authenticate verifies a token of the issuer and returns its user.
func (i *issuer) authenticate(ctx context.Context, token string) (*authn.User, error) {
	began := time.Now()
	user, err := i.verify(ctx, token)
	i.metrics.authenticated(i.hash, err, time.Since(began))
	return user, err
}

// keysFailed is the message in the log if tokens are refused because the issuer does not answer.
const keysFailed = "Failed to fetch the keys of a token issuer"

// askedKeys is the key set of an issuer during the verification of one token.
type askedKeys struct {
	oidc.KeySet
	unreachable bool // the issuer did not answer with its keys
}

// VerifySignature verifies the signature of a token. It fetches the keys again if none fits.
func (k *askedKeys) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	payload, err := k.KeySet.VerifySignature(ctx, token)
	// Only the error of a fetch has a cause.
	k.unreachable = errors.Unwrap(err) != nil && ctx.Err() == nil
	return payload, err
}

// verify verifies the token, resolves distributed claims, and maps the claims.
func (i *issuer) verify(ctx context.Context, token string) (*authn.User, error) {
	found := i.found.Load()
	if found == nil {
		return nil, authn.Outage("", keysFailed, errors.New("oidc: authenticator not initialized"))
	}
	keys := &askedKeys{KeySet: *found}
	t, err := oidc.NewVerifier(i.Issuer.Issuer.URL, keys, i.config).Verify(ctx, token)
	if err != nil {
		err = fmt.Errorf("oidc: verify token: %w", err)
		if keys.unreachable {
			err = authn.Outage("", keysFailed, err)
		}
		return nil, err
	}
	if len(authn.Intersect(i.Issuer.Issuer.Audiences, t.Audience)) == 0 {
		return nil, fmt.Errorf("oidc: verify token: oidc: expected audience in %q got %q", slices.Sorted(slices.Values(i.Issuer.Issuer.Audiences)), t.Audience)
	}
	var c claims
	if err := t.Claims(&c); err != nil {
		return nil, fmt.Errorf("oidc: parse claims: %w", err)
	}
	return i.user(ctx, c)
}
