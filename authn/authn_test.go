package authn

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
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
	ann, refused := &User{Name: "ann"}, errors.New("refused")
	knows := Func(func(*http.Request) (*User, error) { return ann, nil })
	silent := Func(func(*http.Request) (*User, error) { return nil, nil })
	refuses := Func(func(*http.Request) (*User, error) { return nil, refused })
	for name, row := range map[string]struct {
		chain []Authenticator
		user  *User
		err   error
	}{
		"nobody asked":         {nil, nil, nil},
		"nobody knows":         {[]Authenticator{silent, silent}, nil, nil},
		"the second knows":     {[]Authenticator{silent, knows}, ann, nil},
		"refused, then known":  {[]Authenticator{refuses, knows}, ann, nil},
		"known, then refused":  {[]Authenticator{knows, refuses}, ann, nil},
		"refused, then silent": {[]Authenticator{refuses, silent}, nil, refused},
	} {
		user, err := Chain(row.chain...).Authenticate(request(""))
		if user != row.user || err != row.err {
			t.Errorf("%s: got %v, %v, want %v, %v", name, user, err, row.user, row.err)
		}
	}
}

func TestStandardKnowsWhoIsAnonymous(t *testing.T) {
	a := Standard(tokens{})
	user, err := a.Authenticate(request(""))
	if err != nil || user.Name != AnonymousUser || !user.InGroup(Unauthenticated) || user.InGroup(Authenticated) {
		t.Errorf("without a credential: got %v, %v", user, err)
	}
	for _, header := range []string{"Bearer x", "bearer x", "Bearer", "Bearer  ", "Basic eDp5", "x", "Bearer x y"} {
		if user, err := a.Authenticate(request(header)); err == nil || user != nil {
			t.Errorf("%q: got %v, want an error", header, user)
		}
	}
}

func TestTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.csv")
	text := "secret,ann,u1,\"dev,ops\"\n# no comment,bob,u2\nanon,eve,u3,system:unauthenticated\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := TokenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for header, want := range map[string]string{
		"Bearer secret":   "ann u1 dev,ops,system:authenticated",
		"bearer secret":   "ann u1 dev,ops,system:authenticated",
		"Bearer anon":     "eve u3 system:unauthenticated",
		"Bearer secret ":  "ann u1 dev,ops,system:authenticated",
		"Bearer secre":    "",
		"Bearer secrets":  "",
		"Bearer SECRET":   "",
		"Bearer ann":      "",
		"Bearer secret,x": "",
	} {
		user, err := a.Authenticate(request(header))
		got := ""
		if user != nil {
			got = user.Name + " " + user.UID + " " + strings.Join(user.Groups, ",")
		}
		if got != want || (want == "") != (err != nil) {
			t.Errorf("%q: got %q, %v, want %q", header, got, err, want)
		}
	}
}

func TestTokenFilesThatAreWrong(t *testing.T) {
	for text, want := range map[string]string{
		"a,b\n":               "line 1: got 2 columns, want at least 3",
		"a,b,c\na,d,e\n":      "line 2: token is listed twice",
		",b,c\n":              "line 1: token is empty",
		"a,,c\n":              "line 1: user name is empty",
		"a,b,c,\"x\n":         "line 1",
		"a,b,c\nx,y,z\nq,r\n": "line 3: got 2 columns",
	} {
		if _, err := readTokens(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", text, err, want)
		}
	}
}

func FuzzReadTokens(f *testing.F) {
	f.Add("secret,ann,u1,\"dev,ops\"\n")
	f.Add("a,b\n")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := readTokens(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, u := range list {
			if u.Name == "" || !u.InGroup(Authenticated) && !u.InGroup(Unauthenticated) {
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

func TestClientCerts(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	pool := ours.pool()
	a := ClientCerts(func() *x509.CertPool { return pool })
	with := func(certs ...*x509.Certificate) *http.Request {
		return &http.Request{Header: http.Header{}, TLS: &tls.ConnectionState{PeerCertificates: certs}}
	}
	good := ours.issue(t, nil)
	for name, row := range map[string]struct {
		r  *http.Request
		ok bool
	}{
		"good":                  {with(good), true},
		"good again":            {with(good), true},
		"another authority's":   {with(theirs.issue(t, nil)), false},
		"another's, ours along": {with(theirs.issue(t, nil), ours.cert), false},
		"expired":               {with(ours.issue(t, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })), false},
		"not yet":               {with(ours.issue(t, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) })), false},
		"for servers": {with(ours.issue(t, func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		})), false},
		"nameless": {with(ours.issue(t, func(c *x509.Certificate) { c.Subject = pkix.Name{Organization: []string{Masters}} })), false},
	} {
		user, err := a.Authenticate(row.r)
		if row.ok && (err != nil || user == nil || user.Name != "ann" || !slices.Equal(user.Groups, []string{"dev", Authenticated})) {
			t.Errorf("%s: got %v, %v", name, user, err)
		}
		if !row.ok && (err == nil || user != nil) {
			t.Errorf("%s: got %v, want an error", name, user)
		}
	}
	if user, err := a.Authenticate(with()); user != nil || err != nil {
		t.Errorf("no certificate: got %v, %v", user, err)
	}
	// What was good under an authority is not after the authority is gone.
	pool = theirs.pool()
	if user, err := a.Authenticate(with(good)); err == nil {
		t.Errorf("after the authority was replaced: got %v", user)
	}
}
