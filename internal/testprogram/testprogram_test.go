package testprogram

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestStop holds that Stop returns how a program ended, whether the signal ended it or not.
func TestStop(t *testing.T) {
	for _, row := range []struct {
		name, script string
		signal       os.Signal
		waits        bool // the program ends by itself, and only then gets the signal
		code         int
	}{
		{"killed", "read line", syscall.SIGKILL, false, -1},
		{"ended before", "exit 3", syscall.SIGTERM, true, 3},
	} {
		t.Run(row.name, func(t *testing.T) {
			cmd := exec.Command("sh", "-c", row.script)
			if _, err := cmd.StdinPipe(); err != nil { // open, so that read waits
				t.Fatal(err)
			}
			p := Start(t, cmd)
			if row.waits {
				<-p.Ended()
				if p.IsRunning() {
					t.Error("it is running after its end")
				}
			}
			if code := p.Stop(t, row.signal); code != row.code {
				t.Errorf("got %d, want %d", code, row.code)
			}
		})
	}
}

// TestBuild holds that a program that the environment names is not built, and that the output of a
// failed build is in the error.
func TestBuild(t *testing.T) {
	t.Setenv("TESTPROGRAM", "/given")
	if got, err := Build("TESTPROGRAM", "missing", "to"); got != "/given" || err != nil {
		t.Errorf("got %s, %v", got, err)
	}
	t.Setenv("TESTPROGRAM", "")
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module m\n", "main.go": "package main\n\nfunc main() { undefined() }\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Build("TESTPROGRAM", dir, filepath.Join(dir, "to")); err == nil || !strings.Contains(err.Error(), "undefined: undefined") {
		t.Errorf("got %v", err)
	}
}
