package server

import (
	"crypto/tls"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/audit"
	"github.com/keelson-io/keelson/internal/authz/config"
	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/internal/testaccess"
)

var update = flag.Bool("update", false, "write the table of verbs and subresources into docs/security.md")

// TestAccessTable holds that the table in docs/security.md says how requests are authorized, admitted and recorded. The comparison
// conformance/builtin asks kube-apiserver the same.
func TestAccessTable(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	hooks, log := testaccess.NewRecorder(t), filepath.Join(dir, "audit.log")
	r := start(t, Config{Store: mem.New(mem.Options{}), TokenAuthFile: write("tokens.csv", testaccess.Tokens),
		Authorization:   config.Flags{Modes: []string{config.Webhook}, WebhookConfigFile: write("authz", hooks.Kubeconfig()), WebhookVersion: "v1"},
		AuditPolicyFile: write("policy", testaccess.AuditPolicy), AuditLog: audit.LogConfig{Path: log}})
	byToken := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}
	table := testaccess.Table(hooks.Rows("https://"+r.Addr(), byToken, log))
	const page = "../docs/security.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(text), testaccess.Begin)
	now, after, ok := strings.Cut(rest, testaccess.End)
	if !ok {
		t.Fatalf("%s has no %s and %s", page, testaccess.Begin, testaccess.End)
	}
	if now == table {
		return
	}
	if !*update {
		t.Errorf("the table in %s is not what the server does: run go test ./server -run TestAccessTable -update\n%s", page, table)
		return
	}
	if err := os.WriteFile(page, []byte(before+testaccess.Begin+table+testaccess.End+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
