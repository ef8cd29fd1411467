package builtin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/testaccess"
)

// TestAccess holds that kube-apiserver authorizes, admits and records requests as the table in docs/security.md says, which is written from
// Keelson.
func TestAccess(t *testing.T) {
	if testing.Short() {
		t.Skip("kube-apiserver takes its time to start")
	}
	page, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), testaccess.Begin)
	ours, _, ok := strings.Cut(rest, testaccess.End)
	if !ok {
		t.Fatal("there is no table in docs/security.md")
	}
	hooks, dir := testaccess.NewRecorder(t), t.TempDir()
	upstream := startUpstreamIn(t, dir, map[string][]byte{"tokens.csv": []byte(tokens + testaccess.Tokens), authorizationFile: []byte(hooks.Kubeconfig()),
		auditPolicyFile: []byte(testaccess.AuditPolicy)})
	theirs := testaccess.Table(hooks.Rows(upstream.base, upstream.Client, filepath.Join(dir, auditLogFile)))
	was, is := strings.Split(theirs, "\n"), strings.Split(ours, "\n")
	if len(was) != len(is) {
		t.Fatalf("the table has %d lines, kube-apiserver's %d", len(is), len(was))
	}
	for i := range was {
		if was[i] != is[i] {
			t.Errorf("upstream %s\nkeelson  %s", was[i], is[i])
		}
	}
}
