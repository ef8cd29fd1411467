// This file has the command "normalize".

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/keelson-io/keelson/internal/cli/command"
	"github.com/keelson-io/keelson/internal/manifest"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/lint"
	"github.com/keelson-io/keelson/offline"
)

// normalizeOptions are the flags of normalize.
type normalizeOptions struct {
	definitions []string
	output      string
}

func newNormalizeCommand() *cobra.Command {
	o := normalizeOptions{}
	cmd := &cobra.Command{
		Use:   "normalize [-f CRD]... OBJECT...",
		Short: "Print objects as the server would store them: pruned and defaulted",
		Long: `Normalize prints objects as the server would store them. Fields that the schema does not declare are dropped. Nulls that it does
not allow are dropped or replaced by defaults. Absent fields get their defaults. Dropped and replaced values are reported on
standard error, with the file and the path. The version of an object does not change.

OBJECT is a file of YAML or JSON documents, a folder of such files, or "-" for standard input. -f names the definitions of their
kinds; built-in kinds need none. Objects are neither validated nor changed by policies: see "keelson validate" and "keelson
test".`,
		Example: `  keelson normalize -f crds/ route.yaml
  keelson normalize -f crds/ -o json - < route.yaml`,
		Annotations: command.Page("every object is printed", "an object cannot be read, or its kind is not known",
			"keelson help validate, keelson help test"),
		Args: command.NeedArguments("OBJECT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return normalize(cmd.Context(), o, args, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringArrayVarP(&o.definitions, "filename", "f", nil, "file or folder with CustomResourceDefinitions; may be repeated")
	f.StringVarP(&o.output, "output", "o", "yaml", "yaml or json")
	return cmd
}

// normalize prints every object. It stops at the first that cannot be read.
func normalize(ctx context.Context, o normalizeOptions, objects []string, stdin io.Reader, out, notes io.Writer) error {
	if !slices.Contains([]string{"yaml", "json"}, o.output) {
		return command.UsageError(fmt.Errorf("--output: got %q, want yaml or json", o.output))
	}
	if err := command.OnceStdin(objects, o.definitions); err != nil {
		return err
	}
	definitions, err := manifest.Read(o.definitions, stdin)
	if err != nil {
		return err
	}
	docs, err := manifest.Read(objects, stdin)
	if err != nil {
		return err
	}
	s, bad, err := openOffline(ctx, definitions)
	if err != nil {
		return err
	}
	defer s.Close()
	if len(bad) > 0 {
		return fmt.Errorf("%s: %s", bad[0].doc, bad[0].Status.Message)
	}
	for i, d := range docs {
		object, err := normalized(s, d, notes)
		if err != nil {
			return err
		}
		if err := command.PrintObject(out, o.output, i > 0, object); err != nil {
			return err
		}
	}
	return nil
}

// normalized returns an object as the server would store it, and writes to notes which fields were
// dropped.
func normalized(s *offline.Server, d manifest.Document, notes io.Writer) ([]byte, error) {
	if d.Err != nil {
		return nil, d.Err
	}
	version, err := s.Find(d)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", d, verdictOf(d, nil, err).Status.Message)
	}
	if version.Kind.Group == apiServices {
		return nil, fmt.Errorf("%s: %s cannot be normalized: %s", d, version.Kind.Name, noAPIServices)
	}
	object := new(jsondoc.Doc)
	found, err := version.Decode(object, d.JSON)
	if err != nil {
		if wrong, _ := mistypes(version, d); len(wrong) > 0 {
			return nil, mistyped(d, wrong)
		}
		return nil, fmt.Errorf("%s: %s in version %q cannot be handled as a %s: %w", d, version.Kind.Name, version.Name, version.Kind.Name, err)
	}
	var strict []jsondoc.StrictError
	if found != 0 {
		strict = version.Strict(d.JSON)
	}
	for _, note := range slices.Concat(d.Duplicates, jsondoc.StrictTexts(strict)) {
		fmt.Fprintf(notes, "%s: dropped %s\n", d, note)
	}
	for _, note := range nulls(d.JSON, object.Root(), strict) {
		fmt.Fprintf(notes, "%s: %s\n", d, note)
	}
	return object.Root().AppendJSON(nil), nil
}

// mistyped returns an error with a line for each value of the wrong type.
func mistyped(d manifest.Document, wrong []lint.Finding) error {
	var errs []error
	for _, f := range wrong {
		line, column := d.Position(f.Path)
		errs = append(errs, fmt.Errorf("%s:%d:%d: %s: %s", d.File, line, column, f.Path, f.Message))
	}
	return errors.Join(errs...)
}

// nulls describes the dropped nulls of an object, except for those of unknown fields. strict has
// these.
func nulls(text []byte, object jsondoc.Value, strict []jsondoc.StrictError) []string {
	var source jsondoc.Doc
	if jsondoc.Parse(&source, text) != nil {
		return nil
	}
	var notes []string
	var walk func(path string, was, is jsondoc.Value)
	note := func(path string, is jsondoc.Value) {
		isUnknown := func(e jsondoc.StrictError) bool { return e.Kind == jsondoc.UnknownField && e.Path == path }
		switch {
		case is.Kind() == jsondoc.Null || slices.ContainsFunc(strict, isUnknown):
		case is.Exists():
			notes = append(notes, "replaced null "+strconv.Quote(path)+" by its default")
		default:
			notes = append(notes, "dropped null "+strconv.Quote(path))
		}
	}
	walk = func(path string, was, is jsondoc.Value) {
		switch {
		case was.Kind() == jsondoc.Null:
			note(path, is)
		case was.Kind() == jsondoc.Object && is.Kind() == jsondoc.Object:
			for name, member := range was.Members() {
				walk(strings.TrimPrefix(path+"."+name, "."), member, is.Get(name))
			}
		case was.Kind() == jsondoc.Array && is.Kind() == jsondoc.Array && was.Len() == is.Len():
			for i, item := range was.Items() {
				walk(path+"["+strconv.Itoa(i)+"]", item, is.Item(i))
			}
		}
	}
	walk("", source.Root(), object)
	return notes
}
