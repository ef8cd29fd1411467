package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/keelson-io/keelson/internal/authz/config"
	"github.com/keelson-io/keelson/internal/authz/partial"
	"github.com/keelson-io/keelson/server"
)

// This file offers the values of flags to the completion of shells.

// flagValues returns the values of the flags of serve, and of validate, that have few.
func flagValues() map[string][]string {
	return map[string][]string{
		"field-validation":          {"Strict", "Warn", "Ignore"},
		"logging-format":            {"text", "json"},
		"tls-min-version":           {"VersionTLS12", "VersionTLS13"},
		"endpoint-reconciler-type":  {"lease", "none"},
		"authorization-mode":        config.Types,
		"enable-admission-plugins":  server.OptionalAdmission,
		"disable-admission-plugins": server.DefaultAdmission,
		"controllers":               append([]string{"*"}, server.Controllers()...),
	}
}

// offerValues registers the values of the flags of a command and all below it. Those of --output are
// the words of its usage, such as "text, json or junit".
func offerValues(cmd *cobra.Command) {
	values := flagValues()
	if f := cmd.Flags().Lookup("output"); f != nil {
		words := strings.ReplaceAll(strings.TrimPrefix(f.Usage, "`format`: "), " or ", ", ")
		values["output"] = strings.Split(words, ", ")
	}
	if cmd.Name() == "check" || cmd.Name() == "explain" {
		values["unknown"] = partial.Parts
	}
	for name, list := range values {
		if cmd.Flags().Lookup(name) == nil {
			continue
		}
		offer := cobra.FixedCompletions(slices.Clone(list), cobra.ShellCompDirectiveNoFileComp)
		if err := cmd.RegisterFlagCompletionFunc(name, offer); err != nil {
			panic("BUG: a flag is offered twice: " + err.Error())
		}
	}
	for _, c := range cmd.Commands() {
		offerValues(c)
	}
}
