package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/authn/jwt"
	"github.com/keelson-io/keelson/internal/reloads"
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
	life, end := context.WithCancel(context.Background())
	s.opened = append(s.opened, closer(func() error { end(); return nil }))
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
		if config, err = s.oidcConfiguration(life); err != nil {
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

// issuerPatience is the time in which an issuer must answer when the file of its authorities changed.
// Other files are not read again meanwhile.
const issuerPatience = 5 * time.Second

// oidcConfiguration returns the flags in the form of a file. When the file of authorities changes,
// the issuer is asked for its keys anew. If it does not prove itself by the new authorities, the old
// ones and its old keys stay in force.
func (s *Server) oidcConfiguration(life context.Context) (*jwt.Configuration, error) {
	o := &s.config.Authentication.OIDC
	if o.CAFile == "" {
		return o.configuration(""), nil
	}
	var first *jwt.Configuration
	err := s.files.Add(reloads.File{Name: "oidc-ca-file", Paths: reloads.Paths(o.CAFile), Use: func(texts map[string][]byte) error {
		c := o.configuration(string(texts[o.CAFile]))
		if first == nil {
			first = c
			return nil
		}
		if _, err := parseAuthorities(texts[o.CAFile]); err != nil {
			return fmt.Errorf("%s: %w", o.CAFile, err)
		}
		return s.issuers.Replace(life, c, issuerPatience)
	}})
	return first, err
}

// configuration returns the flags in the form of a file, with the authorities of the issuer in PEM;
// "" means those of the system.
func (o *OIDC) configuration(authorities string) *jwt.Configuration {
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
	i.Issuer.CertificateAuthority = authorities
	for _, name := range slices.Sorted(maps.Keys(o.RequiredClaims)) {
		i.ClaimValidationRules = append(i.ClaimValidationRules, jwt.ValidationRule{Claim: name, RequiredValue: o.RequiredClaims[name]})
	}
	return &jwt.Configuration{JWT: []jwt.Issuer{i}}
}
