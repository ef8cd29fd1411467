// This file has the command "validate".

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

	"github.com/keelson-io/keelson/internal/manifest"
	"github.com/keelson-io/keelson/internal/offline"
)

// validateOptions are the flags of validate.
type validateOptions struct {
	definitions     []string
	old             []string
	output          string
	namespace       string
	fieldValidation string
	operation       string
	subresource     string
	as              userFlags
}

func newValidateCommand() *cobra.Command {
	o := validateOptions{}
	cmd := &cobra.Command{
		Use:   "validate [-f FILE]... OBJECT...",
		Short: "Validate objects as the server would, without a server",
		Long: `Validate prints the server's verdict on objects, with the server's texts. It runs the server's code in its own process, by dry-run
requests; no server needs to be running.

OBJECT is a file of YAML or JSON documents, a folder of such files, or "-" for standard input. Objects can be custom resources,
and objects of built-in kinds such as ConfigMaps, Roles, Deployments, definitions and policies.

-f names files and folders with the objects that decide about others:

  definitions   CustomResourceDefinitions, of apiextensions.k8s.io/v1 and v1beta1.
  policies      ValidatingAdmissionPolicies and MutatingAdmissionPolicies, their bindings and parameters. Mutating policies change
                the object before it is validated. A denial has the policy's name. Webhooks are not called.
  namespaces    Namespaces with labels and annotations, for selectors. All other namespaces exist, too, with only the label of
                their name. Namespaces among the objects count as well.
  roles         Roles, ClusterRoles and their bindings. If there are any, they decide whether the user may make the request, and
                answer policies that check permissions. Without roles, every request is allowed. A policy that checks the
                permissions of a user outside of system:masters then has no verdict.

Other documents are ignored. Documents that the server refuses are listed with their own verdict.

With --old, an object is checked as an update of the object with the same kind, namespace and name in those files: transition
rules, immutable fields and ratcheting apply. The old object need not be valid. Objects without an old one are checked as new. With
--subresource status, the request updates the status. Conversion webhooks are not called: an object is checked in its own
version, and its old object must have the same version.`,
		Example: `  keelson validate -f crds/ routes.yaml
  keelson validate -f crds/ -f policies/ --as jane --as-group devs routes.yaml
  kubectl get httproute web -o yaml | keelson validate -f crds/ --old - changed.yaml
  keelson validate -f crds/ -f policies/ --operation DELETE routes.yaml
  keelson validate new-crd.yaml -o json`,
		Annotations: page("every object is valid", "an object is not valid, or there is none; what is wrong with it is on standard output",
			"keelson help normalize, keelson help test, keelson help lint", "docs/testing.md: suites of objects, with policies"),
		Args: needArguments("OBJECT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return validate(cmd.Context(), o, args, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringArrayVarP(&o.definitions, "filename", "f", nil, "file or folder with definitions, policies, namespaces and roles; may be repeated")
	f.StringArrayVar(&o.old, "old", nil, "file or folder with the stored objects; may be repeated")
	f.StringVarP(&o.output, "output", "o", "text", "text or json")
	f.StringVarP(&o.namespace, "namespace", "n", "default", "namespace of objects that name none")
	f.StringVar(&o.fieldValidation, "field-validation", "Strict", "how unknown and duplicate fields are treated: Strict, Warn or Ignore")
	f.StringVar(&o.operation, "operation", "", "operation of the request: CREATE, UPDATE or DELETE (default: UPDATE if --old has the object, otherwise CREATE)")
	f.StringVar(&o.subresource, "subresource", "", "subresource to update: status; by default the object itself")
	o.as.add(cmd)
	return cmd
}

// validate prints a verdict for each object. The error has the number of invalid ones.
func validate(ctx context.Context, o validateOptions, objects []string, stdin io.Reader, out io.Writer) error {
	user, err := o.check()
	if err != nil {
		return err
	}
	if err := onceStdin(objects, o.definitions, o.old); err != nil {
		return err
	}
	var read [3][]manifest.Document
	for i, paths := range [][]string{o.definitions, o.old, objects} {
		if read[i], err = manifest.Read(paths, stdin); err != nil {
			return err
		}
	}
	olds, docs := read[1], read[2]
	s, verdicts, err := openOffline(ctx, read[0])
	if err != nil {
		return err
	}
	defer s.Close()
	before, err := bySubject(olds, o.namespace)
	if err != nil {
		return err
	}
	for _, all := range [][]manifest.Document{olds, docs} {
		if err := s.Assume(ctx, all); err != nil {
			return err
		}
	}
	for i := range docs {
		r := &offline.Request{Operation: o.operation, Object: &docs[i], Namespace: o.namespace, Subresource: o.subresource, FieldValidation: o.fieldValidation, User: user}
		if o.operation == "" || o.operation == offline.Update {
			r.Old = before[offline.SubjectOf(docs[i], o.namespace)]
		}
		answer, err := s.Do(ctx, r)
		verdicts = append(verdicts, verdictOf(docs[i], answer, err))
	}
	if err := printVerdicts(out, o.output, verdicts); err != nil {
		return err
	}
	return summary(verdicts)
}

// check validates the flags, and returns the user of the requests.
func (o *validateOptions) check() (*offline.User, error) {
	switch {
	case !slices.Contains([]string{"text", "json"}, o.output):
		return nil, &usageError{fmt.Errorf("--output: got %q, want text or json", o.output)}
	case !slices.Contains([]string{"Strict", "Warn", "Ignore"}, o.fieldValidation):
		return nil, &usageError{fmt.Errorf("--field-validation: got %q, want Strict, Warn or Ignore", o.fieldValidation)}
	case !slices.Contains([]string{"", offline.Create, offline.Update, offline.Delete}, o.operation):
		return nil, &usageError{fmt.Errorf("--operation: got %q, want CREATE, UPDATE or DELETE", o.operation)}
	case !slices.Contains([]string{"", "status"}, o.subresource):
		return nil, &usageError{fmt.Errorf("--subresource: got %q, want status", o.subresource)}
	case o.operation == offline.Update && len(o.old) == 0:
		return nil, &usageError{errors.New("--operation UPDATE: name the objects as they are now with --old")}
	case o.subresource != "" && len(o.old) == 0:
		return nil, &usageError{errors.New("--subresource: only updates are made to one; name the objects as they are now with --old")}
	}
	return o.as.user()
}

// summary returns an error with the number of invalid objects, nil if there are none.
func summary(verdicts []verdict) error {
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

// bySubject maps the objects of documents to the documents.
func bySubject(docs []manifest.Document, namespace string) (map[offline.Subject]*manifest.Document, error) {
	out := map[offline.Subject]*manifest.Document{}
	for i, d := range docs {
		if d.Err != nil {
			return nil, d.Err
		}
		out[offline.SubjectOf(d, namespace)] = &docs[i]
	}
	return out, nil
}

// onceStdin refuses a second "-", because standard input can be read only once.
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

// printVerdicts writes the verdicts in a format.
func printVerdicts(out io.Writer, format string, verdicts []verdict) error {
	if format == "json" {
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false)
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

// subject returns kind and name of the object; "" if the document is not an object.
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

// reasons returns a line for each field error, or the message.
func reasons(v verdict) []string {
	if d := v.Status.Details; d != nil && len(d.Causes) > 0 {
		var lines []string
		for _, c := range d.Causes {
			line := c.Message
			if c.Field != "" {
				line = c.Field + ": " + c.Message
			}
			lines = append(lines, line)
		}
		return lines
	}
	return strings.Split(v.Status.Message, "\n")
}

// painter returns a function that colours text, if out is a terminal and colours are not disabled.
func painter(out io.Writer) func(code, text string) string {
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == "" {
		return func(code, text string) string { return "\x1b[" + code + "m" + text + "\x1b[0m" }
	}
	return func(_, text string) string { return text }
}
