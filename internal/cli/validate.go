// This file has the command "validate".

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/keelson-io/keelson/internal/manifest"
	"github.com/keelson-io/keelson/internal/offline"
	"github.com/keelson-io/keelson/internal/source"
)

// validateOptions are the flags of validate.
type validateOptions struct {
	definitions     []string
	old             []string
	output          string
	quiet           bool
	exclude         []string
	skipKinds       []string
	ignoreMissing   bool
	ignorePaths     []string
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

OBJECT is a file of YAML or JSON documents, a folder of such files, a glob (** matches any number of folders), or "-" for standard
input. Objects can be custom resources, and objects of built-in kinds such as ConfigMaps, Roles, Deployments, definitions and
policies. In folders and globs, hidden files and folders are left out, and texts that are not objects of a server are skipped and
counted: templates, files of kustomize and Helm, other YAML. Definitions among the objects define kinds, too, unless -f does.

-f names files, folders and globs with the objects that decide about others:

  definitions   CustomResourceDefinitions, of apiextensions.k8s.io/v1 and v1beta1.
  policies      ValidatingAdmissionPolicies and MutatingAdmissionPolicies, their bindings and parameters. Mutating policies change
                the object before it is validated. A denial has the policy's name. Webhooks are not called.
  namespaces    Namespaces with labels and annotations, for selectors. All other namespaces exist, too, with only the label of
                their name. Namespaces among the objects count as well.
  roles         Roles, ClusterRoles and their bindings. If there are any, they decide whether the user may make the request, and
                answer policies that check permissions. Without roles, every request is allowed. A policy that checks the
                permissions of a user outside of system:masters then has no verdict.

Other documents are ignored. Documents that the server refuses are listed with their own verdict. Two documents that describe an
object differently are an error.

Each mistake has its file, line and column. With --field-validation Strict, an object with unknown fields is also checked without
them, so that one run shows all mistakes.

With --old, an object is checked as an update of the object with the same kind, namespace and name in those files: transition
rules, immutable fields and ratcheting apply. The old object need not be valid. Objects without an old one are checked as new. With
--subresource status, the request updates the status. Conversion webhooks are not called: an object is checked in its own
version, and its old object must have the same version.`,
		Example: `  keelson validate -f crds/ routes.yaml
  keelson validate -f crds/ -f policies/ --as jane --as-group devs routes.yaml
  kubectl get httproute web -o yaml | keelson validate -f crds/ --old - changed.yaml
  keelson validate -f crds/ -f policies/ --operation DELETE routes.yaml
  keelson validate new-crd.yaml -o json
  kubectl kustomize . | keelson validate -f crds/ -
  keelson validate --ignore-missing --exclude testdata -q deploy/`,
		Annotations: page("every object is valid", "an object is not valid, or there is none; what is wrong with it is on standard output",
			"keelson help normalize, keelson help test, keelson help lint", "docs/testing.md: suites of objects, with policies"),
		Args: needArguments("OBJECT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return validate(cmd.Context(), o, args, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringArrayVarP(&o.definitions, "filename", "f", nil, "file, folder or glob with definitions, policies, namespaces and roles; may be repeated")
	f.StringArrayVar(&o.old, "old", nil, "file, folder or glob with the stored objects; may be repeated")
	f.StringVarP(&o.output, "output", "o", "text", "text, json, junit, sarif or github")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print only what is not valid")
	f.StringArrayVar(&o.exclude, "exclude", nil, "glob of files and folders to leave out; without a slash, it matches names at any depth; may be repeated")
	f.StringArrayVar(&o.skipKinds, "skip-kind", nil, "kind whose objects are not checked, as Kind or Kind.group; may be repeated")
	f.BoolVar(&o.ignoreMissing, "ignore-missing", false, "skip objects of kinds that nothing defines")
	f.StringArrayVar(&o.ignorePaths, "ignore-path", nil, "field that is removed from objects before they are checked, such as sops or spec.items[*].secret; may be repeated")
	f.StringVarP(&o.namespace, "namespace", "n", "default", "namespace of objects that name none")
	f.StringVar(&o.fieldValidation, "field-validation", "Strict", "how unknown and duplicate fields are treated: Strict, Warn or Ignore")
	f.StringVar(&o.operation, "operation", "", "operation of the request: CREATE, UPDATE or DELETE (default: UPDATE if --old has the object, otherwise CREATE)")
	f.StringVar(&o.subresource, "subresource", "", "subresource to update: status; by default the object itself")
	o.as.add(cmd)
	return cmd
}

// validate prints a verdict for each object. The error has the number of invalid ones.
func validate(ctx context.Context, o validateOptions, objects []string, stdin io.Reader, out, notes io.Writer) error {
	v, err := o.check()
	if err != nil {
		return err
	}
	if err := onceStdin(objects, o.definitions, o.old); err != nil {
		return err
	}
	read := manifest.Options{Exclude: o.exclude, ObjectsOnly: true}
	if err := read.Check(); err != nil {
		return &usageError{fmt.Errorf("--exclude: %w", err)}
	}
	var in [3]*manifest.Input
	for i, paths := range [][]string{o.definitions, o.old, objects} {
		if in[i], err = read.Read(paths, stdin); err != nil {
			return err
		}
	}
	for _, d := range in[0].Documents {
		if what := notEvaluated(d); what != "" {
			fmt.Fprintf(notes, "keelson: %s: %s is not evaluated here\n", d, what)
		}
	}
	if err := v.open(ctx, in[0].Documents, in[1].Documents, in[2]); err != nil {
		return err
	}
	defer v.server.Close()
	wait := newCounter(notes, "validated", len(in[2].Documents))
	defer wait.done()
	for i := range in[2].Documents {
		if err := ctx.Err(); err != nil {
			return err
		}
		v.verdicts = append(v.verdicts, v.judge(ctx, in[2].Documents[i]))
		wait.step()
	}
	wait.done()
	if err := v.print(out); err != nil {
		return err
	}
	return v.summary()
}

// validation is a run of validate.
type validation struct {
	validateOptions
	user      *offline.User
	ignored   [][]string // paths, as steps
	server    *offline.Server
	before    map[offline.Subject]*manifest.Document
	conflicts map[string]*offline.Conflict // of definitions among the objects, by position of the second one
	verdicts  []verdict
	skipped   []manifest.Skipped // texts that are not objects
}

// open opens a server with the objects that decide about others.
func (v *validation) open(ctx context.Context, deciding, olds []manifest.Document, in *manifest.Input) error {
	v.skipped = in.Skipped
	defined := map[offline.Subject]bool{}
	for _, d := range deciding {
		defined[offline.SubjectOf(d, "")] = true
	}
	var among []manifest.Document
	for _, d := range in.Documents {
		if offline.IsDefinition(d) && !defined[offline.SubjectOf(d, "")] {
			among = append(among, d)
		}
	}
	among, conflicts := offline.Distinct(among)
	v.conflicts = map[string]*offline.Conflict{}
	for _, c := range conflicts {
		v.conflicts[c.Second.String()] = c
	}
	s, refused, err := openOffline(ctx, deciding)
	if err != nil {
		return err
	}
	v.server, v.verdicts = s, refused
	// A definition among the objects that is refused has its verdict as an object.
	if _, _, err = s.Add(ctx, among); err == nil {
		v.before, err = bySubject(olds, v.namespace)
	}
	for _, all := range [][]manifest.Document{olds, in.Documents} {
		if err == nil {
			err = s.Assume(ctx, all)
		}
	}
	if err != nil {
		return errors.Join(err, s.Close())
	}
	return nil
}

// judge returns the verdict on an object.
func (v *validation) judge(ctx context.Context, d manifest.Document) verdict {
	if why := v.skips(d); why != "" {
		out := verdictOf(d, nil, nil)
		out.Skipped = why
		return out
	}
	d, err := without(d, v.ignored)
	if err != nil {
		return verdictOf(d, nil, err)
	}
	r := &offline.Request{Operation: v.operation, Object: &d, Namespace: v.namespace, Subresource: v.subresource, FieldValidation: v.fieldValidation, User: v.user}
	if v.operation == "" || v.operation == offline.Update {
		r.Old = v.before[offline.SubjectOf(d, v.namespace)]
	}
	answer, err := v.server.Do(ctx, r)
	out := verdictOf(d, answer, err)
	if answer != nil && answer.Refusal != nil && answer.Refusal.Code == http.StatusBadRequest && v.fieldValidation == "Strict" {
		lenient := *r
		lenient.FieldValidation = "Ignore"
		if more, err := v.server.Do(ctx, &lenient); err == nil && (more.Refusal == nil || more.Refusal.Code != http.StatusBadRequest) {
			out.strict(d, answer.Version, more)
		}
	}
	if c := v.conflicts[d.String()]; c != nil {
		out.add(d, "Conflict", "", c.Text())
	}
	return out
}

// skips returns why an object is not checked; "" if it is.
func (v *validation) skips(d manifest.Document) string {
	s := offline.SubjectOf(d, "")
	if s.Kind == "" {
		return ""
	}
	if slices.Contains(v.skipKinds, s.Kind) || slices.Contains(v.skipKinds, s.GroupKind.String()) {
		return "--skip-kind"
	}
	if !v.ignoreMissing {
		return ""
	}
	var unknown *offline.UnknownKindError
	if _, err := v.server.Find(d); errors.As(err, &unknown) && len(unknown.Versions) == 0 {
		return "nothing defines its kind"
	}
	return ""
}

// check validates the flags.
func (o validateOptions) check() (*validation, error) {
	v := &validation{validateOptions: o}
	for _, p := range o.ignorePaths {
		steps := source.Split(p)
		if len(steps) == 0 {
			return nil, &usageError{fmt.Errorf("--ignore-path: got %q, want a field such as spec.secret", p)}
		}
		v.ignored = append(v.ignored, steps)
	}
	switch {
	case !slices.Contains([]string{"text", "json", "junit", "sarif", "github"}, o.output):
		return nil, &usageError{fmt.Errorf("--output: got %q, want text, json, junit, sarif or github", o.output)}
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
	var err error
	v.user, err = o.as.user()
	return v, err
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

// painter returns a function that colours text, if out is a terminal and colours are not disabled.
func painter(out io.Writer) func(code, text string) string {
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == "" {
		return func(code, text string) string { return "\x1b[" + code + "m" + text + "\x1b[0m" }
	}
	return func(_, text string) string { return text }
}
