package authn

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/keelson-io/keelson/internal/keysize"
)

// This file reads the issuer of a JSON Web Token without verifying the token.

// MaxToken is the length in bytes above which a token is not parsed.
const MaxToken = 64 << 10

// IssuerOf returns the issuer (claim iss, RFC 7519) of a token in compact form, or "" if the text
// is not such a token or has a key in its header that takes long to parse. The result is unverified: use it only to choose the verifier of the token.
func IssuerOf(token string) string {
	if len(token) > MaxToken || strings.HasPrefix(strings.TrimSpace(token), "{") {
		return ""
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 || keysize.CheckToken(token) != nil {
		return ""
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	if json.Unmarshal(payload, &claims) != nil {
		return ""
	}
	return claims.Issuer
}
