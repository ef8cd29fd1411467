package serviceaccount

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/keelson-io/keelson/internal/authn"
)

// This file tries to get in with tokens.

const api = "https://api.example"

func newKeys(t testing.TB, public ...crypto.PublicKey) (*Keys, crypto.Signer) {
	t.Helper()
	signer, _, err := Generate()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := NewKeys(signer, public...)
	if err != nil {
		t.Fatal(err)
	}
	return keys, signer
}

// objects are by resource, namespace and name.
type objects map[string]*Object

func (o objects) get(_ context.Context, resource, namespace, name string) (*Object, error) {
	if have := o[resource+"/"+namespace+"/"+name]; have != nil {
		return have, nil
	}
	return nil, fmt.Errorf("%s %q not found", resource, name)
}

// sign makes a token of whatever claims and header.
func sign(t testing.TB, key jose.SigningKey, header map[string]any, claims ...any) string {
	t.Helper()
	o := &jose.SignerOptions{}
	for k, v := range header {
		o.WithHeader(jose.HeaderKey(k), v)
	}
	signer, err := jose.NewSigner(key, o)
	if err != nil {
		t.Fatal(err)
	}
	b := jwt.Signed(signer)
	for _, c := range claims {
		b = b.Claims(c)
	}
	text, err := b.Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestTokens(t *testing.T) {
	keys, signer := newKeys(t)
	foreign, _, err := Generate()
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := NewIssuer(api, keys, api+KeysPath)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	have := objects{
		"serviceaccounts/ns/sa": {UID: "u1"}, "serviceaccounts/ns/going": {UID: "u1", Deleted: now.Add(time.Hour)},
		"serviceaccounts/ns/gone": {UID: "u1", Deleted: now.Add(-time.Hour)}, "secrets/ns/s": {UID: "u2"}, "pods/ns/p": {UID: "u3"}, "nodes//n": {UID: "u4"},
	}
	a := NewToken(Config{Issuers: []string{api, "old"}, Keys: keys, Audiences: []string{api, "other"}, Objects: have.get})
	sa := Claims{Namespace: "ns", ServiceAccount: Reference{"sa", "u1"}}
	with := func(change func(*Claims)) Claims { c := sa; change(&c); return c }
	issue := func(c Claims, audiences []string, expires time.Duration) string {
		t.Helper()
		text, _, err := issuer.Sign(t.Context(), c, audiences, now.Add(-2*time.Hour), now.Add(expires))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	good := issue(sa, []string{api}, time.Hour)
	parts := strings.Split(good, ".")
	b64 := base64.RawURLEncoding.EncodeToString
	if body, err := base64.RawURLEncoding.DecodeString(parts[1]); err != nil || !strings.Contains(string(body), `"aud":["`+api+`"]`) {
		t.Errorf("audiences are no list in %s: %v", body, err)
	}
	id := keys.all[0].KeyID
	es := jose.SigningKey{Algorithm: jose.ES256, Key: signer}
	der, err := x509.MarshalPKIXPublicKey(signer.Public())
	if err != nil {
		t.Fatal(err)
	}
	public := jwt.Claims{Issuer: api, Subject: "x", Audience: jwt.Audience{api}, Expiry: jwt.NewNumericDate(now.Add(time.Hour))}
	ref := func(name, uid string) *Reference { return &Reference{name, uid} }
	const account = "system:serviceaccount:ns:sa u1 system:serviceaccounts,system:serviceaccounts:ns,system:authenticated"
	for name, row := range map[string]struct {
		token string
		asked []string
		want  string // user, audiences, extra; "" for somebody else's token; or what the error has to say
	}{
		"good":               {good, nil, account + " " + api},
		"for another":        {issue(sa, []string{"other", "x"}, time.Hour), []string{"other"}, account + " other"},
		"no kid":             {sign(t, es, nil, public, private{sa}), nil, account + " " + api},
		"older issuer":       {sign(t, es, nil, jwt.Claims{Issuer: "old", Audience: jwt.Audience{api}}, private{sa}), nil, account + " " + api},
		"no audience":        {sign(t, es, nil, jwt.Claims{Issuer: api}, private{sa}), nil, account + " " + api + ",other"},
		"secret":             {issue(with(func(c *Claims) { c.Secret = ref("s", "u2") }), []string{api}, time.Hour), nil, account + " " + api},
		"pod":                {issue(with(func(c *Claims) { c.Pod, c.Node = ref("p", "u3"), ref("nowhere", "") }), []string{api}, time.Hour), nil, account + " " + api + " authentication.kubernetes.io/node-name=nowhere authentication.kubernetes.io/pod-name=p authentication.kubernetes.io/pod-uid=u3"},
		"node":               {issue(with(func(c *Claims) { c.Node = ref("n", "u4") }), []string{api}, time.Hour), nil, account + " " + api + " authentication.kubernetes.io/node-name=n authentication.kubernetes.io/node-uid=u4"},
		"account on its way": {issue(with(func(c *Claims) { c.ServiceAccount.Name = "going" }), []string{api}, time.Hour), nil, strings.Replace(account, ":sa", ":going", 1) + " " + api},

		"another issuer's":    {sign(t, es, nil, jwt.Claims{Issuer: "https://else"}, private{sa}), nil, ""},
		"issuer, other case":  {sign(t, es, nil, jwt.Claims{Issuer: strings.ToUpper(api)}, private{sa}), nil, ""},
		"no token":            {"x", nil, ""},
		"four parts":          {good + ".x", nil, ""},
		"JSON":                {`{"payload":"x"}`, nil, ""},
		"huge":                {good + strings.Repeat("x", authn.MaxToken), nil, ""},
		"alg none":            {b64([]byte(`{"alg":"none"}`)) + "." + parts[1] + ".", nil, "invalid bearer token"},
		"alg none, signature": {b64([]byte(`{"alg":"none"}`)) + "." + parts[1] + "." + parts[2], nil, "invalid bearer token"},
		"alg None":            {b64([]byte(`{"alg":"None"}`)) + "." + parts[1] + ".", nil, "invalid bearer token"},
		"shared secret":       {sign(t, jose.SigningKey{Algorithm: jose.HS256, Key: der}, map[string]any{"kid": id}, public, private{sa}), nil, "invalid bearer token"},

		"no signature":       {parts[0] + "." + parts[1] + ".", nil, "error in cryptographic primitive"},
		"another's claims":   {parts[0] + "." + b64([]byte(`{"iss":"`+api+`","sub":"x"}`)) + "." + parts[2], nil, "error in cryptographic primitive"},
		"another key":        {sign(t, jose.SigningKey{Algorithm: jose.ES256, Key: foreign}, map[string]any{"kid": id}, public, private{sa}), nil, "error in cryptographic primitive"},
		"another key, no id": {sign(t, jose.SigningKey{Algorithm: jose.ES256, Key: foreign}, nil, public, private{sa}), nil, "error in cryptographic primitive"},
		"unknown key id":     {sign(t, es, map[string]any{"kid": "x"}, public, private{sa}), nil, "invalid signature, no keys found"},
		"wrong audience":     {issue(sa, []string{"x"}, time.Hour), nil, `token audiences ["x"] is invalid for the target audiences ["https://api.example" "other"]`},
		"not asked audience": {good, []string{"other"}, `token audiences ["https://api.example"] is invalid for the target audiences ["other"]`},
		"expired":            {issue(sa, []string{api}, -time.Hour), nil, "service account token has expired"},
		"not yet": {sign(t, es, nil, jwt.Claims{Issuer: api, Audience: jwt.Audience{api}, NotBefore: jwt.NewNumericDate(now.Add(time.Hour))}, private{sa}), nil,
			"service account token is not valid yet"},
		"from the future": {sign(t, es, nil, jwt.Claims{Issuer: api, Audience: jwt.Audience{api}, IssuedAt: jwt.NewNumericDate(now.Add(time.Hour))}, private{sa}), nil,
			"service account token is issued in the future"},
		"no account":        {issue(with(func(c *Claims) { c.ServiceAccount.Name = "x" }), []string{api}, time.Hour), nil, `serviceaccounts "x" not found`},
		"account, made new": {issue(with(func(c *Claims) { c.ServiceAccount.UID = "u9" }), []string{api}, time.Hour), nil, "service account UID (u1) does not match claim (u9)"},
		"account, deleted":  {issue(with(func(c *Claims) { c.ServiceAccount.Name = "gone" }), []string{api}, time.Hour), nil, "service account ns/gone has been deleted"},
		"secret, deleted":   {issue(with(func(c *Claims) { c.Secret = ref("x", "u2") }), []string{api}, time.Hour), nil, "service account token has been invalidated"},
		"secret, made new":  {issue(with(func(c *Claims) { c.Secret = ref("s", "x") }), []string{api}, time.Hour), nil, "secret UID (u2) does not match service account secret ref claim (x)"},
		"pod, made new":     {issue(with(func(c *Claims) { c.Pod = ref("p", "x") }), []string{api}, time.Hour), nil, "pod UID (u3) does not match service account pod ref claim (x)"},
		"node, deleted":     {issue(with(func(c *Claims) { c.Node = ref("x", "x") }), []string{api}, time.Hour), nil, "service account token has been invalidated"},
		"no claims":         {sign(t, es, nil, public), nil, `serviceaccounts "" not found`},
	} {
		r, err := a.AuthenticateToken(t.Context(), row.token, row.asked)
		if err != nil {
			if row.want == "" || !strings.Contains(err.Error(), row.want) {
				t.Errorf("%s: got %v, want %q", name, err, row.want)
			}
			continue
		}
		got := ""
		if r != nil {
			got = r.User.Name + " " + r.User.UID + " " + strings.Join(r.User.Groups, ",") + " " + strings.Join(r.Audiences, ",")
			var extra []string
			for k, v := range r.User.Extra {
				if k != authn.CredentialID {
					extra = append(extra, " "+k+"="+strings.Join(v, ","))
				} else if !strings.HasPrefix(v[0], "JTI=") {
					t.Errorf("%s: credential id %q", name, v)
				}
			}
			slices.Sort(extra)
			got += strings.Join(extra, "")
		}
		if got != row.want {
			t.Errorf("%s: got %q, want %q", name, got, row.want)
		}
	}
	// For the audit log.
	for text, key := range map[string]string{
		sign(t, es, nil, jwt.Claims{Issuer: api, Subject: "x"}, private{sa}):                                               "authentication.k8s.io/legacy-token",
		issue(with(func(c *Claims) { c.WarnAfter = jwt.NewNumericDate(now.Add(-time.Minute)) }), []string{api}, time.Hour): "authentication.k8s.io/stale-token",
	} {
		if r, err := a.AuthenticateToken(t.Context(), text, nil); err != nil || len(r.Annotations) != 1 || r.Annotations[key] == "" {
			t.Errorf("%s: got %v, %v", key, r, err)
		}
	}
}

func TestKeysAndDiscovery(t *testing.T) {
	older, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	keys, signer := newKeys(t, older.Public())
	i, err := NewIssuer(api, keys, "https://host"+KeysPath)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"id_token_signing_alg_values_supported":["ES256","RS256"],"issuer":"https://api.example","jwks_uri":"https://host/openid/v1/jwks","response_types_supported":["id_token"],"subject_types_supported":["public"]}`
	if got := string(i.Configuration()); got != want {
		t.Errorf("configuration: got %s, want %s", got, want)
	}
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(i.KeySet(), &set); err != nil || len(set.Keys) != 2 || !set.Keys[0].IsPublic() || !set.Keys[1].IsPublic() || strings.Contains(string(i.KeySet()), `"d"`) {
		t.Errorf("keys: got %s, %v", i.KeySet(), err)
	}
	for _, name := range []string{"me", "http://x", "https://x?y", "https://x#y"} {
		if i, err := NewIssuer(name, keys, ""); err != nil || i.Configuration() != nil || i.KeySet() != nil {
			t.Errorf("%s: publishes itself (%v)", name, err)
		}
	}
	// Files hold keys as others make them.
	dir := t.TempDir()
	path := filepath.Join(dir, "key.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(older)})
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := ReadSigner(path); err != nil || !older.PublicKey.Equal(s.Public()) {
		t.Errorf("signer: got %v, %v", s, err)
	}
	if p, err := ReadPublic(path); err != nil || len(p) != 1 || !older.PublicKey.Equal(p[0]) {
		t.Errorf("public: got %v, %v", p, err)
	}
	if _, err := ReadSigner(path + "x"); err == nil || !errors.Is(err, os.ErrNotExist) && !strings.Contains(err.Error(), "no such file") {
		t.Errorf("no file: got %v", err)
	}
	only, err := NewKeys(nil, signer.Public())
	if err != nil {
		t.Fatal(err)
	}
	if i, err := NewIssuer(api, only, ""); err != nil {
		t.Error(err)
	} else if _, _, err := i.Sign(t.Context(), Claims{}, nil, time.Now(), time.Now()); err == nil {
		t.Error("signs without a key")
	}
}

func FuzzAuthenticateToken(f *testing.F) {
	keys, _ := newKeys(f)
	issuer, err := NewIssuer(api, keys, "")
	if err != nil {
		f.Fatal(err)
	}
	good, _, err := issuer.Sign(context.Background(), Claims{Namespace: "ns", ServiceAccount: Reference{"sa", "u1"}}, []string{api}, time.Now(), time.Now().Add(time.Hour))
	if err != nil {
		f.Fatal(err)
	}
	a := NewToken(Config{Issuers: []string{api}, Keys: keys, Audiences: []string{api}, Objects: objects{"serviceaccounts/ns/sa": {UID: "u1"}}.get})
	f.Add(good)
	f.Add("eyJhbGciOiJub25lIn0.eyJpc3MiOiJodHRwczovL2FwaS5leGFtcGxlIn0.")
	f.Fuzz(func(t *testing.T, token string) {
		if r, err := a.AuthenticateToken(t.Context(), token, nil); err == nil && r != nil && (r.User.Name != "system:serviceaccount:ns:sa" || r.User.UID != "u1") {
			// The same token can be spelled in other ways; another one cannot be made.
			t.Errorf("%q: got in as %v", token, r.User)
		}
	})
}
