package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/keelson-io/keelson/server"
)

// This file has the authentication flags.

// authnValues are flags whose values become parts of the configuration.
type authnValues struct {
	anonymous bool
	required  []string
}

// apply sets the values in a configuration.
func (v *authnValues) apply(cmd *cobra.Command, c *server.Authentication) error {
	c.NoAnonymous, c.AnonymousSet = !v.anonymous, cmd.Flags().Changed("anonymous-auth")
	for _, name := range []string{"issuer-url", "client-id", "ca-file", "username-claim", "username-prefix", "groups-claim", "groups-prefix",
		"signing-algs", "required-claim"} {
		c.OIDC.Set = c.OIDC.Set || cmd.Flags().Changed("oidc-"+name)
	}
	for _, text := range v.required {
		claim, value, ok := strings.Cut(text, "=")
		if !ok {
			return fmt.Errorf("--oidc-required-claim: got %q, want claim=value", text)
		}
		if c.OIDC.RequiredClaims == nil {
			c.OIDC.RequiredClaims = map[string]string{}
		}
		c.OIDC.RequiredClaims[claim] = value
	}
	return nil
}

func authnFlags(f *pflag.FlagSet, c *server.Authentication, v *authnValues) {
	f.StringVar(&c.ConfigFile, "authentication-config", "", "AuthenticationConfiguration `file` with issuers of tokens, and rules for anonymous requests; reloaded when it changes")
	f.BoolVar(&v.anonymous, "anonymous-auth", true, "accept requests without a credential, as system:anonymous")
	f.StringSliceVar(&c.Audiences, "api-audiences", nil, "`names` of this API, which tokens must be for; by default the issuers of service account tokens")
	f.BoolVar(&c.BootstrapTokens, "enable-bootstrap-token-auth", false, "accept the tokens in Secrets of type bootstrap.kubernetes.io/token in the namespace kube-system")
	sa := &c.ServiceAccounts
	f.StringArrayVar(&sa.Issuers, "service-account-issuer", nil, "`name` of the issuer of service account tokens; the first one signs, all are accepted")
	f.StringArrayVar(&sa.KeyFiles, "service-account-key-file", nil, "PEM `file` of keys that verify service account tokens, in addition to the signing key")
	f.StringVar(&sa.SigningKeyFile, "service-account-signing-key-file", "", "PEM `file` of the key that signs service account tokens; by default one in the data directory")
	f.StringVar(&sa.SigningEndpoint, "service-account-signing-endpoint", "", "`socket` of a program that signs service account tokens, and knows the public keys (Kubernetes' ExternalJWTSigner); a path, or @name for an abstract socket")
	f.StringVar(&sa.JWKSURI, "service-account-jwks-uri", "", "`URL` of the public keys in the discovery document")
	f.DurationVar(&sa.MaxTokenExpiration, "service-account-max-token-expiration", 0, "longest `duration` of a service account token")
	o := &c.OIDC
	f.StringVar(&o.IssuerURL, "oidc-issuer-url", "", "`URL` of an OpenID Connect issuer whose tokens are accepted")
	f.StringVar(&o.ClientID, "oidc-client-id", "", "`name` of the audience of its tokens")
	f.StringVar(&o.CAFile, "oidc-ca-file", "", "`file` with the authorities of its certificate; by default those of the system")
	f.StringVar(&o.UsernameClaim, "oidc-username-claim", "sub", "`claim` with the user name")
	f.StringVar(&o.UsernamePrefix, "oidc-username-prefix", "", "`prefix` of user names; by default the issuer's URL, unless the claim is email; - for none")
	f.StringVar(&o.GroupsClaim, "oidc-groups-claim", "", "`claim` with the user's groups")
	f.StringVar(&o.GroupsPrefix, "oidc-groups-prefix", "", "`prefix` of group names")
	f.StringSliceVar(&o.SigningAlgs, "oidc-signing-algs", []string{"RS256"}, "accepted signature `algorithms`")
	f.StringArrayVar(&v.required, "oidc-required-claim", nil, "`claim=value` that tokens must have")
	p := &c.RequestHeader
	f.StringVar(&p.ClientCAFile, "requestheader-client-ca-file", "", "`file` with the authorities of proxies that name the user in headers")
	f.StringSliceVar(&p.AllowedNames, "requestheader-allowed-names", nil, "accepted common `names` of these proxies; by default all")
	f.StringSliceVar(&p.UsernameHeaders, "requestheader-username-headers", nil, "`headers` with the user name, such as X-Remote-User")
	f.StringSliceVar(&p.UIDHeaders, "requestheader-uid-headers", nil, "`headers` with the user's UID, such as X-Remote-Uid")
	f.StringSliceVar(&p.GroupHeaders, "requestheader-group-headers", nil, "`headers` with the user's groups, such as X-Remote-Group")
	f.StringSliceVar(&p.ExtraPrefixes, "requestheader-extra-headers-prefix", nil, "`prefixes` of headers with more about the user, such as X-Remote-Extra-")
	w := &c.Webhook
	f.StringVar(&w.ConfigFile, "authentication-token-webhook-config-file", "", "kubeconfig `file` of a webhook that authenticates tokens")
	f.StringVar(&w.Version, "authentication-token-webhook-version", "v1beta1", "`version` of the TokenReview sent to the webhook: v1 or v1beta1")
	f.DurationVar(&w.CacheTTL, "authentication-token-webhook-cache-ttl", 0, "`duration` for which the webhook's answers are cached; 0 for 2m")
}
