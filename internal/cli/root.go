// Package cli is the command line of keelson, with a file or a package below it for each command.
//
// Main runs a command line and returns the exit code: 0 for success, 1 if the answer is no or the
// command failed, 2 if the command line is invalid. Results go to standard output, everything else
// to standard error.
package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/keelson-io/keelson/internal/cli/authz"
	"github.com/keelson-io/keelson/internal/cli/command"
	"github.com/keelson-io/keelson/internal/cli/convert"
	"github.com/keelson-io/keelson/internal/cli/doctor"
	"github.com/keelson-io/keelson/internal/cli/eval"
	"github.com/keelson-io/keelson/internal/cli/export"
	"github.com/keelson-io/keelson/internal/cli/kubeconfig"
	"github.com/keelson-io/keelson/internal/cli/query"
	"github.com/keelson-io/keelson/internal/cli/snapshot"
	"github.com/keelson-io/keelson/server"
)

// This file has the root command.

// Main runs a command line, which starts with the name of the program, until it ends or the process
// receives a signal to stop. A second signal ends the process at once. Under some names, the program acts as another one; see envtest.go.
func Main(args []string, in io.Reader, out, errs io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	root := newRootCommand()
	if other := programs[filepath.Base(args[0])]; other != nil {
		root = other()
	} else {
		done := make(chan struct{})
		defer close(done)
		guardProcess(ctx, done, root, errs)
	}
	return execute(ctx, root, args[1:], &interruptible{ctx: ctx, in: in}, out, errs)
}

// run is Main under the name keelson, with a context in place of signals.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	return execute(ctx, newRootCommand(), args, in, out, errs)
}

// execute runs a command line and returns the exit code.
func execute(ctx context.Context, root *cobra.Command, args []string, in io.Reader, out, errs io.Writer) int {
	root.SetArgs(args)
	root.SetIn(in)
	errs = command.NewEscaper(errs)
	root.SetOut(command.NewEscaper(out))
	root.SetErr(errs)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	if text := err.Error(); text != "" {
		fmt.Fprintln(errs, "keelson: "+text)
	}
	if command.IsUsageError(err) {
		if cmd.Name() == "help" {
			cmd = cmd.Root()
		}
		fmt.Fprintln(errs, "keelson: see "+cmd.CommandPath()+" --help")
		return 2
	}
	return 1
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "keelson",
		Short: "The Kubernetes API for custom resources, without the rest of Kubernetes",
		Long: `Keelson is the Kubernetes API for custom resources, without the rest of Kubernetes.

It stores, prunes, defaults, validates and authorizes custom resources as a
Kubernetes API server does. kubectl and every client library work with it.

Start a server. It prints the line "export KUBECONFIG=..."; run this line in
another terminal, and talk to the server:

    keelson serve
    kubectl apply -f my-crd.yaml`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          command.OnlyCommands,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.Annotations = command.Page("all is well", "the command says no, or could not do its work", "keelson help COMMAND")
	usual := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if command.ExitStatus(cmd) == "" {
			usual(cmd, args)
			return
		}
		command.WritePage(cmd.OutOrStdout(), cmd, nil)
	})
	v := server.Version()
	root.Version = v.Program
	root.SetVersionTemplate(versionLine(v))
	root.SetFlagErrorFunc(command.FlagError)
	root.SetHelpCommand(newHelpCommand())
	for _, cmd := range []*cobra.Command{newValidateCommand(), newNormalizeCommand(), eval.Command(), newLintCommand(), newTestCommand(), newWitnessCommand(), convert.Command(), authz.Command(), export.Command(), query.Command()} {
		addMemoryLimit(cmd)
		root.AddCommand(cmd)
	}
	root.AddCommand(newServeCommand(), newEnvtestAssetsCommand(), snapshot.Command(), doctor.Command(), kubeconfig.Command(), newVersionCommand())
	offerValues(root)
	return root
}

// Command returns the root command with all others, for programs that write documentation about
// them.
func Command() *cobra.Command { return newRootCommand() }

// newHelpCommand returns keelson help. It reports an error for an unknown command.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about any command",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				if about == nil {
					about = cmd.Root()
				}
				return command.OnlyCommands(about, append(rest, args...))
			}
			about.InitDefaultHelpFlag() // cobra adds this flag when a command runs
			return about.Help()
		},
	}
}
