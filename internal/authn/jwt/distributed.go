package jwt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/keelson-io/keelson/internal/authn"
)

// This file resolves distributed claims (OpenID Connect Core 1.0, section 5.6.2) for groups. The
// token names an endpoint instead of the claim; the endpoint answers with a token that has it.

// maxSources is the number of endpoint issuers whose keys are kept.
const maxSources = 32

// resolver fetches one claim. It trusts the endpoint's token only if that token's issuer, whose
// keys are discovered over TLS, signed it for the same audiences.
type resolver struct {
	claim     string
	audiences []string
	client    *http.Client
	config    *oidc.Config

	mu        sync.Mutex
	verifiers map[string]*oidc.IDTokenVerifier // by issuer
}

// newResolver returns the resolver for the claim that the group mapping names; nil if the mapping
// is an expression.
func newResolver(i *Issuer, client *http.Client, config *oidc.Config) *resolver {
	if i.ClaimMappings.Groups.Claim == "" {
		return nil
	}
	return &resolver{claim: i.ClaimMappings.Groups.Claim, audiences: i.Issuer.Audiences, client: client, config: config,
		verifiers: map[string]*oidc.IDTokenVerifier{}}
}

// source is the place of a claim.
type source struct {
	URL   string `json:"endpoint"`
	Token string `json:"access_token"`
}

// expand adds the claim if the token refers to an endpoint for it.
func (r *resolver) expand(ctx context.Context, c claims) error {
	if r == nil || c[r.claim] != nil || c["_claim_names"] == nil {
		return nil
	}
	var names map[string]string
	if err := c.read("_claim_names", &names); err != nil {
		return fmt.Errorf("oidc: error parsing distributed claim names: %w", err)
	}
	var sources map[string]source
	if c["_claim_sources"] == nil {
		return errors.New("oidc: no claim sources")
	}
	if err := c.read("_claim_sources", &sources); err != nil {
		return fmt.Errorf("oidc: could not parse claim sources: %w", err)
	}
	name, ok := names[r.claim]
	if !ok {
		return nil
	}
	at, ok := sources[name]
	switch {
	case !ok:
		return fmt.Errorf("id token _claim_names contained a source %s missing in _claims_sources", name)
	case at.URL == "":
		return nil // an aggregated claim has no endpoint
	}
	return r.resolve(ctx, at, c)
}

// resolve fetches the token of an endpoint, verifies it, and adds its claim.
func (r *resolver) resolve(ctx context.Context, at source, c claims) error {
	token, err := r.fetch(ctx, at)
	if err != nil {
		return fmt.Errorf("while getting distributed claim %q: %w", r.claim, err)
	}
	issuer := issuerOf(token)
	if issuer == "" {
		return fmt.Errorf("getting untrusted issuer from endpoint %v failed for claim %q: no issuer in it", at.URL, r.claim)
	}
	verifier, err := r.verifier(ctx, issuer)
	if err != nil {
		return fmt.Errorf("verifying untrusted issuer %v failed: %w", issuer, err)
	}
	t, err := verifier.Verify(ctx, token)
	if err == nil && len(authn.Intersect(r.audiences, t.Audience)) == 0 {
		err = fmt.Errorf("oidc: expected audience in %q got %q", r.audiences, t.Audience)
	}
	if err != nil {
		return fmt.Errorf("verify distributed claim token: %w", err)
	}
	var there claims
	if err := t.Claims(&there); err != nil {
		return fmt.Errorf("could not parse distributed claims for claim %v: %w", r.claim, err)
	}
	value, ok := there[r.claim]
	if !ok {
		return fmt.Errorf("jwt returned by distributed claim endpoint %s did not contain claim: %v", at.URL, r.claim)
	}
	c[r.claim] = value
	return nil
}

// fetch returns the token that an endpoint serves.
func (r *resolver) fetch(ctx context.Context, at source) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.URL, nil)
	if err != nil {
		return "", err
	}
	if at.Token != "" {
		req.Header.Set("Authorization", "Bearer "+at.Token)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode < http.StatusOK || resp.StatusCode > http.StatusIMUsed {
		return "", fmt.Errorf("error while getting distributed claim JWT: %v", resp.Status)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", errors.New("could not decode distributed claim response")
	}
	return string(text), nil
}

// verifier returns the verifier for an issuer. The first call for an issuer discovers its keys.
func (r *resolver) verifier(ctx context.Context, issuer string) (*oidc.IDTokenVerifier, error) {
	r.mu.Lock()
	have, room := r.verifiers[issuer], len(r.verifiers) < maxSources
	r.mu.Unlock()
	switch {
	case have != nil:
		return have, nil
	case !room:
		return nil, errors.New("there are too many issuers of distributed claims")
	}
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, r.client), issuer)
	if err != nil {
		return nil, err
	}
	have = provider.Verifier(r.config)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verifiers[issuer] = have
	return have, nil
}
