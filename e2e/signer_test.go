package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestKubeconfigOfAUser gives a user a kubeconfig. The server knows the user and the groups, and they have no permissions until a
// binding gives them some. kubectl approves a request as the command does.
func TestKubeconfigOfAUser(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	admin := newKubectl(t, s)
	file := filepath.Join(t.TempDir(), "jane")
	out, err := exec.Command(keelsonBin, "kubeconfig", "--data-dir", s.dir, "--user", "jane", "--group", "devs", "--group", "ops", "--expires", "1h").Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, out, 0o600); err != nil {
		t.Fatal(err)
	}
	jane := newKubectl(t, s)
	jane.env = append(jane.env, "KUBECONFIG="+file)
	jane.ok(t, args("auth whoami"), "jane", "devs", "ops", "system:authenticated")
	jane.fails(t, "", args("get configmaps"), `User "jane" cannot list`)
	admin.ok(t, args("create clusterrolebinding devs --clusterrole=view --group=devs"))
	jane.ok(t, args("get configmaps"))
	// The record of what was signed has no key in it.
	admin.ok(t, args("get csr"), "kubernetes.io/kube-apiserver-client", "Approved,Issued")
	if out, err := exec.Command(keelsonBin, "kubeconfig", "--data-dir", s.dir, "--group", "devs").CombinedOutput(); err == nil {
		t.Errorf("without a user: got %s", out)
	}
}
