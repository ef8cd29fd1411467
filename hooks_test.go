// This file checks the git hook that "make hooks" installs.

package keelson

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCommitMessageHook installs the hook in a new repository, as "make hooks" does, and commits there.
func TestCommitMessageHook(t *testing.T) {
	dir := t.TempDir()
	for _, file := range []string{"Makefile", ".githooks/commit-msg"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	run := func(name string, args ...string) (string, error) {
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		for _, v := range os.Environ() {
			if !strings.HasPrefix(v, "GIT_") && !strings.HasPrefix(v, "MAKE") {
				cmd.Env = append(cmd.Env, v)
			}
		}
		cmd.Env = append(cmd.Env, "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "GIT_EDITOR=true",
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, args := range [][]string{{"git", "init", "-q"}, {"make", "-s", "hooks"}} {
		if out, err := run(args[0], args[1:]...); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	long := strings.Repeat("x", 73)
	tests := []struct {
		name, message string
		want          string // part of the refusal; empty: the commit is made
	}{
		{"a short subject", "cache: count watchers\n\nThe reason.\n", ""},
		{"72 characters", long[1:] + "\n", ""},
		{"73 characters", long + "\n", "subject: got 73 characters, want at most 72: " + long},
		{"72 characters in 144 bytes", strings.Repeat("é", 72), ""},
		{"73 characters in 146 bytes", strings.Repeat("é", 73), "got 73 characters"},
		{"a long line in the body", "cache: count watchers\n\n" + long + long, ""},
		{"a long comment", "# " + long + "\ncache: count watchers\n", ""},
		{"empty lines before a long subject", "\n\n" + long, "got 73 characters"},
		{"a first paragraph of two lines", long[:40] + "\n" + long[:40] + "\n\nThe reason.\n", "got 81 characters"},
		{"a commit to be squashed", "fixup! " + long[1:], ""},
		{"a commit to be squashed into a long one", "fixup! fixup! " + long, "got 73 characters"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "message")
			if err := os.WriteFile(file, []byte(test.message), 0o644); err != nil {
				t.Fatal(err)
			}
			out, err := run("git", "commit", "-q", "--allow-empty", "--cleanup=strip", "-F", file)
			if (err == nil) != (test.want == "") || !strings.Contains(out, test.want) {
				t.Errorf("git commit: got %v\n%s\nwant a refusal with %q, or none if that is empty", err, out, test.want)
			}
		})
	}
}
