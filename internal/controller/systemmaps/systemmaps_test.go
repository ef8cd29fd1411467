package systemmaps

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"strings"
	"testing"
	"time"
)

// authority returns a certificate in PEM that is valid until a time.
func authority(t *testing.T, until time.Time) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: until.Add(-time.Hour), NotAfter: until}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// TestJoin holds what a server makes of the settings that others have published.
func TestJoin(t *testing.T) {
	now := time.Now()
	a, b, expired := authority(t, now.Add(time.Hour)), authority(t, now.Add(time.Hour)), authority(t, now.Add(-time.Minute))
	var many []string
	for i := range limit + 1 {
		many = append(many, fmt.Sprintf("%q", fmt.Sprint(i)))
	}
	clients := Settings{ClientCA: a}
	proxies := Settings{ClientCA: a, ProxyCA: b, UserHeaders: []string{"X-Remote-User"}, GroupHeaders: []string{"X-Remote-Group"}, ExtraPrefixes: []string{"X-Remote-Extra-"}, Names: []string{"p"}}
	whole := map[string]string{clientCA: a, proxyCA: b, userHeaders: `["X-Remote-User"]`, groupHeaders: `["X-Remote-Group"]`, extraPrefixes: `["X-Remote-Extra-"]`, allowedNames: `["p"]`}
	with := func(key, value string) map[string]string {
		m := maps.Clone(whole)
		m[key] = value
		return m
	}
	for _, c := range []struct {
		name       string
		own        Settings
		have, want map[string]string
	}{
		{"the first server", clients, nil, map[string]string{clientCA: a}},
		{"a server with proxies", proxies, nil, whole},
		{"nothing changes", proxies, whole, whole},
		{"another key goes", proxies, with("other", "x"), whole},
		{"another server's authorities stay first", clients, map[string]string{clientCA: b}, map[string]string{clientCA: b + a}},
		{"expired and malformed ones go", clients, map[string]string{clientCA: expired + "nothing\n" + b}, map[string]string{clientCA: b + a}},
		{"another server's proxies stay", clients, whole, whole},
		{"names are joined", proxies, with(allowedNames, `["q"]`), with(allowedNames, `["q","p"]`)},
		{"a malformed list is replaced", proxies, with(allowedNames, `{"q"`), whole},
		{"a list that is too long is replaced", proxies, with(allowedNames, "["+strings.Join(many, ",")+"]"), whole},
		{"headers of the user's id", Settings{ClientCA: a, ProxyCA: b, UIDHeaders: []string{"X-Remote-Uid"}}, whole, with(uidHeaders, `["X-Remote-Uid"]`)},
	} {
		if got := c.own.join(c.have, now); !maps.Equal(got, c.want) {
			t.Errorf("%s:\ngot  %v\nwant %v", c.name, got, c.want)
		}
	}
}
