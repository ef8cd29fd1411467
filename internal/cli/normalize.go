// This file is the command "normalize": what the server would store.

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// normalizeOptions are the flags of normalize.
type normalizeOptions struct {
	definitions []string
	output      string
}

func newNormalizeCommand() *cobra.Command {
	o := normalizeOptions{}
	cmd := &cobra.Command{
		Use:   "normalize -f CRD... OBJECT...",
		Short: "Print objects as the server would store them: pruned and defaulted",
		Long: `Normalize prints custom resources as the server would store them: fields that the schema does not declare are dropped, nulls that
it does not allow are dropped, defaults are filled in. What was dropped is said on standard error, with the file and the path.

OBJECT is a file of YAML or JSON documents, a folder of such files, or "-" for standard input. The definitions of their kinds
are named with -f. Objects are not validated: "keelson validate" does that.`,
		Example: `  keelson normalize -f crds/ route.yaml
  keelson normalize -f crds/ -o json - < route.yaml`,
		Args: needObject,
		RunE: func(cmd *cobra.Command, args []string) error {
			return normalize(cmd.Context(), o, args, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringArrayVarP(&o.definitions, "filename", "f", nil, "file or folder with CustomResourceDefinitions; may be repeated")
	f.StringVarP(&o.output, "output", "o", "yaml", "yaml or json")
	return cmd
}

// normalize prints every object; the first that cannot be read ends it.
func normalize(ctx context.Context, o normalizeOptions, objects []string, stdin io.Reader, out, notes io.Writer) error {
	if !slices.Contains([]string{"yaml", "json"}, o.output) {
		return &usageError{fmt.Errorf("--output: got %q, want yaml or json", o.output)}
	}
	if err := onceStdin(objects, o.definitions); err != nil {
		return err
	}
	definitions, err := readDocuments(o.definitions, stdin)
	if err != nil {
		return err
	}
	docs, err := readDocuments(objects, stdin)
	if err != nil {
		return err
	}
	e := newEngine("")
	bad, err := e.define(ctx, definitions)
	if err != nil {
		return err
	}
	if len(bad) > 0 {
		return fmt.Errorf("%s: %s", bad[0].Source, bad[0].Status.Message)
	}
	for i, d := range docs {
		version, object, found, v := e.decode(d)
		if v.Status != nil && d.Err != nil {
			return d.Err
		}
		if v.Status != nil {
			return fmt.Errorf("%s: %s", v.Source, v.Status.Message)
		}
		for _, note := range dropped(version, d, found) {
			fmt.Fprintf(notes, "%s: dropped %s\n", d, note)
		}
		if err := printObject(out, o.output, i > 0, object.Root().AppendJSON(nil)); err != nil {
			return err
		}
	}
	return nil
}

// printObject writes one object; more says that there was one before.
func printObject(out io.Writer, format string, more bool, object []byte) error {
	var b bytes.Buffer
	if format == "json" {
		if err := json.Indent(&b, object, "", "  "); err != nil {
			return err
		}
		b.WriteByte('\n')
	} else {
		if more {
			b.WriteString("---\n")
		}
		text, err := yaml.JSONToYAML(object)
		if err != nil {
			return err
		}
		b.Write(text)
	}
	_, err := out.Write(b.Bytes())
	return err
}
