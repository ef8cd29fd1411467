// This file has the command "witness".

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/keelson-io/keelson/internal/cli/command"
	"github.com/keelson-io/keelson/internal/manifest"
	"github.com/keelson-io/keelson/internal/witness"
	"github.com/keelson-io/keelson/offline"
	"github.com/keelson-io/keelson/suite"
)

// witnessOptions are the flags of witness.
type witnessOptions struct {
	rule    string
	version string
	output  string
	minimal bool
	timeout time.Duration
}

func newWitnessCommand() *cobra.Command {
	o := witnessOptions{}
	cmd := &cobra.Command{
		Use:   "witness CRD...",
		Short: "Find the smallest object that each rule accepts, and the smallest that it refuses",
		Long: `Witness shows what each rule of a CustomResourceDefinition means: the smallest object that it accepts, and the smallest that it
refuses. The rest of both objects is valid, and they have the defaults and the other rules of the schema. If a refused object must
violate other rules, too, they are listed. For a rule that reads oldSelf, there are two objects: the old and the new one.

If a rule has no such object, witness says whether that is proved: such a rule has no effect, or nothing is valid. Otherwise the
search ended at its bound. The search is deterministic: the same definition gives the same objects.

--minimal prints the smallest valid object of each kind instead, as a manifest to start from.

CRD is a file of YAML or JSON documents, a folder of such files, a glob, or "-" for standard input. To write the objects as a suite
for "keelson test", use "keelson test --init".`,
		Example: `  keelson witness crds/widgets.yaml
  keelson witness --rule spec.replicas crds/
  keelson witness --minimal crds/widgets.yaml > widget.yaml
  keelson witness -o json crds/ | jq '.rules[] | select(.refused.proved)'`,
		Annotations: command.Page("each rule has both objects, or it is proved that there is none",
			"for a rule, none was found and none is impossible; or a definition cannot be read",
			"keelson help test, keelson help lint, keelson help validate", "docs/witness.md: what is searched, and how to read the result"),
		Args: command.NeedArguments("CRD"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runWitness(cmd.Context(), o, args, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.rule, "rule", "", "only rules whose path, text or message contains this text")
	f.StringVar(&o.version, "version", "", "only this version; with --minimal, the default is the storage version")
	f.StringVarP(&o.output, "output", "o", "text", "text, yaml or json")
	f.BoolVar(&o.minimal, "minimal", false, "print the smallest valid object of each kind")
	f.DurationVar(&o.timeout, "timeout", 10*time.Second, "longest time for each rule")
	return cmd
}

// runWitness prints the witnesses. The error has the number of rules without.
func runWitness(ctx context.Context, o witnessOptions, paths []string, stdin io.Reader, out, notes io.Writer) error {
	if !slices.Contains([]string{"text", "yaml", "json"}, o.output) {
		return command.UsageError(fmt.Errorf("--output: got %q, want text, yaml or json", o.output))
	}
	if o.timeout <= 0 {
		return command.UsageError(fmt.Errorf("--timeout: got %v, want a positive time", o.timeout))
	}
	definitions, err := readDefinitions(paths, stdin)
	if err != nil {
		return err
	}
	search, err := witness.NewOptions()
	if err != nil {
		return err
	}
	if o.minimal {
		return o.printMinimal(ctx, definitions, search, out)
	}
	rules, err := o.find(ctx, definitions, search, notes)
	if err != nil {
		return err
	}
	if err := o.print(out, rules); err != nil {
		return err
	}
	missing := 0
	for _, r := range rules {
		if r.pair.Missing() != "" {
			missing++
		}
	}
	if missing > 0 {
		return fmt.Errorf("%s of %d: an object was not found, and it is not proved that there is none", command.Plural(missing, "rule"), len(rules))
	}
	return nil
}

// sourcedDefinition is a definition with its position.
type sourcedDefinition struct {
	*apiextv1.CustomResourceDefinition
	source string
}

// readDefinitions reads the definitions in files. A definition that a server would refuse is an
// error.
func readDefinitions(paths []string, stdin io.Reader) ([]sourcedDefinition, error) {
	docs, err := manifest.Read(paths, stdin)
	if err != nil {
		return nil, err
	}
	var out []sourcedDefinition
	for _, d := range docs {
		if d.Err != nil {
			return nil, d.Err
		}
		if !offline.IsDefinition(d) {
			continue
		}
		def, err := command.Definition(d)
		if err != nil {
			return nil, err
		}
		out = append(out, sourcedDefinition{def, d.String()})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: no CustomResourceDefinition in it", paths[0])
	}
	return out, nil
}

// witnessRule is a rule with its witnesses, as they are printed.
type witnessRule struct {
	Definition string        `json:"definition"`
	Version    string        `json:"version"`
	Path       string        `json:"path"` // in the schema, with [*] for items and {*} for values
	Index      int           `json:"index"`
	Rule       string        `json:"rule"`
	Message    string        `json:"message,omitempty"`
	Transition bool          `json:"transition,omitempty"` // the rule reads oldSelf
	Accepted   witnessObject `json:"accepted"`
	Refused    witnessObject `json:"refused"`

	source string
	pair   witness.Pair
}

// witnessObject is a witness, as it is printed.
type witnessObject struct {
	Object json.RawMessage `json:"object,omitempty"`
	Old    json.RawMessage `json:"old,omitempty"`    // the object that it replaces
	Place  string          `json:"place,omitempty"`  // of the value that the rule decides about
	Fails  bool            `json:"fails,omitempty"`  // the rule is not false, but fails
	Also   []string        `json:"also,omitempty"`   // other rules that refuse the object
	Proved bool            `json:"proved,omitempty"` // it is proved that there is no object
	Reason string          `json:"reason,omitempty"` // why there is no object
}

// find searches for the witnesses of all rules.
func (o *witnessOptions) find(ctx context.Context, definitions []sourcedDefinition, search witness.Options, notes io.Writer) ([]*witnessRule, error) {
	var rules []*witnessRule
	var searches []*witness.Search
	for _, d := range definitions {
		versions, err := witness.Versions(d.CustomResourceDefinition, search)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.source, err)
		}
		for _, v := range versions {
			if o.version != "" && v.Name != o.version {
				continue
			}
			for _, r := range v.Search.Rules() {
				if !strings.Contains(r.String()+"\n"+r.Message, o.rule) && !strings.Contains(r.ValidationRule.Rule, o.rule) {
					continue
				}
				rules = append(rules, &witnessRule{Definition: d.Name, Version: v.Name, Path: r.Path, Index: r.Index, Rule: r.ValidationRule.Rule,
					Message: r.Message, Transition: v.Search.IsTransition(r), source: d.source, pair: witness.Pair{Rule: r}})
				searches = append(searches, v.Search)
			}
		}
	}
	if len(rules) == 0 {
		if o.rule != "" || o.version != "" {
			return nil, errors.New("no rule matches --rule and --version")
		}
		return nil, errors.New("the definitions have no rules (x-kubernetes-validations); for the smallest valid object, use --minimal")
	}
	count := command.NewCounter(notes, "searched for rules", len(rules))
	defer count.Done()
	for i, r := range rules {
		within, cancel := context.WithTimeout(ctx, o.timeout)
		r.pair = searches[i].Both(within, r.pair.Rule)
		cancel()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		r.Accepted, r.Refused = objectOf(&r.pair.Accepted), objectOf(&r.pair.Refused)
		r.Refused.Fails = r.pair.Fails
		count.Step()
	}
	return rules, nil
}

// objectOf returns a result as it is printed.
func objectOf(r *witness.Result) witnessObject {
	out := witnessObject{Object: r.Object, Old: r.Old, Proved: r.Constant}
	if r.Object == nil {
		out.Reason = r.Reason
		return out
	}
	out.Place = r.Place
	for _, other := range r.Also {
		out.Also = append(out.Also, other.String())
	}
	return out
}

// print writes the rules in a format.
func (o *witnessOptions) print(out io.Writer, rules []*witnessRule) error {
	if o.output != "text" {
		text, err := json.Marshal(witnessReport{command.EnvelopeOf("WitnessReport"), rules})
		if err != nil {
			return err
		}
		return command.PrintObject(out, o.output, false, text)
	}
	paint := command.Painter(out)
	var b strings.Builder
	before := ""
	for _, r := range rules {
		if title := fmt.Sprintf("%s: %s %s", r.source, r.Definition, r.Version); title != before {
			fmt.Fprintf(&b, "%s\n\n", paint("1", title))
			before = title
		}
		path := strings.TrimPrefix(r.Path, ".")
		if path == "" {
			path = "(root)"
		}
		fmt.Fprintf(&b, "  %s: %s\n", path, paint("36", strings.Join(strings.Fields(r.Rule), " ")))
		r.Accepted.print(&b, paint("32", "accepted"), "accepts")
		r.Refused.print(&b, paint("31", "refused"), "refuses")
		b.WriteByte('\n')
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// print writes one witness. word and verb say which one.
func (w *witnessObject) print(b *strings.Builder, word, verb string) {
	switch {
	case w.Object == nil && w.Proved:
		fmt.Fprintf(b, "    It %s no object. Proof: %s.\n", verb, w.Reason)
		return
	case w.Object == nil:
		fmt.Fprintf(b, "    Not found: an object that it %s: %s.\n", verb, w.Reason)
		return
	}
	if w.Place != "" {
		word += " at " + strings.TrimPrefix(w.Place, ".")
	}
	if w.Fails {
		word += ", because the rule fails"
	}
	fmt.Fprintf(b, "    %s:\n", word)
	for _, part := range []struct {
		title string
		text  json.RawMessage
	}{{"old", w.Old}, {"new", w.Object}} {
		if part.text == nil {
			continue
		}
		var text strings.Builder
		if command.PrintObject(&text, "yaml", false, part.text) != nil {
			continue
		}
		if w.Old != nil {
			fmt.Fprintf(b, "      # %s\n", part.title)
		}
		fmt.Fprintf(b, "      %s\n", command.Indent(strings.TrimSpace(text.String()), "      "))
	}
	for _, other := range w.Also {
		fmt.Fprintf(b, "      # also refused by %s\n", strings.Join(strings.Fields(other), " "))
	}
}

// printMinimal writes the smallest valid object of each definition.
func (o *witnessOptions) printMinimal(ctx context.Context, definitions []sourcedDefinition, search witness.Options, out io.Writer) error {
	format := o.output
	if format == "text" {
		format = "yaml"
	}
	more := false
	for _, d := range definitions {
		versions, err := witness.Versions(d.CustomResourceDefinition, search)
		if err != nil {
			return fmt.Errorf("%s: %w", d.source, err)
		}
		for _, v := range versions {
			if o.version == "" && !v.Stored || o.version != "" && v.Name != o.version {
				continue
			}
			within, cancel := context.WithTimeout(ctx, o.timeout)
			object := v.Search.Minimal(within)
			cancel()
			if object == nil {
				return fmt.Errorf("%s: %s %s: the search found no valid object: write one by hand, and check it with keelson validate", d.source, d.Name, v.Name)
			}
			if err := command.PrintObject(out, format, more, object); err != nil {
				return err
			}
			more = true
		}
	}
	if !more {
		return fmt.Errorf("--version: no definition has a version %q", o.version)
	}
	return nil
}

// initSuite writes a suite for a definition to a file that must not exist, or to out.
func initSuite(ctx context.Context, args []string, stdin io.Reader, out, notes io.Writer) error {
	if len(args) > 2 || args[0] == "-" && len(args) > 1 {
		return command.UsageError(errors.New("--init: want a file with a definition, and optionally the file of the new suite"))
	}
	definitions, err := readDefinitions(args[:1], stdin)
	if err != nil {
		return err
	}
	if len(definitions) != 1 {
		return fmt.Errorf("%s: got %d definitions, want one: write a suite for each", args[0], len(definitions))
	}
	def, crdPath := definitions[0], args[0]
	if len(args) == 2 {
		if relative, err := filepath.Rel(filepath.Dir(args[1]), args[0]); err == nil && !filepath.IsAbs(args[0]) {
			crdPath = filepath.ToSlash(relative)
		}
		if _, err := os.Stat(args[1]); err == nil {
			return fmt.Errorf("%s: exists: name a new file, or delete this one", args[1])
		}
	}
	search, err := witness.NewOptions()
	if err != nil {
		return err
	}
	count := command.NewCounter(notes, "searched for rules", 0)
	text, err := suite.Init(ctx, def.CustomResourceDefinition, crdPath, search, count.Step)
	count.Done()
	if err != nil {
		return err
	}
	if len(args) == 1 {
		_, err := command.Documents(out).Write(text)
		return err
	}
	f, err := os.OpenFile(args[1], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.Write(text); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}
