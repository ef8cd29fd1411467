package server

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/api"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/authn/bootstrap"
	"github.com/keelson-io/keelson/internal/authn/serviceaccount"
	"github.com/keelson-io/keelson/internal/authn/webhook"
	"github.com/keelson-io/keelson/internal/controller/systemmaps"
	"github.com/keelson-io/keelson/internal/controller/token"
	"github.com/keelson-io/keelson/internal/datadir"
	"github.com/keelson-io/keelson/internal/status"
)

// This file builds the authenticators: client certificates, proxies, tokens.

// Authentication configures the authenticators, in addition to client certificates. The zero value
// is usable.
type Authentication struct {
	// NoAnonymous refuses requests without a credential.
	NoAnonymous bool
	// Audiences are the accepted audiences of tokens; nil means the issuers of service account
	// tokens.
	Audiences []string

	// ConfigFile is an AuthenticationConfiguration, which is reloaded when it changes.
	ConfigFile   string
	AnonymousSet bool // a flag set NoAnonymous, so that the file may not
	OIDC         OIDC

	// BootstrapTokens accepts the tokens in Secrets of type bootstrap.kubernetes.io/token in
	// kube-system.
	BootstrapTokens bool

	ServiceAccounts ServiceAccounts
	RequestHeader   RequestHeader
	Webhook         TokenWebhook
}

// OIDC configures one OpenID Connect issuer by flags, without a ConfigFile.
type OIDC struct {
	IssuerURL      string
	ClientID       string // the accepted audience
	CAFile         string
	UsernameClaim  string // "": sub
	UsernamePrefix string // "": the issuer, unless the claim is email; "-": none
	GroupsClaim    string
	GroupsPrefix   string
	RequiredClaims map[string]string
	SigningAlgs    []string // nil means RS256
	Set            bool     // a flag was given
}

// ServiceAccounts configures the tokens of service accounts.
type ServiceAccounts struct {
	Issuers            []string      // the first one signs, all are accepted; nil means serviceaccount.DefaultIssuer
	KeyFiles           []string      // PEM, for verification in addition to the signing key
	SigningKeyFile     string        // PEM; "": a key of the server's own, kept in the data directory
	SigningEndpoint    string        // the socket of a program that signs, in place of keys; "": none
	JWKSURI            string        // the URL of the keys in the discovery document; "": this server's
	MaxTokenExpiration time.Duration // 0: no limit
}

// RequestHeader configures the proxies that may name users in headers. Without a ClientCAFile, none
// may.
type RequestHeader struct {
	ClientCAFile    string
	AllowedNames    []string // nil: every name
	UsernameHeaders []string
	UIDHeaders      []string
	GroupHeaders    []string
	ExtraPrefixes   []string
}

// TokenWebhook configures the webhook that authenticates tokens. Without a ConfigFile, there is
// none.
type TokenWebhook struct {
	ConfigFile string
	Version    string        // "": v1beta1
	CacheTTL   time.Duration // 0 means two minutes
}

// openAuthn builds the authenticator.
func (s *Server) openAuthn() error {
	c, metrics := &s.config.Authentication, authn.NewMetrics(s.metrics)
	if err := c.validate(); err != nil {
		return err
	}
	issuers := c.ServiceAccounts.Issuers
	if len(issuers) == 0 {
		issuers = []string{serviceaccount.DefaultIssuer}
	}
	if s.audiences = c.Audiences; len(s.audiences) == 0 {
		s.audiences = issuers
	}
	admitted, err := s.openIssuers(issuers)
	if err != nil {
		return err
	}
	var credentials []authn.Authenticator
	if c.RequestHeader.ClientCAFile != "" {
		proxy, err := s.openProxy()
		if err != nil {
			return err
		}
		credentials = append(credentials, proxy)
	}
	credentials = append(credentials, authn.ClientCerts(func() *x509.CertPool { return s.identity.trusted.clients.Load().pool }, metrics))
	tokens, err := s.openTokens(issuers, metrics)
	if err != nil {
		return err
	}
	all := authn.Cache(authn.Tokens(tokens...), authn.CacheOptions{Success: authn.SuccessTTL, Errors: true, Metrics: metrics})
	credentials = append(credentials, authn.Bearer(all), authn.WebSocket(all))
	s.authn = authn.Standard(admitted, credentials...)
	return nil
}

// validate checks a configuration, with upstream's texts.
func (c *Authentication) validate() error {
	seen := map[string]bool{}
	for _, issuer := range c.ServiceAccounts.Issuers {
		if _, err := url.Parse(issuer); strings.Contains(issuer, ":") && err != nil {
			return fmt.Errorf("service-account-issuer %q contained a ':' but was not a valid URL: %w", issuer, err)
		}
		if issuer == "" {
			return errors.New("service-account-issuer should not be an empty string")
		}
		if seen[issuer] {
			return fmt.Errorf("service-account-issuer %q is already specified", issuer)
		}
		seen[issuer] = true
	}
	if uri := c.ServiceAccounts.JWKSURI; uri != "" {
		u, err := url.Parse(uri)
		if err != nil {
			return fmt.Errorf("service-account-jwks-uri must be a valid URL: %w", err)
		}
		if u.Scheme != "https" {
			return fmt.Errorf("service-account-jwks-uri requires https scheme, parsed as: %v", u)
		}
	}
	if sa := &c.ServiceAccounts; sa.SigningEndpoint != "" && (sa.SigningKeyFile != "" || len(sa.KeyFiles) > 0) {
		return errors.New("can't set `--service-account-signing-key-file` and/or `--service-account-key-file` with `--service-account-signing-endpoint` (They are mutually exclusive)")
	}
	if d := c.ServiceAccounts.MaxTokenExpiration; d != 0 && (d < time.Hour || d > (1<<32)*time.Second) {
		return errors.New("the service-account-max-token-expiration must be between 1 hour and 2^32 seconds")
	}
	return nil
}

// openTokens builds the token authenticators, in the order in which they are asked.
func (s *Server) openTokens(issuers []string, metrics *authn.Metrics) ([]authn.Token, error) {
	c := &s.config
	var tokens []authn.Token
	if c.TokenAuthFile != "" {
		file, err := authn.TokenFile(c.TokenAuthFile, s.logger)
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, authn.ForAnyAudience(file, s.audiences))
	}
	keys, life, err := s.openKeys()
	if err != nil {
		return nil, err
	}
	jwks := c.Authentication.ServiceAccounts.JWKSURI
	if jwks == "" {
		jwks = s.identity.url + serviceaccount.KeysPath
	}
	issuer, err := serviceaccount.NewIssuer(issuers[0], keys, jwks)
	if err != nil {
		return nil, err
	}
	s.tokens = api.Tokens{Issuer: issuer, MaxExpiration: life}
	tokens = append(tokens, serviceaccount.NewToken(serviceaccount.Config{
		Issuers: issuers, Keys: keys, Audiences: s.audiences, Objects: s.reference, Used: s.markUsed, Metrics: s.metrics}))
	if c.Authentication.BootstrapTokens {
		tokens = append(tokens, authn.ForAnyAudience(bootstrap.New(s.secret), s.audiences))
	}
	tokens = append(tokens, authn.ForAnyAudience(s.issuers, s.audiences))
	if w := c.Authentication.Webhook; w.ConfigFile != "" {
		if w.Version == "" {
			w.Version = "v1beta1"
		}
		if w.CacheTTL == 0 {
			w.CacheTTL = 2 * time.Minute
		}
		hook, err := webhook.New(webhook.Config{ConfigFile: w.ConfigFile, Version: w.Version, Audiences: s.audiences, Metrics: s.metrics, Certificates: s.hooks.Certificates, Files: s.files})
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, authn.Cache(hook, authn.CacheOptions{Success: w.CacheTTL, Failure: w.CacheTTL}))
	}
	return tokens, nil
}

// openKeys opens the keys of service account tokens, and returns the longest life of tokens.
func (s *Server) openKeys() (*serviceaccount.Keys, time.Duration, error) {
	c := &s.config.Authentication.ServiceAccounts
	if c.SigningEndpoint == "" {
		keys, err := s.readKeys()
		return keys, c.MaxTokenExpiration, err
	}
	if s.config.TokenSigner == nil {
		return nil, 0, errors.New("--service-account-signing-endpoint: Config.TokenSigner is nil; etcd.Use, of package server/etcd, sets it")
	}
	signer, err := s.config.TokenSigner(context.Background(), c.SigningEndpoint, s.logger)
	if err != nil {
		return nil, 0, fmt.Errorf("--service-account-signing-endpoint: %w", err)
	}
	s.opened = append(s.opened, signer)
	s.background = append(s.background, signer.Run)
	s.enabled[token.Name] = false // such a signer signs no tokens for Secrets
	life := c.MaxTokenExpiration
	switch {
	case life == 0:
		life = signer.Life()
	case life > signer.Life():
		return nil, 0, fmt.Errorf("service-account-max-token-expiration cannot be set longer than the token expiration supported by service-account-signing-endpoint: %s > %s", life, signer.Life())
	}
	return serviceaccount.OutsideKeys(signer), life, nil
}

// readKeys reads the keys of service account tokens, or creates one.
func (s *Server) readKeys() (*serviceaccount.Keys, error) {
	c := &s.config.Authentication.ServiceAccounts
	var public []crypto.PublicKey
	for _, path := range c.KeyFiles {
		keys, err := serviceaccount.ReadPublic(path)
		if err != nil {
			return nil, err
		}
		public = append(public, keys...)
	}
	path := c.SigningKeyFile
	if path == "" && s.config.DataDir == "" {
		signer, _, err := serviceaccount.Generate()
		if err != nil {
			return nil, err
		}
		return serviceaccount.NewKeys(signer, public...)
	}
	if path == "" {
		path = filepath.Join(datadir.PKI(s.config.DataDir), "sa.key")
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			s.identity.pki.lacks(path, "tokens of service accounts that were issued with it are not valid any more")
			_, text, err := serviceaccount.Generate()
			if err != nil {
				return nil, err
			}
			if err := writeAtomically(path, text, 0o600); err != nil {
				return nil, err
			}
		}
	}
	signer, err := serviceaccount.ReadSigner(path)
	if err != nil {
		return nil, fmt.Errorf("key of service accounts' tokens: %w", err)
	}
	return serviceaccount.NewKeys(signer, public...)
}

// reference reads the object to which a token is bound.
func (s *Server) reference(ctx context.Context, resource, namespace, name string) (*serviceaccount.Object, error) {
	const failed = "Failed to read an object that a service account token names"
	if s.objects == nil {
		return nil, authn.Outage("", failed, errors.New("the server is starting"))
	}
	t, err := s.objects.TokenReference(ctx, resource, namespace, name)
	if err != nil && status.From(err).Reason != metav1.StatusReasonNotFound {
		err = authn.Outage("", failed, err)
	}
	if err != nil {
		return nil, err
	}
	return &t.Object, nil
}

// secret reads a Secret.
func (s *Server) secret(ctx context.Context, namespace, name string) (kind string, data map[string]string, found bool, err error) {
	if s.objects == nil {
		return "", nil, false, errors.New("the server is starting")
	}
	kind, data, err = s.objects.Secret(ctx, namespace, name)
	if err != nil && status.From(err).Reason == metav1.StatusReasonNotFound {
		return "", nil, false, nil
	}
	return kind, data, err == nil, err
}

// markUsed records the day on which a token stored in a Secret was used.
func (s *Server) markUsed(ctx context.Context, namespace, name, uid, day string) {
	if err := s.objects.MarkUsed(ctx, namespace, name, uid, day); err != nil {
		s.logger.Warn("the last use of a token was not recorded on its Secret", "namespace", namespace, "secret", name, "error", err)
	}
}

// openProxy builds the authenticator of proxy headers.
func (s *Server) openProxy() (authn.Authenticator, error) {
	c := &s.config.Authentication.RequestHeader
	return authn.NewProxy(authn.Proxy{Pool: func() *x509.CertPool { return s.identity.trusted.proxies.Load().pool }, AllowedNames: c.AllowedNames, UserHeaders: c.UsernameHeaders,
		UIDHeaders: c.UIDHeaders, GroupHeaders: c.GroupHeaders, ExtraPrefixes: c.ExtraPrefixes})
}

// authenticationSettings returns what other programs may know about how the server authenticates
// requests.
func (s *Server) authenticationSettings() systemmaps.Settings {
	c := &s.config.Authentication.RequestHeader
	return systemmaps.Settings{ClientCA: string(s.identity.trusted.clients.Load().pem), ProxyCA: string(s.identity.trusted.proxies.Load().pem), Names: c.AllowedNames, UserHeaders: c.UsernameHeaders,
		UIDHeaders: c.UIDHeaders, GroupHeaders: c.GroupHeaders, ExtraPrefixes: c.ExtraPrefixes}
}
