// This file says what is wrong with a command line.

package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// usageError is a command line that is wrong.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }

func (e *usageError) Unwrap() error { return e.err }

// flagError is the error of a flag, for a command's users.
func flagError(_ *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	if errors.As(err, &value) {
		f := value.GetFlag()
		err = fmt.Errorf("--%s: got %q, want %s", f.Name, value.GetValue(), wanted(f.Value.Type(), value.Unwrap()))
	}
	return &usageError{err}
}

// serverFlagError is the error of a flag of the server, which tells those who come with kube-apiserver's flags what to do instead.
func serverFlagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		name := unknown.GetSpecifiedName()
		text := instead[name]
		if text == "" && slices.Contains(withoutEffect, name) {
			text = "is a flag of kube-apiserver about what keelson has not got: leave it out"
		}
		if text != "" {
			err = fmt.Errorf("--%s: %s", name, text)
		}
	}
	return flagError(cmd, err)
}

// instead are flags of kube-apiserver that keelson has not got, and what to do instead.
var instead = map[string]string{
	"encryption-provider-config":                  unencrypted,
	"encryption-provider-config-automatic-reload": unencrypted,
	"admission-control":                           "--enable-admission-plugins names plugins",
	"cert-dir":                                    "--tls-cert-file and --tls-private-key-file name a certificate; the server's own is in --data-dir",
	"feature-gates":                               "there are no gates: what Kubernetes has on without flags is there, and leave the flag out",
	"runtime-config":                              "there is nothing to switch: every version that is there is served; leave the flag out",
}

// unencrypted is refused under every name of the program: who asks for encryption is not to believe that there is some.
const unencrypted = "keelson does not encrypt what it stores: keep --data-dir, or the data of the etcd cluster, on an encrypted disk, and leave the flag out"

// wanted is what a flag's value has to be, or else what is wrong with it.
func wanted(kind string, cause error) string {
	switch kind {
	case "int", "uint64":
		return "a whole number"
	case "float32":
		return "a number"
	case "bool":
		return "true or false"
	case "duration":
		return "a time, such as 30s or 5m"
	}
	return "something else: " + cause.Error()
}

// noArguments is the rule for commands that are told everything by flags.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return &usageError{fmt.Errorf("%s: got %q, want flags only", nameOf(cmd), args[0])}
	}
	return nil
}

// oneArgument is the rule for commands that work on one thing, which is the second word of their synopsis.
func oneArgument(cmd *cobra.Command, args []string) error {
	what := strings.Fields(cmd.Use)[1]
	switch len(args) {
	case 0:
		return noneNamed(cmd, what)
	case 1:
		return nil
	}
	return &usageError{fmt.Errorf("%s: got %d arguments, want one %s", nameOf(cmd), len(args), what)}
}

// needArguments is the rule for commands that work on some of a thing.
func needArguments(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return noneNamed(cmd, what)
		}
		return nil
	}
}

func noneNamed(cmd *cobra.Command, what string) error {
	return &usageError{fmt.Errorf("%s: no %s named", nameOf(cmd), what)}
}

// nameOf is the command without the program, whose name begins every error.
func nameOf(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
}

// onlyCommands is the rule for commands that are there for the commands below them.
func onlyCommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
	if cmd.SuggestionsMinimumDistance <= 0 {
		cmd.SuggestionsMinimumDistance = 2
	}
	if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
		text += "; did you mean " + strings.Join(like, " or ") + "?"
	}
	return &usageError{errors.New(text)}
}

// newHelpCommand is keelson help, which knows what is no command.
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
				return onlyCommands(about, append(rest, args...))
			}
			about.InitDefaultHelpFlag() // as cobra does when a command runs
			return about.Help()
		},
	}
}
