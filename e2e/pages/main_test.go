// Package pages does what the pages tell a user to do, and compares what the commands print with the page.
//
// A page is a sequence of blocks. In a block "```console", a line with "$ " is a command, and the lines up to the next command are
// what it prints. A block "```sh" is a script, such as one that writes a file: it must end with exit code 0, and what it prints is
// not compared. Each page has a folder, a HOME and a shell of its own. "keelson serve" runs beside the shell, in another terminal.
//
// UPDATE_PAGES=1 writes what the commands print into the pages: read the difference before you commit it. KEELSON_BIN and
// KUBECTL_BIN name binaries to use in place of those that would be built. The flag -long runs the pages that compile Go programs, too.
package pages

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/keelson-io/keelson/internal/testdir"
	"github.com/keelson-io/keelson/internal/testprogram"
)

// long runs the pages that compile programs, which takes minutes.
var long = flag.Bool("long", false, "also run the pages that compile Go programs")

// binaries is a folder with keelson and kubectl, which is the first in the PATH of the shells.
var binaries string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(testdir.Run(func(dir string) int { return run(m, dir) }))
}

func run(m *testing.M, dir string) int {
	binaries = filepath.Join(dir, "bin")
	if err := os.Mkdir(binaries, 0o700); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for name, b := range map[string]struct{ variable, from string }{"keelson": {"KEELSON_BIN", "../../cmd/keelson"}, "kubectl": {"KUBECTL_BIN", "../kubectl"}} {
		to := filepath.Join(binaries, name)
		bin, err := testprogram.Build(b.variable, b.from, to)
		if err == nil && bin != to {
			err = os.Symlink(bin, to)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}
