package cli

import (
	"github.com/spf13/cobra"

	"github.com/keelson-io/keelson/server"
)

// This file is the flags of authentication.

func authnFlags(cmd *cobra.Command, c *server.Authentication, anonymous *bool) {
	f := cmd.Flags()
	f.BoolVar(anonymous, "anonymous-auth", true, "let requests in that show no credential, as system:anonymous")
	f.StringSliceVar(&c.Audiences, "api-audiences", nil, "`names` of this API: what tokens have to be for; the issuers of service accounts' tokens if there are none")
	sa := &c.ServiceAccounts
	f.StringArrayVar(&sa.Issuers, "service-account-issuer", nil, "`name` of the issuer of service accounts' tokens; the first signs, all are believed")
	f.StringArrayVar(&sa.KeyFiles, "service-account-key-file", nil, "PEM `file` of keys that verify service accounts' tokens, besides the one that signs")
	f.StringVar(&sa.SigningKeyFile, "service-account-signing-key-file", "", "PEM `file` of the key that signs service accounts' tokens; one in the data directory if there is none")
	f.StringVar(&sa.JWKSURI, "service-account-jwks-uri", "", "`URL` at which the keys are said to be found")
	f.DurationVar(&sa.MaxTokenExpiration, "service-account-max-token-expiration", 0, "`time` that service accounts' tokens are good for at most")
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
