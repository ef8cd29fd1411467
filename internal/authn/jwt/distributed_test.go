package jwt

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Groups that a token leaves out are asked for where it says, and believed only if they are signed.
func TestDistributedClaims(t *testing.T) {
	p := newProvider(t)
	answer, authorization := "", ""
	code := 200
	// The endpoint is at the same server, whose certificate is trusted.
	inner := p.Config.Handler
	p.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/groups" {
			inner.ServeHTTP(w, r)
			return
		}
		authorization = r.Header.Get("Authorization")
		w.WriteHeader(code)
		w.Write([]byte(answer))
	})
	other := newProvider(t) // of a certificate that is the same, and keys that are not
	stranger := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(stranger.Close)
	elsewhere := func(names, sources any) map[string]any {
		return map[string]any{"_claim_names": names, "_claim_sources": sources}
	}
	at := func(url string) any {
		return map[string]any{"src": map[string]string{"endpoint": url, "access_token": "key"}}
	}
	names := map[string]string{"groups": "src"}
	groups := map[string]any{"groups": []string{"a", "b"}}
	here := p.URL + "/groups"
	for name, row := range map[string]struct {
		claims map[string]any
		answer string
		code   int
		want   string
	}{
		"good":              {elsewhere(names, at(here)), p.sign(groups), 200, "p:ann  [a b system:authenticated]"},
		"of another issuer": {elsewhere(names, at(here)), other.sign(groups), 200, "p:ann  [a b system:authenticated]"}, // which the endpoint vouches for
		"groups are here":   {map[string]any{"groups": "x", "_claim_names": names, "_claim_sources": at(here)}, "", 500, "p:ann  [x system:authenticated]"},
		"another claim":     {elsewhere(map[string]string{"roles": "src"}, at(here)), "", 500, "p:ann  [system:authenticated]"},
		"aggregated":        {elsewhere(names, map[string]any{"src": map[string]string{"JWT": "x"}}), "", 500, "p:ann  [system:authenticated]"},

		"forged":         {elsewhere(names, at(here)), other.sign(map[string]any{"groups": "system:masters", "iss": p.URL}), 200, "verify distributed claim token: failed to verify signature"},
		"for others":     {elsewhere(names, at(here)), p.sign(map[string]any{"groups": "a", "aud": "you"}), 200, `verify distributed claim token: oidc: expected audience in ["me"] got ["you"]`},
		"expired":        {elsewhere(names, at(here)), p.sign(map[string]any{"groups": "a", "exp": time.Now().Add(-time.Hour).Unix()}), 200, "verify distributed claim token: oidc: token is expired"},
		"without them":   {elsewhere(names, at(here)), p.sign(nil), 200, "did not contain claim: groups"},
		"an error":       {elsewhere(names, at(here)), p.sign(groups), 500, `while getting distributed claim "groups": error while getting distributed claim JWT: 500`},
		"no token":       {elsewhere(names, at(here)), "x", 200, "getting untrusted issuer from endpoint"},
		"plain issuer":   {elsewhere(names, at(here)), p.sign(map[string]any{"groups": "a", "iss": stranger.URL}), 200, "verifying untrusted issuer " + stranger.URL + " failed"},
		"nobody there":   {elsewhere(names, at("https://127.0.0.1:1/")), "", 200, `while getting distributed claim "groups"`},
		"no sources":     {map[string]any{"_claim_names": names}, "", 200, "oidc: verify token: oidc: source does not exist"},
		"odd sources":    {elsewhere(names, 7), "", 200, "oidc: verify token: oidc: failed to unmarshal claims"},
		"odd names":      {elsewhere(7, at(here)), "", 200, "oidc: verify token: oidc: failed to unmarshal claims"},
		"missing source": {elsewhere(map[string]string{"groups": "x"}, at(here)), "", 200, "oidc: verify token: oidc: source does not exist"},
	} {
		a := newTest(t, p.config(plain)).ready(t)
		answer, code, authorization = row.answer, row.code, ""
		got := who(t, a, p.sign(row.claims))
		if strings.HasPrefix(row.want, "p:ann") != strings.HasPrefix(got, "p:ann") || !strings.Contains(got, row.want) {
			t.Errorf("%s: got %q, want %q", name, got, row.want)
		}
		if strings.HasPrefix(name, "good") && authorization != "Bearer key" {
			t.Errorf("%s: asked with %q", name, authorization)
		}
	}
}
