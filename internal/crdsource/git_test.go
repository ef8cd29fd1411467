package crdsource

import (
	"errors"
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

// TestRepositoryIsBounded holds that what is copied of a repository is bounded, and that devices and links to folders in it are not read.
func TestRepositoryIsBounded(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write := func(name, text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write(".git/HEAD", "ref: refs/heads/main\n")
	write(".git/refs/heads/main", strings.Repeat("1", 40)+"\n")
	if err := os.Symlink("/", ".git/refs/all"); err != nil {
		t.Skip(err)
	}
	r, err := openRepository()
	if err != nil {
		t.Fatal(err)
	}
	if files, _ := filepath.Glob(filepath.Join(r.dir, "refs", "*")); len(files) != 1 {
		t.Errorf("got %v, want heads", files)
	}
	if err := r.close(); err != nil {
		t.Fatal(err)
	}
	write(".git/packed-refs", "")
	if err := os.Truncate(".git/packed-refs", maxReferenceBytes+1); err != nil {
		t.Fatal(err)
	}
	if _, err := openRepository(); err == nil || !strings.Contains(err.Error(), "packed-refs") {
		t.Errorf("references of more than %d bytes: got %v", maxReferenceBytes, err)
	}
}
