//go:build unix

package manifest

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestReadWithin names files outside of a folder in every way, and finds none of them.
func TestReadWithin(t *testing.T) {
	dir := t.TempDir()
	repo := filepath.Join(dir, "repo")
	for _, folder := range []string{"repo/sub/deep", "repo/.git", "outside/deep"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"repo/a.yaml", "repo/sub/b.yaml", "repo/.git/config.yaml", "outside/secret.yaml"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("kind: "+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"link": "../outside/deep", "inner": "sub", "whole": repo + "/sub/b.yaml", "file.yaml": "../outside/secret.yaml", "git": ".git"} {
		if err := os.Symlink(to, filepath.Join(repo, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(repo, "fifo.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(repo, "sub"))
	for _, row := range []struct{ path, want string }{
		{"../a.yaml", "repo/a.yaml"},
		{"b.yaml", "repo/sub/b.yaml"},
		{"../inner/b.yaml", "repo/sub/b.yaml"},
		{"../whole", "repo/sub/b.yaml"},
		{repo + "/a.yaml", "repo/a.yaml"},
		{repo + "/*.yaml", "!leads out of the repository"}, // file.yaml
		{"../{a,b}.yaml", "repo/a.yaml"},
		{"../inner/*.yaml", "repo/sub/b.yaml"},
		{"..", "!leads out of the repository"},
		{"deep", "!no .yaml, .yml or .json file below it"},

		{"../../outside/secret.yaml", "!leads out of the repository"},
		{"../link", "!leads out of the repository"},
		{"../file.yaml", "!leads out of the repository"},
		{"../git/config.yaml", "!is part of git's data"},
		{"../fifo.yaml", "!not a regular file"},
		// The path without its links is another file than the one behind them.
		{"../link/../secret.yaml", "!../secret.yaml: no such file"},
		{repo + "/link/../secret.yaml", "!no such file"},
		{"../{link,x}/..{/secret.yaml,x}", "!no file matches"},
		{"../l*/../secret.yaml", "!no such file"},
		{"../l*/*.yaml", "!no file matches"},
		{"../{x,..}/{x,outside}/*.yaml", "!no file matches"},
	} {
		in, err := Options{Within: repo}.Read([]string{row.path}, nil)
		if want, fails := strings.CutPrefix(row.want, "!"); fails {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", row.path, err, want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", row.path, err)
			continue
		}
		var got []string
		for _, d := range in.Documents {
			got = append(got, strings.TrimPrefix(string(d.JSON), `{"kind":"`))
		}
		if !slices.Equal(got, []string{row.want + `"}`}) {
			t.Errorf("%s: got %q, want %q", row.path, got, row.want)
		}
	}
	// Names are as the user wrote them.
	in, err := Options{Within: repo, Exclude: []string{"file.yaml", "fifo.yaml"}}.Read([]string{"../"}, nil)
	if err != nil || len(in.Documents) != 2 || in.Documents[0].File != "../a.yaml" || in.Documents[1].File != "../sub/b.yaml" {
		t.Errorf("got %v, %v", in, err)
	}
}

// TestSilentFile holds that a read ends of a file that waits for events, as /proc/kmsg does.
func TestSilentFile(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if n, err := (&answering{r, time.Nanosecond}).Read(make([]byte, 1)); n != 0 || err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("got %d bytes, %v", n, err)
	}
	file := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(file, []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n, err := (&answering{f, time.Nanosecond}).Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("a file on a disk: got %d bytes, %v", n, err)
	}
	if _, err := ReadWithin(t.TempDir(), "/proc/kmsg"); !errors.Is(err, ErrOutside) {
		t.Errorf("got %v", err)
	}
}
