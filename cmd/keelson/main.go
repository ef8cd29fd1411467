// Command keelson is the Kubernetes API for custom resources without the rest
// of Kubernetes. `keelson help` says what it can do.
package main

import (
	"os"

	"github.com/keelson-io/keelson/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args, os.Stdin, os.Stdout, os.Stderr)) }
