// This file is the command "validate": the server's verdict, offline.

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// validateOptions are the flags of validate.
type validateOptions struct {
	definitions     []string
	old             []string
	output          string
	namespace       string
	fieldValidation string
}

func newValidateCommand() *cobra.Command {
	o := validateOptions{}
	cmd := &cobra.Command{
		Use:   "validate -f CRD... OBJECT...",
		Short: "Say what the server would say to objects, without a server",
		Long: `Validate gives the server's verdict on custom resources, in the server's words, without a server.

OBJECT is a file of YAML or JSON documents, a folder of such files, or "-" for standard input. The definitions of their kinds
are named with -f, which takes files and folders as well. CustomResourceDefinitions can be objects, too: they are checked as the
server checks them.

With --old, an object is checked as an update of the object of the same kind, namespace and name in those files: transition
rules and immutable fields are checked then. Objects that are not there are checked as new ones.

The exit code is 1 if an object is not valid.`,
		Example: `  keelson validate -f crds/ routes.yaml
  kubectl get httproute web -o yaml | keelson validate -f crds/ --old - changed.yaml
  keelson validate new-crd.yaml -o json`,
		Args: needObject,
		RunE: func(cmd *cobra.Command, args []string) error {
			return validate(cmd.Context(), o, args, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringArrayVarP(&o.definitions, "filename", "f", nil, "file or folder with CustomResourceDefinitions; may be repeated")
	f.StringArrayVar(&o.old, "old", nil, "file or folder with the objects as they are now; may be repeated")
	f.StringVarP(&o.output, "output", "o", "text", "text or json")
	f.StringVarP(&o.namespace, "namespace", "n", "default", "namespace of objects that name none")
	f.StringVar(&o.fieldValidation, "field-validation", "Strict", "what unknown and duplicate fields are: Strict, Warn or Ignore")
	return cmd
}

// validate prints a verdict for each object; the error says how many were bad.
func validate(ctx context.Context, o validateOptions, objects []string, stdin io.Reader, out io.Writer) error {
	if !slices.Contains([]string{"text", "json"}, o.output) {
		return &usageError{fmt.Errorf("--output: got %q, want text or json", o.output)}
	}
	if !slices.Contains([]string{"Strict", "Warn", "Ignore"}, o.fieldValidation) {
		return &usageError{fmt.Errorf("--field-validation: got %q, want Strict, Warn or Ignore", o.fieldValidation)}
	}
	if err := onceStdin(objects, o.definitions, o.old); err != nil {
		return err
	}
	definitions, err := readDocuments(o.definitions, stdin)
	if err != nil {
		return err
	}
	olds, err := readDocuments(o.old, stdin)
	if err != nil {
		return err
	}
	docs, err := readDocuments(objects, stdin)
	if err != nil {
		return err
	}
	e := newEngine(o.namespace)
	verdicts, err := e.define(ctx, definitions)
	if err != nil {
		return err
	}
	byName, err := e.index(olds)
	if err != nil {
		return err
	}
	for _, d := range docs {
		var old *document
		if found, ok := byName[e.identify(d)]; ok {
			old = &found
		}
		verdicts = append(verdicts, e.check(ctx, d, old, o.fieldValidation))
	}
	if err := printVerdicts(out, o.output, verdicts); err != nil {
		return err
	}
	bad := 0
	for _, v := range verdicts {
		if !v.Valid {
			bad++
		}
	}
	switch {
	case len(verdicts) == 0:
		return errors.New("no object to validate")
	case bad > 0:
		return fmt.Errorf("%d of %d objects not valid", bad, len(verdicts))
	}
	return nil
}

// onceStdin refuses a second "-": standard input can be read once.
func onceStdin(lists ...[]string) error {
	n := 0
	for _, l := range lists {
		for _, p := range l {
			if p == "-" {
				n++
			}
		}
	}
	if n > 1 {
		return &usageError{errors.New(`"-" (standard input) is named more than once`)}
	}
	return nil
}

// objectID says which stored object a document is about; versions of a kind are the same object.
type objectID struct{ group, kind, namespace, name string }

func (e *engine) identify(d document) objectID {
	var head struct {
		APIVersion, Kind string
		Metadata         struct{ Namespace, Name string }
	}
	if d.Err != nil || json.Unmarshal(d.JSON, &head) != nil {
		return objectID{}
	}
	group, _, ok := strings.Cut(head.APIVersion, "/")
	if !ok {
		group = ""
	}
	if head.Metadata.Namespace == "" {
		head.Metadata.Namespace = e.namespace
	}
	return objectID{group, head.Kind, head.Metadata.Namespace, head.Metadata.Name}
}

func (e *engine) index(docs []document) (map[objectID]document, error) {
	byName := map[objectID]document{}
	for _, d := range docs {
		if d.Err != nil {
			return nil, d.Err
		}
		byName[e.identify(d)] = d
	}
	return byName, nil
}

// printVerdicts writes the verdicts, one below the other or as one JSON document.
func printVerdicts(out io.Writer, format string, verdicts []verdict) error {
	if format == "json" {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(struct {
			Results []verdict `json:"results"`
		}{verdicts})
	}
	paint := painter(out)
	var b strings.Builder
	for _, v := range verdicts {
		fmt.Fprintf(&b, "%s: %s%s\n", v.Source, v.subject(), map[bool]string{true: paint("32", "valid"), false: paint("31", "invalid")}[v.Valid])
		if v.Status != nil {
			for _, line := range reasons(v) {
				fmt.Fprintf(&b, "  %s\n", strings.ReplaceAll(line, "\n", "\n    "))
			}
		}
		for _, w := range v.Warnings {
			fmt.Fprintf(&b, "  %s %s\n", paint("33", "warning:"), w)
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// subject names the object; "" if the document is none.
func (v verdict) subject() string {
	if v.Kind == "" {
		return ""
	}
	name := v.Name
	if v.Namespace != "" {
		name = v.Namespace + "/" + name
	}
	return v.Kind + " " + name + ": "
}

// reasons lists what is wrong: a line for each field error, or the message.
func reasons(v verdict) []string {
	if d := v.Status.Details; d != nil && len(d.Causes) > 0 {
		var lines []string
		for _, c := range d.Causes {
			lines = append(lines, c.Field+": "+c.Message)
		}
		return lines
	}
	return strings.Split(v.Status.Message, "\n")
}

// painter colours text if out is a terminal and nobody asked for none.
func painter(out io.Writer) func(code, text string) string {
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == "" {
		return func(code, text string) string { return "\x1b[" + code + "m" + text + "\x1b[0m" }
	}
	return func(_, text string) string { return text }
}
