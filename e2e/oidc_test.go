package e2e

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/keelson-io/keelson/internal/reloads"
)

// This file is an issuer of OpenID Connect over TLS, and tries to get in with its tokens and others'.

// issuer is an issuer on loopback, whose keys can change.
type issuer struct {
	*httptest.Server
	t *testing.T

	mu     sync.Mutex
	key    *ecdsa.PrivateKey
	id     string // of the key
	broken bool   // it answers 500
}

func newIssuer(t *testing.T) *issuer {
	i := &issuer{t: t, key: newSigningKey(t), id: "one"}
	i.Server = httptest.NewUnstartedServer(http.HandlerFunc(i.serve))
	i.Config.ErrorLog = log.New(io.Discard, "", 0)
	i.StartTLS()
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) serve(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case i.broken:
		w.WriteHeader(500)
	case r.URL.Path == "/.well-known/openid-configuration":
		json.NewEncoder(w).Encode(map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys"})
	case r.URL.Path == "/keys":
		json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: i.key.Public(), KeyID: i.id, Algorithm: "ES256", Use: "sig"}}})
	default:
		w.WriteHeader(404)
	}
}

// rotate makes another key the one that signs.
func (i *issuer) rotate(id string) {
	key := newSigningKey(i.t)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.key, i.id = key, id
}

// sign makes a token of claims, which are merged into those of a good one; nil takes a claim away.
func (i *issuer) sign(claims map[string]any) string {
	i.mu.Lock()
	key := jose.JSONWebKey{Key: i.key, KeyID: i.id}
	i.mu.Unlock()
	return signJWT(i.t, jose.ES256, key, nil, i.claims(claims))
}

func (i *issuer) claims(change map[string]any) map[string]any {
	all := map[string]any{"iss": i.URL, "aud": "me", "sub": "7", "username": "ann", "hd": "example.com", "role": "staff", "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(all, change)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	return all
}

func (i *issuer) ca() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw}))
}

// entry is the issuer as a list item of a configuration.
func (i *issuer) entry(rest string) string {
	ca, err := json.Marshal(i.ca())
	if err != nil {
		i.t.Fatal(err)
	}
	return fmt.Sprintf("- issuer: {url: %q, audiences: [me, us], audienceMatchPolicy: MatchAny, certificateAuthority: %s}\n%s", i.URL, ca, rest)
}

const authenticationHead = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n"

const strictMappings = `  claimValidationRules:
  - {claim: role, requiredValue: staff}
  - {expression: "claims.hd == 'example.com'", message: only our own}
  claimMappings:
    username: {expression: claims.username}
    groups: {expression: "claims.?groups.orValue([])"}
    uid: {claim: sub}
    extra: [{key: example.com/tier, valueExpression: "has(claims.tier) ? claims.tier : ''"}]
  userValidationRules:
  - {expression: "!user.username.startsWith('system:')", message: reserved}
  - {expression: "user.groups.all(g, !g.startsWith('system:'))", message: reserved}
`

const plainMappings = "  claimMappings: {username: {claim: username, prefix: 'p:'}, groups: {claim: groups, prefix: 'p:'}}\n"

func TestTokensOfIssuers(t *testing.T) {
	i, other := newIssuer(t), newIssuer(t)
	s := startServer(t, "--authentication-config", putFile(t, "authn.yaml", authenticationHead+i.entry(strictMappings)))
	v := newVisitor(t, s, nil)
	eventually(t, "the issuer's keys", func() bool { return v.who(t, bearer(i.sign(nil))...) != "401" })
	good := i.sign(nil)
	parts := strings.Split(good, ".")
	ago, ahead := time.Now().Add(-time.Hour).Unix(), time.Now().Add(time.Hour).Unix()
	foreign := newSigningKey(t)
	const ann = "ann 7 [system:authenticated]"
	for name, row := range map[string]struct{ token, want string }{
		"good":                           {good, ann},
		"one of audiences":               {i.sign(map[string]any{"aud": []string{"x", "us"}}), ann},
		"groups and extra":               {i.sign(map[string]any{"groups": []string{"dev"}, "tier": "gold"}), "ann 7 [dev system:authenticated] map[example.com/tier:[gold]]"},
		"expired":                        {i.sign(map[string]any{"exp": ago}), "401"},
		"without an end":                 {i.sign(map[string]any{"exp": nil}), "401"},
		"not yet":                        {i.sign(map[string]any{"nbf": ahead}), "401"},
		"for others":                     {i.sign(map[string]any{"aud": "you"}), "401"},
		"for nobody":                     {i.sign(map[string]any{"aud": nil}), "401"},
		"of another issuer":              {other.sign(nil), "401"},
		"another's key":                  {other.sign(map[string]any{"iss": i.URL}), "401"},
		"another's key, our name for it": {signJWT(t, jose.ES256, jose.JSONWebKey{Key: foreign, KeyID: "one"}, nil, i.claims(nil)), "401"},
		"key in the header":              {signJWT(t, jose.ES256, foreign, map[jose.HeaderKey]any{"jwk": jose.JSONWebKey{Key: foreign.Public()}}, i.claims(nil)), "401"},
		"shared secret":                  {signJWT(t, jose.HS256, []byte(strings.Repeat("x", 32)), nil, i.claims(nil)), "401"},
		"issuer and slash":               {i.sign(map[string]any{"iss": i.URL + "/"}), "401"},
		"algorithm none":                 {b64(`{"alg":"none"}`) + "." + parts[1] + ".", "401"},
		"no signature":                   {parts[0] + "." + parts[1] + ".", "401"},
		"other claims":                   {parts[0] + "." + b64(`{"iss":"`+i.URL+`","aud":"me","username":"root","exp":9999999999}`) + "." + parts[2], "401"},
		"rule of a claim":                {i.sign(map[string]any{"role": "guest"}), "401"},
		"claim is missing":               {i.sign(map[string]any{"role": nil}), "401"},
		"claim is a list":                {i.sign(map[string]any{"role": []string{"staff"}}), "401"},
		"rule is false":                  {i.sign(map[string]any{"hd": "example.org"}), "401"},
		"rule has an error":              {i.sign(map[string]any{"hd": nil}), "401"},
		"name is reserved":               {i.sign(map[string]any{"username": "system:admin"}), "401"},
		"group is reserved":              {i.sign(map[string]any{"groups": []string{"dev", "system:masters"}}), "401"},
		"no name":                        {i.sign(map[string]any{"username": nil}), "401"},
		"empty name":                     {i.sign(map[string]any{"username": ""}), "401"},
		"name is a number":               {i.sign(map[string]any{"username": 7}), "401"},
		"groups of numbers":              {i.sign(map[string]any{"groups": []int{7}}), "401"},
		"UID is a number":                {i.sign(map[string]any{"sub": 7}), "401"},
	} {
		if got := v.who(t, bearer(row.token)...); got != row.want {
			t.Errorf("%s: got %s, want %s", name, got, row.want)
		}
	}
	// A new key is found when a token names it; the old one is no longer good then.
	i.rotate("two")
	if got := v.who(t, bearer(i.sign(map[string]any{"jti": "new"}))...); got != ann {
		t.Errorf("after a rotation: got %s", got)
	}
}

// TestOIDCFlags is one issuer without a file.
func TestOIDCFlags(t *testing.T) {
	i := newIssuer(t)
	ca := putFile(t, "ca.crt", i.ca())
	s := startServer(t, "--oidc-issuer-url", i.URL, "--oidc-client-id", "me", "--oidc-ca-file", ca, "--oidc-username-claim", "username", "--oidc-username-prefix", "o:",
		"--oidc-groups-claim", "groups", "--oidc-groups-prefix", "og:", "--oidc-required-claim", "role=staff", "--oidc-required-claim", "hd=example.com", "--oidc-signing-algs", "ES256")
	v := newVisitor(t, s, nil)
	eventually(t, "the issuer's keys", func() bool { return v.who(t, bearer(i.sign(nil))...) != "401" })
	for name, row := range map[string]struct {
		claims map[string]any
		want   string
	}{
		"good":                   {nil, "o:ann [system:authenticated]"},
		"groups":                 {map[string]any{"groups": []string{"a", "system:masters"}}, "o:ann [og:a og:system:masters system:authenticated]"},
		"a name that is one":     {map[string]any{"username": "system:admin"}, "o:system:admin [system:authenticated]"},
		"required claim":         {map[string]any{"role": "x"}, "401"},
		"required claim missing": {map[string]any{"hd": nil}, "401"},
		"for others":             {map[string]any{"aud": "us"}, "401"},
	} {
		if got := v.who(t, bearer(i.sign(row.claims))...); got != row.want {
			t.Errorf("%s: got %s, want %s", name, got, row.want)
		}
	}
	// By default only RS256 is believed, and names begin with the issuer.
	s = startServer(t, "--oidc-issuer-url", i.URL, "--oidc-client-id", "me", "--oidc-ca-file", ca)
	if got := newVisitor(t, s, nil).who(t, bearer(i.sign(nil))...); got != "401" {
		t.Errorf("another algorithm: got %s", got)
	}
	for want, flags := range map[string][]string{
		"authentication-config file and oidc-* flags are mutually exclusive":                          {"--authentication-config", ca, "--oidc-issuer-url", i.URL, "--oidc-client-id", "me"},
		"oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set": {"--oidc-groups-claim", "groups"},
		"URL scheme must be https":                {"--oidc-issuer-url", "http://127.0.0.1", "--oidc-client-id", "me"},
		`oidc: unsupported signing alg: \"none\"`: {"--oidc-issuer-url", i.URL, "--oidc-client-id", "me", "--oidc-signing-algs", "none"},
	} {
		refuses(t, strings.ReplaceAll(want, `\"`, `"`), append([]string{"serve", "--data-dir", t.TempDir(), "--secure-port", "0"}, flags...)...)
	}
}

func TestAuthenticationConfigIsReloaded(t *testing.T) {
	one, two := newIssuer(t), newIssuer(t)
	const anonymous = "anonymous: {enabled: true, conditions: [{path: /livez}, {path: /readyz}, {path: /healthz}]}\n"
	first := authenticationHead + one.entry(plainMappings) + anonymous
	path := putFile(t, "authn.yaml", first)
	s := startServer(t, "--authentication-config", path)
	v := newVisitor(t, s, nil)
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	id := reloads.Hash(reloads.ServerID(host))
	const prefix = "apiserver_authentication_config_controller_"
	count := func(status string) string {
		if n := s.metric(t, fmt.Sprintf(`%sautomatic_reloads_total{apiserver_id_hash=%q,status=%q}`, prefix, id, status)); n != "" {
			return n
		}
		return "0"
	}
	inForce := func(text string) {
		t.Helper()
		if got := s.metric(t, fmt.Sprintf(`%slast_config_info{apiserver_id_hash=%q,hash="sha256:%x"}`, prefix, id, sha256.Sum256([]byte(text)))); got != "1" {
			t.Errorf("last_config_info: got %q", got)
		}
	}
	write := func(text, status, want string) {
		t.Helper()
		// In place of the old file, as those who change configurations do it.
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
		eventually(t, status+" "+want, func() bool { return count(status) == want })
	}
	n := 0
	is := func(when string, i *issuer, want string) {
		t.Helper()
		n++ // a token that was never shown, so that nothing remembers it
		if got := v.who(t, bearer(i.sign(map[string]any{"jti": fmt.Sprint(n)}))...); got != want {
			t.Errorf("%s: got %s, want %s", when, got, want)
		}
	}
	const ann = "p:ann [system:authenticated]"
	eventually(t, "the issuer's keys", func() bool { return v.who(t, bearer(one.sign(nil))...) != "401" })
	is("at first, the other", two, "401")
	inForce(first)
	broken := []string{"", "{", "kind: x\n", strings.Replace(first, "https://", "http://", 1), first + "more: 1\n", strings.Replace(first, anonymous, "", 1),
		strings.Replace(first, "enabled: true", "enabled: false", 1), strings.Replace(first, "claim: username", "expression: claims.(", 1)}
	for i, text := range broken {
		write(text, "failure", fmt.Sprint(i+1))
		is(fmt.Sprintf("broken %d", i), one, ann)
		if code, _ := v.send(t, "GET", "/apis", ""); code != 401 {
			t.Errorf("broken %d: without a credential: got %d", i, code)
		}
	}
	inForce(first)
	second := authenticationHead + two.entry(strings.ReplaceAll(plainMappings, "p:", "q:")) + anonymous
	write(second, "success", "1")
	is("after the reload", two, "q:ann [system:authenticated]")
	is("after the reload, the old issuer", one, "401")
	inForce(second)
	both := authenticationHead + one.entry(plainMappings) + two.entry(plainMappings) + anonymous
	write(both, "success", "2")
	is("both, one", one, ann)
	is("both, two", two, ann)
	two.rotate("two")
	is("both, after a rotation", two, ann)
	inForce(both)
	none := strings.Replace(authenticationHead, "jwt:\n", "jwt: []\n", 1) + anonymous
	write(none, "success", "3")
	is("none", one, "401")
	if n := s.metric(t, fmt.Sprintf(`apiserver_authentication_jwt_authenticator_latency_seconds_count{jwt_issuer_hash="sha256:%x",result="success"}`, sha256.Sum256([]byte(two.URL)))); n == "" {
		t.Error("no latency of the issuer's tokens")
	}
	eventually(t, "a time of the last reload", func() bool {
		return s.metric(t, fmt.Sprintf(`%sautomatic_reload_last_timestamp_seconds{apiserver_id_hash=%q,status="success"}`, prefix, id)) != ""
	})
}

// TestAnonymousByPath is who comes in without a credential, by paths as they can be spelled.
func TestAnonymousByPath(t *testing.T) {
	s := startServer(t, "--authentication-config", putFile(t, "authn.yaml",
		"apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\nanonymous: {enabled: true, conditions: [{path: /healthz}, {path: /apis}]}\n"))
	for path, want := range map[string]int{
		"/healthz": 200, "/healthz?x=/apis/x": 200, "/%68ealthz": 200, // the same path
		"/apis": 403, // let in, and not allowed
		"/":     401, "/livez": 401, "/healthz/": 401, "//healthz": 401, "/healthz/etcd": 401, "/HEALTHZ": 401, "/Healthz": 401, "/healthz;x": 401, "/healthz;/": 401,
		"/healthz/../apis/demo.example.org/v1": 401, "/healthz%2f..%2fapi%2fv1": 401, "/healthz/%2e%2e/api/v1/secrets": 401, "/healthz%00": 401, "/healthz%20": 401,
		"/healthz%3f": 401, "/healthz%23": 401, "/healthz\\..\\api": 401, "/./healthz": 401, "/x/../healthz": 401, "/api/v1/../../healthz": 401, "/healthz%252e": 401,
		"/apis/": 401, "/apis/apps/v1": 401, "/apis%2fapps": 401, "/api/v1/secrets?path=/healthz": 401,
	} {
		if code, text := rawRequest(t, s, "GET "+path+" HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"); code != want {
			t.Errorf("%s: got %d %s, want %d", path, code, text, want)
		}
	}
	// What a proxy would take for another path is not looked at.
	for _, header := range []string{"X-Original-URL: /healthz", "X-Rewrite-URL: /healthz", "X-Forwarded-Uri: /healthz", "X-HTTP-Method-Override: GET"} {
		if code, _ := rawRequest(t, s, "GET /api/v1/secrets HTTP/1.1\r\nHost: 127.0.0.1\r\n"+header+"\r\nConnection: close\r\n\r\n"); code != 401 {
			t.Errorf("%s: got %d", header, code)
		}
	}
	if code, _ := rawRequest(t, s, "GET https://127.0.0.1/healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"); code != 200 {
		t.Errorf("an absolute URL: got %d", code)
	}
	if code, _ := rawRequest(t, s, "GET https://127.0.0.1/healthz/../livez HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"); code != 401 {
		t.Errorf("an absolute URL, elsewhere: got %d", code)
	}
}

// rawRequest sends the text of a request as it is.
func rawRequest(t *testing.T, s *server, text string) (int, string) {
	t.Helper()
	conn, err := tls.Dial("tcp", strings.TrimPrefix(s.url(""), "https://"), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil && len(answer) == 0 {
		t.Fatal(err)
	}
	code := 0
	if _, err := fmt.Sscanf(string(answer), "HTTP/1.1 %d ", &code); err != nil {
		t.Fatalf("%.100q: answered %.200q", text, answer)
	}
	return code, string(answer)
}
