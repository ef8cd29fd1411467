// Command keelson is the Kubernetes API for custom resources without the rest
// of Kubernetes. `keelson help` says what it can do.
package main

import (
	"fmt"
	"os"

	"github.com/keelson-io/keelson/internal/cli"
	"github.com/keelson-io/keelson/internal/fastpath"
)

func main() {
	if err := fastpath.FromEnvironment(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(2)
	}
	os.Exit(cli.Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
}
