package crdsource

import (
	"context"
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
	r, err := openRepository(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if files, _ := filepath.Glob(filepath.Join(r.dir, "refs", "*")); len(files) != 1 {
		t.Errorf("got %v, want heads", files)
	}
	if err := r.close(); err != nil {
		t.Fatal(err)
	}
	refuses := func(ctx context.Context, want string) {
		t.Helper()
		if r, err := openRepository(ctx); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, %v, want %q", r, err, want)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	refuses(ended, "context canceled")
	write(".git/packed-refs", "")
	if err := os.Truncate(".git/packed-refs", maxReferenceBytes+1); err != nil {
		t.Fatal(err)
	}
	refuses(t.Context(), "packed-refs: the references up to this file have more than 67108864 bytes")
	// Many files share the bound.
	if err := os.Truncate(".git/packed-refs", maxReferenceBytes/4); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"1", "2", "3"} {
		if err := os.Link(".git/packed-refs", ".git/refs/heads/"+name); err != nil {
			t.Skip(err)
		}
	}
	refuses(t.Context(), "heads/3: the references up to this file")
	// Neither a device, nor a FIFO, nor a file elsewhere is read.
	write("secret", "text")
	for _, name := range []string{"packed-refs", "commondir", "HEAD"} {
		for target, want := range map[string]string{"/dev/zero": "escapes", filepath.Join(dir, "secret"): "escapes", "../secret": "escapes", "": "not a regular file"} {
			at := filepath.Join(".git", name)
			old, _ := os.ReadFile(at)
			err := os.RemoveAll(at)
			if target == "" {
				err = errors.Join(err, os.Mkdir(at, 0o700))
			} else {
				err = errors.Join(err, os.Symlink(target, at))
			}
			if err != nil {
				t.Fatal(err)
			}
			refuses(t.Context(), want)
			os.RemoveAll(at)
			if name == "HEAD" {
				write(at, string(old))
			}
		}
	}
}

// TestRepositoryOfSomebodyElse holds that an archive does not make the command read another repository of its reader, and that
// git's own ways to keep data elsewhere work.
func TestRepositoryOfSomebodyElse(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	dir := t.TempDir()
	t.Chdir(dir)
	git := func(args ...string) {
		t.Helper()
		args = append([]string{"-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"}, args...)
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"private", "part"} {
		write(name+"/a.yaml", "kind: A\n")
		git("init", "-q", name)
		git("-C", name, "add", ".")
		git("-C", name, "commit", "-q", "-m", "a")
	}
	git("-C", "private", "worktree", "add", "-q", filepath.Join(dir, "further"), "HEAD")
	git("-C", "private", "submodule", "--quiet", "add", filepath.Join(dir, "part"), "sub")
	write("file/.git", "gitdir: ../private/.git\n")
	write("worktree/.git", "gitdir: "+dir+"/private/.git/worktrees/further\n")
	write("submodule/.git", "gitdir: ../private/.git/modules/sub\n")
	write("data/.git/HEAD", "ref: refs/heads/main\n")
	write("data/.git/commondir", dir+"/private/.git\n")
	write("both/.git/gitdir", dir+"/both/.git\n")
	write("both/.git/commondir", dir+"/private/.git\n")
	write("link/a", "")
	if err := os.Symlink(filepath.Join(dir, "private", ".git"), "link/.git"); err != nil {
		t.Skip(err)
	}
	for _, row := range []struct {
		folder string
		reads  bool
	}{
		{"private", true}, {"further", true}, {"private/sub", true},
		{"file", false}, {"worktree", false}, {"submodule", false}, {"data", false}, {"both", false}, {"link", false},
	} {
		t.Chdir(filepath.Join(dir, row.folder))
		docs, err := readGit(t.Context(), "git:HEAD:a.yaml")
		if row.reads && (err != nil || len(docs) != 1) {
			t.Errorf("%s: got %d documents, %v", row.folder, len(docs), err)
		}
		if !row.reads && (err == nil || !strings.Contains(err.Error(), "which does not name it as a working tree of its own")) {
			t.Errorf("%s: got %d documents, %v", row.folder, len(docs), err)
		}
	}
	t.Setenv("GIT_DIR", filepath.Join(dir, "private", ".git"))
	if docs, err := readGit(t.Context(), "git:HEAD:a.yaml"); err != nil || len(docs) != 1 {
		t.Errorf("GIT_DIR: got %d documents, %v", len(docs), err)
	}
}
