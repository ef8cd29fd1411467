package authn

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	cryptorand "crypto/rand"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	josejwt "github.com/go-jose/go-jose/v4/jwt"
	api "k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	authenticationcel "k8s.io/apiserver/pkg/authentication/cel"
	up "k8s.io/apiserver/plugin/pkg/authenticator/token/oidc"

	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/authn/jwt"
)

// This file makes users of generated claims, by generated mappings and rules, and compares them with upstream's: the whole user, or
// the words of the refusal.

// tokenIssuer signs, and publishes its key.
type tokenIssuer struct {
	*httptest.Server
	key *ecdsa.PrivateKey
}

func newTokenIssuer(t *testing.T) *tokenIssuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), cryptorand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := &tokenIssuer{key: key}
	i.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/keys" {
			json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), Algorithm: "ES256", Use: "sig"}}})
			return
		}
		json.NewEncoder(w).Encode(map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys"})
	}))
	t.Cleanup(i.Close)
	return i
}

func (i *tokenIssuer) sign(t *testing.T, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: i.key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := josejwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

var stringExpressions = []string{"claims.sub", "claims.email", "claims.?email.orValue('none')", "claims.email_verified ? claims.email : claims.sub", "claims['sub'] + '@' + claims.hd",
	"claims.a.email", "dyn(claims).email", "claims.groups[0]", "string(claims.n)", "has(claims.a.b) ? claims.a.b : ''", "claims.email.split('@')[0]", "claims.sub.lowerAscii()", "claims.missing"}

// What split makes is not refused by Keelson, as it is by upstream if nothing else is done with it.
var listExpressions = append([]string{"claims.groups", "claims.groups.filter(g, g != 'x')", "claims.groups.map(g, 'p:' + g)", "claims.?roles.orValue([])", "[claims.sub, claims.hd]", "claims.roles.join(',')",
	"claims.groups.split(',').map(g, g)", "claims.n > 5 ? ['big'] : []", "claims.a.list", "claims.x", "[claims.email, '']"}, stringExpressions...)

var boolExpressions = []string{"claims.hd == 'example.org'", "claims.n > 5", "claims.email_verified", "has(claims.a) && claims.a.email != ''", "claims.groups.exists(g, g == 'dev')", "'dev' in claims.groups",
	"claims.exp > 5", "type(claims.n) == int", "claims.n == 7.0", "claims.x == null", "size(claims.groups) < 3", "claims.email.endsWith('.org')", "claims.missing == 1", "true"}

var userRules = []string{"!user.username.startsWith('system:')", "user.groups.all(g, !g.startsWith('system:'))", "user.uid != ''", "user.extra['acme.com/a'].size() == 1", "has(user.extra) && user.extra.size() < 2",
	"'acme.com/a' in user.extra", "user.groups.exists(g, g == 'dev')", "user.username.contains('a')", "size(user.groups) < 4"}

// choice is a mapping by a claim or by an expression.
func choice(r *rand.Rand, claims []string, expressions []string, prefix bool) map[string]any {
	if r.IntN(2) == 0 {
		return map[string]any{"expression": expressions[r.IntN(len(expressions))]}
	}
	m := map[string]any{"claim": claims[r.IntN(len(claims))]}
	if prefix {
		m["prefix"] = pick(r, "p:", "")
	}
	return m
}

// mappings make an issuer of a configuration that is mostly valid.
func (i *tokenIssuer) mappings(r *rand.Rand) map[string]any {
	m := map[string]any{"username": choice(r, []string{"sub", "email", "n", "groups"}, stringExpressions, true)}
	if r.IntN(4) > 0 {
		m["groups"] = choice(r, []string{"groups", "roles", "sub", "x", "a"}, listExpressions, true)
	}
	if r.IntN(2) == 0 {
		m["uid"] = choice(r, []string{"sub", "n", "missing"}, stringExpressions, false)
	}
	var extra, rules, users []any
	for n := range r.IntN(3) {
		extra = append(extra, map[string]any{"key": fmt.Sprintf("acme.com/%c", 'a'+n), "valueExpression": listExpressions[r.IntN(len(listExpressions))]})
	}
	for _, n := range r.Perm(len(boolExpressions))[:r.IntN(3)] {
		rules = append(rules, map[string]any{"expression": boolExpressions[n], "message": pick(r, "", "no")})
	}
	if r.IntN(3) == 0 {
		rules = append(rules, map[string]any{"claim": pick(r, "hd", "n", "groups"), "requiredValue": "example.org"})
	}
	for _, n := range r.Perm(len(userRules))[:r.IntN(3)] {
		users = append(users, map[string]any{"expression": userRules[n], "message": pick(r, "", "no")})
	}
	m["extra"] = extra
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw}))
	return map[string]any{"issuer": map[string]any{"url": i.URL, "audiences": []string{"me"}, "certificateAuthority": ca}, "claimMappings": m,
		"claimValidationRules": rules, "userValidationRules": users}
}

// claims make the claims of a token: each is there or not, and sometimes of another type than one would think.
func (i *tokenIssuer) claims(r *rand.Rand) map[string]any {
	all := map[string]any{"iss": i.URL, "aud": "me", "exp": time.Now().Add(time.Hour).Unix(), "sub": "Ann"}
	for name, values := range map[string][]any{
		"sub": {"Ann", "", "system:admin", 7, nil}, "email": {"ann@example.org", "", "x", nil, true}, "email_verified": {true, false, "true", nil},
		"hd": {"example.org", "example.com", nil, []string{"example.org"}}, "groups": {[]string{"dev", "ops"}, []string{}, "dev", "dev,ops", []any{"dev", 7}, []any{"dev", nil}, nil, []string{"", "system:masters", "x"}, map[string]any{"a": 1}},
		"roles": {[]string{"a"}, "a", nil, 7}, "n": {7, 7.5, "7", -1, 1e300, int64(1) << 60, nil}, "a": {map[string]any{"email": "e", "b": "c", "list": []string{"l"}}, map[string]any{}, nil, "a", []any{map[string]any{"email": "e"}}},
		"x": {nil, "x", 7, false}, "jti": {"id", "", 7},
	} {
		if r.IntN(4) > 0 {
			all[name] = pick(r, values...)
		}
	}
	return all
}

// outcome is a user, or the words of a refusal.
func outcome(name, uid string, groups []string, extra map[string][]string) string {
	slices.Sort(groups)
	text, err := json.Marshal([]any{name, uid, groups, extra})
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func TestClaims(t *testing.T) {
	r := rand.New(rand.NewPCG(*seed, 3))
	configs, tokens := 40, 40
	if !testing.Short() {
		configs, tokens = 400, 100
	}
	i := newTokenIssuer(t)
	compiler := authenticationcel.NewDefaultCompiler()
	let, refused := 0, 0
	for n := 0; n < configs; {
		text, err := json.Marshal(map[string]any{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration", "jwt": []any{i.mappings(r)}})
		if err != nil {
			t.Fatal(err)
		}
		var theirs api.AuthenticationConfiguration
		if err := json.Unmarshal(text, &theirs); err != nil {
			t.Fatal(err)
		}
		if len(validation.ValidateAuthenticationConfiguration(compiler, &theirs, nil)) > 0 {
			continue // which TestConfigurations compares
		}
		n++
		ctx, cancel := context.WithCancel(t.Context())
		their, err := up.New(ctx, up.Options{JWTAuthenticator: theirs.JWT[0], KeySet: &oidc.StaticKeySet{PublicKeys: []crypto.PublicKey{i.key.Public()}}, Compiler: compiler, SupportedSigningAlgs: jwt.Algorithms})
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		config, err := jwt.Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		ours, err := jwt.New(ctx, config, jwt.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		for range tokens {
			claims := i.claims(r)
			token := i.sign(t, claims)
			want := ""
			response, ok, err := their.AuthenticateToken(ctx, token)
			switch {
			case err != nil:
				want = err.Error()
				refused++
			case ok:
				u := response.User
				want = outcome(u.GetName(), u.GetUID(), authn.WithAuthenticated(u.GetName(), u.GetGroups()), noneIfEmpty(u.GetExtra()))
				let++
			}
			got := ""
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
				response, err := ours.AuthenticateToken(ctx, token, nil)
				if err != nil {
					got = err.Error()
				} else if response != nil {
					u := response.User
					got = outcome(u.Name, u.UID, slices.Clone(u.Groups), noneIfEmpty(maps.Clone(u.Extra)))
				}
				if got != "oidc: authenticator not initialized" || time.Now().After(deadline) {
					break
				}
			}
			if !reflect.DeepEqual(got, want) {
				said, err := json.Marshal(claims)
				t.Fatalf("%s\nclaims %s %v\nupstream %s\nkeelson  %s", strings.ReplaceAll(string(text), `\n`, ""), said, err, want, got)
			}
		}
		cancel()
	}
	if let == 0 || refused == 0 {
		t.Error("all of them, or none, got in")
	}
	t.Logf("%d configurations, %d tokens that got in, %d that did not", configs, let, refused)
}
