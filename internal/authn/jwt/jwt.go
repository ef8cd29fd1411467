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

	JWT       []Issuer   `json:"jwt"`                 // the issuers whose tokens are accepted
	Anonymous *Anonymous `json:"anonymous,omitempty"` // requests without credentials; without it, --anonymous-auth decides
}

// Anonymous selects the paths on which requests without a credential are accepted.
type Anonymous struct {
	Enabled    bool                 `json:"enabled"`              // whether they are accepted
	Conditions []AnonymousCondition `json:"conditions,omitempty"` // the paths at which they are; none: at all paths
}

// AnonymousCondition is a path at which anonymous requests are accepted.
type AnonymousCondition struct {
	Path string `json:"path"` // such as /livez
}

// Issuer describes an issuer of tokens. The API calls it a JWTAuthenticator.
type Issuer struct {
	Issuer               Identity         `json:"issuer"`                         // who signs the tokens
	ClaimValidationRules []ValidationRule `json:"claimValidationRules,omitempty"` // all must hold for a token
	ClaimMappings        Mappings         `json:"claimMappings"`                  // how claims become a user
	UserValidationRules  []UserRule       `json:"userValidationRules,omitempty"`  // all must hold for the user
}

// Identity names the issuer, its audiences and the location of its documents.
type Identity struct {
	URL                  string   `json:"url"`                            // https, equal to the claim iss
	DiscoveryURL         *string  `json:"discoveryURL,omitempty"`         // of the discovery document, if it is not below url
	CertificateAuthority string   `json:"certificateAuthority,omitempty"` // certificates in PEM; default the CAs of the system
	Audiences            []string `json:"audiences"`                      // at least one; a token must name one of them
	AudienceMatchPolicy  string   `json:"audienceMatchPolicy,omitempty"`  // MatchAny; required if there are several audiences
	EgressSelectorType   string   `json:"egressSelectorType,omitempty"`   // is refused: there are no egress selectors
}

// ValidationRule requires a claim to have a value, or an expression over the claims to be true.
type ValidationRule struct {
	Claim         string `json:"claim,omitempty"`         // a claim with requiredValue, or an expression, not both
	RequiredValue string `json:"requiredValue,omitempty"` // the value of the claim, a string
	Expression    string `json:"expression,omitempty"`    // CEL over claims, true if the token is accepted
	Message       string `json:"message,omitempty"`       // of the refusal, for an expression
}

// Mappings map the claims of a token to a user.
type Mappings struct {
	Username Mapping        `json:"username"`         // a claim with a prefix, or an expression; required
	Groups   Mapping        `json:"groups,omitempty"` // a claim with a prefix, or an expression
	UID      Mapping        `json:"uid"`              // a claim without a prefix, or an expression
	Extra    []ExtraMapping `json:"extra,omitempty"`  // more attributes of the user
}

// Mapping is a claim, with a prefix for its values, or an expression.
type Mapping struct {
	Claim      string  `json:"claim,omitempty"`      // the name of a claim
	Prefix     *string `json:"prefix,omitempty"`     // in front of the claim; required with claim, may be empty
	Expression string  `json:"expression,omitempty"` // CEL over claims; not together with claim
}

// ExtraMapping is an expression for one key of the user's extra.
type ExtraMapping struct {
	Key             string `json:"key"`             // a lowercase path with a domain, such as example.com/team
	ValueExpression string `json:"valueExpression"` // CEL over claims: a string or a list of strings
}

// UserRule requires an expression over the user to be true.
type UserRule struct {
	Expression string `json:"expression"`        // CEL over user, true if it is accepted
	Message    string `json:"message,omitempty"` // of the refusal
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
