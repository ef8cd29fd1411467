// Package jwt authenticates tokens of OpenID Connect issuers, as configured by an
// AuthenticationConfiguration (KEP-3331).
//
// # Model
//
//	A [Configuration] lists issuers. Each has the URL of its keys, the audiences that tokens must
//
// have, and the mappings from claims to a user: a mapping names a claim, or is an expression over
// all claims. Rules over the claims and the user can refuse a token that is otherwise valid.
//
// [Load] reads and validates a configuration. An [Authenticator] uses one configuration at a time.
// [Authenticator.Reload] replaces it once the issuers of the new one have been reached.
//
// # Invariants
//
//   - A token is verified only if it names one of the issuers. A token that names
//     one of them and is not valid is refused.
//   - Keys are fetched from the issuer over TLS. Until they have been found, the
//     issuer's tokens are refused.
//   - A configuration that is invalid, or whose issuers cannot be reached, does
//     not replace a working one.
package jwt

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/configfile"
)

// This file defines the configuration and decodes it.

// Configuration is an AuthenticationConfiguration of apiserver.config.k8s.io. All versions have the
// same fields.
type Configuration struct {
	metav1.TypeMeta `json:",inline"`

	JWT       []Issuer   `json:"jwt"`
	Anonymous *Anonymous `json:"anonymous,omitempty"` // nil: the flag decides
}

// Anonymous selects the paths on which requests without a credential are accepted.
type Anonymous struct {
	Enabled    bool                 `json:"enabled"`
	Conditions []AnonymousCondition `json:"conditions,omitempty"`
}

// AnonymousCondition is a path at which anonymous requests are accepted.
type AnonymousCondition struct {
	Path string `json:"path"`
}

// Issuer describes an issuer of tokens. The API calls it a JWTAuthenticator.
type Issuer struct {
	Issuer               Identity         `json:"issuer"`
	ClaimValidationRules []ValidationRule `json:"claimValidationRules,omitempty"`
	ClaimMappings        Mappings         `json:"claimMappings"`
	UserValidationRules  []UserRule       `json:"userValidationRules,omitempty"`
}

// Identity names the issuer, its audiences and the location of its documents.
type Identity struct {
	URL                  string   `json:"url"`
	DiscoveryURL         *string  `json:"discoveryURL,omitempty"` // nil: below URL
	CertificateAuthority string   `json:"certificateAuthority,omitempty"`
	Audiences            []string `json:"audiences"`
	AudienceMatchPolicy  string   `json:"audienceMatchPolicy,omitempty"` // MatchAny
	EgressSelectorType   string   `json:"egressSelectorType,omitempty"`
}

// ValidationRule requires a claim to have a value, or an expression over the claims to be true.
type ValidationRule struct {
	Claim         string `json:"claim,omitempty"`
	RequiredValue string `json:"requiredValue,omitempty"`
	Expression    string `json:"expression,omitempty"`
	Message       string `json:"message,omitempty"`
}

// Mappings map the claims of a token to a user.
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

// UserRule requires an expression over the user to be true.
type UserRule struct {
	Expression string `json:"expression"`
	Message    string `json:"message,omitempty"`
}

// DeepCopyObject makes Configuration a runtime.Object for the decoder. It does not copy: nothing
// changes a configuration.
func (c *Configuration) DeepCopyObject() runtime.Object {
	out := *c
	return &out
}

// maxFile is the largest file in bytes.
const maxFile = 8 << 20

// Decode decodes YAML or JSON. Unknown and duplicate fields are errors.
func Decode(text []byte) (*Configuration, error) {
	switch {
	case len(text) == 0:
		return nil, errors.New("empty config data")
	case len(text) > maxFile:
		return nil, fmt.Errorf("config data is larger than %d bytes", maxFile)
	}
	return configfile.Decode(text, "AuthenticationConfiguration", &Configuration{})
}

// Admits returns on which paths anonymous requests are accepted. enabled is the flag
// --anonymous-auth, which counts if the configuration has no such rule.
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
