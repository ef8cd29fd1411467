// Package testdir keeps what tests make outside of their own folders, such as programs that they build and what these leave in the
// folder for temporary files, where it is removed: also if the test is killed, as by -timeout, when nothing that it put off is done.
//
// go test keeps a test's binary in a folder that it removes whatever becomes of the test. [Run] makes a folder there.
package testdir

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Root is the folder for such folders: the binary's, if go test made it, else the one for temporary files.
func Root() string {
	if exe, err := os.Executable(); err == nil && strings.Contains(exe, "go-build") && strings.HasSuffix(exe, ".test") {
		return filepath.Dir(exe)
	}
	return os.TempDir()
}

// Run calls a function, which runs the tests and returns the exit code, with a folder for programs, and removes the folder. Temporary
// files of the tests and of processes that they start are in a folder beside it meanwhile ($TMPDIR). If tests that passed leave some
// there the exit code is 1: somebody's machine would fill up.
func Run(run func(programs string) int) int {
	dir, err := os.MkdirTemp(Root(), "keelson-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	programs, temporary := filepath.Join(dir, "programs"), filepath.Join(dir, "tmp")
	for _, d := range []string{programs, temporary} {
		if err := os.Mkdir(d, 0o700); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	old, had := os.LookupEnv("TMPDIR")
	os.Setenv("TMPDIR", temporary)
	code := run(programs)
	if had {
		os.Setenv("TMPDIR", old)
	} else {
		os.Unsetenv("TMPDIR")
	}
	left, err := os.ReadDir(temporary)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for _, e := range left {
		fmt.Fprintf(os.Stderr, "left behind in $TMPDIR: %s\n", e.Name())
		code = max(code, 1)
	}
	return code
}
