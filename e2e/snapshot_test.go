package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSnapshotAndRestore loses a server's data directory, as docs/operations.md has it: what was saved while it was at work comes
// back, clients go on with the credentials that they have, and what they remember of the lost time has expired.
// Ledger: snapshot.
func TestSnapshotAndRestore(t *testing.T) {
	s := startServer(t)
	s.do(t, 201, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", toJSON(t, gadgetCRD))
	const list = "/apis/demo.example.org/v1/namespaces/default/gadgets"
	eventually(t, "gadgets served", func() bool {
		code, _, err := s.try("GET", list, nil)
		return err == nil && code == 200
	})
	s.do(t, 201, "POST", list, toJSON(t, gadget("kept", "red")))

	dir := t.TempDir()
	file, restored := filepath.Join(dir, "backup.db"), filepath.Join(dir, "restored")
	if out := keelson(t, "snapshot", "save", "--kubeconfig", s.kubeconfig(), file); !strings.HasSuffix(out, " bytes, checksum verified\n") {
		t.Errorf("save says %q", out)
	}
	var lost metav1.PartialObjectMetadata
	if err := json.Unmarshal(s.do(t, 201, "POST", list, toJSON(t, gadget("lost", "blue"))), &lost); err != nil {
		t.Fatal(err)
	}
	if code := s.stop(syscall.SIGKILL); code == 0 {
		t.Error("the server was not killed")
	}
	keelson(t, "snapshot", "restore", "--data-dir", restored, file)
	if err := os.CopyFS(filepath.Join(restored, "pki"), os.DirFS(filepath.Join(s.dir, "pki"))); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(s.kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	s.dir = restored
	s.start()
	if after, err := os.ReadFile(s.kubeconfig()); err != nil || string(after) != string(before) {
		t.Errorf("the administrator's kubeconfig is another one: %v", err)
	}
	s.do(t, 200, "GET", list+"/kept", nil)
	s.do(t, 404, "GET", list+"/lost", nil)
	if got := s.do(t, 200, "GET", fmt.Sprintf("%s?watch=true&resourceVersion=%s", list, lost.ResourceVersion), nil); !strings.Contains(string(got), `"code":410`) {
		t.Errorf("a watch from the lost time: got %s, want an event that says 410", got)
	}
	s.do(t, 201, "POST", list, toJSON(t, gadget("new", "green")))

	elsewhere := keelson(t, "kubeconfig", "--data-dir", restored, "--server", "https://keelson.example.com")
	here := strings.Replace(string(before), fmt.Sprintf("https://127.0.0.1:%d", s.port), "https://keelson.example.com", 1)
	if elsewhere != here {
		t.Errorf("the kubeconfig for elsewhere is\n%s\nwant\n%s", elsewhere, here)
	}
	refuses(t, "in use by another process", "snapshot", "restore", "--data-dir", restored, file)
	refuses(t, "no such file or directory", "snapshot", "save", "--kubeconfig", s.kubeconfig(), filepath.Join(dir, "missing", "backup.db"))
	s.stop(syscall.SIGTERM)
	refuses(t, "is not empty", "snapshot", "restore", "--data-dir", restored, file)
}

// keelson runs a command of the binary that must succeed, and returns what it says.
func keelson(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(keelsonBin, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("keelson %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestSnapshotPermission: a snapshot holds every Secret, so that a role for all paths does not allow it, however the path is written.
// Ledger: snapshot.
func TestSnapshotPermission(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, "", []string{"monitor", "backup", "root"})
	const rbac = "/apis/rbac.authorization.k8s.io/v1/"
	for _, row := range []struct{ user, rule string }{
		{"monitor", `{"nonResourceURLs":["*"],"verbs":["*"]}`},
		{"backup", `{"apiGroups":["keelson.io"],"resources":["snapshots"],"verbs":["create"]}`},
		{"root", `{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}`},
	} {
		g.do(t, 201, "POST", rbac+"clusterroles", fmt.Appendf(nil, `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":%q},"rules":[%s]}`, row.user, row.rule))
		g.do(t, 201, "POST", rbac+"clusterrolebindings", fmt.Appendf(nil, `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":%q},
			"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":%[1]q},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":%[1]q}]}`, row.user))
	}
	if r := g.as("monitor", "GET", "/metrics", ""); r.code != 200 {
		t.Fatalf("/metrics: got %d %s", r.code, r.body)
	}
	const refused = `snapshots.keelson.io is forbidden: User \"monitor\" cannot create resource \"snapshots\" in API group \"keelson.io\" at the cluster scope`
	for _, path := range []string{"/snapshot", "/snapshot/", "//snapshot", "/%2Fsnapshot", "/%73napshot", "/snapshot?x=y", "/snapshot//"} {
		if r := g.as("monitor", "GET", path, ""); r.code != 403 || !strings.Contains(r.body, refused) {
			t.Errorf("GET %s: got %d and %d bytes, want 403: %.200s", path, r.code, len(r.body), r.body)
		}
	}
	for _, user := range []string{"backup", "root"} {
		if r := g.as(user, "GET", "/snapshot", ""); r.code != 200 || len(r.body) < 1<<12 {
			t.Errorf("%s: got %d and %d bytes, want a snapshot: %.200s", user, r.code, len(r.body), r.body)
		}
	}
	// No definition makes the permission one for custom resources, which others may be given.
	crd := usurper("keelson.io", "snapshots", "Snapshot", "Cluster", "v1")
	g.do(t, 201, "POST", crdPath, jsonOf(t, crd))
	g.refused(t, crd.Name, "GroupReserved", `group "keelson.io" is reserved for built-in kinds: no custom resources are served in it`)
	g.answers(t, "with the definition", 404, "GET", "/apis/keelson.io/v1/snapshots", nil)
}

// TestKilledRestore holds that a server refuses what a killed restore left, with the command to run, and that this command then works.
func TestKilledRestore(t *testing.T) {
	file := savedSnapshot(t)
	var dir, part string
	for try := 0; ; try++ {
		if try == 50 {
			t.Fatal("no restore was killed in time")
		}
		dir = filepath.Join(t.TempDir(), "data")
		part = filepath.Join(dir, "etcd.part")
		cmd := exec.Command(keelsonBin, "snapshot", "restore", "--data-dir", dir, file)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a restore that has begun", func() bool {
			_, err := os.Stat(dir)
			return err == nil
		})
		time.Sleep(time.Duration(try) * time.Millisecond)
		cmd.Process.Kill()
		cmd.Wait()
		_, partErr := os.Stat(part)
		if _, err := os.Stat(filepath.Join(dir, "etcd")); err != nil && partErr == nil {
			break
		}
	}
	refusesAtOnce(t, dir, "a restore of a snapshot was interrupted", part, "keelson snapshot restore --data-dir "+dir+" FILE")
	if left, _ := os.ReadDir(filepath.Join(dir, "etcd", "member")); len(left) > 0 {
		t.Errorf("the server made a store: %v", left)
	}
	keelson(t, "snapshot", "restore", "--data-dir", dir, file)
	if _, err := os.Stat(part); err == nil {
		t.Errorf("%s stays", part)
	}
	s := newServer(t)
	s.dir = dir
	s.start()
	s.do(t, 200, "GET", configMapList+"/c29", nil)
}
