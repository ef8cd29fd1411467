package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// This file replaces certificates and authorities under a running server.

// certificate returns the authority's certificate in PEM.
func (a *authority) certificate() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}))
}

// serving issues a certificate for 127.0.0.1 with a name, and returns it and its key in PEM.
func (a *authority) serving(name string) (cert, key string) {
	a.t.Helper()
	pair := a.issue(func(c *x509.Certificate) {
		c.Subject.CommonName, c.IPAddresses, c.ExtKeyUsage = name, []net.IP{net.IPv4(127, 0, 0, 1)}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	})
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		a.t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// shows returns the name in the server's certificate.
func (s *server) shows(t *testing.T) string {
	t.Helper()
	d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} // the certificate is looked at, not trusted
	conn, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url(""), "https://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName
}

func TestCertificatesAreReadAgain(t *testing.T) {
	old, next, tlsCA := newAuthority(t, "old"), newAuthority(t, "new"), newAuthority(t, "tls")
	clients, proxies := putFile(t, "clients.crt", old.certificate()), putFile(t, "proxies.crt", old.certificate())
	firstCert, firstKey := tlsCA.serving("first")
	certFile, keyFile := putFile(t, "s.crt", firstCert), putFile(t, "s.key", firstKey)
	s := startServer(t, "--client-ca-file", clients, "--requestheader-client-ca-file", proxies, "--requestheader-allowed-names", "front",
		"--requestheader-username-headers", "X-Remote-User", "--tls-cert-file", certFile, "--tls-private-key-file", keyFile)
	admin := func(c *x509.Certificate) { c.Subject.Organization = []string{"system:masters"} }
	front := func(c *x509.Certificate) { c.Subject.CommonName = "front" }
	oldClient := newVisitor(t, s, old.issue(admin))
	if got := oldClient.who(t); !strings.HasPrefix(got, "ann ") {
		t.Fatalf("before: got %s", got)
	}
	watching := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{*old.issue(admin)}}}}
	defer watching.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), "GET", s.url("/api/v1/configmaps?watch=1"), nil)
	if err != nil {
		t.Fatal(err)
	}
	watch, err := watching.Do(req)
	if err != nil || watch.StatusCode != 200 {
		t.Fatalf("watch: got %v, %v", watch, err)
	}
	defer watch.Body.Close()
	ended := make(chan struct{})
	go func() { defer close(ended); _, _ = io.Copy(io.Discard, watch.Body) }()

	// A broken file changes nothing.
	overwrite(t, clients, "no certificate\n")
	eventually(t, "the failure in the log", func() bool {
		return strings.Contains(s.log.String(), `flag=client-ca-file error="`+clients+`: no certificate in it"`)
	})
	if got := oldClient.who(t); !strings.HasPrefix(got, "ann ") {
		t.Errorf("with a broken file: got %s", got)
	}
	if n := s.metric(t, `keelson_file_reloads_total{flag="client-ca-file",status="failure"}`); n != "1" {
		t.Errorf("failures: got %q, want 1", n)
	}

	overwrite(t, clients, next.certificate())
	overwrite(t, proxies, next.certificate())
	nextClient, nextFront := newVisitor(t, s, next.issue(admin)), newVisitor(t, s, next.issue(front))
	eventually(t, "the new authority of clients", func() bool { return strings.HasPrefix(nextClient.who(t), "ann ") })
	eventually(t, "the new authority of proxies", func() bool { return strings.HasPrefix(nextFront.who(t, "X-Remote-User", "jane"), "jane ") })
	if got := newVisitor(t, s, old.issue(admin)).who(t); got != "401" {
		t.Errorf("a client of the old authority: got %s", got)
	}
	if got := newVisitor(t, s, old.issue(front)).who(t, "X-Remote-User", "jane"); got != "401" {
		t.Errorf("a proxy of the old authority: got %s", got)
	}
	eventually(t, "the end of a watch of the old authority's client", func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	})

	// The key comes after the certificate.
	secondCert, secondKey := tlsCA.serving("second")
	overwrite(t, certFile, secondCert)
	if got := s.shows(t); got != "first" {
		t.Errorf("a certificate without its key: got %s", got)
	}
	overwrite(t, keyFile, secondKey)
	eventually(t, "the new serving certificate", func() bool { return s.shows(t) == "second" })
	text, err := os.ReadFile(s.kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.Load(text)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(config.Clusters["keelson"].CertificateAuthorityData), secondCert) {
		t.Error("the kubeconfig of the administrator does not trust the new serving certificate")
	}
}

// TestAuthoritiesOfTheIssuerAreReadAgain changes the file of --oidc-ca-file.
func TestAuthoritiesOfTheIssuerAreReadAgain(t *testing.T) {
	i, other := newIssuer(t), newAuthority(t, "other")
	ca := putFile(t, "ca.crt", other.certificate())
	s := startServer(t, "--oidc-issuer-url", i.URL, "--oidc-client-id", "me", "--oidc-ca-file", ca, "--oidc-username-claim", "username", "--oidc-signing-algs", "ES256")
	v := newVisitor(t, s, nil)
	if got := v.who(t, bearer(i.sign(nil))...); got != "401" {
		t.Errorf("with another authority: got %s", got)
	}
	overwrite(t, ca, i.ca())
	eventually(t, "the issuer's keys", func() bool { return v.who(t, bearer(i.sign(nil))...) != "401" })
	overwrite(t, ca, "no certificate\n")
	eventually(t, "the failure in the log", func() bool {
		return strings.Contains(s.log.String(), `flag=oidc-ca-file error="`+ca+`: no certificate in it"`)
	})
	if got := v.who(t, bearer(i.sign(nil))...); got == "401" {
		t.Errorf("with a broken file: got %s", got)
	}
	if n := s.metric(t, `keelson_file_reloads_total{flag="oidc-ca-file",status="failure"}`); n != "1" {
		t.Errorf("failures: got %q, want 1", n)
	}
}
