package crdsource

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRepositoryOfAStranger reads from a partial clone whose configuration names a command that fetches missing objects. The command
// does not run.
func TestRepositoryOfAStranger(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	dir := t.TempDir()
	t.Chdir(dir)
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("git", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	run("init", "-q", ".")
	if err := os.WriteFile("a.yaml", []byte("kind: A\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run("add", "a.yaml")
	run("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "a")
	if docs, err := readGit(t.Context(), "git:HEAD:a.yaml"); err != nil || len(docs) != 1 {
		t.Fatalf("got %d documents, %v", len(docs), err)
	}
	id := run("rev-parse", "HEAD:a.yaml")
	if err := os.Remove(filepath.Join(".git", "objects", id[:2], id[2:])); err != nil {
		t.Fatal(err)
	}
	ran := filepath.Join(dir, "ran")
	for _, setting := range []string{"core.repositoryformatversion=1", "extensions.partialclone=origin", "remote.origin.promisor=true",
		"remote.origin.url=" + dir, "remote.origin.uploadpack=touch " + ran + ";false"} {
		name, value, _ := strings.Cut(setting, "=")
		run("config", name, value)
	}
	if _, err := readGit(t.Context(), "git:HEAD:a.yaml"); err == nil {
		t.Error("a missing object is read")
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("the command of the repository ran")
	}
	// The same object with an ordinary git, so that the test knows what it guards against.
	exec.Command("git", "cat-file", "-p", id).Run()
	if _, err := os.Stat(ran); err != nil {
		t.Log("this git fetches nothing by itself")
	}
}
