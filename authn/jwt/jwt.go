// Package jwt believes the tokens of OpenID Connect issuers, as an
// AuthenticationConfiguration names them (KEP-3331).
//
// # Model
//
// A [Configuration] lists issuers. Of each it says how its keys are found, for
// which audiences its tokens have to be, and how the claims of a token become a
// user: by naming a claim, or by an expression over all of them. Rules over the
// claims and over the user may refuse a token that is good otherwise.
//
// [Load] reads a configuration and validates it. An [Authenticator] believes the
// tokens of one configuration at a time; [Authenticator.Reload] replaces it by
// another, once that has been found to work.
//
// # Invariants
//
//   - A token is looked at only if it names one of the issuers. One that names an
//     issuer and is not good in every respect is refused.
//   - Keys are fetched from where the issuer publishes them, over TLS. Until they
//     have been found the issuer's tokens are refused.
//   - A configuration that is wrong, or whose issuers cannot be reached, does not
//     take the place of one that works.
package jwt

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-io/keelson/authn"
	"github.com/keelson-io/keelson/internal/configfile"
)

// This file is what a configuration can say, and how it is read.

// Configuration is an AuthenticationConfiguration of apiserver.config.k8s.io;
// all its versions say the same.
type Configuration struct {
	metav1.TypeMeta `json:",inline"`

	JWT       []Issuer   `json:"jwt"`
	Anonymous *Anonymous `json:"anonymous,omitempty"` // nil: as the flag says
}

// Anonymous says where requests without a credential are let in.
type Anonymous struct {
	Enabled    bool                 `json:"enabled"`
	Conditions []AnonymousCondition `json:"conditions,omitempty"`
}

// AnonymousCondition is a path at which they are.
type AnonymousCondition struct {
	Path string `json:"path"`
}

// Issuer is an issuer whose tokens are believed. The API calls it a
// JWTAuthenticator.
type Issuer struct {
	Issuer               Identity         `json:"issuer"`
	ClaimValidationRules []ValidationRule `json:"claimValidationRules,omitempty"`
	ClaimMappings        Mappings         `json:"claimMappings"`
	UserValidationRules  []UserRule       `json:"userValidationRules,omitempty"`
}

// Identity says who the issuer is.
type Identity struct {
	URL                  string   `json:"url"`
	DiscoveryURL         *string  `json:"discoveryURL,omitempty"` // nil: below URL
	CertificateAuthority string   `json:"certificateAuthority,omitempty"`
	Audiences            []string `json:"audiences"`
	AudienceMatchPolicy  string   `json:"audienceMatchPolicy,omitempty"` // MatchAny
	EgressSelectorType   string   `json:"egressSelectorType,omitempty"`
}

// ValidationRule is a claim with the value that it has to have, or an expression
// that has to be true.
type ValidationRule struct {
	Claim         string `json:"claim,omitempty"`
	RequiredValue string `json:"requiredValue,omitempty"`
	Expression    string `json:"expression,omitempty"`
	Message       string `json:"message,omitempty"`
}

// Mappings say how the claims of a token become a user.
type Mappings struct {
	Username Mapping        `json:"username"`
	Groups   Mapping        `json:"groups,omitempty"`
	UID      Mapping        `json:"uid"` // has no prefix
	Extra    []ExtraMapping `json:"extra,omitempty"`
}

// Mapping is a claim, with a prefix for its values, or an expression.
type Mapping struct {
	Claim      string  `json:"claim,omitempty"`
	Prefix     *string `json:"prefix,omitempty"`
	Expression string  `json:"expression,omitempty"`
}

// ExtraMapping is an expression for one key of the user's extra.
type ExtraMapping struct {
	Key             string `json:"key"`
	ValueExpression string `json:"valueExpression"`
}

// UserRule is an expression over the user that has to be true.
type UserRule struct {
	Expression string `json:"expression"`
	Message    string `json:"message,omitempty"`
}

// DeepCopyObject is for decoding only: nothing changes a configuration.
func (c *Configuration) DeepCopyObject() runtime.Object {
	out := *c
	return &out
}

// maxFile bounds how large a file may be.
const maxFile = 8 << 20

// Decode reads the text of a file, YAML or JSON, strictly.
func Decode(text []byte) (*Configuration, error) {
	switch {
	case len(text) == 0:
		return nil, errors.New("empty config data")
	case len(text) > maxFile:
		return nil, fmt.Errorf("config data is larger than %d bytes", maxFile)
	}
	return configfile.Decode(text, "AuthenticationConfiguration", &Configuration{})
}

// Admits is who comes in without a credential; enabled is what the flag says,
// for where the configuration does not say.
func (c *Configuration) Admits(enabled bool) authn.Anonymous {
	if c.Anonymous == nil {
		return authn.Anonymous{Enabled: enabled}
	}
	out := authn.Anonymous{Enabled: c.Anonymous.Enabled}
	for _, condition := range c.Anonymous.Conditions {
		out.Paths = append(out.Paths, condition.Path)
	}
	return out
}
