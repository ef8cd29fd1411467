package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/keelson-io/keelson/server"
)

// This file is the flags of authentication.

// authnValues are values of flags that become parts of a configuration.
type authnValues struct {
	anonymous bool
	required  []string
}

// apply puts the values into a configuration.
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
	f.StringVar(&c.ConfigFile, "authentication-config", "", "`file` that says which issuers' tokens are believed, and who comes in without a credential; it is read again when it changes")
	f.BoolVar(&v.anonymous, "anonymous-auth", true, "let requests in that show no credential, as system:anonymous")
	f.StringSliceVar(&c.Audiences, "api-audiences", nil, "`names` of this API: what tokens have to be for; the issuers of service accounts' tokens if there are none")
	f.BoolVar(&c.BootstrapTokens, "enable-bootstrap-token-auth", false, "believe the tokens of secrets of type bootstrap.kubernetes.io/token in the namespace kube-system")
	sa := &c.ServiceAccounts
	f.StringArrayVar(&sa.Issuers, "service-account-issuer", nil, "`name` of the issuer of service accounts' tokens; the first signs, all are believed")
	f.StringArrayVar(&sa.KeyFiles, "service-account-key-file", nil, "PEM `file` of keys that verify service accounts' tokens, besides the one that signs")
	f.StringVar(&sa.SigningKeyFile, "service-account-signing-key-file", "", "PEM `file` of the key that signs service accounts' tokens; one in the data directory if there is none")
	f.StringVar(&sa.JWKSURI, "service-account-jwks-uri", "", "`URL` at which the keys are said to be found")
	f.DurationVar(&sa.MaxTokenExpiration, "service-account-max-token-expiration", 0, "`time` that service accounts' tokens are good for at most")
	o := &c.OIDC
	f.StringVar(&o.IssuerURL, "oidc-issuer-url", "", "`URL` of an OpenID Connect issuer whose tokens are believed")
	f.StringVar(&o.ClientID, "oidc-client-id", "", "`name` that its tokens have to be for")
	f.StringVar(&o.CAFile, "oidc-ca-file", "", "`file` with the authorities of its certificate; those of the machine if there is none")
	f.StringVar(&o.UsernameClaim, "oidc-username-claim", "sub", "`claim` that is the user's name")
	f.StringVar(&o.UsernamePrefix, "oidc-username-prefix", "", "`prefix` of users' names; the issuer's URL if there is none and the claim is not email; - for none at all")
	f.StringVar(&o.GroupsClaim, "oidc-groups-claim", "", "`claim` that is the user's groups")
	f.StringVar(&o.GroupsPrefix, "oidc-groups-prefix", "", "`prefix` of groups")
	f.StringSliceVar(&o.SigningAlgs, "oidc-signing-algs", []string{"RS256"}, "`algorithms` that its tokens may be signed with")
	f.StringArrayVar(&v.required, "oidc-required-claim", nil, "`claim=value` that its tokens have to have")
	p := &c.RequestHeader
	f.StringVar(&p.ClientCAFile, "requestheader-client-ca-file", "", "`file` with the authorities of proxies that say who a request is from")
	f.StringSliceVar(&p.AllowedNames, "requestheader-allowed-names", nil, "common `names` that these proxies may have; any if there are none")
	f.StringSliceVar(&p.UsernameHeaders, "requestheader-username-headers", nil, "`headers` that name the user, such as X-Remote-User")
	f.StringSliceVar(&p.UIDHeaders, "requestheader-uid-headers", nil, "`headers` with the user's UID, such as X-Remote-Uid")
	f.StringSliceVar(&p.GroupHeaders, "requestheader-group-headers", nil, "`headers` with the user's groups, such as X-Remote-Group")
	f.StringSliceVar(&p.ExtraPrefixes, "requestheader-extra-headers-prefix", nil, "`prefixes` of headers with more about the user, such as X-Remote-Extra-")
	w := &c.Webhook
	f.StringVar(&w.ConfigFile, "authentication-token-webhook-config-file", "", "kubeconfig `file` of a webhook that knows whose a token is")
	f.StringVar(&w.Version, "authentication-token-webhook-version", "v1beta1", "`version` of the TokenReviews that the webhook is sent: v1 or v1beta1")
	f.DurationVar(&w.CacheTTL, "authentication-token-webhook-cache-ttl", 0, "`time` that the webhook's answers are good for; 0 for 2m")
}
