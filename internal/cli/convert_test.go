package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/testcerts"
)

// addressWriter sends the address in the output of "convert --serve".
type addressWriter struct {
	text  bytes.Buffer
	found chan string
}

// Write looks for the address.
func (w *addressWriter) Write(b []byte) (int, error) {
	w.text.Write(b)
	if m := regexp.MustCompile(`https://\S+/convert`).Find(w.text.Bytes()); m != nil && w.found != nil {
		w.found <- string(m)
		w.found = nil
	}
	return len(b), nil
}

// scriptFile returns a file of testdata/convert.txtar.
func scriptFile(t *testing.T, name string) string {
	t.Helper()
	script, err := os.ReadFile("testdata/convert.txtar")
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(script), "-- "+name+" --\n")
	if !ok {
		t.Fatalf("testdata/convert.txtar has no %s", name)
	}
	text, _, _ = strings.Cut(text, "\n-- ")
	return text + "\n"
}

// TestConvertServe holds that "convert --serve" answers reviews over TLS, and ends with its context.
func TestConvertServe(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	pair := testcerts.Sign(t, &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}, nil)
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	notes := &addressWriter{found: make(chan string, 1)}
	found, done := notes.found, make(chan int, 1)
	go func() {
		done <- run(ctx, []string{"convert", "-f", write("crd.yaml", []byte(scriptFile(t, "crd.yaml"))), "-f", write("c.yaml", []byte(scriptFile(t, "conversion.yaml"))), "--serve", "--secure-port", "0",
			"--tls-cert-file", write("tls.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})),
			"--tls-private-key-file", write("tls.key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))}, nil, io.Discard, notes)
	}()
	var url string
	select {
	case url = <-found:
	case code := <-done:
		t.Fatalf("exit code %d: %s", code, notes.text.String())
	}
	pool := x509.NewCertPool()
	pool.AddCert(pair.Leaf)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
	answer, err := client.Post(url, "application/json", strings.NewReader(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":"example.com/v1",
		"objects":[{"apiVersion":"example.com/v1beta1","kind":"App","metadata":{"name":"a"},"spec":{"replicaCount":3}}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil || !strings.Contains(string(text), `"spec":{"replicas":3}`) {
		t.Errorf("got %s, %v, want the converted object", text, err)
	}
	answer.Body.Close()
	stop()
	if code := <-done; code != 0 {
		t.Errorf("exit code %d: %s", code, notes.text.String())
	}
}

// TestExampleOfTheConversionPage holds that docs/conversion.md shows the files and outputs of the
// script convert.txtar.
func TestExampleOfTheConversionPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/conversion.md")
	if err != nil {
		t.Fatal(err)
	}
	lost, _, _ := strings.Cut(scriptFile(t, "lost.txt"), "\n\n")
	for _, want := range []string{
		"cat > conversion.yaml <<'END'\n" + scriptFile(t, "conversion.yaml") + "END\n",
		"$ keelson convert -f crd.yaml -f mistakes.yaml --to v1 web.yaml\n" + scriptFile(t, "mistakes.txt") + "```",
		"$ keelson convert -f crd.yaml -f first.yaml --check\n" + lost + "\n",
		"$ keelson convert -f crd.yaml -f conversion.yaml --to v1 web.yaml\n" + scriptFile(t, "v1.yaml") + "```",
		"cat > web.yaml <<'END'\n" + scriptFile(t, "web.yaml") + "END\n",
		"cat > crd.yaml <<'END'\n" + scriptFile(t, "crd.yaml") + "END\n",
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("docs/conversion.md does not show\n%s", want)
		}
	}
}
