package webhook

import (
	"compress/gzip"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/keelson-io/keelson/internal/keysize"
	"github.com/keelson-io/keelson/internal/testcerts"
	"github.com/keelson-io/keelson/internal/weakcert"
)

// zeros returns a text of n bytes after a first one.
func zeros(first string, n int64) io.Reader {
	return io.MultiReader(strings.NewReader(first), io.LimitReader(spaces{}, n))
}

type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// TestAnswersEnd sends compressed answers that exceed the bounds only after decompression.
func TestAnswersEnd(t *testing.T) {
	var text io.Reader
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		defer z.Close()
		io.Copy(z, text) // the client hangs up in the middle of some
	}))
	defer s.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	c, err := New(Target{URL: s.URL, CABundle: ca}, serializer.NewCodecFactory(runtime.NewScheme()).LegacyCodec(), Shared{})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name, first string
		more        int64
		want        string
	}{
		{"JSON", " {}", MaxForeign, ""},
		{"too long", "{}", MaxResponse, "the answer has more than 67108864 bytes"},
		{"YAML", "a: b", MaxForeign - 4, ""},
		{"long YAML", "a: b", MaxForeign, "the answer is no JSON, and has more than 3145728 bytes"},
		{"long lists", "[", MaxForeign, "the answer is no JSON, and has more than 3145728 bytes"},
	} {
		text = zeros(row.first, row.more)
		_, done, err := c.Post(context.Background(), nil)
		if err == nil {
			done()
		}
		if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%s: got %v, want %q", row.name, err, row.want)
		}
	}
}

// TestLongKeysOfAuthorities holds that authorities with very long keys are refused.
// Ledger: rsa-keys.
func TestLongKeysOfAuthorities(t *testing.T) {
	n := new(big.Int).Lsh(big.NewInt(1), keysize.MaxPeerBits) // one bit too many
	key := &rsa.PublicKey{N: n.SetBit(n, 0, 1), E: 65537}
	_, signer, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Unix(1<<31, 0), IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key, signer)
	if err != nil {
		t.Fatal(err)
	}
	_, err = New(Target{URL: "https://127.0.0.1", CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil, Shared{})
	if want := "caBundle: key: got a number of 8193 bits, want at most 8192"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestCertificatesAreCounted holds that a client counts a certificate without subject alternative
// names.
func TestCertificatesAreCounted(t *testing.T) {
	authority := testcerts.Sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil)
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.TLS = &tls.Config{Certificates: []tls.Certificate{testcerts.Sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: "localhost"}}, &authority)}}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Certificate[0]})
	reg := prometheus.NewRegistry()
	shared := Shared{Certificates: weakcert.New(reg, slog.New(slog.DiscardHandler))}
	c, err := New(Target{URL: strings.Replace(s.URL, "127.0.0.1", "localhost", 1), CABundle: ca}, serializer.NewCodecFactory(runtime.NewScheme()).LegacyCodec(), shared)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Post(context.Background(), nil); err == nil || !strings.Contains(err.Error(), "use SANs instead") {
		t.Errorf("got %v", err)
	}
	const want = `# HELP apiserver_webhooks_x509_missing_san_total [BETA] Counts the number of requests to servers missing SAN extension in their serving certificate OR the number of connection failures due to the lack of x509 certificate SAN extension missing (either/or, based on the runtime environment)
# TYPE apiserver_webhooks_x509_missing_san_total counter
apiserver_webhooks_x509_missing_san_total 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "apiserver_webhooks_x509_missing_san_total"); err != nil {
		t.Error(err)
	}
}

// TestServicesAreResolved calls a webhook behind a service that moves. It must prove itself by the name of the service, wherever it is.
// Ledger: webhook-services.
func TestServicesAreResolved(t *testing.T) {
	var hosts []string
	answer := func(w http.ResponseWriter, r *http.Request) {
		hosts = append(hosts, r.Host+r.URL.Path)
		io.WriteString(w, "{}")
	}
	first, second := httptest.NewTLSServer(http.HandlerFunc(answer)), httptest.NewTLSServer(http.HandlerFunc(answer))
	defer first.Close()
	defer second.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: first.Certificate().Raw})
	var at string
	var wrong error
	shared := Shared{Resolve: func(_ context.Context, namespace, name string, port int32) (string, error) {
		if namespace != "team" || name != "hook" || port != 443 {
			t.Errorf("asked for %s/%s:%d", namespace, name, port)
		}
		return at, wrong
	}}
	c, err := New(Target{Namespace: "team", Service: "hook", Path: "/x", CABundle: ca}, serializer.NewCodecFactory(runtime.NewScheme()).LegacyCodec(), shared)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*httptest.Server{first, second} {
		at = s.Listener.Addr().String()
		// The certificate of httptest is for example.com.
		if _, _, err := c.Post(t.Context(), []byte("{}")); err == nil || !strings.HasSuffix(err.Error(), "not hook.team.svc") {
			t.Errorf("a certificate for another name: got %v", err)
		}
	}
	wrong = errors.New(`service "hook" not found`)
	if _, _, err := c.Post(t.Context(), []byte("{}")); err == nil || err.Error() != `Post "https://hook.team.svc:443/x?timeout=30s": service "hook" not found` {
		t.Errorf("got %v", err)
	}
	if len(hosts) > 0 {
		t.Errorf("servers without the name got %s", hosts)
	}
}
