package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/rest"

	"github.com/keelson-io/keelson/internal/authn/externalsigner"
	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/internal/testsigner"
)

// This file tests service account tokens that another program signs.

func TestExternalSigner(t *testing.T) {
	program := testsigner.New(t)
	program.Add(t, "old", true)
	c := Config{Store: mem.New(mem.Options{}), TokenSigner: externalsigner.Dial}
	c.Authentication.ServiceAccounts.SigningEndpoint = program.Socket
	r := start(t, c)
	r.must("POST", "/api/v1/namespaces/default/serviceaccounts", `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"robot"}}`)
	const path, body = "/api/v1/namespaces/default/serviceaccounts/robot/token", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":86400}}`
	issue := func() string {
		t.Helper()
		var answer authenticationv1.TokenRequest
		if err := json.Unmarshal([]byte(r.must("POST", path, body)), &answer); err != nil {
			t.Fatal(err)
		}
		if *answer.Spec.ExpirationSeconds != program.Life {
			t.Errorf("got %d seconds, want %d, which the program supports", *answer.Spec.ExpirationSeconds, program.Life)
		}
		return answer.Status.Token
	}
	whoami := func(token string) (int, string) {
		t.Helper()
		client, err := rest.HTTPClientFor(&rest.Config{Host: "https://" + r.Addr(), BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: r.identity.caPEM()}})
		if err != nil {
			t.Fatal(err)
		}
		return r.call(client, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`)
	}
	admitted := func(token string) {
		t.Helper()
		if code, text := whoami(token); code != http.StatusCreated || !strings.Contains(text, `"system:serviceaccount:default:robot"`) {
			t.Errorf("got %d %s", code, text)
		}
	}
	first := issue()
	admitted(first)
	// The program changes its key. The next token names a key that the server does not know yet.
	program.Add(t, "k2", false)
	program.Lock()
	program.SignWith = "k2"
	program.Unlock()
	second := issue()
	admitted(second)
	admitted(first)
	keys := r.must("GET", "/openid/v1/jwks", "")
	if !strings.Contains(keys, `"k1"`) || !strings.Contains(keys, `"k2"`) || strings.Contains(keys, `"old"`) {
		t.Errorf("got %s, want k1 and k2, not old", keys)
	}
	// A key that is not published signs nothing; a forged token is not accepted.
	program.Lock()
	program.SignWith = "old"
	program.Unlock()
	if code, text := r.call(r.client, "POST", path, body); code != http.StatusInternalServerError || !strings.Contains(text, "excluded from OIDC discovery docs") {
		t.Errorf("got %d %s", code, text)
	}
	parts := strings.Split(second, ".")
	if code, _ := whoami(parts[0] + "." + parts[1] + "." + strings.Split(first, ".")[2]); code != http.StatusUnauthorized {
		t.Errorf("a forged token: got %d", code)
	}
	// Without the program, no token is issued; those of before are accepted.
	program.Stop()
	if code, text := r.call(r.client, "POST", path+"?timeout=1s", body); code < 500 {
		t.Errorf("without the program: got %d %s", code, text)
	}
	admitted(second)
}

// TestExternalSignerMistakes holds which settings contradict a signer.
func TestExternalSignerMistakes(t *testing.T) {
	program := testsigner.New(t)
	for _, row := range []struct {
		change func(*ServiceAccounts)
		want   string
	}{
		{func(a *ServiceAccounts) { a.KeyFiles = []string{"x"} }, "(They are mutually exclusive)"},
		{func(a *ServiceAccounts) { a.SigningKeyFile = "x" }, "(They are mutually exclusive)"},
		{func(a *ServiceAccounts) { a.MaxTokenExpiration = 2 * 3600 * 1e9 }, "cannot be set longer than the token expiration supported by service-account-signing-endpoint: 2h0m0s > 1h0m0s"},
		{func(a *ServiceAccounts) { a.SigningEndpoint = "@/" }, "--service-account-signing-endpoint"},
	} {
		c := Config{Store: mem.New(mem.Options{}), SecurePort: -1, TokenSigner: externalsigner.Dial}
		c.Authentication.ServiceAccounts.SigningEndpoint = program.Socket
		row.change(&c.Authentication.ServiceAccounts)
		s, err := New(t.Context(), c)
		if err == nil {
			s.Close()
		}
		if !strings.Contains(fmt.Sprint(err), row.want) {
			t.Errorf("got %v, want %q", err, row.want)
		}
	}
}
