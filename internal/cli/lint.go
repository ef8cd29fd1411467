// This file has the command "lint".

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/internal/manifest"
	"github.com/keelson-io/keelson/internal/offline"
	"github.com/keelson-io/keelson/lint"
)

// lintOptions are the flags of lint.
type lintOptions struct {
	old    []string
	output string
	strict bool
	top    int
	topSet bool // --top was given
}

func newLintCommand() *cobra.Command {
	o := lintOptions{}
	cmd := &cobra.Command{
		Use:   "lint FILE...",
		Short: "Find mistakes in definitions and policies, costs of expressions, and breaking changes",
		Long: `Lint checks CustomResourceDefinitions, admission policies and their bindings. Each finding has a position in the file and one of
these severities:

  error     The server refuses the object. The text is the server's, with the position in the expression. Rules in the form of
            KEP-2876's first draft (x-kubernetes-validator, properties without self) are shown in the current form.
  warning   The server accepts the object, but it is provably a mistake: bounds that exclude each other, a required field
            that is pruned, enum values that no object can have, keywords without effect on the type, rules and conditions
            that are always true or always false, expressions of policies that do not match the types of their kinds,
            references to policies and parameters that do not exist.
  breaking  With --old, the change affects stored objects or clients: removed versions and fields, new required fields,
            tightened bounds, patterns, enums and rules. The finding says whether ratcheting applies.

Then lint lists the estimated costs of the rules of each schema, the most expensive first. The server refuses a rule above
10,000,000 and a schema above 100,000,000. Without --top, the rules of a schema are listed only if one of them reaches 1% of its
limit. SHARE is the share of the limit of one rule. DRIVEN BY is the list, map or text whose bound has the largest effect. For a
rule above a limit, lint searches for bounds that bring it below. For expressions of policies, SHARE is the share of 1,000,000, the
limit of one evaluation.

FILE is a file of YAML or JSON documents, a folder of such files, or "-" for standard input. Include the definitions and
parameters to which policies refer. Documents of other kinds are ignored. --old has the previous definitions, which are matched
by name. Two different definitions with one name are an error; equal ones count once.`,
		Example: `  keelson lint crds/
  keelson lint --top 0 --strict crds/        # for CI: findings only, warnings fail
  keelson lint crds/ policies/
  kubectl get crd widgets.example.com -o yaml | keelson lint --old - crds/widgets.yaml
  keelson lint -o json crds/ | jq '.results[].schemas[]?.total'`,
		Annotations: page("nothing is wrong, or there are only warnings", "there is an error or something breaks; with --strict also if there is a warning",
			"keelson help validate, keelson help test", "docs/lint.md: all findings, with an example of each"),
		Args: needArguments("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.topSet = cmd.Flags().Changed("top")
			return runLint(cmd.Context(), o, args, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.old, "old", nil, "file or folder with the previous definitions; may be repeated")
	f.StringVarP(&o.output, "output", "o", "text", "text, json, junit, sarif or github")
	f.BoolVar(&o.strict, "strict", false, "also fail on warnings")
	f.IntVar(&o.top, "top", 5, "number of rules in the table of costs of each schema; 0 for no table, -1 for all rules")
	return cmd
}

// runLint prints the findings. The error has the number of those that fail the command.
func runLint(ctx context.Context, o lintOptions, paths []string, stdin io.Reader, out io.Writer) error {
	if !slices.Contains([]string{"text", "json", "junit", "sarif", "github"}, o.output) {
		return &usageError{fmt.Errorf("--output: got %q, want text, json, junit, sarif or github", o.output)}
	}
	if err := onceStdin(paths, o.old); err != nil {
		return err
	}
	olds, err := readLinted(o.old, stdin)
	if err != nil {
		return err
	}
	if broken := olds.broken; len(broken) > 0 {
		return fmt.Errorf("%s:%d: %s", broken[0].Source, broken[0].Findings[0].Line, broken[0].Findings[0].Message)
	}
	news, err := readLinted(paths, stdin)
	if err != nil {
		return err
	}
	reports := news.broken
	if len(news.set.Definitions)+len(news.set.Policies)+len(reports) == 0 {
		return fmt.Errorf("%s: no CustomResourceDefinition, admission policy or binding in it", paths[0])
	}
	for _, d := range news.set.Definitions {
		var old *lint.Definition
		for _, was := range olds.set.Definitions {
			if was.CRD.Name == d.CRD.Name {
				old = was
			}
		}
		reports = append(reports, lint.Check(ctx, d, old))
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	reports = append(reports, lint.CheckPolicies(ctx, news.set)...)
	if err := printReports(out, o, reports); err != nil {
		return err
	}
	if failed(o, reports) {
		return errors.New(counts(count(reports)))
	}
	return nil
}

// count returns the number of findings of each severity.
func count(reports []*lint.Report) map[lint.Severity]int {
	n := map[lint.Severity]int{}
	for _, r := range reports {
		for _, f := range r.Findings {
			n[f.Severity]++
		}
	}
	return n
}

// failed reports whether the findings fail the command: errors, breaking findings, and warnings
// with --strict.
func failed(o lintOptions, reports []*lint.Report) bool {
	n := count(reports)
	return n[lint.Error]+n[lint.Breaking] > 0 || o.strict && n[lint.Warning] > 0
}

// counts returns these numbers as a text.
func counts(n map[lint.Severity]int) string {
	text := ""
	for _, s := range []struct {
		severity lint.Severity
		what     string
	}{{lint.Error, "error"}, {lint.Breaking, "breaking change"}, {lint.Warning, "warning"}} {
		if n[s.severity] == 0 {
			continue
		}
		if text != "" {
			text += ", "
		}
		text += plural(n[s.severity], s.what)
	}
	return text
}

// linted has the checked objects, and reports for documents that are not YAML or that describe a
// definition differently from another one.
type linted struct {
	set         lint.PolicySet
	broken      []*lint.Report
	definitions map[string]manifest.Document // by name
}

// repeats reports whether a definition has the name of an earlier one. If it says something else, it
// gets a report.
func (l *linted) repeats(d manifest.Document) bool {
	name := offline.SubjectOf(d, "").Name
	first, ok := l.definitions[name]
	if name == "" {
		return false
	}
	if !ok {
		if l.definitions == nil {
			l.definitions = map[string]manifest.Document{}
		}
		l.definitions[name] = d
		return false
	}
	if _, conflicts := offline.Distinct([]manifest.Document{first, d}); len(conflicts) > 0 {
		line, column := d.Position("metadata.name")
		l.broken = append(l.broken, &lint.Report{Source: d.File, Line: d.Line, Kind: "CustomResourceDefinition", Name: name,
			Findings: []lint.Finding{{Severity: lint.Error, Check: "conflict", Line: line, Column: column, Message: conflicts[0].Text()}}})
	}
	return true
}

// readLinted reads files.
func readLinted(paths []string, stdin io.Reader) (*linted, error) {
	out := new(linted)
	err := manifest.Each(paths, stdin, func(file string, text []byte) error {
		for _, d := range manifest.Split(file, text) {
			if err := out.add(d, text); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// add adds a document. text is the text of its file.
func (l *linted) add(d manifest.Document, text []byte) error {
	if d.Err != nil {
		l.broken = append(l.broken, unreadable(d))
		return nil
	}
	var head struct {
		metav1.TypeMeta
		Metadata struct{ Namespace, Name string }
	}
	if json.Unmarshal(d.JSON, &head) != nil && json.Unmarshal(d.JSON, &head.TypeMeta) != nil {
		return nil
	}
	src := lint.Source{Name: d.File, Line: d.Line, Text: sourceOf(d, text), Duplicates: d.Duplicates}
	switch gk := head.GroupVersionKind().GroupKind(); {
	case head.Kind == "CustomResourceDefinition":
		if l.repeats(d) {
			return nil
		}
		definition, err := lint.Load(src)
		if err != nil {
			return err
		}
		l.set.Definitions = append(l.set.Definitions, definition)
	case lint.IsPolicy(gk):
		policy, err := lint.LoadPolicy(src)
		if err != nil {
			return err
		}
		l.set.Policies = append(l.set.Policies, policy)
	default:
		l.set.Objects = append(l.set.Objects, lint.Identity{GroupKind: gk, Namespace: head.Metadata.Namespace, Name: head.Metadata.Name})
	}
	return nil
}

// unreadable returns the report for a document that is neither YAML nor JSON. The error text has
// the position.
func unreadable(d manifest.Document) *lint.Report {
	f := lint.Finding{Severity: lint.Error, Check: "server", Message: d.Err.Error(), Line: d.Line}
	rest := strings.TrimPrefix(f.Message, d.File+":")
	for _, n := range []*int{&f.Line, &f.Column} {
		number, after, ok := strings.Cut(rest, ":")
		if value, err := strconv.Atoi(number); ok && err == nil {
			*n, rest = value, after
		}
	}
	f.Message = strings.TrimSpace(rest)
	return &lint.Report{Source: d.File, Line: d.Line, Findings: []lint.Finding{f}}
}

// sourceOf returns the text of a document as in its file, from its line on. If that is unknown, it
// returns the JSON.
func sourceOf(d manifest.Document, file []byte) []byte {
	if first := bytes.TrimLeft(file, " \t\r\n"); len(first) > 0 && first[0] == '{' {
		return d.JSON
	}
	var text []byte
	line := 0
	for l := range bytes.Lines(file) {
		if line++; line < d.Line {
			continue
		}
		if rest, ok := bytes.CutPrefix(l, []byte("---")); ok && (len(bytes.TrimSpace(rest)) == 0 || rest[0] == ' ') {
			break
		}
		text = append(text, l...)
	}
	// For an item of a List, the text is more than the document.
	if got, err := yaml.YAMLToJSON(text); err != nil || !bytes.Equal(got, d.JSON) {
		return d.JSON
	}
	return text
}
