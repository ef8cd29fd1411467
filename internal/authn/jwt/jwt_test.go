package jwt

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/keysize"
	"github.com/keelson-io/keelson/internal/reloads"
	"github.com/keelson-io/keelson/internal/testcerts"
	"github.com/keelson-io/keelson/internal/testkit"
)

// This file is an issuer, and tries to get in with its tokens and others'.

var quiet = slog.New(slog.DiscardHandler)

// provider is an issuer on loopback.
type provider struct {
	*httptest.Server
	t  testing.TB
	mu sync.Mutex

	keys   []jose.JSONWebKey // private; the first signs
	broken bool              // it answers nothing
	asked  int               // for keys
	issuer string            // in the discovery document; "" for its own
	more   string            // JSON of one more member of the discovery document
}

func newKey(t testing.TB, id string) jose.JSONWebKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return jose.JSONWebKey{Key: key, KeyID: id, Algorithm: "ES256", Use: "sig"}
}

func newProvider(t testing.TB) *provider {
	p := &provider{t: t, keys: []jose.JSONWebKey{newKey(t, "one")}}
	p.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		switch {
		case p.broken:
			w.WriteHeader(500)
		case r.URL.Path == "/.well-known/openid-configuration" || r.URL.Path == "/elsewhere":
			name := p.issuer
			if name == "" {
				name = p.URL
			}
			fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q,"more":%s}`, name, p.URL+"/keys", cmp.Or(p.more, "null"))
		case r.URL.Path == "/keys":
			p.asked++
			var set jose.JSONWebKeySet
			for _, k := range p.keys {
				set.Keys = append(set.Keys, k.Public())
			}
			json.NewEncoder(w).Encode(set)
		default:
			w.WriteHeader(404)
		}
	}))
	p.Config.ErrorLog = slog.NewLogLogger(quiet.Handler(), slog.LevelInfo)
	t.Cleanup(p.Close)
	return p
}

// rotate makes another key the one that signs.
func (p *provider) rotate(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = []jose.JSONWebKey{newKey(p.t, id)}
}

// sign makes a token of claims, which are merged into those of a good one; nil
// takes a claim away.
func (p *provider) sign(claims map[string]any) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[string]any{"iss": p.URL, "aud": "me", "sub": "ann", "exp": time.Now().Add(time.Hour).Unix()}
	for k, v := range claims {
		if all[k] = v; v == nil {
			delete(all, k)
		}
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: p.keys[0]}, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	text, err := jwt.Signed(signer).Claims(all).Serialize()
	if err != nil {
		p.t.Fatal(err)
	}
	return text
}

// config returns a configuration of the issuer; more follows the issuer's identity.
func (p *provider) config(more string) string {
	ca, err := json.Marshal(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw})))
	if err != nil {
		p.t.Fatal(err)
	}
	return fmt.Sprintf("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n- issuer: {url: %q, audiences: [me], certificateAuthority: %s}\n%s",
		p.URL, ca, more)
}

const plain = "  claimMappings: {username: {claim: sub, prefix: 'p:'}, groups: {claim: groups, prefix: ''}}\n"

func newTest(t testing.TB, text string, change ...func(*Options)) *Authenticator {
	t.Helper()
	c, err := Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	o := Options{Retry: 10 * time.Millisecond, Patience: 5 * time.Second, Logger: quiet, Metrics: prometheus.NewRegistry()}
	for _, f := range change {
		f(&o)
	}
	a, err := New(ctx, c, o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// ready waits until the issuers have been reached.
func (a *Authenticator) ready(t testing.TB) *Authenticator {
	t.Helper()
	if err := a.await(t.Context(), a.current.Load(), time.Minute); err != nil {
		t.Fatal(err)
	}
	return a
}

// ails waits until the issuers have been found to be unhealthy in that way.
func (a *Authenticator) ails(t testing.TB, want string) {
	t.Helper()
	testkit.EventuallySay(t, func() (string, bool) {
		err := a.current.Load().health()
		return fmt.Sprintf("health: got %v, want %q", err, want), err != nil && strings.Contains(err.Error(), want)
	})
}

// who is whom a token is from, in short, or the error.
func who(t testing.TB, a *Authenticator, token string) string {
	t.Helper()
	r, err := a.AuthenticateToken(t.Context(), token, nil)
	switch {
	case err != nil:
		return err.Error()
	case r == nil:
		return "nobody"
	}
	u := r.User
	return strings.TrimSpace(fmt.Sprintf("%s %s %v %v", u.Name, u.UID, u.Groups, u.Extra))
}

func TestTokensOfAnIssuer(t *testing.T) {
	p, other := newProvider(t), newProvider(t)
	a := newTest(t, p.config(plain)).ready(t)
	good := p.sign(nil)
	parts := strings.Split(good, ".")
	b64 := base64.RawURLEncoding.EncodeToString
	shared, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: []byte(strings.Repeat("x", 32))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	hs, err := jwt.Signed(shared).Claims(map[string]any{"iss": p.URL, "aud": "me", "sub": "ann", "exp": time.Now().Add(time.Hour).Unix()}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct{ token, want string }{
		"good":              {good, "p:ann  [system:authenticated] map[]"},
		"several audiences": {p.sign(map[string]any{"aud": []string{"x", "me"}}), "p:ann  [system:authenticated] map[]"},
		"groups":            {p.sign(map[string]any{"groups": []string{"a", "b"}, "jti": "7"}), "p:ann  [a b system:authenticated] map[authentication.kubernetes.io/credential-id:[JTI=7]]"},
		"one group":         {p.sign(map[string]any{"groups": "a"}), "p:ann  [a system:authenticated] map[]"},

		"no token":          {"x", "nobody"},
		"another issuer's":  {other.sign(nil), `invalid bearer token`},
		"no issuer":         {p.sign(map[string]any{"iss": nil}), "nobody"},
		"issuer with slash": {p.sign(map[string]any{"iss": p.URL + "/"}), `invalid bearer token`},
		"huge":              {good + strings.Repeat("x", authn.MaxToken), "nobody"},

		"forged":         {other.sign(map[string]any{"iss": p.URL}), "oidc: verify token: failed to verify signature"},
		"alg none":       {b64([]byte(`{"alg":"none"}`)) + "." + parts[1] + ".", "oidc: verify token: oidc: malformed jwt"},
		"shared secret":  {hs, "oidc: verify token: oidc: malformed jwt: unexpected signature algorithm"},
		"no signature":   {parts[0] + "." + parts[1] + ".", "oidc: verify token: failed to verify signature"},
		"other claims":   {parts[0] + "." + b64([]byte(`{"iss":"`+p.URL+`","aud":"me","sub":"root","exp":9999999999}`)) + "." + parts[2], "oidc: verify token: failed to verify signature"},
		"wrong audience": {p.sign(map[string]any{"aud": "you"}), `oidc: verify token: oidc: expected audience in ["me"] got ["you"]`},
		"no audience":    {p.sign(map[string]any{"aud": nil}), `oidc: verify token: oidc: expected audience in ["me"] got []`},
		"expired":        {p.sign(map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}), "oidc: verify token: oidc: token is expired"},
		"never expires":  {p.sign(map[string]any{"exp": nil}), "oidc: verify token: oidc: token is expired"},
		"not yet":        {p.sign(map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}), "before the nbf (not before) time"},
		"no subject":     {p.sign(map[string]any{"sub": nil}), `oidc: parse username claims "sub": claim not present`},
		"odd groups":     {p.sign(map[string]any{"groups": 7}), `oidc: parse groups claim "groups": json: cannot unmarshal number`},
	} {
		if got := who(t, a, row.token); got != row.want && !(strings.HasPrefix(row.want, "oidc: ") && strings.HasPrefix(got, row.want)) && !(name == "not yet" && strings.Contains(got, row.want)) {
			t.Errorf("%s: got %q, want %q", name, got, row.want)
		}
	}
	// Keys are fetched anew when a token names one that is not known.
	asked := p.asked
	p.rotate("two")
	fresh := p.sign(nil)
	testkit.EventuallySay(t, func() (string, bool) { // a fetch for the token before may still be under way, and is joined
		got := who(t, a, fresh)
		return "a token of the new key is accepted: got " + got, strings.HasPrefix(got, "p:ann")
	})
	if p.asked != asked+1 {
		t.Errorf("after a rotation: asked %d times", p.asked-asked)
	}
	testkit.EventuallySay(t, func() (string, bool) { // go-oidc hands out new keys a moment before it forgets the old ones
		got := who(t, a, good)
		return "a token of a key that was removed is refused: got " + got, strings.Contains(got, "failed to verify signature")
	})
	m := a.options.metrics
	if n := testutil.CollectAndCount(m.latencies); n != 2 {
		t.Errorf("latencies: got %d", n)
	}
	if n := testutil.CollectAndCount(m.keySets); n != 1 {
		t.Errorf("key sets: got %d", n)
	}
}

// Ledger: claim-mappings-size, split-mappings.
func TestMappings(t *testing.T) {
	p := newProvider(t)
	claims := map[string]any{"name": "Ann", "email": "ann@x", "email_verified": true, "roles": "a,b,,", "list": []any{"x", "", "y"}, "n": 7, "hd": "acme",
		"nested": map[string]any{"a.b": "deep", "yes": true}, "k8s.io/x": "escaped", "empty": "", "u1021": strings.Repeat("u", 1021), "g1023": strings.Repeat("g", 1023)}
	const large = "  claimMappings: {username: {claim: sub, prefix: ''}, uid: {expression: %s}, groups: {expression: 'lists.range(1024).map(i, claims.g1023)'}}\n"
	for name, row := range map[string]struct{ config, want string }{
		"expressions": {"  claimMappings: {username: {expression: 'claims.name + \"!\"'}, groups: {expression: 'claims.roles.split(\",\")'}, uid: {expression: 'claims.sub'}, extra: [{key: acme.com/l, valueExpression: claims.list}, {key: acme.com/e, valueExpression: claims.empty}, {key: acme.com/n, valueExpression: 'null'}]}\n",
			"Ann! ann [a b system:authenticated] map[acme.com/l:[x y]]"},
		"escaped names": {"  claimMappings: {username: {expression: 'claims.nested.a__dot__b'}, groups: {expression: 'claims.k8s__dot__io__slash__x'}}\n", "deep  [escaped system:authenticated] map[]"},
		"optional":      {"  claimMappings: {username: {expression: 'claims.?missing.orValue(\"none\")'}}\n", "none  [system:authenticated] map[]"},
		"email, prefix": {"  claimMappings: {username: {claim: email, prefix: 'e:'}}\n", "e:ann@x  [system:authenticated] map[]"},
		"uid claim":     {"  claimMappings: {username: {claim: sub, prefix: ''}, uid: {claim: name}}\n", "ann Ann [system:authenticated] map[]"},
		"rules": {"  claimMappings: {username: {claim: sub, prefix: ''}}\n  claimValidationRules: [{claim: hd, requiredValue: acme}, {expression: 'claims.n == 7.0', message: seven}]\n  userValidationRules: [{expression: \"!user.username.startsWith('system:')\", message: reserved}]\n",
			"ann  [system:authenticated] map[]"},

		"empty name": {"  claimMappings: {username: {expression: claims.empty}}\n", "oidc: empty username via CEL expression is not allowed"},
		"odd name":   {"  claimMappings: {username: {expression: claims.n}}\n", "oidc: error evaluating username claim expression: username claim expression must return a string"},
		"missing":    {"  claimMappings: {username: {expression: claims.missing}}\n", "oidc: error evaluating username claim expression: expression 'claims.missing' resulted in error: no such key: missing"},
		"dear": {"  claimMappings: {username: {expression: 'lists.range(600).all(x, lists.range(600).all(y, x + y >= 0)) ? claims.sub : claims.name'}}\n",
			"oidc: error evaluating username claim expression: expression 'lists.range(600).all(x, lists.range(600).all(y, x + y >= 0)) ? claims.sub : claims.name' resulted in error: operation cancelled: actual cost limit exceeded"},
		"odd groups":    {"  claimMappings: {username: {claim: sub, prefix: ''}, groups: {expression: claims.n}}\n", "oidc: error evaluating group claim expression: expression must return a string or a list of strings"},
		"odd uid":       {"  claimMappings: {username: {claim: sub, prefix: ''}, uid: {expression: claims.n}}\n", "oidc: error evaluating uid claim expression: uid claim expression must return a string"},
		"no uid":        {"  claimMappings: {username: {claim: sub, prefix: ''}, uid: {claim: x}}\n", `oidc: parse uid claim "x": claim not present`},
		"odd extra":     {"  claimMappings: {username: {claim: sub, prefix: ''}, extra: [{key: acme.com/x, valueExpression: claims.nested}]}\n", "oidc: error evaluating extra claim expression: claims.nested: expression must return a string or a list of strings"},
		"a megabyte":    {fmt.Sprintf(large, "claims.u1021"), "ann " + strings.Repeat("u", 1021) + " [" + strings.Repeat(strings.Repeat("g", 1023)+" ", 1024) + "system:authenticated] map[]"},
		"a byte more":   {fmt.Sprintf(large, `'"u" + claims.u1021'`), "oidc: the user is larger than 1048576 bytes"},
		"value differs": {"  claimMappings: {username: {claim: sub, prefix: ''}}\n  claimValidationRules: [{claim: hd, requiredValue: x}]\n", "oidc: required claim hd value does not match. Got = acme, want = x"},
		"value missing": {"  claimMappings: {username: {claim: sub, prefix: ''}}\n  claimValidationRules: [{claim: x, requiredValue: x}]\n", "oidc: required claim x not present in ID token"},
		"claim rule":    {"  claimMappings: {username: {claim: sub, prefix: ''}}\n  claimValidationRules: [{expression: 'claims.n == 8.0', message: eight}]\n", "oidc: error evaluating claim validation expression: validation expression 'claims.n == 8.0' failed: eight"},
		"user rule":     {"  claimMappings: {username: {claim: sub, prefix: 'system:'}}\n  userValidationRules: [{expression: \"!user.username.startsWith('system:')\", message: reserved}]\n", "oidc: error evaluating user info validation rule: validation expression '!user.username.startsWith('system:')' failed: reserved"},
	} {
		if got := who(t, newTest(t, p.config(row.config)).ready(t), p.sign(claims)); got != row.want {
			t.Errorf("%s: got %.300q, want %.300q", name, got, row.want)
		}
	}
	a := newTest(t, p.config("  claimMappings: {username: {claim: email, prefix: ''}}\n")).ready(t)
	for verified, want := range map[any]string{false: "oidc: email not verified", "yes": "oidc: parse 'email_verified' claim", nil: "ann@x  ["} {
		if got := who(t, a, p.sign(map[string]any{"email": "ann@x", "email_verified": verified})); !strings.HasPrefix(got, want) {
			t.Errorf("email_verified %v: got %q, want %q", verified, got, want)
		}
	}
}

func TestIssuersThatCannotBeReached(t *testing.T) {
	p := newProvider(t)
	p.broken = true
	a := newTest(t, p.config(plain))
	if got := who(t, a, p.sign(nil)); got != "oidc: authenticator not initialized" {
		t.Errorf("before: got %q", got)
	}
	p.mu.Lock()
	p.broken = false
	p.mu.Unlock()
	if got := who(t, a.ready(t), p.sign(nil)); !strings.HasPrefix(got, "p:ann") {
		t.Errorf("after: got %q", got)
	}
	// An issuer that says it is another is not believed, unless it was to be found elsewhere.
	liar := newProvider(t)
	liar.issuer = "https://else"
	newTest(t, liar.config(plain)).ails(t, "issuer URL provided to client")
	moved := newProvider(t)
	moved.issuer = "https://issuer.example"
	text := strings.Replace(moved.config(plain), fmt.Sprintf("url: %q", moved.URL), fmt.Sprintf("url: https://issuer.example, discoveryURL: %q", moved.URL+"/elsewhere"), 1)
	if got := who(t, newTest(t, text).ready(t), moved.sign(map[string]any{"iss": "https://issuer.example"})); !strings.HasPrefix(got, "p:ann") {
		t.Errorf("elsewhere: got %q", got)
	}
	// Nobody is believed whose certificate is another authority's.
	ca := strings.Index(p.config(plain), ", certificateAuthority")
	unknown := p.config(plain)[:ca] + "}\n" + plain
	newTest(t, unknown).ails(t, "certificate")
}

// TestLongDocumentsOfIssuers: a document of an issuer may have 4 MiB and 10,000 levels.
func TestLongDocumentsOfIssuers(t *testing.T) {
	text := func(n int) string { return `"` + strings.Repeat("x", n) + `"` }
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, test := range []struct{ more, want string }{
		{text(4<<20 - 1000), ""}, {text(4 << 20), "unexpected end of JSON input"}, {text(40 << 20), "unexpected end of JSON input"},
		{deep(9_990), ""}, {deep(10_001), "exceeded max depth"}, {deep(1_000_000), "exceeded max depth"},
	} {
		p := newProvider(t)
		p.more = test.more
		a := newTest(t, p.config(plain))
		if test.want != "" {
			a.ails(t, test.want)
			if got := who(t, a, p.sign(nil)); strings.HasPrefix(got, "p:ann") {
				t.Errorf("%d bytes: a token is believed", len(test.more))
			}
		} else if got := who(t, a.ready(t), p.sign(nil)); !strings.HasPrefix(got, "p:ann") {
			t.Errorf("%d bytes: got %q", len(test.more), got)
		}
	}
}

// Ledger: egress-selector.
// TestLongKeysOfIssuers holds that an issuer with a very long key is not believed, since no time ends
// the check of a signature.
// Ledger: rsa-keys.
func TestLongKeysOfIssuers(t *testing.T) {
	p := newProvider(t)
	n := new(big.Int).Lsh(big.NewInt(1), keysize.MaxBits)
	p.keys = append(p.keys, jose.JSONWebKey{Key: &rsa.PrivateKey{PublicKey: rsa.PublicKey{N: n.SetBit(n, 0, 1), E: 65537}}, KeyID: "long"})
	a := newTest(t, p.config(plain)).ready(t)
	if got, want := who(t, a, p.sign(nil)), "key: got a number of"; !strings.Contains(got, want) {
		t.Errorf("got %s, want %q", got, want)
	}
	// A private key in the header of a token is parsed before the token is verified.
	parts := strings.Split(p.sign(nil), ".")
	header := `{"alg":"RS256","jwk":{"kty":"RSA","d":"` + strings.Repeat("A", 2000) + `"}}`
	if got := who(t, a, base64.RawURLEncoding.EncodeToString([]byte(header))+"."+parts[1]+"."+parts[2]); got != "nobody" {
		t.Errorf("a private key in the header: got %s", got)
	}
}

func TestValidation(t *testing.T) {
	const head = "apiVersion: apiserver.config.k8s.io/v1beta1\nkind: AuthenticationConfiguration\n"
	issuer := func(identity, more string) string {
		return head + "jwt:\n- issuer: {" + identity + "}\n" + more
	}
	const good, mapping = "url: https://x, audiences: [a]", "  claimMappings: {username: {claim: sub, prefix: ''}}\n"
	for text, want := range map[string]string{
		head:             "",
		head + "jwt: []": "",
		head + "anonymous: {enabled: true, conditions: [{path: /livez}]}": "",
		issuer(good, mapping): "",
		"":                    "empty config data",
		head + "x: y":         `strict decoding error: unknown field "x"`,
		"apiVersion: apiserver.config.k8s.io/v2\nkind: AuthenticationConfiguration":                              `no kind "AuthenticationConfiguration" is registered for version "apiserver.config.k8s.io/v2"`,
		"apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration":                               "expected AuthenticationConfiguration, got *apiserver.AuthorizationConfiguration",
		head + "anonymous: {conditions: [{path: /livez}]}":                                                       "anonymous.conditions: Invalid value: [{\"Path\":\"/livez\"}]: enabled should be set to true when conditions are defined",
		issuer("audiences: [a]", mapping):                                                                        "jwt[0].issuer.url: Required value",
		issuer("url: http://x, audiences: [a]", mapping):                                                         `jwt[0].issuer.url: Invalid value: "http://x": URL scheme must be https`,
		issuer("url: 'https://u:p@x?q#f', audiences: [a]", mapping):                                              "URL must not contain a username or password",
		issuer("url: https://sa, audiences: [a]", mapping):                                                       "URL must not overlap with disallowed issuers: [https://sa]",
		issuer(good+", discoveryURL: https://x/", mapping):                                                       "discoveryURL must be different from URL",
		issuer("url: https://x", mapping):                                                                        "at least one jwt[0].issuer.audiences is required",
		issuer("url: https://x, audiences: [a, b]", mapping):                                                     "audienceMatchPolicy must be MatchAny for multiple audiences",
		issuer(good+", certificateAuthority: x", mapping):                                                        `jwt[0].issuer.certificateAuthority: Invalid value: "<omitted>"`,
		issuer(good+", egressSelectorType: x", mapping):                                                          "egress selector must be either controlplane or cluster",
		issuer(good, "  claimMappings: {}\n"):                                                                    "jwt[0].claimMappings.username: Required value: claim or expression is required",
		issuer(good, "  claimMappings: {username: {claim: sub}}\n"):                                              "prefix is required when claim is set. It can be set to an empty string to disable prefixing",
		issuer(good, "  claimMappings: {username: {claim: sub, expression: x}}\n"):                               "claim and expression can't both be set",
		issuer(good, "  claimMappings: {username: {expression: claims.email}}\n"):                                "claims.email_verified must be used in",
		issuer(good, "  claimMappings: {username: {expression: 'claims.'}}\n"):                                   `jwt[0].claimMappings.username.expression: Invalid value: "claims.": compilation failed: ERROR: <input>:1:8: Syntax error`,
		issuer(good, mapping[:len(mapping)-2]+", extra: [{key: X, valueExpression: 'x'}, {key: a.k8s.io/x}]}\n"): "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use",
		issuer(good, mapping+"  claimValidationRules: [{expression: '1'}]\n"):                                    "must evaluate to bool",
		issuer(good, mapping+"  userValidationRules: [{expression: 'claims.x'}]\n"):                              "undeclared reference to 'claims'",
		issuer(good, mapping) + "- issuer: {" + good + "}\n" + mapping:                                           `jwt[1].issuer.url: Duplicate value: "https://x"`,
		head + "jwt: [" + strings.Repeat("{},", 65) + "]":                                                        "jwt: Too many: 65: must have at most 64 items",
	} {
		c, err := Decode([]byte(text))
		if err == nil {
			err = c.Validate([]string{"https://sa"}).ToAggregate()
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\ngot  %v\nwant %s", text, err, want)
		}
	}
	if _, err := New(t.Context(), &Configuration{}, Options{Algorithms: []string{"HS256"}}); err == nil || err.Error() != `oidc: unsupported signing alg: "HS256"` {
		t.Errorf("algorithm: got %v", err)
	}
	c, err := Decode([]byte(issuer(good+", egressSelectorType: cluster", mapping)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(t.Context(), c, Options{}); err == nil || err.Error() != `oidc: egress lookup required with egress selector type "cluster"` {
		t.Errorf("egress: got %v", err)
	}
}

func TestReload(t *testing.T) {
	one, two := newProvider(t), newProvider(t)
	path := filepath.Join(t.TempDir(), "config.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(one.config(plain))
	a := newTest(t, one.config(plain), func(o *Options) { o.File, o.Text, o.Patience = path, []byte(one.config(plain)), 200*time.Millisecond }).ready(t)
	count := func(status string) (n float64) {
		t.Helper()
		families, err := a.options.Metrics.(*prometheus.Registry).Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if f.GetName() == "apiserver_authentication_config_controller_automatic_reloads_total" && m.GetLabel()[1].GetValue() == status {
					n += m.GetCounter().GetValue()
				}
			}
		}
		return n
	}
	works := func(what string, p *provider, does bool) {
		t.Helper()
		if got := who(t, a, p.sign(nil)); strings.HasPrefix(got, "p:ann") != does {
			t.Errorf("%s: got %q, want to get in: %v", what, got, does)
		}
	}
	ctx := t.Context()
	a.check(ctx)
	if count("success")+count("failure") != 0 {
		t.Error("reloads what has not changed")
	}
	for name, text := range map[string]string{
		"empty":     "",
		"no YAML":   "{",
		"wrong":     strings.Replace(two.config(plain), "https://", "http://", 1),
		"anonymous": two.config(plain) + "anonymous: {enabled: false}\n",
	} {
		before := count("failure")
		write(text)
		a.check(ctx)
		a.check(ctx) // is not tried again
		if count("failure") != before+1 {
			t.Errorf("%s: %v failures", name, count("failure")-before)
		}
		works(name, one, true)
	}
	os.Remove(path)
	a.check(ctx)
	works("no file", one, true)
	// An issuer that cannot be reached is tried again.
	two.broken = true
	write(two.config(plain))
	a.check(ctx)
	works("unreachable", one, true)
	two.mu.Lock()
	two.broken = false
	two.mu.Unlock()
	a.check(ctx)
	if count("success") != 1 {
		t.Errorf("successes: got %v", count("success"))
	}
	works("after the reload", two, true)
	works("after the reload, the old one", one, false)
	info := fmt.Sprintf(`
		# HELP apiserver_authentication_config_controller_last_config_info [ALPHA] Information about the last applied authentication configuration with hash as label, split by apiserver identity.
		# TYPE apiserver_authentication_config_controller_last_config_info gauge
		apiserver_authentication_config_controller_last_config_info{apiserver_id_hash="",hash=%q} 1
`, reloads.Hash(two.config(plain)))
	if err := testutil.GatherAndCompare(a.options.Metrics.(*prometheus.Registry), strings.NewReader(info), "apiserver_authentication_config_controller_last_config_info"); err != nil {
		t.Error(err)
	}
	write(two.config(plain) + "- {}\n")
	a.check(ctx)
	works("broken again", two, true)
}

func FuzzDecode(f *testing.F) {
	f.Add("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt: [{issuer: {url: https://x, audiences: [a]}, claimMappings: {username: {expression: claims.sub}}}]")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Decode([]byte(text))
		if err == nil {
			c.Validate(nil)
			c.Admits(true)
		}
	})
}

// TestReplace replaces the authorities of an issuer.
func TestReplace(t *testing.T) {
	p := newProvider(t)
	a := newTest(t, p.config(plain)).ready(t)
	configuration := func(authorities string) *Configuration {
		c, err := Decode([]byte(p.config(plain)))
		if err != nil {
			t.Fatal(err)
		}
		if authorities != "" {
			c.JWT[0].Issuer.CertificateAuthority = authorities
		}
		return c
	}
	other := testcerts.Sign(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true}, nil)
	wrong := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other.Certificate[0]}))
	before := a.current.Load()
	if err := a.Replace(t.Context(), configuration(wrong), 50*time.Millisecond); !errors.Is(err, errUnreachable) || a.current.Load() != before {
		t.Errorf("another authority: got %v", err)
	}
	if err := a.Replace(t.Context(), configuration(""), time.Minute); err != nil || a.current.Load() == before {
		t.Errorf("the authority: got %v", err)
	}
	if got := who(t, a, p.sign(nil)); !strings.Contains(got, "ann") {
		t.Errorf("got %s", got)
	}
}

func FuzzAuthenticateToken(f *testing.F) {
	p := newProvider(f)
	a := newTest(f, p.config(plain))
	if err := a.await(context.Background(), a.current.Load(), time.Minute); err != nil {
		f.Fatal(err)
	}
	f.Add(p.sign(nil))
	f.Add("a.b.c")
	f.Fuzz(func(t *testing.T, token string) {
		r, err := a.AuthenticateToken(t.Context(), token, nil)
		if err == nil && r != nil && (r.User.Name != "p:ann" || !slices.Equal(r.User.Groups, []string{authn.Authenticated})) {
			t.Errorf("%q: got in as %+v", token, r.User)
		}
	})
}
