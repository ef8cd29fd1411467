// This file has the command "validate".

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/keelson-io/keelson/internal/cli/command"
	"github.com/keelson-io/keelson/internal/manifest"
	"github.com/keelson-io/keelson/internal/settings"
	"github.com/keelson-io/keelson/internal/source"
	"github.com/keelson-io/keelson/lint"
	"github.com/keelson-io/keelson/offline"
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
	explain         bool
	as              command.UserFlags
	sources         sourceFlags
	settingsFlags
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

-f names files, folders and globs with the objects that decide about others (without an OBJECT, it names the objects, as for kubectl):

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

--crd names more sources of definitions: also a URL, files in a git revision (git:main:crds/), and catalogues such as
'schemas/{{.Group}}/{{.ResourceKind}}_{{.ResourceAPIVersion}}.json', a path or URL with a JSON schema or definition for each kind.
--context and --kubeconfig take the definitions of a cluster; nothing else is asked of it.

A file .keelson.yaml in the repository has definitions, excludes, suppressed findings and more, so that flags are not needed. See
docs/ci.md.

--explain says why the rules of a definition refuse an object: the value of each part of the rule with its position in the rule, the
element that decided a macro such as all(), and the path in the object that a part reads. See docs/explain.md.

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
		Annotations: command.Page("every object is valid", "an object is not valid, or there is none; what is wrong with it is on standard output",
			"keelson help normalize, keelson help test, keelson help lint", "docs/testing.md: suites of objects, with policies"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return validate(cmd, o, args)
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
	f.BoolVar(&o.explain, "explain", false, "for each rule that refuses an object, print the values of its parts and where they are in the object")
	f.StringVar(&o.subresource, "subresource", "", "subresource to update: status; by default the object itself")
	o.sources.add(cmd)
	o.settingsFlags.add(cmd)
	o.as.Add(cmd)
	return cmd
}

// applySettings adds the settings of the repository to the flags.
func (o *validateOptions) applySettings(cmd *cobra.Command) (*settings.Filter, error) {
	known, filter, err := o.load(false)
	if err != nil {
		return nil, err
	}
	o.sources.settings = known
	o.exclude = slices.Concat(known.Exclude, o.exclude)
	o.skipKinds = slices.Concat(known.SkipKinds, o.skipKinds)
	o.ignorePaths = slices.Concat(known.IgnorePaths, o.ignorePaths)
	o.ignoreMissing = o.ignoreMissing || known.IgnoreMissing
	if !cmd.Flags().Changed("output") && known.Output != "" {
		o.output = known.Output
	}
	return filter, nil
}

// validate prints a verdict for each object. The error has the number of invalid ones.
func validate(cmd *cobra.Command, o validateOptions, objects []string) error {
	if len(objects) == 0 { // as for kubectl, which knows no other files
		o.definitions, objects = nil, o.definitions
	}
	if len(objects) == 0 {
		return command.NoneNamed(cmd, "OBJECT")
	}
	ctx, stdin, out, notes := cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	filter, err := o.applySettings(cmd)
	if err != nil {
		return err
	}
	v, err := o.check()
	if err != nil {
		return err
	}
	if err := command.OnceStdin(objects, o.definitions, o.old, o.sources.crds); err != nil {
		return err
	}
	read := manifest.Options{Exclude: o.exclude, ObjectsOnly: true}
	if err := read.Check(); err != nil {
		return command.UsageError(fmt.Errorf("--exclude: %w", err))
	}
	if v.sources, err = o.sources.read(ctx, read, stdin); err != nil {
		return err
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
	if err := v.judgeAll(ctx, v.setAside(in[2].Documents), notes); err != nil {
		return err
	}
	for i := range v.skipsUsed[:len(v.skipKinds)-len(o.sources.settings.SkipKinds)] {
		if at := i + len(o.sources.settings.SkipKinds); !v.skipsUsed[at].Load() {
			fmt.Fprintf(notes, "keelson: --skip-kind %s: no object has this kind\n", v.skipKinds[at])
		}
	}
	v.drop(filter)
	if done, err := o.finish(filter, notes); done || err != nil {
		return err
	}
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
	sources   *definitionSources
	before    map[offline.Subject]*manifest.Document
	conflicts map[string]*offline.Conflict // of definitions among the objects, by position of the second one
	verdicts  []*verdict
	skipped   []manifest.Skipped // texts that are not objects
	skipsUsed []atomic.Bool      // which of the kinds to skip some object has
}

// open opens a server with the objects that decide about others.
func (v *validation) open(ctx context.Context, deciding, olds []manifest.Document, in *manifest.Input) error {
	v.skipped = in.Skipped
	defined := map[offline.Subject]bool{}
	deciding = slices.Concat(deciding, v.sources.docs)
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
	var err error
	if v.before, err = bySubject(olds, v.namespace); err != nil {
		return err
	}
	v.server, v.verdicts, err = v.openServer(ctx, deciding, among, [][]manifest.Document{olds, in.Documents})
	return err
}

// openServer opens the server. It returns the verdicts on deciding objects that it refuses.
func (v *validation) openServer(ctx context.Context, deciding, among []manifest.Document, objects [][]manifest.Document) (*offline.Server, []*verdict, error) {
	s, refused, err := openOffline(ctx, deciding)
	if err != nil {
		return nil, nil, err
	}
	// A definition among the objects that is refused has its verdict as an object.
	_, _, err = s.Add(ctx, among)
	for _, all := range objects {
		if err == nil {
			err = s.Assume(ctx, all)
		}
		if err == nil {
			var more []*verdict
			more, err = v.sources.lookUp(ctx, s, all)
			refused = append(refused, more...)
		}
	}
	if err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	return s, refused, nil
}

// setAside returns the documents that are checked, and counts the others as texts that are not
// objects: files found in folders of a kind and group that nothing defines, without metadata.
func (v *validation) setAside(docs []manifest.Document) []manifest.Document {
	return slices.DeleteFunc(slices.Clone(docs), func(d manifest.Document) bool {
		if !d.Found || d.Err != nil || d.HasMetadata() {
			return false
		}
		var unknown *offline.UnknownKindError
		if _, err := v.server.Find(d); !errors.As(err, &unknown) || !unknown.Foreign {
			return false
		}
		v.skipped = append(v.skipped, d.Skip("not an object: it has no metadata, and nothing defines its kind"))
		return true
	})
}

// judgeAll adds a verdict for each object.
func (v *validation) judgeAll(ctx context.Context, docs []manifest.Document, notes io.Writer) error {
	out := make([]*verdict, len(docs))
	wait := command.NewCounter(notes, "validated", len(docs))
	defer wait.Done()
	var next atomic.Int64
	var stepping sync.Mutex
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(docs) {
					return
				}
				out[i] = v.judge(ctx, v.server, docs[i])
				stepping.Lock()
				wait.Step()
				stepping.Unlock()
			}
		})
	}
	group.Wait()
	v.verdicts = append(v.verdicts, out...)
	return ctx.Err()
}

// judge returns the verdict of a server on an object.
func (v *validation) judge(ctx context.Context, server *offline.Server, d manifest.Document) *verdict {
	if why := v.skips(server, d); why != "" {
		out := verdictOf(d, nil, nil)
		out.Skipped = why
		return out
	}
	d, err := without(d, v.ignored)
	if err != nil {
		return verdictOf(d, nil, err)
	}
	r := &offline.Request{Operation: v.operation, Object: &d, Namespace: v.namespace, Subresource: v.subresource, FieldValidation: v.fieldValidation, User: v.user, Explain: v.explain, VerdictOnly: true}
	if len(v.before) > 0 && (v.operation == "" || v.operation == offline.Update) {
		r.Old = v.before[offline.SubjectOf(d, v.namespace)]
	}
	answer, err := server.Do(ctx, r)
	out := verdictOf(d, answer, err)
	if answer != nil && answer.Refusal != nil && answer.Refusal.Code == http.StatusBadRequest {
		v.further(ctx, server, out, *r, answer)
	}
	out.explainPlaceholders(d)
	switch c := v.conflictOf(d); {
	case c == nil:
	case c.Outside:
		out.warn(ruleConflict, "", c.Text())
	default:
		out.add(d, ruleConflict, "", c.Text())
	}
	for _, k := range d.BooleanKeys() {
		out.found(lint.Warning, k.Line, k.Column, ruleBooleanKey, k.Path, fmt.Sprintf("YAML reads the key %s as %s; if that is not meant, write %q", k.Written, k.Name, k.Written))
	}
	return out
}

// conflictOf returns the conflict of a definition; nil if there is none.
func (v *validation) conflictOf(d manifest.Document) *offline.Conflict {
	if len(v.conflicts) == 0 {
		return nil
	}
	return v.conflicts[d.String()]
}

// further adds the mistakes that a server does not report, because it cannot decode the object: those
// behind unknown and duplicate fields, and behind values of the wrong type.
func (v *validation) further(ctx context.Context, server *offline.Server, out *verdict, r offline.Request, answer *offline.Answer) {
	d := *r.Object
	undecoded := func(a *offline.Answer) bool { return a.Refusal != nil && a.Refusal.Code == http.StatusBadRequest }
	strict := r.FieldValidation == "Strict"
	r.FieldValidation = "Ignore"
	more, err := server.Do(ctx, &r)
	if err != nil {
		return
	}
	var wrong []lint.Finding
	reduced := d
	if undecoded(more) {
		var text []byte
		if wrong, text = mistypes(answer.Version, d); len(wrong) == 0 {
			return
		}
		reduced.SetJSON(text)
		r.Object = &reduced
		if more, err = server.Do(ctx, &r); err != nil {
			return
		}
	}
	if strict {
		out.strict(reduced, answer.Version)
	} else {
		out.dropErrors()
	}
	for _, m := range wrong {
		out.add(d, m.ID, m.Path, m.Message)
	}
	if more.Refusal != nil {
		known := len(out.Findings)
		out.refused(d, more.Refusal)
		// What was left out for its type is not missing.
		out.Findings = slices.Concat(out.Findings[:known], slices.DeleteFunc(slices.Clone(out.Findings[known:]), func(f lint.Finding) bool {
			return slices.ContainsFunc(wrong, func(w lint.Finding) bool { return f.Path == w.Path })
		}))
	}
}

// noAPIServices says why APIServices are not checked.
const noAPIServices = "keelson serves no API of other servers"

// skips returns why an object is not checked; "" if it is.
func (v *validation) skips(server *offline.Server, d manifest.Document) string {
	s := offline.SubjectOf(d, "")
	if s.Kind == "" {
		return ""
	}
	for i, skipped := range v.skipKinds {
		if strings.EqualFold(skipped, s.Kind) || strings.EqualFold(skipped, s.GroupKind.String()) {
			v.skipsUsed[i].Store(true)
			return "--skip-kind"
		}
	}
	if s.Group == apiServices {
		return noAPIServices
	}
	if !v.ignoreMissing {
		return ""
	}
	var unknown *offline.UnknownKindError
	if _, err := server.Find(d); errors.As(err, &unknown) && len(unknown.Versions) == 0 && !unknown.Removed && !unknown.Incomplete {
		return "nothing defines its kind"
	}
	return ""
}

// apiServices is the group of APIServices. A server registers its own ones, and refuses others.
const apiServices = "apiregistration.k8s.io"

// check validates the flags.
func (o validateOptions) check() (*validation, error) {
	v := &validation{validateOptions: o, skipsUsed: make([]atomic.Bool, len(o.skipKinds))}
	for _, p := range o.ignorePaths {
		steps := source.Split(p)
		if len(steps) == 0 {
			return nil, command.UsageError(fmt.Errorf("--ignore-path: got %q, want a field such as spec.secret", p))
		}
		v.ignored = append(v.ignored, steps)
	}
	switch {
	case !slices.Contains([]string{"text", "json", "junit", "sarif", "github"}, o.output):
		return nil, command.UsageError(fmt.Errorf("--output: got %q, want text, json, junit, sarif or github", o.output))
	case !slices.Contains([]string{"Strict", "Warn", "Ignore"}, o.fieldValidation):
		return nil, command.UsageError(fmt.Errorf("--field-validation: got %q, want Strict, Warn or Ignore", o.fieldValidation))
	case !slices.Contains([]string{"", offline.Create, offline.Update, offline.Delete}, o.operation):
		return nil, command.UsageError(fmt.Errorf("--operation: got %q, want CREATE, UPDATE or DELETE", o.operation))
	case !slices.Contains([]string{"", "status"}, o.subresource):
		return nil, command.UsageError(fmt.Errorf("--subresource: got %q, want status", o.subresource))
	case o.operation == offline.Update && len(o.old) == 0:
		return nil, command.UsageError(errors.New("--operation UPDATE: name the objects as they are now with --old"))
	case o.subresource != "" && len(o.old) == 0:
		return nil, command.UsageError(errors.New("--subresource: only updates are made to one; name the objects as they are now with --old"))
	}
	var err error
	v.user, err = o.as.User()
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
