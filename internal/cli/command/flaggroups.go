package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// This file shows a command's flags in groups, as kube-apiserver does.

// FlagGroups are groups of flags with titles, in order.
type FlagGroups struct {
	titles []string
	sets   []*pflag.FlagSet
}

// Set starts a group.
func (g *FlagGroups) Set(title string) *pflag.FlagSet {
	f := pflag.NewFlagSet(title, pflag.ContinueOnError)
	f.SortFlags = false
	g.titles, g.sets = append(g.titles, title), append(g.sets, f)
	return f
}

// Install adds the flags to a command, and the groups to its help.
func (g *FlagGroups) Install(cmd *cobra.Command) {
	cmd.Flags().SortFlags = false
	for _, f := range g.sets {
		cmd.Flags().AddFlagSet(f)
	}
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) { WritePage(cmd.OutOrStdout(), cmd, g) })
}

// usages returns the help of all flags: the groups with their titles, then the others.
func (g *FlagGroups) usages(all *pflag.FlagSet) string {
	var b strings.Builder
	grouped := map[string]bool{}
	for i, f := range g.sets {
		f.VisitAll(func(f *pflag.Flag) { grouped[f.Name] = true })
		fmt.Fprintf(&b, "%s:\n%s\n", g.titles[i], f.FlagUsagesWrapped(optionsWidth))
	}
	rest := pflag.NewFlagSet("", pflag.ContinueOnError)
	rest.SortFlags = all.SortFlags
	all.VisitAll(func(f *pflag.Flag) {
		if !grouped[f.Name] {
			rest.AddFlag(f)
		}
	})
	if len(g.sets) == 0 {
		return unindented(rest.FlagUsagesWrapped(optionsWidth))
	}
	if rest.HasAvailableFlags() {
		fmt.Fprintf(&b, "Other flags:\n%s", rest.FlagUsagesWrapped(optionsWidth))
	}
	return b.String()
}
