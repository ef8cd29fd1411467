package authn

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"
)

// This file finds bearer tokens in requests.

var errInvalidToken = errors.New("invalid bearer token")

// spaceWarning tells a client why its token was not looked at.
const spaceWarning = "the provided Authorization header contains extra space before the bearer token, and is ignored"

// ErrSpace refuses a token that an extra space hides.
var ErrSpace = errors.New(spaceWarning)

// Bearer takes tokens from the Authorization header (RFC 6750).
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
		return known(tokens.AuthenticateToken(r.Context(), token, audiences))
	})
}

// known refuses a token that nobody knows.
func known(response *Response, err error) (*Response, error) {
	if response == nil && err == nil {
		err = errInvalidToken
	}
	if err != nil {
		return nil, err
	}
	return response, nil
}

// protocolPrefix begins the subprotocol of a WebSocket that is a token. What
// follows is the token in base64url without padding.
const protocolPrefix = "base64url.bearer.authorization.k8s.io."

// WebSocket takes tokens from the subprotocols that a browser offers for a
// WebSocket, where it can set no other header. There has to be another
// subprotocol to be chosen.
func WebSocket(tokens Token) Authenticator {
	return Func(func(r *http.Request, audiences []string) (*Response, error) {
		if !IsWebSocket(r) {
			return nil, nil
		}
		token, err := protocolToken(r.Header["Sec-Websocket-Protocol"])
		if token == "" || err != nil {
			return nil, err
		}
		return known(tokens.AuthenticateToken(r.Context(), token, audiences))
	})
}

// protocolToken is the token among the subprotocols, "" if there is none.
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

// DropToken takes the subprotocol that is a token out of a request for a WebSocket: one of the others is to be chosen, and said to
// the client.
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
