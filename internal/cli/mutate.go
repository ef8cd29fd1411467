// This file has the flag --mutate of test.

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/keelson-io/keelson/internal/cli/command"
	"github.com/keelson-io/keelson/internal/coverage"
	"github.com/keelson-io/keelson/suite"
)

// runMutations changes the definitions of suites one by one, and prints the changes that no case detects.
func runMutations(ctx context.Context, o suiteOptions, args []string, out, notes io.Writer) (err error) {
	switch {
	case o.output != "text" && o.output != "json":
		return command.UsageError(fmt.Errorf("--mutate: got -o %s, want text or json", o.output))
	case o.update || o.run != "" || o.coverage.enabled():
		return command.UsageError(errors.New("--mutate runs all cases again and again: got --update, --run or --coverage with it"))
	case o.mutateLimit < 1:
		return command.UsageError(fmt.Errorf("--mutate-limit: got %d, want at least 1", o.mutateLimit))
	}
	files, err := suiteFiles(args)
	if err != nil {
		return err
	}
	var suites []*suite.Suite
	defer func() {
		for _, s := range suites {
			err = errors.Join(err, s.Close())
		}
	}()
	for _, f := range files {
		s, err := o.load(f)
		if err != nil {
			return err
		}
		suites = append(suites, s)
	}
	count := command.NewCounter(notes, "tried", 0)
	defer count.Done()
	m, err := suite.Mutate(ctx, suites, suite.MutateOptions{Limit: o.mutateLimit, Started: func(n int) { count.Total = n }, Done: count.Step})
	if err != nil {
		return err
	}
	if o.output == "json" {
		return command.PrintJSON(out, struct {
			command.Envelope
			Mutations *suite.Mutations `json:"mutations"`
		}{command.EnvelopeOf("MutationReport"), m})
	}
	return printMutations(out, m)
}

// printMutations prints the result of a mutation test.
func printMutations(out io.Writer, m *suite.Mutations) error {
	var b strings.Builder
	fmt.Fprintf(&b, "mutation: %.1f %% (%d of %d changes are detected)\n", m.Percent(), m.Detected, m.Tried-m.Invalid)
	if m.Tried < m.Changes {
		fmt.Fprintf(&b, "%d of %d changes were tried; --mutate-limit tries more\n", m.Tried, m.Changes)
	}
	if m.Invalid > 0 {
		fmt.Fprintf(&b, "%s not counted: the definition is not valid with them\n", command.Plural(m.Invalid, "change"))
	}
	if len(m.Undetected) > 0 {
		b.WriteString("\nno case detects:\n")
	}
	list := slices.Clone(m.Undetected)
	slices.SortStableFunc(list, func(a, b coverage.Change) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	for _, c := range list {
		field := strings.TrimPrefix(c.Field, ".")
		if field == "" {
			field = "the object"
		}
		line := fmt.Sprintf("  %s:%d:%d  %s: %s: %s", c.File, c.Line, c.Column, field, c.What, changedText(c.Before))
		if c.After != "" {
			line += " => " + changedText(c.After)
		}
		fmt.Fprintln(&b, line)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// changedText returns a text of a definition on one line, shortened.
func changedText(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 100 {
		return string(r[:99]) + "…"
	}
	return s
}
