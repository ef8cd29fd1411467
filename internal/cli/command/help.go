// This file prints the pages of "keelson help", in the layout of a manual page.

package command

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Annotations of a command for the parts of its page that cobra lacks.
const (
	exitStatus = "exit status"
	seeAlso    = "see also"
)

// Page returns the annotations: the meanings of exit codes 0 and 1 (2 is the same everywhere), and
// further reading.
func Page(zero, one string, also ...string) map[string]string {
	return map[string]string{
		exitStatus: "0  " + zero + "\n1  " + one + "\n2  the command line is wrong",
		seeAlso:    strings.Join(also, "\n"),
	}
}

// ExitStatus returns what a command's exit codes 0, 1 and 2 mean, one a line; "" if its help does not
// say so.
func ExitStatus(cmd *cobra.Command) string { return cmd.Annotations[exitStatus] }

// WritePage writes the page of a command, with its options in groups if it has any.
func WritePage(out io.Writer, cmd *cobra.Command, groups *FlagGroups) {
	paint := Painter(out)
	var b strings.Builder
	section := func(title, text string) {
		if text = strings.Trim(text, "\n"); text != "" {
			fmt.Fprintf(&b, "%s\n%s\n\n", paint("1", title), indented(text))
		}
	}
	section("NAME", cmd.CommandPath()+" - "+strings.ToLower(cmd.Short[:1])+cmd.Short[1:])
	synopsis := cmd.UseLine()
	if cmd.HasAvailableSubCommands() {
		synopsis = cmd.CommandPath() + " COMMAND"
	}
	section("SYNOPSIS", synopsis)
	section("DESCRIPTION", cmd.Long)
	var commands strings.Builder
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() || c.Name() == "help" {
			fmt.Fprintf(&commands, "%-*s  %s\n", c.NamePadding(), c.Name(), c.Short)
		}
	}
	section("COMMANDS", commands.String())
	if groups == nil {
		groups = &FlagGroups{}
	}
	section("OPTIONS", groups.usages(cmd.LocalFlags()))
	section("EXIT STATUS", cmd.Annotations[exitStatus])
	section("EXAMPLES", unindented(cmd.Example))
	section("SEE ALSO", cmd.Annotations[seeAlso])
	io.WriteString(out, strings.TrimSuffix(b.String(), "\n")) // nobody reads a page that cannot be written
}

// optionsWidth is the column at which descriptions of options are wrapped.
const optionsWidth = 120

// indented returns a text with four spaces before each non-empty line.
func indented(text string) string { return "    " + Indent(text, "    ") }

// unindented removes the two spaces with which cobra's texts begin each line.
func unindented(text string) string {
	return strings.TrimPrefix(strings.ReplaceAll("\n"+text, "\n  ", "\n"), "\n")
}
