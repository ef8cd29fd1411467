// Package convert has the command "convert" of keelson: objects converted from one version to another by declared conversions.
package convert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/keelson-io/keelson/internal/cli/command"
	"github.com/keelson-io/keelson/internal/conversion/declared"
	"github.com/keelson-io/keelson/internal/manifest"
	"github.com/keelson-io/keelson/offline"
)

// options are the flags of convert.
type options struct {
	files   []string // with definitions and Conversions
	to      string   // a version
	output  string   // yaml or json; "" for text, or for YAML where an object is printed
	check   bool
	objects int           // most of each version, for --check
	timeout time.Duration // of --check, for each Conversion
	serve   serveConversions
}

// Command returns the command "convert".
func Command() *cobra.Command {
	o := options{}
	cmd := &cobra.Command{
		Use:   "convert -f CRD -f CONVERSION {--to VERSION OBJECT... | --check | --serve}",
		Short: "Convert objects between the versions of their definition, without writing a webhook",
		Long: `Convert changes objects to another version of their CustomResourceDefinition, as a Conversion declares it: an object of keelson.io/v1alpha1
with the name of the definition. It lists what differs between each version and one of them, the hub: moved fields, other values,
texts and their parts, lists and maps, and CEL expressions.

-f names files and folders with definitions and Conversions. A Conversion is checked against the schemas of both versions first: each
mistake is reported with its file, line and column.

OBJECT is a file of YAML or JSON documents, a folder of such files, a glob, or "-" for standard input. Objects get the defaults of their
version, and must be valid in it. Fields that a version does not declare are dropped, and reported on standard error.

--check searches for valid objects that a round trip to the other version and back changes, that cannot be converted, or that are not
valid afterwards. It prints such an object, and where a loss can be declared: as text, or with -o for programs. That it finds nothing is no
proof. Objects are printed as YAML, unless -o says otherwise.

--serve is a conversion webhook for Kubernetes clusters. Name its address in spec.conversion of the definition, with the path /convert.
The files of the certificate are read again when they change.`,
		Example: `  keelson convert -f apps/ --to v1 app.yaml
  keelson convert -f apps/ --to v1 -o json - < app.yaml
  keelson convert -f apps/crd.yaml -f apps/conversion.yaml --check`,
		Annotations: command.Page("all objects are converted; with --check, nothing was found", "a Conversion or an object has mistakes; with --check, a conversion loses data",
			"keelson help witness, keelson help validate", "docs/conversion.md: how to declare a conversion"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.checkFlags(args); err != nil {
				return err
			}
			return o.run(cmd.Context(), args, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringArrayVarP(&o.files, "filename", "f", nil, "file or folder with definitions and Conversions; may be repeated")
	f.StringVar(&o.to, "to", "", "version to which objects are converted")
	f.StringVarP(&o.output, "output", "o", "", "yaml or json")
	f.BoolVar(&o.check, "check", false, "search for conversions that lose data")
	f.IntVar(&o.objects, "objects", declared.DefaultObjects, "with --check, greatest number of objects of each version")
	f.DurationVar(&o.timeout, "timeout", 2*time.Minute, "with --check, longest time for each Conversion")
	o.serve.add(f)
	return cmd
}

// checkFlags returns an error for flags that do not fit together.
func (o *options) checkFlags(args []string) error {
	modes := 0
	for _, is := range []bool{o.to != "", o.check, o.serve.on} {
		if is {
			modes++
		}
	}
	var err error
	switch {
	case modes != 1:
		err = errors.New("convert: want one of --to, --check and --serve")
	case len(o.files) == 0:
		err = errors.New("convert: want -f with a definition and its Conversion")
	case o.to == "" && len(args) > 0:
		err = errors.New("convert: objects are converted with --to only")
	case o.to != "" && len(args) == 0:
		err = errors.New(`convert: no OBJECT named ("-" is standard input)`)
	case !slices.Contains([]string{"", "yaml", "json"}, o.output):
		err = fmt.Errorf("--output: got %q, want yaml or json", o.output)
	case o.objects <= 0 || o.timeout <= 0:
		err = errors.New("--objects, --timeout: want positive values")
	case o.serve.on:
		err = o.serve.check()
	}
	if err != nil {
		return command.UsageError(err)
	}
	return command.OnceStdin(o.files, args)
}

// run runs the command.
func (o *options) run(ctx context.Context, args []string, stdin io.Reader, out, notes io.Writer) error {
	conversions, err := readConversions(o.files, stdin, notes)
	if err != nil {
		return err
	}
	switch {
	case o.check:
		return o.runCheck(ctx, conversions, out, notes)
	case o.serve.on:
		return o.serve.run(ctx, conversions, notes)
	}
	return o.convert(ctx, conversions, args, stdin, out, notes)
}

// sourcedConversion is a compiled Conversion with its document.
type sourcedConversion struct {
	*declared.Converter
	document manifest.Document
}

// readConversions reads and compiles the Conversions in files. It writes mistakes to notes, and
// returns their number as an error.
func readConversions(paths []string, stdin io.Reader, notes io.Writer) ([]sourcedConversion, error) {
	docs, err := manifest.Read(paths, stdin)
	if err != nil {
		return nil, err
	}
	definitions := map[string]*apiextv1.CustomResourceDefinition{}
	var found []manifest.Document
	for _, d := range docs {
		if d.Err != nil {
			return nil, d.Err
		}
		head, _ := d.Head()
		if strings.HasPrefix(head.APIVersion, "keelson.io/") && head.Kind == declared.Kind {
			found = append(found, d)
		}
		if !offline.IsDefinition(d) {
			continue
		}
		def, err := command.Definition(d)
		if err != nil {
			return nil, err
		}
		if definitions[def.Name] != nil {
			return nil, fmt.Errorf("%s: the definition %s is in -f twice", d, def.Name)
		}
		definitions[def.Name] = def
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s: no %s of %s in it: docs/conversion.md shows how to write one", strings.Join(paths, ", "), declared.Kind, declared.APIVersion)
	}
	var out []sourcedConversion
	mistakes := 0
	names := map[string]bool{}
	for _, d := range found {
		c, err := compileConversion(d, definitions, names)
		if err == nil {
			out = append(out, sourcedConversion{c, d})
			continue
		}
		mistakes += printProblems(notes, d, err)
	}
	if mistakes > 0 {
		return nil, fmt.Errorf("%s in %s", command.Plural(mistakes, "mistake"), command.Plural(len(found), "Conversion"))
	}
	return out, nil
}

// compileConversion compiles the Conversion in a document. names has those that were compiled before.
func compileConversion(d manifest.Document, definitions map[string]*apiextv1.CustomResourceDefinition, names map[string]bool) (*declared.Converter, error) {
	if len(d.Duplicates) > 0 {
		return nil, errors.New(strings.Join(d.Duplicates, ", "))
	}
	c, err := declared.Parse(d.JSON)
	if err != nil {
		return nil, err
	}
	name := c.Metadata.Name
	def := definitions[name]
	if def == nil {
		return nil, declared.Problems{{Path: "metadata.name", Message: fmt.Sprintf("there is no definition %q in -f: name its file with -f, too", name)}}
	}
	if names[name] {
		return nil, declared.Problems{{Path: "metadata.name", Message: fmt.Sprintf("a definition has one Conversion, and %q has another one in -f", name)}}
	}
	names[name] = true
	return declared.Compile(def, c)
}

// printProblems writes the mistakes of a document with their positions, and returns their number.
func printProblems(notes io.Writer, d manifest.Document, err error) int {
	var problems declared.Problems
	if !errors.As(err, &problems) {
		problems = declared.Problems{{Message: err.Error()}}
	}
	for _, p := range problems {
		line, column := d.Position(p.Path)
		message := p.Message
		if p.Path != "" {
			message = p.Path + ": " + message
		}
		fmt.Fprintf(notes, "%s:%d:%d: %s\n", d.File, line, column, message)
	}
	return len(problems)
}

// convert prints the objects in files in another version. Objects that cannot be converted are
// reported, and the others are printed nevertheless.
func (o *options) convert(ctx context.Context, conversions []sourcedConversion, args []string, stdin io.Reader, out, notes io.Writer) error {
	docs, err := manifest.Read(args, stdin)
	if err != nil {
		return err
	}
	if len(docs) == 0 {
		return fmt.Errorf("%s: no object in it", strings.Join(args, ", "))
	}
	format := o.output
	if format == "" {
		format = "yaml"
	}
	failed, printed := 0, false
	for _, d := range docs {
		object, err := o.one(ctx, conversions, d, notes)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			failed++
			printObjectErrors(notes, d, err)
			continue
		}
		if err := command.PrintObject(out, format, printed, object); err != nil {
			return err
		}
		printed = true
	}
	if failed > 0 {
		return fmt.Errorf("%d of %s not converted", failed, command.Plural(len(docs), "object"))
	}
	return nil
}

// one converts the object in a document.
func (o *options) one(ctx context.Context, conversions []sourcedConversion, d manifest.Document, notes io.Writer) ([]byte, error) {
	if d.Err != nil {
		return nil, d.Err
	}
	i := slices.IndexFunc(conversions, func(c sourcedConversion) bool { return c.Converts(d.JSON) })
	if i < 0 {
		head, _ := d.Head()
		return nil, fmt.Errorf("there is no Conversion for kind %q of %q: name the file that has it with -f", head.Kind, head.APIVersion)
	}
	object, dropped, err := conversions[i].Whole(ctx, d.JSON, o.to)
	for _, note := range append(slices.Clone(d.Duplicates), dropped...) {
		fmt.Fprintf(notes, "%s: dropped %s\n", d, note)
	}
	return object, err
}

// printObjectErrors writes why an object was not converted, with positions.
func printObjectErrors(notes io.Writer, d manifest.Document, err error) {
	var invalid *declared.InvalidError
	if !errors.As(err, &invalid) {
		line, column := 1, 1
		if d.Err == nil {
			line, column = d.Position("")
			err = fmt.Errorf("%s:%d:%d: %w", d.File, line, column, err)
		}
		fmt.Fprintln(notes, err)
		return
	}
	for _, e := range invalid.Errors {
		line, column := d.Position(e.Field)
		fmt.Fprintf(notes, "%s:%d:%d: not valid in %s: %v\n", d.File, line, column, invalid.Version, e)
	}
}

// conversionReport is the result of --check, as it is printed.
type conversionReport struct {
	Definition string `json:"definition"` // its name
	Source     string `json:"source"`     // the document with the Conversion
	*declared.Report
}

// runCheck searches for conversions that lose data, and prints what it finds.
func (o *options) runCheck(ctx context.Context, conversions []sourcedConversion, out, notes io.Writer) error {
	var reports []conversionReport
	findings := 0
	count := command.NewCounter(notes, "checked", len(conversions))
	for _, c := range conversions {
		within, cancel := context.WithTimeout(ctx, o.timeout)
		report, err := c.Check(within, o.objects)
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, context.DeadlineExceeded) {
			fmt.Fprintf(notes, "keelson: %s: the time of --timeout was up after %s: the search was not complete\n", c.Name(), command.Plural(report.Objects, "object"))
		}
		findings += len(report.Findings)
		reports = append(reports, conversionReport{c.Name(), c.document.String(), report})
		count.Step()
	}
	count.Done()
	if o.output != "" {
		text, err := json.Marshal(struct {
			command.Envelope
			Conversions []conversionReport `json:"conversions"`
		}{command.EnvelopeOf("ConversionReport"), reports})
		if err == nil {
			err = command.PrintObject(out, o.output, false, text)
		}
		if err != nil {
			return err
		}
	} else if err := printConversionReports(out, conversions, reports); err != nil {
		return err
	}
	if findings > 0 {
		return fmt.Errorf("%s in %s", command.Plural(findings, "counterexample"), command.Plural(len(conversions), "Conversion"))
	}
	return nil
}

// printConversionReports writes reports as text.
func printConversionReports(out io.Writer, conversions []sourcedConversion, reports []conversionReport) error {
	paint := command.Painter(out)
	var b strings.Builder
	for i, r := range reports {
		d := conversions[i].document
		for _, f := range r.Findings {
			line, column := d.Position(f.Path)
			fmt.Fprintf(&b, "%s:%d:%d: %s\n", d.File, line, column, paint("1", titleOf(&f)))
			for _, part := range []struct {
				title string
				text  json.RawMessage
			}{{"valid in " + f.From, f.Object}, {"in " + f.Via, f.Converted}, {"back in " + f.From, f.Returned}} {
				if part.text == nil {
					continue
				}
				var text strings.Builder
				if err := command.PrintObject(&text, "yaml", false, part.text); err != nil {
					return err
				}
				fmt.Fprintf(&b, "  %s:\n    %s\n", paint("36", part.title), command.Indent(strings.TrimSpace(text.String()), "    "))
			}
			if field := f.Field(); field != "" {
				fmt.Fprintf(&b, "  Convert it with a step, or declare the loss: name %q in %s, under preserve or drop.\n", field, f.Path)
			}
			b.WriteByte('\n')
		}
		if len(r.Findings) == 0 {
			fmt.Fprintf(&b, "%s: %s: no undeclared loss among %s of the versions %s\n", d, r.Definition, command.Plural(r.Objects, "object"), strings.Join(conversions[i].Versions(), ", "))
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// titleOf returns what a finding is, in one line.
func titleOf(f *declared.Finding) string {
	switch f.Kind {
	case declared.Failed:
		return "a valid object cannot be converted " + f.Message
	case declared.Invalid:
		return fmt.Sprintf("a valid object of %s is not valid in %s: %s", f.From, f.Via, f.Message)
	}
	d := f.Differences[0]
	shown := func(v json.RawMessage) string {
		switch {
		case v == nil:
			return "absent"
		case len(v) > 60:
			return string(v[:60]) + "…"
		}
		return string(v)
	}
	return fmt.Sprintf("from %s to %s and back, %s changes: it was %s, and is %s", f.From, f.Via, d.Field, shown(d.Before), shown(d.After))
}
