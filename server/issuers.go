package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/authn"
	"github.com/keelson-io/keelson/authn/jwt"
)

// This file builds the authenticator of OpenID Connect issuers, from a file or from flags.

// openIssuers builds the authenticator, and returns where anonymous requests are accepted. The
// issuers of service account tokens cannot be among the configured ones.
func (s *Server) openIssuers(accounts []string) (authn.Anonymous, error) {
	c := &s.config.Authentication
	if err := c.validateOIDC(); err != nil {
		return authn.Anonymous{}, err
	}
	config, o := &jwt.Configuration{}, jwt.Options{Disallowed: accounts, Metrics: s.metrics, Logger: s.logger, File: c.ConfigFile, Interval: s.config.ReloadInterval}
	var err error
	switch {
	case c.ConfigFile != "":
		if o.Text, err = os.ReadFile(c.ConfigFile); err == nil {
			config, err = jwt.Decode(o.Text)
		}
		if err != nil {
			return authn.Anonymous{}, fmt.Errorf("failed to load authentication configuration from file %q: %w", c.ConfigFile, err)
		}
	case c.OIDC.IssuerURL != "":
		if config, err = c.OIDC.configuration(); err != nil {
			return authn.Anonymous{}, err
		}
		if o.Algorithms = c.OIDC.SigningAlgs; len(o.Algorithms) == 0 {
			o.Algorithms = []string{"RS256"}
		}
	}
	if config.Anonymous != nil && c.AnonymousSet {
		return authn.Anonymous{}, field.Forbidden(field.NewPath("anonymous"),
			"--anonymous-auth flag cannot be set when anonymous field is configured in authentication configuration file")
	}
	if err := config.Validate(accounts).ToAggregate(); err != nil {
		return authn.Anonymous{}, fmt.Errorf("invalid authentication configuration: %w", err)
	}
	o.ServerID = s.id
	life, end := context.WithCancel(context.Background())
	s.opened = append(s.opened, closer(func() error { end(); return nil }))
	if s.issuers, err = jwt.New(life, config, o); err != nil {
		return authn.Anonymous{}, err
	}
	return config.Admits(!c.NoAnonymous), nil
}

// validateOIDC refuses flags that contradict each other.
func (c *Authentication) validateOIDC() error {
	o := &c.OIDC
	set := o.Set || o.IssuerURL != "" || o.ClientID != ""
	switch {
	case c.ConfigFile != "" && set:
		return errors.New("authentication-config file and oidc-* flags are mutually exclusive")
	case c.ConfigFile == "" && set && (o.IssuerURL == "" || o.ClientID == ""):
		return errors.New("oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set")
	}
	return nil
}

// configuration returns the flags in the form of a file.
func (o *OIDC) configuration() (*jwt.Configuration, error) {
	claim, prefix := o.UsernameClaim, o.UsernamePrefix
	if claim == "" {
		claim = "sub"
	}
	switch {
	case prefix == "-":
		prefix = ""
	case prefix == "" && claim != "email":
		prefix = o.IssuerURL + "#"
	}
	i := jwt.Issuer{
		Issuer:        jwt.Identity{URL: o.IssuerURL, Audiences: []string{o.ClientID}},
		ClaimMappings: jwt.Mappings{Username: jwt.Mapping{Claim: claim, Prefix: &prefix}},
	}
	if o.GroupsClaim != "" {
		i.ClaimMappings.Groups = jwt.Mapping{Claim: o.GroupsClaim, Prefix: &o.GroupsPrefix}
	}
	if o.CAFile != "" {
		text, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, err
		}
		i.Issuer.CertificateAuthority = string(text)
	}
	for _, name := range slices.Sorted(maps.Keys(o.RequiredClaims)) {
		i.ClaimValidationRules = append(i.ClaimValidationRules, jwt.ValidationRule{Claim: name, RequiredValue: o.RequiredClaims[name]})
	}
	return &jwt.Configuration{JWT: []jwt.Issuer{i}}, nil
}
