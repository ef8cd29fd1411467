package e2e

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// This file sends answers of webhooks, keys and files that take much to read.

// longRequest is a request for a certificate with an RSA key of many bits.
func longRequest(t *testing.T, bits uint) []byte {
	t.Helper()
	n := new(big.Int).Lsh(big.NewInt(1), bits-1)
	key, err := asn1.Marshal(struct{ N, E *big.Int }{n.SetBit(n, 0, 1), big.NewInt(1<<31 - 1)})
	if err != nil {
		t.Fatal(err)
	}
	null := asn1.RawValue{FullBytes: []byte{5, 0}}
	type publicKey struct {
		Algorithm pkix.AlgorithmIdentifier
		Key       asn1.BitString
	}
	type body struct {
		Version    int
		Subject    pkix.RDNSequence
		Key        publicKey
		Attributes []asn1.RawValue `asn1:"tag:0,set"`
	}
	signature := make([]byte, bits/8)
	signature[len(signature)-1] = 2
	der, err := asn1.Marshal(struct {
		Body      body
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}{
		body{Key: publicKey{pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}, Parameters: null}, asn1.BitString{Bytes: key, BitLength: 8 * len(key)}}},
		pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 11}, Parameters: null},
		asn1.BitString{Bytes: signature, BitLength: 8 * len(signature)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x509.ParseCertificateRequest(der); err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// TestLongKeys: a signature by a key of 18,000,000 bits, which fits into a request, takes hours to check.
// Ledger: rsa-keys.
func TestLongKeys(t *testing.T) {
	s := startServer(t)
	body := fmt.Sprintf(`{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":{"name":"long"},`+
		`"spec":{"signerName":"example.org/x","usages":["client auth"],"request":%q}}`, base64.StdEncoding.EncodeToString(longRequest(t, 320_000)))
	b := s.do(t, 422, "POST", "/apis/certificates.k8s.io/v1/certificatesigningrequests", []byte(body))
	if want := "x509: key: got a number of 320000 bits, want at most 16384"; !strings.Contains(string(b), want) {
		t.Errorf("got %s, want %q in it", tail(string(b), 300), want)
	}
}

// TestHostileAnswers lets a webhook answer with more than it may.
// Ledger: webhook-answers.
func TestHostileAnswers(t *testing.T) {
	s := startServer(t)
	s.do(t, 201, "POST", definitionsPath, toJSON(t, gadgetCRD))
	hooks := newHookServer(t, "127.0.0.1:0")
	hooks.on("w", patches("["+strings.Repeat(`{"op":"test","path":"/spec/none"},`, 10_000)+`{"op":"test","path":"/spec/none"}]`))
	hook := hooks.hook("w", forRules("CREATE", "demo.example.org", "*", "gadgets"))
	s.do(t, 201, "POST", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
		[]byte(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingWebhookConfiguration","metadata":{"name":"w"},"webhooks":[`+hook+`]}`))
	const gadgets = "/apis/demo.example.org/v1/namespaces/default/gadgets?dryRun=All"
	says := func(want string) {
		t.Helper()
		var b []byte
		eventually(t, "the webhook is asked", func() bool {
			var code int
			code, b, _ = s.try("POST", gadgets, toJSON(t, gadget("one", "red")))
			return code == 500
		})
		if !strings.Contains(string(b), want) {
			t.Errorf("got %s, want %q in it", tail(string(b), 300), want)
		}
	}
	says("the patch in the webhook's response has 10001 operations, want at most 10000")
	hooks.on("w", replies(200, "a: ["+strings.Repeat("[],", 1<<20)+"]"))
	says("the answer is no JSON, and has more than 3145728 bytes")
	hooks.on("w", replies(200, "{"+strings.Repeat(" ", 64<<20)+"}"))
	says("the answer has more than 67108864 bytes")
	hooks.on("w", replies(200, `{"a":`+strings.Repeat("[", 1_000_000)))
	says("exceeded max depth")
}

// TestEndlessFile links to a file that has no end. In a folder, which others may have filled, the link is skipped. By its name, the
// file is read up to a bound.
func TestEndlessFile(t *testing.T) {
	if _, err := os.Stat("/dev/zero"); err != nil {
		t.Skip("there is no /dev/zero")
	}
	dir := t.TempDir()
	link := filepath.Join(dir, "a.yaml")
	if err := os.Symlink("/dev/zero", link); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{dir: "no CustomResourceDefinition", link: "a.yaml: got more than 134217728 bytes"} {
		out, err := exec.Command(keelsonBin, "lint", path).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("lint %s: got %v, %s, want %q in it", path, err, tail(string(out), 300), want)
		}
	}
}

// TestNoCBOR: CBOR is read and written nowhere.
func TestNoCBOR(t *testing.T) {
	s := startServer(t)
	s.do(t, 201, "POST", definitionsPath, toJSON(t, gadgetCRD))
	const gadgets = "/apis/demo.example.org/v1/namespaces/default/gadgets"
	s.do(t, 201, "POST", gadgets, toJSON(t, gadget("one", "red")))
	const maps, reviews = "/api/v1/namespaces/default/configmaps", "/apis/authorization.k8s.io/v1/subjectaccessreviews"
	s.do(t, 201, "POST", maps, []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one"}}`))
	body := []byte("\xd9\xd9\xf7\xa1\x61a\x01")
	for _, c := range [][2]string{
		{"POST", gadgets}, {"PUT", gadgets + "/one"}, {"PUT", gadgets + "/one/status"}, {"DELETE", gadgets + "/one"}, {"DELETE", gadgets},
		{"POST", maps}, {"PUT", maps + "/one"}, {"DELETE", maps + "/one"}, {"DELETE", maps}, {"POST", definitionsPath},
		{"POST", reviews}, {"POST", "/api/v1/namespaces/default/serviceaccounts/default/token"}, {"POST", "/api/v1/namespaces/default/pods/none/eviction"},
	} {
		b := s.do(t, 415, c[0], c[1], body, "Content-Type", "application/cbor")
		if !strings.Contains(string(b), "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml") {
			t.Errorf("%v: got %s", c, b)
		}
	}
	for _, path := range []string{gadgets + "/one", maps + "/one", definitionsPath + "/gadgets.demo.example.org"} {
		for _, media := range []string{"application/apply-patch+cbor", "application/cbor"} {
			s.do(t, 415, "PATCH", path+"?fieldManager=x", body, "Content-Type", media)
		}
	}
	for _, path := range []string{gadgets, gadgets + "/one", gadgets + "?watch=1", maps, maps + "/one", maps + "?watch=1", definitionsPath, "/apis", "/api/v1", "/apis/demo.example.org/v1", "/openapi/v2"} {
		s.do(t, 406, "GET", path, nil, "Accept", "application/cbor")
	}
	var list struct{ Items []json.RawMessage }
	if err := json.Unmarshal(s.do(t, 200, "GET", gadgets, nil, "Accept", "application/cbor, application/json;q=0.5"), &list); err != nil || len(list.Items) != 1 {
		t.Errorf("got %d items, %v", len(list.Items), err)
	}
}
