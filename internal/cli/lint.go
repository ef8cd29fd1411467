// This file has the command "lint".

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/internal/cli/command"
	"github.com/keelson-io/keelson/internal/crdsource"
	"github.com/keelson-io/keelson/internal/manifest"
	"github.com/keelson-io/keelson/internal/nearest"
	"github.com/keelson-io/keelson/internal/settings"
	"github.com/keelson-io/keelson/kubernetes"
	"github.com/keelson-io/keelson/lint"
	"github.com/keelson-io/keelson/offline"
)

// lintOptions are the flags of lint.
type lintOptions struct {
	old     []string
	output  string
	exclude []string
	strict  bool
	top     int
	topSet  bool // --top was given
	fix     bool
	settingsFlags
	kubernetes releaseFlag
	releases   []kubernetes.Release // of --kubernetes
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

FILE is a file of YAML or JSON documents, a folder of such files, a glob, or "-" for standard input. Include the definitions and
parameters to which policies refer. Documents of other kinds are ignored. --old has the previous definitions, which are matched
by name; git:main:crds/ names those of a git revision. Two different definitions with one name are an error; equal ones count once.

--fix edits the files in place, and keeps comments, order and formatting. It sets the largest bounds (maxItems, maxLength,
maxProperties) that bring rules below their cost limits, and rewrites rules of the first draft. Each change is reported on standard
error; if controller-gen wrote the definition, with the marker to add to the Go type. Read the difference before you commit it.

--kubernetes asks servers of other releases, with default feature gates: findings that the newest release does not have name the
releases. Whether or not it is given, lint says which release is the oldest one that accepts an object, if that is not the oldest
one that lint knows, and what prevents the release before it. A field that a release does not know or removes counts as refused.

A file .keelson.yaml excludes files, suppresses findings and names a baseline of known findings: see docs/ci.md.`,
		Example: `  keelson lint crds/
  keelson lint --top 0 --strict crds/        # for CI: findings only, warnings fail
  keelson lint crds/ policies/
  kubectl get crd widgets.example.com -o yaml | keelson lint --old - crds/widgets.yaml
  keelson lint --old git:main:crds/ crds/    # the changes of a branch
  keelson lint --kubernetes 1.29,1.31-1.33 crds/
  keelson lint --fix crds/ && git diff crds/
  keelson lint -o json crds/ | jq '.results[].schemas[]?.total'`,
		Annotations: command.Page("nothing is wrong, or there are only warnings", "there is an error or something breaks; with --strict also if there is a warning",
			"keelson help validate, keelson help test", "docs/lint.md: all findings, with an example of each"),
		Args: command.NeedArguments("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.topSet = cmd.Flags().Changed("top")
			return runLint(cmd, o, args)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.old, "old", nil, "file, folder, glob, https URL or git:REVISION:PATH with the previous definitions; may be repeated")
	f.StringVarP(&o.output, "output", "o", "text", "text, json, junit, sarif or github")
	f.BoolVar(&o.strict, "strict", false, "also fail on warnings")
	f.StringArrayVar(&o.exclude, "exclude", nil, "glob of files and folders to leave out; without a slash, it matches names at any depth; may be repeated")
	o.settingsFlags.add(cmd)
	o.kubernetes.add(cmd, "that must accept the definitions and policies")
	f.BoolVar(&o.fix, "fix", false, "edit the files: set the bounds that bring rules below their cost limits, and rewrite rules of the first draft; then check")
	f.IntVar(&o.top, "top", 5, "number of rules in the table of costs of each schema; 0 for no table, -1 for all rules")
	return cmd
}

// runLint prints the findings. The error has the number of those that fail the command.
func runLint(cmd *cobra.Command, o lintOptions, paths []string) error {
	ctx, stdin := cmd.Context(), cmd.InOrStdin()
	known, filter, err := o.load(true)
	if err != nil {
		return err
	}
	if o.releases, err = o.kubernetes.releases(cmd); err != nil {
		return err
	}
	if !cmd.Flags().Changed("output") && known.Output != "" {
		o.output = known.Output
	}
	if !slices.Contains([]string{"text", "json", "junit", "sarif", "github"}, o.output) {
		return command.UsageError(fmt.Errorf("--output: got %q, want text, json, junit, sarif or github", o.output))
	}
	if err := command.OnceStdin(paths, o.old); err != nil {
		return err
	}
	files := manifest.Options{Exclude: slices.Concat(known.Exclude, o.exclude), ObjectsOnly: true}
	if err := files.Check(); err != nil {
		return command.UsageError(fmt.Errorf("--exclude: %w", err))
	}
	olds, err := readOld(ctx, o.old, files, stdin)
	if err != nil {
		return err
	}
	if broken := olds.broken; len(broken) > 0 {
		return fmt.Errorf("%s:%d: %s", broken[0].File, broken[0].Findings[0].Line, broken[0].Findings[0].Message)
	}
	if o.fix {
		_, own, err := o.load(true) // a filter counts what it drops, so that each check needs its own
		if err == nil {
			err = fixFiles(ctx, paths, files, own, cmd.ErrOrStderr())
		}
		if err != nil {
			return err
		}
	}
	news, err := readLinted(paths, files, stdin)
	if err != nil {
		return err
	}
	if len(news.set.Definitions)+len(news.set.Policies)+len(news.broken) == 0 {
		return fmt.Errorf("%s: no CustomResourceDefinition, admission policy or binding in it", paths[0])
	}
	reports, err := news.check(ctx, olds, o.releases, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	for _, r := range reports {
		object := strings.TrimSpace(r.Kind + " " + r.Name)
		r.Findings = slices.DeleteFunc(r.Findings, func(f lint.Finding) bool {
			return filter.Drops(settings.Entry{ID: f.ID, File: r.File, Object: object, Path: f.Path})
		})
	}
	if done, err := o.finish(filter, cmd.ErrOrStderr()); done || err != nil {
		return err
	}
	if err := printReports(cmd.OutOrStdout(), o, reports); err != nil {
		return err
	}
	if failed(o, reports) {
		return errors.New(counts(count(reports)))
	}
	return nil
}

// check returns the reports on all documents. olds has the previous definitions. notes gets the
// progress, if it is a terminal.
func (l *linted) check(ctx context.Context, olds *linted, releases []kubernetes.Release, notes io.Writer) ([]*lint.Report, error) {
	reports := l.broken
	count := command.NewCounter(notes, "checked", len(l.set.Definitions)+len(l.set.Policies))
	defer count.Done()
	for _, d := range l.set.Definitions {
		var old *lint.Definition
		for _, was := range olds.set.Definitions {
			if was.CRD.Name == d.CRD.Name {
				old = was
			}
		}
		reports = append(reports, lint.CheckReleases(ctx, d, old, releases))
		count.Step()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	set := l.set
	set.Checked = count.Step
	return append(reports, lint.CheckPolicyReleases(ctx, set, releases)...), nil
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
		text += command.Plural(n[s.severity], s.what)
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
		severity := lint.Error
		if conflicts[0].Outside {
			severity = lint.Warning
		}
		l.broken = append(l.broken, &lint.Report{File: d.File, Line: d.Line, Kind: "CustomResourceDefinition", Name: name,
			Findings: []lint.Finding{{File: d.File, Severity: severity, Check: "conflict", ID: "conflict", Line: line, Column: column, Message: conflicts[0].Text()}}})
	}
	return true
}

// readLinted reads files, folders and globs. Texts in folders that are not objects are left out.
func readLinted(paths []string, files manifest.Options, stdin io.Reader) (*linted, error) {
	in, err := files.Read(paths, stdin)
	if err != nil {
		return nil, err
	}
	return lintedOf(in.Documents)
}

// readOld reads the previous definitions. They may also be in a git revision or behind a URL.
func readOld(ctx context.Context, sources []string, files manifest.Options, stdin io.Reader) (*linted, error) {
	r := &crdsource.Reader{Stdin: stdin, Files: files}
	var all []manifest.Document
	for _, source := range sources {
		if crdsource.IsCatalogue(source) {
			return nil, command.UsageError(fmt.Errorf("--old: %s is a catalogue: name a file, folder, URL or git revision", source))
		}
		docs, err := r.Read(ctx, source)
		if err != nil {
			return nil, fmt.Errorf("--old: %w", err)
		}
		all = append(all, docs...)
	}
	return lintedOf(all)
}

// lintedOf sorts documents.
func lintedOf(docs []manifest.Document) (*linted, error) {
	out := new(linted)
	for _, d := range docs {
		if err := out.add(d); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// add adds a document.
func (l *linted) add(d manifest.Document) error {
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
	switch gk := head.GroupVersionKind().GroupKind(); {
	case head.Kind == "CustomResourceDefinition":
		if l.repeats(d) {
			return nil
		}
		definition, err := lint.Load(lintSource(d))
		if err != nil {
			return err
		}
		l.set.Definitions = append(l.set.Definitions, definition)
	case lint.IsPolicy(gk):
		policy, err := lint.LoadPolicy(lintSource(d))
		if err != nil {
			return err
		}
		l.set.Policies = append(l.set.Policies, policy)
	case l.misnamed(d, gk):
	default:
		l.set.Objects = append(l.set.Objects, lint.Identity{GroupKind: gk, Namespace: head.Metadata.Namespace, Name: head.Metadata.Name})
	}
	return nil
}

// lintSource returns the text of a definition or policy.
func lintSource(d manifest.Document) lint.Source {
	text, line := d.Lines()
	src := lint.Source{Name: d.File, Line: line, Text: text}
	for _, k := range d.DuplicateKeys() {
		src.Duplicates = append(src.Duplicates, lint.Duplicate(k))
	}
	return src
}

// lintedKinds are the kinds that lint checks, with the apiVersion of each.
var lintedKinds = map[string]string{
	"CustomResourceDefinition":         "apiextensions.k8s.io/v1",
	"ValidatingAdmissionPolicy":        "admissionregistration.k8s.io/v1",
	"ValidatingAdmissionPolicyBinding": "admissionregistration.k8s.io/v1",
	"MutatingAdmissionPolicy":          "admissionregistration.k8s.io/v1",
	"MutatingAdmissionPolicyBinding":   "admissionregistration.k8s.io/v1",
}

// misnamed reports whether a document has a typo in the kind or group of what lint checks, or lacks
// one of them. It adds a report for it.
func (l *linted) misnamed(d manifest.Document, gk schema.GroupKind) bool {
	f := lint.Finding{File: d.File, Severity: lint.Error, Check: "server", ID: "server/unknown-kind", Path: "kind"}
	kinds := slices.Sorted(maps.Keys(lintedKinds))
	switch version, known := lintedKinds[gk.Kind]; {
	case known: // in another group
		group, _, _ := strings.Cut(version, "/")
		if gk.Group != "" && nearest.Name(gk.Group, []string{group}) == "" {
			return false // a kind of somebody else
		}
		f.Path, f.Message, f.Hint = "apiVersion", fmt.Sprintf("no definition of kind %q in group %q", gk.Kind, gk.Group), "write apiVersion: "+version
	case gk.Kind == "" && looksLikeDefinition(d):
		f.Message, f.Hint = "kind is missing", "write kind: CustomResourceDefinition"
	case gk.Group == "apiextensions.k8s.io", gk.Group == "admissionregistration.k8s.io":
		like := nearest.Name(gk.Kind, kinds)
		if like == "" {
			return false
		}
		f.Message, f.Hint = fmt.Sprintf("no definition of kind %q in group %q", gk.Kind, gk.Group), "write kind: "+like
	default:
		return false
	}
	f.Where = f.Path
	f.Line, f.Column = d.Position(f.Path)
	l.broken = append(l.broken, &lint.Report{File: d.File, Line: d.Line, Kind: gk.Kind, Name: offline.SubjectOf(d, "").Name, Findings: []lint.Finding{f}})
	return true
}

// looksLikeDefinition reports whether a document without a kind has the fields of a definition.
func looksLikeDefinition(d manifest.Document) bool {
	var fields struct {
		Spec struct {
			Group    string
			Names    struct{ Plural, Kind string }
			Versions []json.RawMessage
		}
	}
	return json.Unmarshal(d.JSON, &fields) == nil && fields.Spec.Names.Kind != "" && len(fields.Spec.Versions) > 0
}

// unreadable returns the report for a document that is neither YAML nor JSON.
func unreadable(d manifest.Document) *lint.Report {
	line, column, message := syntaxError(d)
	return &lint.Report{File: d.File, Line: d.Line, Findings: []lint.Finding{
		{File: d.File, Line: line, Column: column, Severity: lint.Error, Check: "server", ID: "server/syntax", Message: message}}}
}

// syntaxError returns the position and text of the error of a document that is neither YAML nor JSON.
// The error's text begins with the position.
func syntaxError(d manifest.Document) (line, column int, message string) {
	line = d.Line
	rest := strings.TrimPrefix(d.Err.Error(), d.File+":")
	for _, n := range []*int{&line, &column} {
		number, after, ok := strings.Cut(rest, ":")
		if value, err := strconv.Atoi(number); ok && err == nil {
			*n, rest = value, after
		}
	}
	return line, column, strings.TrimSpace(rest)
}
