// Package testdir provides folders for the files that tests create outside of their own folders,
// such as programs that they build. The folders are removed even if the test is killed, for example
// by -timeout, when deferred functions do not run.
//
// go test keeps the binary of a test in a folder that it always removes. [Run] creates a folder
// there.
package testdir

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Root returns the parent of such folders: the folder of the binary if go test created it,
// otherwise the folder for temporary files.
func Root() string {
	if exe, err := os.Executable(); err == nil && strings.Contains(exe, "go-build") && strings.HasSuffix(exe, ".test") {
		return filepath.Dir(exe)
	}
	return os.TempDir()
}

// Run calls run, which runs the tests and returns the exit code, with a folder for programs, and
// then removes the folder. Meanwhile, temporary files of the tests and their child processes are in
// a folder beside it ($TMPDIR). If the tests pass but leave files there, the exit code is 1,
// because such files would fill up the machine.
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
