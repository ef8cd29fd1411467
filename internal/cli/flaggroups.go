package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// This file shows a command's flags by what they are about, as kube-apiserver does: there are too many for one list.

// flagGroups are a command's flags below titles, in order.
type flagGroups struct {
	titles []string
	sets   []*pflag.FlagSet
}

// set begins another group.
func (g *flagGroups) set(title string) *pflag.FlagSet {
	f := pflag.NewFlagSet(title, pflag.ContinueOnError)
	f.SortFlags = false
	g.titles, g.sets = append(g.titles, title), append(g.sets, f)
	return f
}

// install gives a command the flags, and its help their groups. What the command has besides comes last.
func (g *flagGroups) install(cmd *cobra.Command) {
	cmd.Flags().SortFlags = false
	for _, f := range g.sets {
		cmd.Flags().AddFlagSet(f)
	}
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		out := cmd.OutOrStderr()
		width := 0
		if f, ok := out.(*os.File); ok {
			if w, _, err := term.GetSize(int(f.Fd())); err == nil {
				width = w
			}
		}
		fmt.Fprintf(out, "Usage:\n  %s\n", cmd.UseLine())
		if cmd.HasExample() {
			fmt.Fprintf(out, "\nExamples:\n%s\n", cmd.Example)
		}
		grouped := map[string]bool{}
		for i, f := range g.sets {
			f.VisitAll(func(f *pflag.Flag) { grouped[f.Name] = true })
			fmt.Fprintf(out, "\n%s:\n%s", g.titles[i], f.FlagUsagesWrapped(width))
		}
		rest := pflag.NewFlagSet("", pflag.ContinueOnError)
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !grouped[f.Name] && !f.Hidden {
				rest.AddFlag(f)
			}
		})
		if rest.HasFlags() {
			fmt.Fprintf(out, "\nOther flags:\n%s", rest.FlagUsagesWrapped(width))
		}
		return nil
	})
}
