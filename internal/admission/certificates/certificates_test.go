package certificates

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// signersOf allows the verbs of a list, "verb name", on signers.
func signersOf(allowed ...string) authz.Authorizer {
	return authz.Func(func(_ context.Context, a *authz.Attributes) authz.Result {
		for _, s := range allowed {
			if a.Group == "certificates.k8s.io" && a.Resource == "signers" && a.Verb+" "+a.Name == s {
				return authz.Result{Decision: authz.Allow}
			}
		}
		return authz.Result{}
	})
}

// request returns a PEM request for a certificate for a group, in base64.
func request(t *testing.T, group string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "u", Organization: []string{group}}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

// TestSteps holds who may approve, sign and attest, and that nobody requests a certificate for the
// group system:masters.
func TestSteps(t *testing.T) {
	const signer, other = `{"spec":{"signerName":"a.io/b"},"status":{"conditions":[]}}`, `{"spec":{"signerName":"a.io/c"},"status":{"certificate":"QQ=="}}`
	client := func(body string) string {
		return `{"spec":{"signerName":"kubernetes.io/kube-apiserver-client","request":"` + body + `"}}`
	}
	for _, row := range []struct {
		what        string
		step        func(authz.Authorizer) admission.Func
		subresource string
		old, next   string
		allowed     []string
		want        string
	}{
		{"approve without permission", Approval, "approval", signer, signer, nil, `user not permitted to approve requests with signerName "a.io/b"`},
		{"approve", Approval, "approval", signer, signer, []string{"approve a.io/b"}, ""},
		{"approve any of a domain", Approval, "approval", signer, signer, []string{"approve a.io/*"}, ""},
		{"approve as another signer", Approval, "approval", signer, other, []string{"approve a.io/c"}, `signerName "a.io/b"`},
		{"another subresource", Approval, "status", signer, signer, nil, ""},
		{"sign without permission", Signing, "status", signer, other, []string{"approve a.io/b"}, `user not permitted to sign requests with signerName "a.io/b"`},
		{"sign", Signing, "status", signer, other, []string{"sign a.io/b"}, ""},
		{"leave the certificate", Signing, "status", signer, signer, nil, ""},
		{"attest without permission", Attest, "", "", signer, nil, `user not permitted to attest for signerName "a.io/b"`},
		{"attest", Attest, "", "", signer, []string{"attest a.io/b"}, ""},
		{"attest for nobody", Attest, "", "", `{"spec":{}}`, nil, ""},
		{"add finalizers", Attest, "", `{"metadata":{},"spec":{"signerName":"a.io/b"}}`, `{"metadata":{"finalizers":["a.io/f"]},"spec":{"signerName":"a.io/b"}}`, nil, ""},
		{"masters", func(authz.Authorizer) admission.Func { return Subject() }, "", "", client(request(t, "system:masters")), nil,
			`use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed`},
		{"others", func(authz.Authorizer) admission.Func { return Subject() }, "", "", client(request(t, "team")), nil, ""},
		{"no PEM", func(authz.Authorizer) admission.Func { return Subject() }, "", "", client("QQ=="), nil, `failed to parse CSR: PEM block type must be CERTIFICATE REQUEST`},
	} {
		parse := func(text string) *jsondoc.Doc {
			d := jsondoc.Get()
			if err := jsondoc.Parse(d, []byte(text)); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			return d
		}
		r := &admission.Request{Operation: admission.Create, Subresource: row.subresource, Name: "x", User: &authn.User{Name: "u"}, New: parse(row.next),
			Version: &kind.Version{Kind: &kind.Kind{Group: "certificates.k8s.io", Plural: "certificatesigningrequests"}}}
		if row.old != "" {
			r.Operation, r.Old = admission.Update, parse(row.old)
		}
		err := row.step(signersOf(row.allowed...))(t.Context(), r)
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: got %v, want %q", row.what, err, row.want)
		}
	}
}
