package kubehook

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/keelson-io/keelson/internal/reloads"
	"github.com/keelson-io/keelson/internal/testcerts"
)

// TestFollow replaces the authority that a kubeconfig names, and then the kubeconfig.
// Ledger: kubeconfig-reload.
func TestFollow(t *testing.T) {
	hook := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }))
	hook.Config.ErrorLog = log.New(io.Discard, "", 0)
	hook.StartTLS()
	t.Cleanup(hook.Close)
	dir := t.TempDir()
	kubeconfig, ca := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "ca.crt")
	put := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write := func(server string) {
		put(kubeconfig, fmt.Sprintf("{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: {server: %q, certificate-authority: ca.crt}}], users: [{name: u, user: {}}]}", server))
	}
	write(hook.URL)
	other := testcerts.Sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: "other"}, IsCA: true, BasicConstraintsValid: true}, nil)
	right, wrong := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw})), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other.Certificate[0]}))
	put(ca, wrong)
	if got := Files(kubeconfig); !slices.Equal(got, []string{kubeconfig, ca}) {
		t.Fatalf("files: got %v", got)
	}
	config, err := Config(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(config, wait.Backoff{Steps: 1}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	files := reloads.NewFiles(prometheus.NewRegistry(), slog.New(slog.DiscardHandler), 0)
	if err := c.Follow(files, "hook", kubeconfig); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		what   string
		change func()
		works  bool
	}{
		{"another authority", func() {}, false},
		{"the authority", func() { put(ca, right) }, true},
		{"a broken authority", func() { put(ca, "x") }, true},
		{"a missing kubeconfig", func() { put(ca, right); os.Remove(kubeconfig) }, true},
		{"another server", func() { write("https://127.0.0.1:1") }, false},
		{"the server", func() { write(hook.URL) }, true},
		{"another authority again", func() { put(ca, wrong) }, false},
	} {
		row.change()
		files.Check()
		if err := c.Post(context.Background(), map[string]string{}, nil, Call{Once: true}); (err == nil) != row.works {
			t.Errorf("%s: got %v", row.what, err)
		}
	}
}
