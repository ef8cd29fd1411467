package e2e

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// This file tries to get in with certificates, tokens of a file and tokens of service accounts, most of which are not good.

func TestClientCertificates(t *testing.T) {
	ours, theirs := newAuthority(t, "ours"), newAuthority(t, "ours")
	s := startServer(t, "--client-ca-file", ours.file)
	masters := func(c *x509.Certificate) { c.Subject.Organization = []string{"system:masters"} }
	uid := func(values ...string) func(*x509.Certificate) {
		return func(c *x509.Certificate) {
			for _, v := range values {
				c.Subject.ExtraNames = append(c.Subject.ExtraNames, pkix.AttributeTypeAndValue{Type: []int{1, 3, 6, 1, 4, 1, 57683, 2}, Value: v})
			}
		}
	}
	usage := func(u ...x509.ExtKeyUsage) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.ExtKeyUsage = u }
	}
	// A client that signs others, and sends the whole chain.
	client := ours.issue(masters)
	leaf, err := x509.ParseCertificate(client.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	signed := (&authority{t: t, cert: leaf, key: client.PrivateKey.(*ecdsa.PrivateKey)}).issue(masters)
	signed.Certificate = append(signed.Certificate, client.Certificate[0])
	appended := theirs.issue(masters)
	appended.Certificate = append(appended.Certificate, ours.issue(masters).Certificate[0], ours.cert.Raw)
	for name, row := range map[string]struct {
		shown *tls.Certificate
		want  string
	}{
		"good":                  {ours.issue(nil), "ann [dev system:authenticated]"},
		"with UID":              {ours.issue(uid("7")), "ann 7 [dev system:authenticated]"},
		"no organization":       {ours.issue(func(c *x509.Certificate) { c.Subject.Organization = nil }), "ann [system:authenticated]"},
		"none":                  {nil, "403"},
		"expired":               {ours.issue(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }), "401"},
		"not yet":               {ours.issue(func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }), "401"},
		"foreign, same names":   {theirs.issue(nil), "401"},
		"foreign administrator": {theirs.issue(masters), "401"},
		"to serve with":         {ours.issue(usage(x509.ExtKeyUsageServerAuth)), "401"},
		"to sign code":          {ours.issue(usage(x509.ExtKeyUsageCodeSigning)), "401"},
		"no name":               {ours.issue(func(c *x509.Certificate) { c.Subject.CommonName = "" }), "401"},
		"two UIDs":              {ours.issue(uid("7", "8")), "401"},
		"empty UID":             {ours.issue(uid("")), "401"},
		"unknown critical demand": {ours.issue(func(c *x509.Certificate) {
			c.ExtraExtensions = []pkix.Extension{{Id: []int{1, 2, 3, 4}, Critical: true, Value: []byte{5, 0}}}
		}), "401"},
		"anonymous by name":      {ours.issue(func(c *x509.Certificate) { c.Subject = pkix.Name{CommonName: "system:anonymous"} }), "403"},
		"signed by a client":     {signed, "401"},
		"others' chain after it": {appended, "401"},
	} {
		if got := newVisitor(t, s, row.shown).who(t); got != row.want {
			t.Errorf("%s: got %s, want %s", name, got, row.want)
		}
	}
	// With two credentials the good one counts, whichever it is.
	if got := newVisitor(t, s, ours.issue(nil)).who(t, bearer("wrong")...); got != "ann [dev system:authenticated]" {
		t.Errorf("with a wrong token: got %s", got)
	}
	if got := newVisitor(t, s, theirs.issue(nil)).who(t, bearer("wrong")...); got != "401" {
		t.Errorf("with nothing that is good: got %s", got)
	}
	if n := s.metric(t, `authentication_attempts{result="error"}`); n == "" || n == "0" {
		t.Errorf("authentication_attempts: got %q errors", n)
	}
}

func TestWithoutAnonymous(t *testing.T) {
	s := startServer(t, "--anonymous-auth=false")
	v := newVisitor(t, s, nil)
	for _, path := range []string{"/healthz", "/version", "/apis", "/api/v1/secrets", "/nothing"} {
		if code, text := v.send(t, "GET", path, ""); code != 401 || !strings.Contains(text, `"message":"Unauthorized","reason":"Unauthorized","code":401`) {
			t.Errorf("%s: got %d %s", path, code, text)
		}
	}
}

func TestAuthorizationHeaders(t *testing.T) {
	s := startServer(t, "--token-auth-file", putFile(t, "tokens.csv", "good,ann,7,\"dev,ops\"\nmore,bob,8\n"))
	v := newVisitor(t, s, nil)
	const ann = "ann 7 [dev ops system:authenticated]"
	for header, want := range map[string]string{
		"Bearer good": ann, "bearer good": ann, "BEARER good": ann, "Bearer good  ": ann, "Bearer more": "bob 8 [system:authenticated]",
		"Bearer goo": "401", "Bearer goods": "401", "Bearer GOOD": "401", "Bearer ann": "401", "Bearer": "401", "Bearer ": "401",
		"Bearer  good": "401", "Bearer\tgood": "401", "Basic Z29vZDpnb29k": "401", "Digest good": "401", "Negotiate good": "401", "good": "401",
		"Bearer \"good\"": "401", "Bearer good,more": "401", "Bearer=good": "401", "Bearer " + strings.Repeat("x", 50_000): "401",
	} {
		if got := v.who(t, "Authorization", header); got != want {
			t.Errorf("%.40q: got %s, want %s", header, got, want)
		}
	}
	for name, row := range map[string]struct {
		header []string
		want   string
	}{
		"wrong, then good":       {[]string{"Authorization", "Bearer wrong", "Authorization", "Bearer good"}, "401"},
		"good, then wrong":       {[]string{"Authorization", "Bearer good", "Authorization", "Bearer wrong"}, ann},
		"empty, then good":       {[]string{"Authorization", "", "Authorization", "Bearer good"}, "403"},
		"another header":         {[]string{"Proxy-Authorization", "Bearer good"}, "403"},
		"underscores":            {[]string{"X_Authorization", "Bearer good"}, "403"},
		"cookie":                 {[]string{"Cookie", "Authorization=Bearer good; token=good"}, "403"},
		"protocol, no WebSocket": {[]string{"Sec-Websocket-Protocol", "base64url.bearer.authorization.k8s.io." + b64("good") + ", v4.channel.k8s.io"}, "403"},
		"WebSocket":              {webSocket("base64url.bearer.authorization.k8s.io." + b64("good") + ", v4.channel.k8s.io"), ann},
		"WebSocket, wrong":       {webSocket("base64url.bearer.authorization.k8s.io." + b64("wrong") + ", v4.channel.k8s.io"), "401"},
		"WebSocket, alone":       {webSocket("base64url.bearer.authorization.k8s.io." + b64("good")), "401"},
		"WebSocket, twice":       {webSocket("base64url.bearer.authorization.k8s.io." + b64("good") + ", base64url.bearer.authorization.k8s.io." + b64("more") + ", x"), "401"},
		"WebSocket, plain":       {webSocket("base64url.bearer.authorization.k8s.io.good=, x"), "401"},
	} {
		if got := v.who(t, row.header...); got != row.want {
			t.Errorf("%s: got %s, want %s", name, got, row.want)
		}
	}
	if code, _ := v.send(t, "GET", "/api/v1/namespaces?access_token=good", ""); code != 403 {
		t.Errorf("token in the query: got %d", code)
	}
}

func b64(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

func webSocket(protocols string) []string {
	return []string{"Connection", "Upgrade", "Upgrade", "websocket", "Sec-Websocket-Protocol", protocols}
}

// signJWT signs claims, with more members of the header.
func signJWT(t *testing.T, alg jose.SignatureAlgorithm, key any, header map[jose.HeaderKey]any, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, &jose.SignerOptions{ExtraHeaders: header})
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// account is a service account and what its tokens may be bound to, with a way to make tokens that the server never would.
type account struct {
	t      *testing.T
	s      *server
	key    crypto.Signer
	issuer string
	uids   map[string]string // by resource
}

const inDefault = "/api/v1/namespaces/default/"

func (a *account) create(resource, path, body string) {
	a.t.Helper()
	var o struct{ Metadata struct{ UID string } }
	if err := json.Unmarshal(a.s.do(a.t, 201, "POST", path+resource, []byte(body)), &o); err != nil {
		a.t.Fatal(err)
	}
	a.uids[resource] = o.Metadata.UID
}

// claims are those of a good token, with some of them changed; nil takes one away.
func (a *account) claims(change map[string]any, bound map[string]any) map[string]any {
	now := time.Now().Unix()
	private := map[string]any{"namespace": "default", "serviceaccount": map[string]any{"name": "robot", "uid": a.uids["serviceaccounts"]}}
	maps.Copy(private, bound)
	all := map[string]any{"iss": a.issuer, "aud": []string{a.issuer}, "sub": "system:serviceaccount:default:robot", "iat": now, "nbf": now,
		"exp": now + 600, "jti": "1", "kubernetes.io": private}
	for k, v := range change {
		if all[k] = v; v == nil {
			delete(all, k)
		}
	}
	return all
}

func (a *account) sign(change, bound map[string]any) string {
	return signJWT(a.t, jose.ES256, a.key, nil, a.claims(change, bound))
}

func TestServiceAccountCredentials(t *testing.T) {
	key, foreign := newSigningKey(t), newSigningKey(t)
	older, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	olderFile := keyFile(t, older, true)
	const first, second = "https://first.example", "https://second.example"
	s := startServer(t, "--service-account-signing-key-file", keyFile(t, key, false), "--service-account-key-file", olderFile,
		"--service-account-issuer", first, "--service-account-issuer", second, "--service-account-max-token-expiration", "2h")
	a := &account{t: t, s: s, key: key, issuer: first, uids: map[string]string{}}
	a.create("serviceaccounts", inDefault, `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"robot"}}`)
	a.create("secrets", inDefault, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}`)
	a.create("pods", inDefault, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"serviceAccountName":"robot","containers":[{"name":"c","image":"i"}]}}`)
	a.create("nodes", "/api/v1/", `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}`)
	v := newVisitor(t, s, nil)
	robot := "system:serviceaccount:default:robot " + a.uids["serviceaccounts"] + " [system:serviceaccounts system:serviceaccounts:default system:authenticated]"
	ago, ahead := time.Now().Add(-time.Hour).Unix(), time.Now().Add(time.Hour).Unix()
	ref := func(resource, name string) map[string]any {
		return map[string]any{"name": name, "uid": a.uids[resource]}
	}
	good := a.sign(nil, nil)
	parts := strings.Split(good, ".")
	pemText, err := os.ReadFile(olderFile)
	if err != nil {
		t.Fatal(err)
	}
	public := jose.JSONWebKey{Key: foreign.Public(), Algorithm: "ES256"}
	der, err := x509.MarshalPKIXPublicKey(older.Public())
	if err != nil {
		t.Fatal(err)
	}
	named := func(k any, id string) jose.JSONWebKey { return jose.JSONWebKey{Key: k, KeyID: id} }
	for name, row := range map[string]struct{ token, want string }{
		"good":                     {good, robot},
		"signed by an older key":   {signJWT(t, jose.RS256, older, nil, a.claims(nil, nil)), robot},
		"of the second issuer":     {a.sign(map[string]any{"iss": second}, nil), robot},
		"for the second issuer":    {a.sign(map[string]any{"aud": second}, nil), robot},
		"bound to a secret":        {a.sign(nil, map[string]any{"secret": ref("secrets", "s")}), robot},
		"bound to a pod":           {a.sign(nil, map[string]any{"pod": ref("pods", "p")}), robot + " map[authentication.kubernetes.io/pod-name:[p] authentication.kubernetes.io/pod-uid:[" + a.uids["pods"] + "]]"},
		"expired":                  {a.sign(map[string]any{"exp": ago}, nil), "401"},
		"not yet":                  {a.sign(map[string]any{"nbf": ahead}, nil), "401"},
		"issued in the future":     {a.sign(map[string]any{"iat": ahead}, nil), "401"},
		"for others":               {a.sign(map[string]any{"aud": "https://elsewhere"}, nil), "401"},
		"of an unknown issuer":     {a.sign(map[string]any{"iss": "https://elsewhere"}, nil), "401"},
		"without an issuer":        {a.sign(map[string]any{"iss": nil}, nil), "401"},
		"issuer with a slash":      {a.sign(map[string]any{"iss": first + "/"}, nil), "401"},
		"issuer as a list":         {a.sign(map[string]any{"iss": []string{first}}, nil), "401"},
		"another subject":          {a.sign(map[string]any{"sub": "system:serviceaccount:kube-system:root"}, nil), robot}, // the claims count, as upstream has it
		"without private claims":   {a.sign(map[string]any{"kubernetes.io": nil}, nil), "401"},
		"another namespace":        {a.sign(nil, map[string]any{"namespace": "kube-system"}), "401"},
		"no such account":          {a.sign(nil, map[string]any{"serviceaccount": map[string]any{"name": "gone", "uid": a.uids["serviceaccounts"]}}), "401"},
		"another UID":              {a.sign(nil, map[string]any{"serviceaccount": map[string]any{"name": "robot", "uid": "x"}}), "401"},
		"without a UID":            {a.sign(nil, map[string]any{"serviceaccount": map[string]any{"name": "robot"}}), "401"},
		"a path for a name":        {a.sign(nil, map[string]any{"serviceaccount": map[string]any{"name": "../default/robot", "uid": a.uids["serviceaccounts"]}}), "401"},
		"no such secret":           {a.sign(nil, map[string]any{"secret": ref("secrets", "gone")}), "401"},
		"another secret":           {a.sign(nil, map[string]any{"secret": ref("pods", "s")}), "401"},
		"no such pod":              {a.sign(nil, map[string]any{"pod": ref("pods", "gone")}), "401"},
		"no such node":             {a.sign(nil, map[string]any{"node": ref("nodes", "gone")}), "401"},
		"another node":             {a.sign(nil, map[string]any{"node": ref("pods", "n")}), "401"},
		"foreign key":              {signJWT(t, jose.ES256, foreign, nil, a.claims(nil, nil)), "401"},
		"foreign key, our name":    {signJWT(t, jose.ES256, named(foreign, keyID(t, key)), nil, a.claims(nil, nil)), "401"},
		"named key":                {signJWT(t, jose.ES256, named(key, keyID(t, key)), nil, a.claims(nil, nil)), robot},
		"name of another key":      {signJWT(t, jose.ES256, named(key, keyID(t, older)), nil, a.claims(nil, nil)), "401"},
		"unknown name":             {signJWT(t, jose.ES256, named(key, "x"), nil, a.claims(nil, nil)), "401"},
		"a path for a key":         {signJWT(t, jose.ES256, named(foreign, "../../../../dev/null"), nil, a.claims(nil, nil)), "401"},
		"key in the header":        {signJWT(t, jose.ES256, foreign, map[jose.HeaderKey]any{"jwk": public}, a.claims(nil, nil)), "401"},
		"URL of a key":             {signJWT(t, jose.ES256, foreign, map[jose.HeaderKey]any{"jku": "https://elsewhere/keys", "x5u": "https://elsewhere/cert"}, a.claims(nil, nil)), "401"},
		"public key as a secret":   {signJWT(t, jose.HS256, pemText, nil, a.claims(nil, nil)), "401"},
		"the same, binary":         {signJWT(t, jose.HS256, der, nil, a.claims(nil, nil)), "401"},
		"algorithm none":           {b64(`{"alg":"none"}`) + "." + parts[1] + ".", "401"},
		"algorithm nOnE":           {b64(`{"alg":"nOnE"}`) + "." + parts[1] + "." + parts[2], "401"},
		"algorithm missing":        {b64(`{}`) + "." + parts[1] + "." + parts[2], "401"},
		"another algorithm":        {b64(`{"alg":"ES384"}`) + "." + parts[1] + "." + parts[2], "401"},
		"no signature":             {parts[0] + "." + parts[1] + ".", "401"},
		"zero signature":           {parts[0] + "." + parts[1] + "." + base64.RawURLEncoding.EncodeToString(make([]byte, 64)), "401"},
		"half a signature":         {good[:len(good)-40], "401"},
		"two parts":                {parts[0] + "." + parts[1], "401"},
		"four parts":               {good + "." + parts[2], "401"},
		"other claims":             {parts[0] + "." + b64(`{"iss":"`+first+`"}`) + "." + parts[2], "401"},
		"not JSON":                 {parts[0] + "." + b64(`{`) + "." + parts[2], "401"},
		"JSON serialization":       {`{"protected":"` + parts[0] + `","payload":"` + parts[1] + `","signature":"` + parts[2] + `"}`, "401"},
		"issuer twice":             {parts[0] + "." + b64(`{"iss":"x","iss":"`+first+`"}`) + "." + parts[2], "401"},
		"critical demand":          {b64(`{"alg":"ES256","crit":["x"],"x":1}`) + "." + parts[1] + "." + parts[2], "401"},
		"encoding with padding":    {parts[0] + "=." + parts[1] + "." + parts[2], "401"},
		"line break in the middle": {parts[0] + ".%0a" + parts[1] + "." + parts[2], "401"},
	} {
		if got := v.who(t, bearer(row.token)...); got != row.want {
			t.Errorf("%s: got %s, want %s", name, got, row.want)
		}
	}
	// The server itself issues nothing that lasts longer than it may.
	code, text := 0, []byte(nil)
	if code, text, err = s.try("POST", inDefault+"serviceaccounts/robot/token", []byte(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":86400}}`)); err != nil ||
		code != 201 || !strings.Contains(string(text), `"expirationSeconds":7200`) {
		t.Errorf("a long life: got %d %s %v", code, text, err)
	}
	a.end(v)
}

// end deletes everything that tokens are bound to, each of which ends a token that was never shown before.
func (a *account) end(v *visitor) {
	a.t.Helper()
	ref := func(resource, name string) map[string]any {
		return map[string]any{"name": name, "uid": a.uids[resource]}
	}
	bound := map[string]string{
		"secrets/s": a.sign(map[string]any{"jti": "s"}, map[string]any{"secret": ref("secrets", "s")}),
		"pods/p":    a.sign(map[string]any{"jti": "p"}, map[string]any{"pod": ref("pods", "p")}),
		"nodes/n":   a.sign(map[string]any{"jti": "n"}, map[string]any{"node": ref("nodes", "n")}),
	}
	for object, token := range bound {
		path := inDefault + object
		if object == "nodes/n" {
			path = "/api/v1/" + object
		}
		a.s.do(a.t, 200, "DELETE", path+"?gracePeriodSeconds=0", nil)
		if got := v.who(a.t, bearer(token)...); got != "401" {
			a.t.Errorf("after %s is gone: got %s", object, got)
		}
	}
	token := a.sign(map[string]any{"jti": "last"}, nil)
	a.s.do(a.t, 200, "DELETE", inDefault+"serviceaccounts/robot", nil)
	if got := v.who(a.t, bearer(token)...); got != "401" {
		a.t.Errorf("after the account is gone: got %s", got)
	}
	a.create("serviceaccounts", inDefault, `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"robot"}}`)
	if got := v.who(a.t, bearer(token)...); got != "401" {
		a.t.Errorf("after another account has the name: got %s", got)
	}
}

// keyID is how the server names a key: by a hash of its public half.
func keyID(t *testing.T, key crypto.Signer) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	h := crypto.SHA256.New()
	h.Write(der)
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}
