package e2e

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// This file knocks at a server's door: with certificates of any authority, with any headers, and asks who the server takes it for.

// visitor is a client with a certificate, or none.
type visitor struct {
	s    *server
	http *http.Client
}

// newVisitor returns a client that shows the certificate, if there is one, also if the server did not ask for one of its authority.
func newVisitor(t *testing.T, s *server, shown *tls.Certificate) *visitor {
	t.Helper()
	c := &tls.Config{InsecureSkipVerify: true}
	if shown != nil {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return shown, nil }
	}
	transport := &http.Transport{TLSClientConfig: c}
	t.Cleanup(transport.CloseIdleConnections)
	return &visitor{s, &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// send sends a request; header lists names and values in turn, a name may come more than once, and is sent as it is spelled.
func (v *visitor) send(t *testing.T, method, path, body string, header ...string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, v.s.url("/"), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	plain, query, _ := strings.Cut(path, "?")
	r.URL.Opaque, r.URL.RawQuery = "//"+r.URL.Host+plain, query // so that nobody tidies the path up
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		name := header[i]
		if name == "Content-Type" {
			r.Header.Del(name)
		}
		r.Header[name] = append(r.Header[name], header[i+1])
	}
	resp, err := v.http.Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// who is whom the server takes a request for: "name uid [groups]" and the extra but for the name of the credential. A stranger is
// "401", the anonymous user, who may not ask, is "403".
func (v *visitor) who(t *testing.T, header ...string) string {
	t.Helper()
	code, text := v.send(t, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews",
		`{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`, header...)
	if code == 403 && !strings.Contains(text, `system:anonymous`) {
		return text
	}
	if code != 201 {
		return fmt.Sprint(code)
	}
	var review struct {
		Status struct {
			UserInfo struct {
				Username, UID string
				Groups        []string
				Extra         map[string][]string
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &review); err != nil {
		t.Fatal(err)
	}
	u := review.Status.UserInfo
	delete(u.Extra, "authentication.kubernetes.io/credential-id")
	out := u.Username
	if u.UID != "" {
		out += " " + u.UID
	}
	out += fmt.Sprintf(" %v", u.Groups)
	if len(u.Extra) > 0 {
		out += fmt.Sprintf(" %v", u.Extra)
	}
	return out
}

// bearer is a header with a token.
func bearer(token string) []string { return []string{"Authorization", "Bearer " + token} }

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string // its certificate, PEM
}

func newSigningKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{t: t, key: newSigningKey(t)}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.file = putFile(t, "ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	return a
}

// issue is a client's certificate of ann in the group dev, changed.
func (a *authority) issue(change func(*x509.Certificate)) *tls.Certificate {
	a.t.Helper()
	key := newSigningKey(a.t)
	template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "ann", Organization: []string{"dev"}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// putFile writes a file into a folder of its own.
func putFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// keyFile writes a private key, or the public half of it, as PEM.
func keyFile(t *testing.T, key crypto.Signer, public bool) string {
	t.Helper()
	kind, der, err := "PRIVATE KEY", []byte(nil), error(nil)
	if public {
		kind = "PUBLIC KEY"
		der, err = x509.MarshalPKIXPublicKey(key.Public())
	} else {
		der, err = x509.MarshalPKCS8PrivateKey(key)
	}
	if err != nil {
		t.Fatal(err)
	}
	return putFile(t, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
}

// metric is the value of a series as /metrics prints it, "" if there is none.
func (s *server) metric(t *testing.T, series string) string {
	t.Helper()
	for line := range bytes.Lines(s.do(t, 200, "GET", "/metrics", nil)) {
		if rest, ok := bytes.CutPrefix(line, []byte(series+" ")); ok {
			return string(bytes.TrimSpace(rest))
		}
	}
	return ""
}
