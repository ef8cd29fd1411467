package authn

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"log/slog"
	"maps"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// This file tries to get in.

func request(header string) *http.Request {
	r := &http.Request{Header: http.Header{}}
	if header != "" {
		r.Header.Set("Authorization", header)
	}
	return r
}

func TestChain(t *testing.T) {
	ann, refused, again := &Response{User: &User{Name: "ann"}}, errors.New("refused"), errors.New("again")
	knows := Func(func(*http.Request, []string) (*Response, error) { return ann, nil })
	silent := Func(func(*http.Request, []string) (*Response, error) { return nil, nil })
	refuses := Func(func(*http.Request, []string) (*Response, error) { return nil, refused })
	repeats := Func(func(*http.Request, []string) (*Response, error) { return nil, again })
	for name, row := range map[string]struct {
		chain []Authenticator
		want  *Response
		err   string
	}{
		"nobody asked":         {nil, nil, ""},
		"nobody knows":         {[]Authenticator{silent, silent}, nil, ""},
		"the second knows":     {[]Authenticator{silent, knows}, ann, ""},
		"refused, then known":  {[]Authenticator{refuses, knows}, ann, ""},
		"known, then refused":  {[]Authenticator{knows, refuses}, ann, ""},
		"refused, then silent": {[]Authenticator{refuses, silent}, nil, "refused"},
		"refused twice":        {[]Authenticator{refuses, repeats, refuses}, nil, "[refused, again]"},
		"refused alike":        {[]Authenticator{refuses, refuses}, nil, "refused"},
	} {
		got, err := Chain(row.chain...).Authenticate(request(""), nil)
		if got != row.want || errText(err) != row.err {
			t.Errorf("%s: got %v, %v, want %v, %v", name, got, err, row.want, row.err)
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// named is whom a request is from, in short; "" for nobody.
func named(r *Response) string {
	if r == nil {
		return ""
	}
	return r.User.Name + " " + r.User.UID + " " + strings.Join(r.User.Groups, ",")
}

func TestStandardKnowsWhoIsAnonymous(t *testing.T) {
	a := Standard(Anybody, Bearer(tokenFile{}))
	r := request("")
	r.URL = &url.URL{Path: "/apis"}
	got, err := a.Authenticate(r, nil)
	if named(got) != AnonymousUser+"  "+Unauthenticated || err != nil {
		t.Errorf("without a credential: got %v, %v", got, err)
	}
	for _, header := range []string{"Bearer x", "bearer x", "Bearer", "Bearer  ", "Bearer  x", "Basic eDp5", "x", "Bearer x y"} {
		if got, err := a.Authenticate(request(header), nil); err == nil || got != nil {
			t.Errorf("%q: got %v, want an error", header, got)
		}
	}
}

func TestAnonymousByPath(t *testing.T) {
	for name, row := range map[string]struct {
		anonymous Anonymous
		path      string
		in        bool
	}{
		"nowhere":        {Anonymous{}, "/healthz", false},
		"everywhere":     {Anybody, "/x", true},
		"the path":       {Anonymous{Enabled: true, Paths: []string{"/livez", "/healthz"}}, "/healthz", true},
		"another":        {Anonymous{Enabled: true, Paths: []string{"/healthz"}}, "/x", false},
		"below":          {Anonymous{Enabled: true, Paths: []string{"/healthz"}}, "/healthz/etcd", false},
		"trailing slash": {Anonymous{Enabled: true, Paths: []string{"/healthz"}}, "/healthz/", false},
		"two slashes":    {Anonymous{Enabled: true, Paths: []string{"/healthz"}}, "//healthz", false},
		"upper case":     {Anonymous{Enabled: true, Paths: []string{"/healthz"}}, "/HEALTHZ", false},
		"paths, not on":  {Anonymous{Paths: []string{"/healthz"}}, "/healthz", false},
	} {
		r := request("")
		r.URL = &url.URL{Path: row.path}
		got, err := Standard(row.anonymous).Authenticate(r, nil)
		if (got != nil) != row.in || (err == nil) != row.in {
			t.Errorf("%s: got %v, %v", name, named(got), err)
		}
	}
}

var quiet = slog.New(slog.DiscardHandler)

// Ledger: bearer-spaces.
func TestTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.csv")
	text := "secret,ann,u1,\"dev,ops\"\n# no comment,bob,u2\nanon,eve,u3,system:unauthenticated\n,nobody,u4\ntwice,first,1\ntwice,second,2\nno,system:anonymous,\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := TokenFile(path, quiet)
	if err != nil {
		t.Fatal(err)
	}
	a := Bearer(tokens)
	for header, want := range map[string]string{
		"Bearer secret":   "ann u1 dev,ops,system:authenticated",
		"bearer secret":   "ann u1 dev,ops,system:authenticated",
		"BEARER secret":   "ann u1 dev,ops,system:authenticated",
		"Bearer anon":     "eve u3 system:unauthenticated",
		"Bearer no":       "system:anonymous  ",
		"Bearer twice":    "second 2 system:authenticated",
		"Bearer secret ":  "ann u1 dev,ops,system:authenticated",
		"Bearer secret x": "ann u1 dev,ops,system:authenticated",
		"Bearer secre":    "",
		"Bearer secrets":  "",
		"Bearer SECRET":   "",
		"Bearer ann":      "",
		"Bearer secret,x": "",
		"Bearer  secret":  "",
		"Bearer\tsecret":  "",
	} {
		got, err := a.Authenticate(request(header), nil)
		if named(got) != want || want != "" && err != nil {
			t.Errorf("%q: got %q, %v, want %q", header, named(got), err, want)
		}
	}
}

// Ledger: nameless-tokens.
func TestTokenFilesThatAreWrong(t *testing.T) {
	for text, want := range map[string]string{
		"a,b\n":               "token file 'f' must have at least 3 columns (token, user name, user uid), found 2",
		"a,,c\n":              "token file 'f': record 1 has no user name",
		"a,b,c,\"x\n":         "token file 'f': parse error on line 1",
		"a,b,c\nx,y,z\nq,r\n": "must have at least 3 columns (token, user name, user uid), found 2",
	} {
		if _, err := readTokens(strings.NewReader(text), "f", quiet); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", text, err, want)
		}
	}
}

func FuzzReadTokens(f *testing.F) {
	f.Add("secret,ann,u1,\"dev,ops\"\n")
	f.Add("a,b\n")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := readTokens(strings.NewReader(text), "f", quiet)
		if err != nil {
			return
		}
		for _, r := range list {
			if u := r.User; u.Name == "" || u.Name != AnonymousUser && !u.InGroup(Authenticated) && !u.InGroup(Unauthenticated) {
				t.Errorf("user without a name or group: %+v", u)
			}
		}
	})
}

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key}
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

func (a *authority) issue(t *testing.T, change func(*x509.Certificate)) *x509.Certificate {
	template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "ann", Organization: []string{"dev"}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// Ledger: nameless-certificates.
func TestClientCerts(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	pool := ours.pool()
	a := ClientCerts(func() *x509.CertPool { return pool }, NewMetrics(prometheus.NewRegistry()))
	uid := func(values ...string) func(*x509.Certificate) {
		return func(c *x509.Certificate) {
			for _, v := range values {
				c.Subject.ExtraNames = append(c.Subject.ExtraNames, pkix.AttributeTypeAndValue{Type: uidOID, Value: v})
			}
		}
	}
	good := ours.issue(t, nil)
	const verifying = "verifying certificate SN=2, SKID=, AKID="
	for name, row := range map[string]struct {
		r    *http.Request
		want string
		err  string
	}{
		"good":                  {with(good), "ann  dev,system:authenticated", ""},
		"good again":            {with(good), "ann  dev,system:authenticated", ""},
		"with a UID":            {with(ours.issue(t, uid("7"))), "ann 7 dev,system:authenticated", ""},
		"two UIDs":              {with(ours.issue(t, uid("7", "8"))), "", "expected 1 UID, but found multiple: [7 8]"},
		"an empty UID":          {with(ours.issue(t, uid(""))), "", "UID cannot be an empty string"},
		"another authority's":   {with(theirs.issue(t, nil)), "", "failed: x509: certificate signed by unknown authority"},
		"another's, ours along": {with(theirs.issue(t, nil), ours.cert), "", verifying},
		"expired": {with(ours.issue(t, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })), "",
			"failed: x509: certificate has expired or is not yet valid"},
		"not yet": {with(ours.issue(t, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) })), "", "is not yet valid"},
		"for servers": {with(ours.issue(t, func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		})), "", "incompatible key usage"},
		"nameless": {with(ours.issue(t, func(c *x509.Certificate) { c.Subject = pkix.Name{Organization: []string{Masters}} })), "", "has no common name"},
	} {
		got, err := a.Authenticate(row.r, nil)
		if named(got) != row.want || (err == nil) != (row.err == "") || !strings.Contains(errText(err), row.err) {
			t.Errorf("%s: got %q, %v, want %q, %q", name, named(got), err, row.want, row.err)
		}
	}
	sum := sha256.Sum256(good.Raw)
	if got, err := a.Authenticate(with(good), nil); err != nil || !slices.Equal(got.User.Extra[CredentialID], []string{"X509SHA256=" + hex.EncodeToString(sum[:])}) {
		t.Errorf("credential id: got %v, %v", got, err)
	}
	if got, err := a.Authenticate(with(), nil); got != nil || err != nil {
		t.Errorf("no certificate: got %v, %v", got, err)
	}
	// What was good under an authority is not after the authority is gone.
	pool = theirs.pool()
	if got, err := a.Authenticate(with(good), nil); err == nil {
		t.Errorf("after the authority was replaced: got %v", got)
	}
	pool = nil
	if got, err := a.Authenticate(with(good), nil); err == nil {
		t.Errorf("without any authority: got %v", got)
	}
}

// with returns a request on a connection with client certificates.
func with(certs ...*x509.Certificate) *http.Request {
	return &http.Request{Header: http.Header{}, TLS: &tls.ConnectionState{PeerCertificates: certs}}
}

// Header smuggling: only the proxy itself can say who a request is from.
func TestProxy(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	name := func(cn string) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.Subject.CommonName = cn }
	}
	front, other, forged := ours.issue(t, name("front")), ours.issue(t, name("other")), theirs.issue(t, name("front"))
	a, err := NewProxy(Proxy{Pool: func() *x509.CertPool { return ours.pool() }, AllowedNames: []string{"front"},
		UserHeaders: []string{"X-Remote-User", " X-Other-User "}, UIDHeaders: []string{"X-Remote-Uid"}, GroupHeaders: []string{"x-remote-group"},
		ExtraPrefixes: []string{"X-Remote-Extra-"}})
	if err != nil {
		t.Fatal(err)
	}
	for what, row := range map[string]struct {
		cert    *x509.Certificate
		headers http.Header
		want    string
		err     string
	}{
		"the proxy":      {front, http.Header{"X-Remote-User": {"ann"}, "X-Remote-Uid": {"7"}, "X-Remote-Group": {"dev", "", "ops"}}, "ann 7 dev,ops,system:authenticated", ""},
		"second header":  {front, http.Header{"X-Other-User": {"ann"}}, "ann  system:authenticated", ""},
		"first header":   {front, http.Header{"X-Other-User": {"ann"}, "X-Remote-User": {"bob", "eve"}}, "bob  system:authenticated", ""},
		"no name":        {front, http.Header{"X-Remote-Group": {Masters}}, "", ""},
		"empty name":     {front, http.Header{"X-Remote-User": {""}, "X-Remote-Group": {Masters}}, "", ""},
		"anonymous":      {front, http.Header{"X-Remote-User": {AnonymousUser}}, "system:anonymous  ", ""},
		"wrong name":     {other, http.Header{"X-Remote-User": {"ann"}}, "", "x509: subject with cn=other is not in the allowed list"},
		"forged":         {forged, http.Header{"X-Remote-User": {"ann"}}, "", "x509: certificate signed by unknown authority"},
		"no certificate": {nil, http.Header{"X-Remote-User": {"ann"}}, "", ""},
	} {
		r := with()
		if row.cert != nil {
			r = with(row.cert)
		}
		r.Header = row.headers
		got, err := a.Authenticate(r, nil)
		if named(got) != row.want || errText(err) != row.err && !strings.HasPrefix(errText(err), row.err+" (") {
			t.Errorf("%s: got %q, %v, want %q, %q", what, named(got), err, row.want, row.err)
		}
	}
	r := with(front)
	r.Header = http.Header{"X-Remote-User": {"ann"}, "X-Remote-Extra-Acme.com%2fProject": {"a", "b"}, "x-remote-extra-ODD%zz": {"c"}}
	got, err := a.Authenticate(r, nil)
	want := map[string][]string{"acme.com/project": {"a", "b"}, "odd%zz": {"c"}}
	if err != nil || !maps.EqualFunc(got.User.Extra, want, slices.Equal[[]string]) {
		t.Errorf("extra: got %v, %v, want %v", got, err, want)
	}
	if _, err := NewProxy(Proxy{UserHeaders: []string{" "}}); errText(err) != `empty header " "` {
		t.Errorf("empty header: got %v", err)
	}
}

func TestWebSocket(t *testing.T) {
	tokens, err := readTokens(strings.NewReader("secret,ann,u1\n"), "f", quiet)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(token string) string { return protocolPrefix + base64.RawURLEncoding.EncodeToString([]byte(token)) }
	for what, row := range map[string]struct {
		upgrade   string
		protocols []string
		want, err string
	}{
		"token":            {"websocket", []string{encode("secret"), "v4.channel.k8s.io"}, "ann u1 system:authenticated", ""},
		"in one header":    {"WebSocket", []string{"v4.channel.k8s.io , " + encode("secret")}, "ann u1 system:authenticated", ""},
		"wrong":            {"websocket", []string{encode("secre"), "x"}, "", "invalid bearer token"},
		"alone":            {"websocket", []string{encode("secret")}, "", "missing additional subprotocol"},
		"two":              {"websocket", []string{encode("secret"), encode("secret"), "x"}, "", "multiple base64.bearer.authorization tokens specified"},
		"no base64":        {"websocket", []string{protocolPrefix + "=", "x"}, "", "invalid base64.bearer.authorization token encoding"},
		"no UTF-8":         {"websocket", []string{encode("\xff"), "x"}, "", "invalid base64.bearer.authorization token"},
		"none":             {"websocket", []string{"x"}, "", ""},
		"no web socket":    {"", []string{encode("secret"), "x"}, "", ""},
		"another protocol": {"h2c", []string{encode("secret"), "x"}, "", ""},
	} {
		r := request("")
		r.Header.Set("Connection", "keep-alive, Upgrade")
		r.Header.Set("Upgrade", row.upgrade)
		r.Header["Sec-Websocket-Protocol"] = row.protocols
		got, err := WebSocket(tokens).Authenticate(r, nil)
		if named(got) != row.want || errText(err) != row.err {
			t.Errorf("%s: got %q, %v, want %q, %q", what, named(got), err, row.want, row.err)
		}
	}
}

func FuzzHeaders(f *testing.F) {
	f.Add("Bearer x", "base64url.bearer.authorization.k8s.io.eA, y", "a%2f")
	f.Fuzz(func(t *testing.T, authorization, protocols, key string) {
		r := request(authorization)
		r.URL = &url.URL{Path: "/"}
		r.Header["Sec-Websocket-Protocol"] = []string{protocols}
		r.Header.Set("Connection", "upgrade")
		r.Header.Set("Upgrade", "websocket")
		nobody := TokenFunc(func(_ context.Context, token string, _ []string) (*Response, error) {
			if token == "" {
				t.Errorf("asked about an empty token")
			}
			return nil, nil
		})
		got, err := Standard(Anybody, Bearer(nobody), WebSocket(nobody)).Authenticate(r, nil)
		if (err == nil) == (got == nil) || got != nil && authorization != "" {
			t.Errorf("%q, %q: got %v, %v", authorization, protocols, named(got), err)
		}
		if k := ExtraKey(key); k == "" && key != "" {
			t.Errorf("key %q vanished", key)
		}
	})
}

func TestCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		c := Cache(TokenFunc(func(_ context.Context, token string, audiences []string) (*Response, error) {
			asked++
			switch token {
			case "slow":
				time.Sleep(time.Second)
			case "panic":
				panic("odd")
			case "wrong":
				return nil, errors.New("wrong")
			case "unknown":
				return nil, nil
			}
			return &Response{User: &User{Name: token + strings.Join(audiences, "")}}, nil
		}), CacheOptions{Success: 10 * time.Second, Errors: true, Metrics: NewMetrics(prometheus.NewRegistry())})
		step := func(token string, audiences []string, want string, times int) {
			t.Helper()
			before := asked
			got, err := c.AuthenticateToken(t.Context(), token, audiences)
			if text := named(got) + errText(err); text != want || asked-before != times {
				t.Errorf("%s: got %q asking %d times, want %q and %d", token, text, asked-before, want, times)
			}
		}
		step("ann", nil, "ann  ", 1)
		step("ann", nil, "ann  ", 0)
		step("ann", []string{"a"}, "anna  ", 1)
		step("ann", []string{"b"}, "annb  ", 1)
		step("ann", []string{"a"}, "anna  ", 0)
		step("wrong", nil, "wrong", 1)
		step("wrong", nil, "wrong", 1)
		step("unknown", nil, "", 1)
		step("unknown", nil, "", 1)
		step("panic", nil, "authentication failed unexpectedly: odd", 1)
		time.Sleep(11 * time.Second)
		step("ann", nil, "ann  ", 1)
		// Many at once are one question; who gives up does not take the answer away from the others.
		before := asked
		gone, leave := context.WithCancel(t.Context())
		go c.AuthenticateToken(gone, "slow", nil)
		synctest.Wait()
		leave()
		for range 5 {
			go func() {
				if got, err := c.AuthenticateToken(t.Context(), "slow", nil); named(got) != "slow  " || err != nil {
					t.Errorf("slow: got %v, %v", named(got), err)
				}
			}()
		}
		time.Sleep(2 * time.Second)
		if asked-before != 1 {
			t.Errorf("slow: asked %d times, want once", asked-before)
		}
	})
}

func TestAudiencesOfTokensThatKnowNone(t *testing.T) {
	ann := TokenFunc(func(context.Context, string, []string) (*Response, error) {
		return &Response{User: &User{Name: "ann"}}, nil
	})
	a := ForAnyAudience(ann, []string{"api", "other"})
	for _, row := range []struct {
		asked []string
		want  string
	}{{nil, ""}, {[]string{"api"}, "api"}, {[]string{"x", "other", "api"}, "api,other"}, {[]string{"x"}, "nobody"}} {
		got, err := a.AuthenticateToken(t.Context(), "t", row.asked)
		text := "nobody"
		if got != nil {
			text = strings.Join(got.Audiences, ",")
		}
		if err != nil || text != row.want {
			t.Errorf("%v: got %q, %v, want %q", row.asked, text, err, row.want)
		}
	}
}

func BenchmarkCacheHit(b *testing.B) {
	c := Cache(TokenFunc(func(context.Context, string, []string) (*Response, error) {
		return &Response{User: &User{Name: "ann"}}, nil
	}),
		CacheOptions{Success: time.Hour})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.AuthenticateToken(b.Context(), "token", nil); err != nil {
			b.Fatal(err)
		}
	}
}
