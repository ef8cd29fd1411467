package signer

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/keelson-io/keelson/internal/objects"
	"github.com/keelson-io/keelson/internal/testapi"
)

// This file runs the controller over the API with a store in memory.

const requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests"

// newAuthority returns an authority that is valid for some time from now.
func newAuthority(t *testing.T, life time.Duration) (*x509.Certificate, crypto.Signer) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: time.Now(), NotAfter: time.Now().Add(life),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// body returns a request of jane in the group devs.
func body(t *testing.T, name, signer, more string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "jane", Organization: []string{"devs"}}}, key)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"signerName":%q,"request":%q%s}}`, name, signer, base64.StdEncoding.EncodeToString(text), more)
}

const approval = `{"status":{"conditions":[{"type":"Approved","status":"True","reason":"Test"}]}}`

func TestController(t *testing.T) {
	const client, usage = "kubernetes.io/kube-apiserver-client", `,"usages":["client auth","digital signature"]`
	for _, c := range []struct {
		name, signer, more string
		approve            bool
		authority          time.Duration
		life               time.Duration // of the certificate; 0: there is none
		failed             string        // message of the condition Failed
	}{
		{"approved", client, usage, true, 10 * longest, longest - backdate, ""},
		{"not approved", client, usage, false, 10 * longest, 0, ""},
		{"another signer", "example.com/signer", usage, true, 10 * longest, 0, ""},
		{"a short life", client, usage + `,"expirationSeconds":3600`, true, 10 * longest, time.Hour, ""},
		{"too short a life", client, usage + `,"expirationSeconds":600`, true, 10 * longest, least, ""},
		{"longer than allowed", client, usage + `,"expirationSeconds":2000000000`, true, 10 * longest, longest - backdate, ""},
		{"longer than the authority", client, usage, true, 24 * time.Hour, 24 * time.Hour, ""},
		{"a server's usage", client, `,"usages":["client auth","server auth"]`, true, 10 * longest, 0, "invalid usage for client certificate: server auth"},
		{"no client's usage", client, `,"usages":["digital signature"]`, true, 10 * longest, 0, "missing required usage for client certificate: client auth"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := testapi.New(t)
				ca, key := newAuthority(t, c.authority)
				start := time.Now()
				controller := &Controller{Kinds: a.Kinds, Cache: a.Cache, Store: a.Store, API: a.As(objects.ControllerManager), Logger: a.Logger,
					Authority: func() (*x509.Certificate, crypto.Signer) { return ca, key }}
				a.Run(controller.Run)
				a.Must("POST", requests, body(t, "r", c.signer, c.more))
				if c.approve {
					a.Must("PATCH", requests+"/r/approval", approval)
				}
				synctest.Wait()
				time.Sleep(time.Second)
				synctest.Wait()
				var r certificatesv1.CertificateSigningRequest
				if err := json.Unmarshal([]byte(a.Must("GET", requests+"/r", "")), &r); err != nil {
					t.Fatal(err)
				}
				failed := ""
				for _, condition := range r.Status.Conditions {
					if condition.Type == certificatesv1.CertificateFailed {
						failed = condition.Message
					}
				}
				if failed != c.failed {
					t.Errorf("failed: got %q, want %q", failed, c.failed)
				}
				if (len(r.Status.Certificate) > 0) != (c.life > 0) {
					t.Fatalf("got certificate %q, want one: %t", r.Status.Certificate, c.life > 0)
				}
				if c.life == 0 {
					return
				}
				block, _ := pem.Decode(r.Status.Certificate)
				cert, err := x509.ParseCertificate(block.Bytes)
				if err != nil {
					t.Fatal(err)
				}
				roots := x509.NewCertPool()
				roots.AddCert(ca)
				if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: start.Add(time.Minute), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
					t.Error(err)
				}
				if cert.IsCA || cert.Subject.CommonName != "jane" || cert.Subject.Organization[0] != "devs" || cert.KeyUsage != x509.KeyUsageDigitalSignature {
					t.Errorf("got %+v", cert.Subject)
				}
				if off := cert.NotAfter.Sub(start.Add(c.life)); off.Abs() > 2*time.Second {
					t.Errorf("ends %v from when it should", off)
				}
			})
		})
	}
}
