package authn

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"
)

// This file finds bearer tokens in requests.

// spaceWarning is upstream's warning for a header with a second space before the token.
const spaceWarning = "the provided Authorization header contains extra space before the bearer token, and is ignored"

// ErrSpace refuses a header with a second space before the token. Upstream ignores the token
// instead, which makes the request anonymous.
var ErrSpace = errors.New(spaceWarning)

// Bearer authenticates by the token in the Authorization header (RFC 6750).
func Bearer(tokens Token) Authenticator {
	return Func(func(r *http.Request, audiences []string) (*Response, error) {
		header := strings.TrimSpace(r.Header.Get("Authorization"))
		scheme, rest, ok := strings.Cut(header, " ")
		if !ok || !strings.EqualFold(scheme, "bearer") {
			return nil, nil
		}
		token, _, more := strings.Cut(rest, " ")
		if token == "" {
			if more {
				return nil, ErrSpace
			}
			return nil, nil
		}
		return known(r.Context(), tokens, token, audiences)
	})
}

// known authenticates a token, and turns the answer "unknown token" into an error.
func known(ctx context.Context, tokens Token, token string, audiences []string) (*Response, error) {
	response, err := tokens.AuthenticateToken(ctx, token, audiences)
	if response == nil && err == nil {
		why := "no authenticator knows the token"
		if issuer := IssuerOf(token); issuer != "" {
			why += ", which names the issuer " + Quote(issuer)
		}
		err = &reason{error: errInvalidToken, detail: why, kind: "no authenticator knows the token"}
	}
	if err != nil {
		return nil, err
	}
	return response, nil
}

// protocolPrefix starts the WebSocket subprotocol that carries a token. The token follows in
// base64url without padding.
const protocolPrefix = "base64url.bearer.authorization.k8s.io."

// WebSocket authenticates by a token among the subprotocols of a WebSocket request, where browsers
// can set no other header. The request must offer another subprotocol as well, which the server can
// choose.
func WebSocket(tokens Token) Authenticator {
	return Func(func(r *http.Request, audiences []string) (*Response, error) {
		if !IsWebSocket(r) {
			return nil, nil
		}
		token, err := protocolToken(r.Header["Sec-Websocket-Protocol"])
		if token == "" || err != nil {
			return nil, err
		}
		return known(r.Context(), tokens, token, audiences)
	})
}

// protocolToken returns the token among the subprotocols, "" if there is none.
func protocolToken(headers []string) (string, error) {
	token, seen, others := "", false, 0
	for _, header := range headers {
		for protocol := range strings.SplitSeq(header, ",") {
			encoded, ok := strings.CutPrefix(strings.TrimSpace(protocol), protocolPrefix)
			if !ok {
				others++
				continue
			}
			if seen {
				return "", errors.New("multiple base64.bearer.authorization tokens specified")
			}
			seen = true
			decoded, err := base64.RawURLEncoding.DecodeString(encoded)
			if err != nil {
				return "", errors.New("invalid base64.bearer.authorization token encoding")
			}
			if !utf8.Valid(decoded) {
				return "", errors.New("invalid base64.bearer.authorization token")
			}
			token = string(decoded)
		}
	}
	if token != "" && others == 0 {
		return "", errors.New("missing additional subprotocol")
	}
	return token, nil
}

// TokensIn returns all texts of a request that may be a secret: the words of its Authorization headers except for the scheme, and
// tokens among WebSocket subprotocols.
func TokensIn(r *http.Request) []string {
	var out []string
	for _, header := range r.Header["Authorization"] {
		words := strings.Fields(header)
		if len(words) > 1 {
			words = words[1:]
		}
		out = append(out, words...)
	}
	for _, header := range r.Header["Sec-Websocket-Protocol"] {
		for protocol := range strings.SplitSeq(header, ",") {
			if encoded, ok := strings.CutPrefix(strings.TrimSpace(protocol), protocolPrefix); ok {
				out = append(out, encoded)
				if decoded, err := base64.RawURLEncoding.DecodeString(encoded); err == nil {
					out = append(out, string(decoded))
				}
			}
		}
	}
	return out
}

// IsWebSocket reports whether a request asks for a WebSocket (RFC 6455).
func IsWebSocket(r *http.Request) bool {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return false
	}
	for _, header := range r.Header["Connection"] {
		for option := range strings.SplitSeq(header, ",") {
			if strings.EqualFold(strings.TrimSpace(option), "upgrade") {
				return true
			}
		}
	}
	return false
}

// DropToken removes the token from the subprotocols of a WebSocket request, so that the server
// neither chooses it nor returns it to the client.
func DropToken(r *http.Request) {
	var others []string
	for _, header := range r.Header["Sec-Websocket-Protocol"] {
		for protocol := range strings.SplitSeq(header, ",") {
			if protocol = strings.TrimSpace(protocol); !strings.HasPrefix(protocol, protocolPrefix) {
				others = append(others, protocol)
			}
		}
	}
	if others != nil {
		r.Header["Sec-Websocket-Protocol"] = []string{strings.Join(others, ",")}
	}
}
