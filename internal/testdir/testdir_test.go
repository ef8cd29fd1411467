package testdir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRun checks the exit code with and without a file that is left behind.
func TestRun(t *testing.T) {
	before := os.Getenv("TMPDIR")
	var programs string
	for _, left := range []bool{false, true} {
		code := Run(func(dir string) int {
			programs = dir
			if !strings.HasPrefix(dir, Root()) {
				t.Errorf("folder %s, want one below %s", dir, Root())
			}
			f, err := os.CreateTemp("", "")
			if err != nil {
				t.Fatal(err)
			}
			if !left {
				os.Remove(f.Name())
			}
			f.Close()
			return 0
		})
		if (code == 1) != left {
			t.Errorf("left %v: exit code %d", left, code)
		}
		if _, err := os.Stat(filepath.Dir(programs)); !os.IsNotExist(err) {
			t.Errorf("the folder is still there: %v", err)
		}
	}
	if os.Getenv("TMPDIR") != before {
		t.Errorf("TMPDIR is %q, was %q", os.Getenv("TMPDIR"), before)
	}
	if code := Run(func(string) int { return 2 }); code != 2 {
		t.Errorf("exit code %d, want 2", code)
	}
}

// TestRoot holds that a binary of go test is recognized; this test runs in one.
func TestRoot(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(exe, "go-build") && Root() != filepath.Dir(exe) {
		t.Errorf("got %s for %s", Root(), exe)
	}
}
