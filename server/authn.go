package server

import (
	"github.com/keelson-io/keelson/authn"
)

// This file puts together who is believed: client certificates, proxies, tokens.

// openAuthn makes the authenticator of the configuration.
func (s *Server) openAuthn() error {
	c, metrics := &s.config, authn.NewMetrics(s.metrics)
	var tokens []authn.Token
	if c.TokenAuthFile != "" {
		file, err := authn.TokenFile(c.TokenAuthFile, s.logger)
		if err != nil {
			return err
		}
		tokens = append(tokens, file)
	}
	credentials := []authn.Authenticator{authn.ClientCerts(s.identity.clients.Load, metrics)}
	if len(tokens) > 0 {
		all := authn.Cache(authn.Tokens(tokens...), authn.CacheOptions{Success: authn.SuccessTTL, Errors: true, Metrics: metrics})
		credentials = append(credentials, authn.Bearer(all), authn.WebSocket(all))
	}
	s.authn = authn.Standard(authn.Anybody, credentials...)
	return nil
}
