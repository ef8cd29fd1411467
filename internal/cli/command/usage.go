// This file has the errors of invalid command lines.

package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// usageError is the error of an invalid command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }

func (e *usageError) Unwrap() error { return e.err }

// UsageError returns the error of an invalid command line, for which the program ends with 2.
func UsageError(err error) error { return &usageError{err} }

// IsUsageError reports whether an error is that of an invalid command line.
func IsUsageError(err error) bool {
	_, ok := errors.AsType[*usageError](err)
	return ok
}

// FlagError converts cobra's error about a flag.
func FlagError(_ *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	if errors.As(err, &value) {
		f := value.GetFlag()
		err = fmt.Errorf("--%s: got %q, want %s", f.Name, value.GetValue(), wanted(f.Value.Type(), value.Unwrap()))
	}
	return UsageError(err)
}

// wanted returns what a flag's value must be.
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

// NoArguments refuses arguments, for commands with flags only.
func NoArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return UsageError(fmt.Errorf("%s: got %q, want flags only", NameOf(cmd), args[0]))
	}
	return nil
}

// OneArgument requires one argument, named by the second word of the command's synopsis.
func OneArgument(cmd *cobra.Command, args []string) error {
	what := strings.Fields(cmd.Use)[1]
	switch len(args) {
	case 0:
		return NoneNamed(cmd, what)
	case 1:
		return nil
	}
	return UsageError(fmt.Errorf("%s: got %d arguments, want one %s", NameOf(cmd), len(args), what))
}

// NeedArguments requires at least one argument.
func NeedArguments(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return NoneNamed(cmd, what)
		}
		return nil
	}
}

// NoneNamed returns the error of a command line that lacks an argument.
func NoneNamed(cmd *cobra.Command, what string) error {
	return UsageError(fmt.Errorf("%s: no %s named", NameOf(cmd), what))
}

// NameOf returns the command without the program name, which starts every error.
func NameOf(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
}

// OnlyCommands refuses a command that only groups others.
func OnlyCommands(cmd *cobra.Command, args []string) error {
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
	return UsageError(errors.New(text))
}
