// Package kubebuilder runs the tests of the projects that Kubebuilder's tutorials write, unchanged, on the keelson binary.
//
// Nothing of the projects is kept here. The module sigs.k8s.io/kubebuilder holds the program that writes its tutorials' projects:
// it asks the kubebuilder command to lay one out and puts the tutorial's own code and tests into it. That program runs here, out of
// a copy of the module with one file replaced, testdata/tutorials.go, which says where to. Then each project's own `make test` is
// run. It would download a control plane with the program that its variable ENVTEST names; here that names one that answers with
// the folder of `keelson envtest-assets`.
//
// The tests in test/e2e want a cluster with nodes and are left out by `make test` itself.
package kubebuilder

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/conformance/internal/module"
)

// kubebuilder is whose tutorials are run.
const kubebuilder = "sigs.k8s.io/kubebuilder/v4@v4.10.1"

// tutorials are the projects, with how many suites of tests each has.
var tutorials = []struct {
	name   string
	suites int
}{
	{"getting-started", 1},       // a controller
	{"cronjob-tutorial", 2},      // a controller, and webhooks
	{"multiversion-tutorial", 3}, // a controller, and webhooks of two versions, one of which converts
}

const docsFile = "../../docs/conformance.md"

func TestTutorials(t *testing.T) {
	if testing.Short() {
		t.Skip("make conformance-kubebuilder runs these")
	}
	docs, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	envtest := assets(t)
	book := write(t)
	for _, one := range tutorials {
		t.Run(one.name, func(t *testing.T) {
			cmd := exec.Command("make", "test")
			cmd.Dir = filepath.Join(book, one.name, "testdata", "project")
			// The name ends in the version, as the project's Makefile would have it.
			cmd.Env = environment("GOFLAGS="+flags(t)+" -v", "ENVTEST="+envtest, "ENVTEST_VERSION="+version, "TMPDIR="+t.TempDir())
			out, err := cmd.CombinedOutput()
			ran, passed, suites := count(string(out))
			line := fmt.Sprintf("kubebuilder %s: %d of %d specs in %d suites", one.name, passed, ran, suites)
			fmt.Println(line)
			if err != nil || suites != one.suites || ran == 0 || passed != ran {
				t.Errorf("want %d suites and all that is in them (%v):\n%s", one.suites, err, out)
			}
			if !strings.Contains(string(docs), line) {
				t.Errorf("%s does not say %q", docsFile, line)
			}
		})
	}
}

// version is what stands for that of the program which downloads control planes.
const version = "keelson"

// assets lays out the binary as a control plane, and a program that says where it is; it returns the program's path.
func assets(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	folder, program := filepath.Join(dir, "assets"), filepath.Join(dir, "setup-envtest")
	keelson, err := module.Keelson(dir)
	if err != nil {
		t.Fatal(err)
	}
	run(t, "", nil, keelson, "envtest-assets", folder)
	if err := os.WriteFile(program+"-"+version, []byte("#!/bin/sh\necho '"+folder+"'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program+"-"+version, program); err != nil {
		t.Fatal(err)
	}
	return program
}

// write lets Kubebuilder write its tutorials' projects, and returns the folder they are in.
func write(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	src, command, writer, book := filepath.Join(dir, "src"), filepath.Join(dir, "kubebuilder"), filepath.Join(dir, "write"), filepath.Join(dir, "book")
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(run(t, "", nil, "go", "mod", "download", "-json", kubebuilder), &downloaded); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(src, os.DirFS(downloaded.Dir)); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(filepath.Join("testdata", "tutorials.go"))
	if err != nil {
		t.Fatal(err)
	}
	place := filepath.Join(src, "hack", "docs", "generate_samples.go")
	if err := os.Remove(place); err != nil {
		t.Fatal(err) // the module is another one
	}
	if err := os.WriteFile(place, program, 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, src, environment(), "go", "build", "-o", command, ".")
	run(t, src, environment(), "go", "build", "-o", writer, "./hack/docs")
	run(t, dir, environment("PATH="+path(t)), writer, command, book)
	return book
}

// path is PATH without programs of Kubebuilder's projects: its writer removes those that it finds there.
func path(t *testing.T) string {
	t.Helper()
	return strings.Join(slices.DeleteFunc(filepath.SplitList(os.Getenv("PATH")), func(dir string) bool {
		return slices.ContainsFunc([]string{"controller-gen", "kustomize"}, func(name string) bool {
			_, err := os.Stat(filepath.Join(dir, name))
			return err == nil
		})
	}), string(filepath.ListSeparator))
}

// environment is this process's, without what a make around it says to those within, and with more variables.
func environment(more ...string) []string {
	ours := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS", "GOBIN", "GOWORK"}, name)
	})
	return append(ours, more...)
}

// flags are those of the go command here.
func flags(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(string(run(t, "", nil, "go", "env", "GOFLAGS")))
}

// run runs a command and returns what it printed.
func run(t *testing.T, dir string, env []string, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, env
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", cmd, err, out, errs.String())
	}
	return out
}

var (
	colours = regexp.MustCompile(`\x1b\[[0-9;]*m`)
	summary = regexp.MustCompile(`(?m)^Ran \d+ of (\d+) Specs .*\n.* -- (\d+) Passed \|`)
)

// count adds up what Ginkgo says of suites: how many specs there are, how many of them passed, and in how many suites.
func count(out string) (specs, passed, suites int) {
	for _, m := range summary.FindAllStringSubmatch(colours.ReplaceAllString(out, ""), -1) {
		n, _ := strconv.Atoi(m[1]) // digits
		p, _ := strconv.Atoi(m[2])
		specs, passed, suites = specs+n, passed+p, suites+1
	}
	return specs, passed, suites
}

// TestCount holds that failures and suites without an end count as such.
func TestCount(t *testing.T) {
	const out = "\x1b[1mRan 3 of 4 Specs in 1.5 seconds\x1b[0m\n\x1b[1mFAIL!\x1b[0m -- \x1b[1m2 Passed\x1b[0m | 1 Failed\nok\n" +
		"Ran 1 of 1 Specs in 1 seconds\nSUCCESS! -- 1 Passed | 0 Failed\nRunning Suite: Webhook Suite\n"
	if specs, passed, suites := count(out); specs != 5 || passed != 3 || suites != 2 {
		t.Errorf("got %d of %d in %d suites, want 3 of 5 in 2", passed, specs, suites)
	}
}
