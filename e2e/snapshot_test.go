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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSnapshotAndRestore loses a server's data directory, as docs/operations.md has it: what was saved while it was at work comes
// back, clients go on with the credentials that they have, and what they remember of the lost time has expired.
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
	keelson := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(keelsonBin, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("keelson %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	if out := keelson("snapshot", "save", "--kubeconfig", s.kubeconfig(), file); !strings.HasSuffix(out, " bytes, checksum verified\n") {
		t.Errorf("save says %q", out)
	}
	var lost metav1.PartialObjectMetadata
	if err := json.Unmarshal(s.do(t, 201, "POST", list, toJSON(t, gadget("lost", "blue"))), &lost); err != nil {
		t.Fatal(err)
	}
	if code := s.stop(syscall.SIGKILL); code == 0 {
		t.Error("the server was not killed")
	}
	keelson("snapshot", "restore", "--data-dir", restored, file)
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

	elsewhere := keelson("kubeconfig", "--data-dir", restored, "--server", "https://keelson.example.com")
	here := strings.Replace(string(before), fmt.Sprintf("https://127.0.0.1:%d", s.port), "https://keelson.example.com", 1)
	if elsewhere != here {
		t.Errorf("the kubeconfig for elsewhere is\n%s\nwant\n%s", elsewhere, here)
	}
	refuses(t, "is not empty", "snapshot", "restore", "--data-dir", restored, file)
	refuses(t, "no such file or directory", "snapshot", "save", "--kubeconfig", s.kubeconfig(), filepath.Join(dir, "missing", "backup.db"))
}
