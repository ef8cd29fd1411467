package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/keelson-io/keelson/internal/cli/command"
	"github.com/keelson-io/keelson/server"
)

// This file has the command "version".

func newVersionCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:         "version",
		Short:       "Print the version of this program and of the Kubernetes API",
		Long:        `Version prints the version of this program and of the Kubernetes API that it serves, like the server's /version.`,
		Example:     "  keelson version\n  keelson version -o json",
		Annotations: command.Page("the version is printed", "it cannot be written", "keelson help serve"),
		Args:        command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := server.Version()
			switch output {
			case "text":
				_, err := io.WriteString(cmd.OutOrStdout(), versionLine(v))
				return err
			case "json":
				return command.PrintJSON(cmd.OutOrStdout(), v)
			}
			return command.UsageError(fmt.Errorf("--output: got %q, want text or json", output))
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "`format`: text or json")
	return cmd
}

// versionLine returns the version as text, for this command and for --version.
func versionLine(v server.VersionInfo) string {
	return fmt.Sprintf("keelson %s, Kubernetes API %s.%s, %s %s\n", v.Program, v.Major, v.Minor, v.GoVersion, v.Platform)
}
