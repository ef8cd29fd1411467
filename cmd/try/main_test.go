package main

import (
	"os/exec"
	"strings"
	"testing"
	"time"
)

// This file tests the parts of the command that do not compile anything.

// TestReport holds that downloads and errors are passed on, and that names of packages become progress.
func TestReport(t *testing.T) {
	clock := time.Time{}
	now := func() time.Time {
		clock = clock.Add(2 * time.Second)
		return clock
	}
	var out strings.Builder
	report(strings.NewReader("go: downloading example.com/a v1.0.0\ninternal/a\nb\nc\nd\n# example.com/e\n./e.go:1:2: undefined: x\n"), &out, now)
	want := "go: downloading example.com/a v1.0.0\n    6 s: 3 packages compiled, the latest is c\n# example.com/e\n./e.go:1:2: undefined: x\n"
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", out.String(), want)
	}
}

// TestReportLongLine holds that a line of any length does not stop the build.
func TestReportLongLine(t *testing.T) {
	in := strings.NewReader(strings.Repeat("x", 3<<20) + "\nend\n")
	var out strings.Builder
	report(in, &out, time.Now)
	if in.Len() != 0 {
		t.Errorf("got %d bytes that nobody read, want 0", in.Len())
	}
}

// TestCompileFailure holds that a failed build is an error that names the command.
func TestCompileFailure(t *testing.T) {
	if err := compile(exec.Command("go", "build", "example.invalid/nothing")); err == nil || !strings.Contains(err.Error(), "go build example.invalid/nothing: exit status 1") {
		t.Errorf("got %v, want the exit status of the command", err)
	}
}

// TestExitCode holds that the exit code of the program is passed on.
func TestExitCode(t *testing.T) {
	if code, err := supervise(exec.Command("go", "help", "nonsense-topic")); code != 2 || err != nil {
		t.Errorf("got %d, %v, want 2", code, err)
	}
}

// TestSmall holds that the command starts quickly: it imports neither its own module nor net/http.
func TestSmall(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(out))
	for _, p := range packages {
		if p == "net/http" || p == "net" || strings.Contains(p, ".") && p != "github.com/keelson-io/keelson/cmd/try" {
			t.Errorf("imports %s, want only small packages of the standard library", p)
		}
	}
	if len(packages) > 90 {
		t.Errorf("got %d packages to compile, want at most 90", len(packages))
	}
}
