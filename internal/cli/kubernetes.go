// This file has the flag --kubernetes.

package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/keelson-io/keelson/internal/cli/command"
	"github.com/keelson-io/keelson/kubernetes"
)

// releaseFlag is the flag --kubernetes, which names releases by whose rules a command judges.
type releaseFlag struct{ list string }

// add adds the flag. what completes the sentence "releases …".
func (f *releaseFlag) add(cmd *cobra.Command, what string) {
	cmd.Flags().StringVar(&f.list, "kubernetes", "", fmt.Sprintf("releases of Kubernetes %s, such as 1.31 or 1.29,1.31-1.33, or all (%s to %s); the newest one if not given",
		what, kubernetes.Oldest(), kubernetes.Newest()))
}

// releases returns the releases, the oldest first; nil if the flag was not given.
func (f *releaseFlag) releases(cmd *cobra.Command) ([]kubernetes.Release, error) {
	if !cmd.Flags().Changed("kubernetes") {
		return nil, nil
	}
	releases, err := kubernetes.ParseReleases(f.list)
	if err != nil {
		return nil, command.UsageError(fmt.Errorf("--kubernetes: %w", err))
	}
	return releases, nil
}
