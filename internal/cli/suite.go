// This file has the command "test".

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/keelson-io/keelson/internal/cli/command"
	"github.com/keelson-io/keelson/internal/coverage"
	"github.com/keelson-io/keelson/internal/manifest"
	"github.com/keelson-io/keelson/internal/report"
	"github.com/keelson-io/keelson/internal/settings"
	"github.com/keelson-io/keelson/server"
	"github.com/keelson-io/keelson/suite"
)

// suiteOptions are the flags of test.
type suiteOptions struct {
	output string
	run    string
	update bool
	init   bool
	// trusted lets suites name files outside of their repository.
	trusted bool

	coverage coverageOptions

	mutate      bool
	mutateLimit int
}

func newTestCommand() *cobra.Command {
	o := suiteOptions{}
	cmd := &cobra.Command{
		Use:   "test SUITE...",
		Short: "Run suites of objects against definitions and compare what would be stored",
		Long: `Test runs suites, without a server. A suite is a YAML file with the names of definitions and a list of cases. A case has an object
to create, or to update, and the expected result.

    crd: crds/widgets.yaml            # a file or folder, or a list of them, relative to the suite's folder
    cases:
    - name: the size has a default
      object:
        apiVersion: example.com/v1
        kind: Widget
        metadata: {name: a}
        spec: {color: red, colour: red}
      stored:                         # exactly this: pruned, with defaults
        apiVersion: example.com/v1
        kind: Widget
        metadata: {name: a}
        spec: {color: red, size: 1}
      warnings: ['unknown field "spec.colour"']
    - name: the color is final
      initial: {apiVersion: example.com/v1, kind: Widget, metadata: {name: a}, spec: {color: red}}
      updated: {apiVersion: example.com/v1, kind: Widget, metadata: {name: a}, spec: {color: blue}}
      error: the color is final       # part of the refusal

With --coverage, the report says which rules, parts of rules, bounds, enum values, defaults and fields the cases reach, and where those are
that they do not. --coverage-out writes it for build servers and browsers.

With --mutate, the rules and bounds of the definitions are changed one by one: operators, constants, negations, dropped operands, looser
bounds. The report lists the changes with which all cases still pass.

Each case must have at least one of stored, error, warnings and auditAnnotations. Metadata that the server sets (uid, generation,
timestamps and so on) is compared only if stored has it.

A suite can also test policies. Its key "policies" names files of admission policies, bindings, parameters, namespaces and roles.
In a case, "user" sends the request, "given" lists objects that exist during the case, and "deleted" is an object to delete. The
error of a denial has the policy's name. "auditAnnotations" are the annotations that policies add to the audit log.

More keys of a case: "subresource: status" updates the status; "fieldValidation" is Strict, Warn (the default) or Ignore. At the
top of a suite, "namespace", "user" and "fieldValidation" apply to all its cases. See docs/testing.md.

For a failed case whose object was refused by a rule, the report has the values of the rule's parts (see keelson help validate,
--explain).

SUITE is a file, or a folder in which all YAML files with cases are run. --update replaces the expectations of failed cases by the
results, and changes nothing else: read the difference before you commit it.

--init writes a new suite for a definition, with the smallest accepted and the smallest refused object of each rule: "keelson test
--init CRD SUITE". Without SUITE it is printed. All its cases pass; add your own.`,
		Example: `  keelson test tests/
  keelson test --run 'default' tests/widgets.yaml
  keelson test --update tests/ && git diff tests/
  keelson test -o junit tests/ > junit.xml
  keelson test --init crds/widgets.yaml tests/widgets_rules.yaml`,
		Annotations: command.Page("every case passed; with --mutate, also if changes were not detected", "a case failed, a suite cannot be read, no case was found, or the coverage is below --coverage-min",
			"keelson help validate, keelson help normalize, keelson help witness", "docs/testing.md: all keys of suites"),
		Args: command.NeedArguments("SUITE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.init {
				return initSuite(cmd.Context(), args, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			if o.mutate {
				return runMutations(cmd.Context(), o, args, cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			return runSuites(cmd.Context(), o, args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.output, "output", "o", "text", "text, json, junit, sarif or github")
	f.StringVar(&o.run, "run", "", "run only the cases whose names match this regular expression")
	f.BoolVar(&o.update, "update", false, "write the results of failed cases into the suites")
	f.BoolVar(&o.trusted, "trust-suites", false, "let suites name files outside of their repository")
	o.coverage.addFlags(f)
	f.BoolVar(&o.mutate, "mutate", false, "change rules and bounds of the definitions one by one, and list the changes that no case detects")
	f.IntVar(&o.mutateLimit, "mutate-limit", suite.DefaultMutations, "try at most this many changes; if there are more, every n-th of them")
	f.BoolVar(&o.init, "init", false, "write a new suite for a definition: --init CRD [SUITE]")
	return cmd
}

// runSuites runs suites and prints the results. The error has the number of failed cases.
func runSuites(ctx context.Context, o suiteOptions, args []string, out, notes io.Writer) error {
	if !slices.Contains([]string{"text", "json", "junit", "sarif", "github"}, o.output) {
		return command.UsageError(fmt.Errorf("--output: got %q, want text, json, junit, sarif or github", o.output))
	}
	if err := o.coverage.check(); err != nil {
		return err
	}
	run, err := regexp.Compile(o.run)
	if err != nil {
		return command.UsageError(fmt.Errorf("--run: %w", err))
	}
	files, err := suiteFiles(args)
	if err != nil {
		return err
	}
	reports := []suite.Report{}
	cases, bad := 0, 0
	var recorder *coverage.Recorder
	if o.coverage.enabled() {
		recorder = coverage.New()
	}
	for _, f := range files {
		r, err := runSuite(ctx, o, f, run, recorder, notes)
		if err != nil {
			return err
		}
		if r.Err != "" {
			cases++
		}
		cases += len(r.Results)
		bad += r.Failed()
		reports = append(reports, r)
	}
	var reached *coverage.Report
	if recorder != nil {
		reached = recorder.Report()
	}
	if err := printSuites(out, o.output, reports, reached); err != nil {
		return err
	}
	var tooFew error
	if reached != nil {
		to := out
		if o.output != "text" {
			to = nil
		}
		tooFew = o.coverage.write(reached, to)
	}
	switch {
	case cases == 0:
		return errors.New("no case to run")
	case bad > 0:
		return errors.Join(fmt.Errorf("%d of %d cases failed", bad, cases), tooFew)
	}
	return tooFew
}

// load reads a suite. Without --trust-suites, a suite in a repository names only files of the repository.
func (o *suiteOptions) load(file string) (*suite.Suite, error) {
	within := ""
	if !o.trusted {
		folder, err := filepath.Abs(filepath.Dir(file))
		if err != nil {
			return nil, err
		}
		if root, found := settings.Repository(folder); found {
			within = root
		}
	}
	s, err := suite.LoadWithin(within, file)
	if errors.Is(err, manifest.ErrOutside) {
		err = fmt.Errorf("%w; suites name files inside their repository, or pass --trust-suites", err)
	}
	return s, err
}

// runSuite runs the suite in a file. If the suite is invalid, that is its report. recorder is nil unless
// coverage is collected.
func runSuite(ctx context.Context, o suiteOptions, file string, run *regexp.Regexp, recorder *coverage.Recorder, notes io.Writer) (suite.Report, error) {
	r := suite.Report{File: file, Results: []suite.Result{}}
	s, err := o.load(file)
	if err != nil {
		r.Err = strings.TrimPrefix(err.Error(), file+": ")
		if at := (*suite.PositionError)(nil); errors.As(err, &at) && at.File == file {
			r.Err, r.Line, r.Column = at.Text, at.Line, at.Column
		}
		return r, nil
	}
	defer s.Close()
	chosen := func(c *suite.Case) bool { return run.MatchString(c.Name) }
	count := command.NewCounter(notes, file+": run", len(s.Cases))
	defer count.Done()
	options := suite.RunOptions{Choose: chosen, Coverage: recorder, Done: count.Step}
	if r.Results = append(r.Results, s.RunWith(ctx, options)...); !o.update || r.Failed() == 0 {
		return r, nil
	}
	if updated, err := updateSuite(s, r.Results, notes); !updated || err != nil {
		return r, err
	}
	again, err := o.load(file)
	if err != nil {
		return r, err
	}
	defer again.Close()
	r.Results = again.Run(ctx, chosen)
	return r, nil
}

// suiteFiles returns the suites: named files, and those files in folders that look like suites.
func suiteFiles(args []string) ([]string, error) {
	var out []string
	for _, a := range args {
		files, err := manifest.Expand(a)
		if err != nil {
			return nil, err
		}
		if len(files) == 1 && files[0] == a {
			if a == "-" {
				return nil, command.UsageError(errors.New("standard input cannot be a suite: paths in it start at its folder"))
			}
			out = append(out, a)
			continue
		}
		before := len(out)
		for _, f := range files {
			text, err := manifest.ReadFile(f, nil)
			if err != nil {
				return nil, err
			}
			if suite.IsSuite(text) {
				out = append(out, f)
			}
		}
		if len(out) == before {
			return nil, fmt.Errorf("%s: no suite below it: no YAML file has cases", a)
		}
	}
	return out, nil
}

// updateSuite writes new expectations to the suite's file. It reports whether there were any.
func updateSuite(s *suite.Suite, results []suite.Result, notes io.Writer) (bool, error) {
	text, n, err := s.Update(results)
	if err != nil || n == 0 {
		return false, err
	}
	mode := os.FileMode(0o644)
	if info, err := os.Stat(s.File); err == nil {
		mode = info.Mode().Perm()
	}
	if err := os.WriteFile(s.File, text, mode); err != nil {
		return false, err
	}
	fmt.Fprintf(notes, "%s: %s updated\n", s.File, command.Plural(n, "case"))
	return true, nil
}

// printSuites writes the reports.
func printSuites(out io.Writer, format string, reports []suite.Report, reached *coverage.Report) error {
	switch format {
	case "json":
		return command.PrintJSON(out, testReportOf(reports, reached))
	case "junit":
		return suite.WriteJUnit(out, reports)
	case "sarif", "github":
		return suiteReport(reports).Write(command.Documents(out), format)
	}
	paint := command.Painter(out)
	var b strings.Builder
	rows := [][]string{{"RESULT", "WHERE", "CASE"}}
	for _, r := range reports {
		if r.Err != "" {
			where := r.File
			for _, n := range []int{r.Line, r.Column} {
				if n > 0 {
					where += ":" + strconv.Itoa(n)
				}
			}
			rows = append(rows, []string{"FAIL", where, "(the suite)"})
		}
		for _, c := range r.Results {
			rows = append(rows, []string{map[bool]string{true: "pass", false: "FAIL"}[c.Passed], fmt.Sprintf("%s:%d", r.File, c.Line), c.Case})
		}
	}
	lines := table(rows, 0)
	colour := func(line string) string {
		if rest, ok := strings.CutPrefix(line, "FAIL"); ok {
			return paint("31", "FAIL") + rest
		}
		if rest, ok := strings.CutPrefix(line, "pass"); ok {
			return paint("32", "pass") + rest
		}
		return paint("1", line)
	}
	fmt.Fprintf(&b, "%s\n", colour(lines[0]))
	i := 1
	for _, r := range reports {
		if r.Err != "" {
			fmt.Fprintf(&b, "%s\n        %s\n", colour(lines[i]), command.Indent(r.Err, "        "))
			i++
		}
		for _, c := range r.Results {
			fmt.Fprintf(&b, "%s\n", colour(lines[i]))
			for _, f := range c.Failures {
				fmt.Fprintf(&b, "        %s\n", command.Indent(f, "          "))
			}
			for _, line := range reasonLines(c.Reasons) {
				fmt.Fprintf(&b, "          %s\n", line)
			}
			i++
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// suiteReport returns the failures for build servers.
func suiteReport(reports []suite.Report) *report.Report {
	out := &report.Report{Command: "test", Version: server.Version().Program}
	for _, r := range testReportOf(reports, nil).Results {
		c := report.Case{Name: r.Case, File: r.File, Line: r.Line}
		for _, f := range r.Findings {
			c.Findings = append(c.Findings, report.Finding{File: f.File, Line: f.Line, Column: f.Column, Level: report.Error, Rule: f.ID, Message: f.Message})
		}
		out.Cases = append(out.Cases, c)
	}
	return out
}
