package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// This file tests "go install": whether the repository is a module that others can download.

// publish writes a folder that Go can use as a module proxy, with the work tree as a version of the module.
func publish(t *testing.T, version string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "github.com/keelson-io/keelson/@v")
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "list"), []byte(version+"\n"), 0o644),
		os.WriteFile(filepath.Join(dir, version+".info"), fmt.Appendf(nil, `{"Version":%q,"Time":"2026-01-01T00:00:00Z"}`, version), 0o644),
		os.WriteFile(filepath.Join(dir, version+".mod"), mod, 0o644)); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	// The library wants a repository of its own, which a work tree beside another one is not.
	repository := t.TempDir()
	if out, err := exec.Command("git", "clone", "-q", "--no-checkout", "..", repository).CombinedOutput(); err != nil {
		t.Fatalf("git clone: %v\n%s", err, out)
	}
	// Folders with a go.mod of their own, and those that Git ignores, are not part of the module.
	if err := errors.Join(zip.CreateFromVCS(f, module.Version{Path: "github.com/keelson-io/keelson", Version: version}, repository, "HEAD", ""), f.Close()); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(dir, "/github.com/keelson-io/keelson/@v")
}

// TestModule holds that the committed tree is a valid module: names of files, sizes, and a go.mod without replacements, which go install
// refuses.
func TestModule(t *testing.T) {
	publish(t, "v1.2.3")
	out, err := exec.Command("go", "mod", "edit", "-C", "..", "-json").Output()
	if err != nil || strings.Contains(string(out), `"Replace": [`) {
		t.Errorf("go.mod (%v): got a replacement, which go install refuses", err)
	}
}

// TestGoInstall holds that "go install …/cmd/keelson@latest" works, from a proxy that is a folder.
func TestGoInstall(t *testing.T) {
	if *packages == "" {
		t.Skip("it compiles the program: make release-test")
	}
	proxy := publish(t, "v1.2.3")
	cache, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	cmd := exec.Command("go", "install", "-trimpath", program+"@latest")
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "GOBIN="+bin, "CGO_ENABLED=0", "GOFLAGS=-modcacherw", "GOMODCACHE="+t.TempDir(), "GONOSUMDB=*", "GONOSUMCHECK=1", "GOSUMDB=off",
		"GOPROXY=file://"+proxy+",file://"+filepath.Join(strings.TrimSpace(string(cache)), "cache/download"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := command(t, filepath.Join(bin, "keelson"), "--version"); !strings.HasPrefix(got, "keelson v1.2.3, ") {
		t.Errorf("got %s, want the version that was installed", got)
	}
}
