package authn

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
)

// TestReasons holds what clients and the log get to see of the errors of several authenticators.
func TestReasons(t *testing.T) {
	refuses := func(err error) Token {
		return TokenFunc(func(context.Context, string, []string) (*Response, error) { return nil, err })
	}
	none := refuses(nil)
	for _, row := range []struct {
		tokens []Token
		text   string
		want   string
	}{
		{[]Token{none}, "invalid bearer token", "[{ invalid bearer token (no authenticator knows the token, which names the issuer \"https://x\") no authenticator knows the token }]"},
		{[]Token{none, refuses(Unknown("bootstrap token", "expired"))}, "invalid bearer token", "[{bootstrap token bootstrap token: invalid bearer token (expired) invalid bearer token: expired }]"},
		{[]Token{refuses(Unknown("bootstrap token", "expired")), refuses(Refused("issuer i", errors.New("no email")))}, "no email",
			"[{bootstrap token bootstrap token: invalid bearer token (expired) invalid bearer token: expired } {issuer i issuer i: no email no email }]"},
		{[]Token{refuses(Outage("token webhook", "Failed to ask", errors.New("down"))), refuses(errors.New("x"))}, "[down, x]",
			"[{token webhook token webhook: down down Failed to ask} { x x }]"},
		{[]Token{refuses(Refused("sa", Because(errors.New("invalidated"), "pod a/b", Outage("", "Failed to read", errors.New("no store")))))}, "invalidated",
			"[{sa sa: invalidated (pod a/b: no store) invalidated: pod a/b: no store Failed to read}]"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer e30.eyJpc3MiOiJodHRwczovL3gifQ.e30")
		_, err = Bearer(Cache(Tokens(row.tokens...), CacheOptions{})).Authenticate(r, nil)
		if err == nil || err.Error() != row.text {
			t.Errorf("to clients: got %v, want %s", err, row.text)
			continue
		}
		if got := fmt.Sprint(Reasons(err)); got != row.want {
			t.Errorf("%s: got %s, want %s", row.text, got, row.want)
		}
	}
}
