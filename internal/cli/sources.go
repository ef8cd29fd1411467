// This file has the flags for definitions from elsewhere, and for the settings of a repository.

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/internal/cli/command"
	"github.com/keelson-io/keelson/internal/crdsource"
	"github.com/keelson-io/keelson/internal/manifest"
	"github.com/keelson-io/keelson/internal/settings"
	"github.com/keelson-io/keelson/offline"
)

// sourceFlags are the flags for definitions.
type sourceFlags struct {
	crds       []string
	settings   *settings.Settings // whose definitions count, too
	context    string
	kubeconfig string
}

func (s *sourceFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&s.crds, "crd", nil, "source of definitions: file, folder, glob, https URL, git:REVISION:PATH, or a catalogue's path with {{.Group}}, {{.ResourceKind}} and {{.ResourceAPIVersion}}; may be repeated")
	f.StringVar(&s.context, "context", "", "context of the kubeconfig whose cluster's definitions are used")
	f.StringVar(&s.kubeconfig, "kubeconfig", "", "kubeconfig `file` of the cluster whose definitions are used")
}

// definitionSources has the definitions of all sources.
type definitionSources struct {
	docs       []manifest.Document
	catalogues []*crdsource.Catalogue
	found      map[schema.GroupVersionKind][]manifest.Document // in the catalogues; a kind that they lack has nil
}

// read reads the sources.
func (s *sourceFlags) read(ctx context.Context, files manifest.Options, stdin io.Reader) (*definitionSources, error) {
	out := &definitionSources{}
	if s.settings != nil {
		within := files
		within.Within = s.settings.Root
		if err := out.readFrom(ctx, &crdsource.Reader{Stdin: stdin, Files: within}, s.settings.CRDs); err != nil {
			return nil, err
		}
	}
	if err := out.readFrom(ctx, &crdsource.Reader{Stdin: stdin, Files: files}, s.crds); err != nil {
		return nil, err
	}
	if s.context != "" || s.kubeconfig != "" {
		docs, err := crdsource.Cluster(ctx, s.kubeconfig, s.context)
		if err != nil {
			return nil, fmt.Errorf("the definitions of the cluster: %w", err)
		}
		out.docs = append(out.docs, docs...)
	}
	return out, nil
}

// readFrom adds the definitions of sources.
func (out *definitionSources) readFrom(ctx context.Context, r *crdsource.Reader, sources []string) error {
	for _, source := range sources {
		if crdsource.IsCatalogue(source) {
			c, err := r.Catalogue(source)
			if err != nil {
				return command.UsageError(fmt.Errorf("--crd: %w", err))
			}
			out.catalogues = append(out.catalogues, c)
			continue
		}
		docs, err := r.Read(ctx, source)
		if errors.Is(err, manifest.ErrOutside) {
			err = fmt.Errorf("%w; %s", err, settings.HowToTrust)
		}
		if err != nil {
			return fmt.Errorf("--crd: %w", err)
		}
		found := slices.DeleteFunc(slices.Clone(docs), func(d manifest.Document) bool { return d.Err != nil || !offline.IsDefinition(d) })
		if len(found) == 0 {
			return fmt.Errorf("--crd: %s: no CustomResourceDefinition in it%s", source, catalogueHint(source))
		}
		out.docs = append(out.docs, found...)
	}
	return nil
}

// catalogueFile matches the names of files in catalogues: widget_v1.json.
var catalogueFile = regexp.MustCompile(`([^/]+)/[a-z0-9]+_v[0-9a-z]+\.json$`)

// catalogueHint returns how to name a folder that is a catalogue.
func catalogueHint(source string) string {
	files, _ := manifest.Expand(source) // an error has been reported by reading them
	for _, file := range files {
		if m := catalogueFile.FindStringSubmatch(file); m != nil && strings.Contains(m[1], ".") {
			return fmt.Sprintf("; for a catalogue, write '%s/{{.Group}}/{{.ResourceKind}}_{{.ResourceAPIVersion}}.json'", strings.TrimSuffix(source, "/"))
		}
	}
	return ""
}

// lookUp adds the kinds of documents that are not defined from the catalogues to a server.
func (s *definitionSources) lookUp(ctx context.Context, server *offline.Server, docs []manifest.Document) ([]*verdict, error) {
	if len(s.catalogues) == 0 {
		return nil, nil
	}
	if s.found == nil {
		s.found = map[schema.GroupVersionKind][]manifest.Document{}
	}
	asked := map[schema.GroupVersionKind]bool{}
	var found []manifest.Document
	for _, d := range docs {
		_, err := server.Find(d)
		var unknown *offline.UnknownKindError
		if !errors.As(err, &unknown) {
			continue
		}
		k := offline.KindOf(d)
		if k.Kind == "" || k.Version == "" || asked[k] {
			continue
		}
		asked[k] = true
		if len(asked) > maxLookUps {
			return nil, fmt.Errorf("more than %d kinds to look up in catalogues", maxLookUps)
		}
		docs, known := s.found[k]
		for _, c := range s.catalogues {
			if known || docs != nil {
				break
			}
			if docs, err = c.Find(ctx, k); err != nil {
				return nil, fmt.Errorf("--crd: %w", err)
			}
		}
		s.found[k] = docs
		found = append(found, docs...)
	}
	return addDefinitions(ctx, server, found)
}

// maxLookUps is the number of kinds that are looked up in catalogues. Each may be a request.
const maxLookUps = 1000

// addDefinitions adds definitions to a server. Versions of a kind that a catalogue has in several
// files become one definition.
func addDefinitions(ctx context.Context, server *offline.Server, docs []manifest.Document) ([]*verdict, error) {
	docs, err := crdsource.Merge(docs)
	if err != nil {
		return nil, err
	}
	refused, _, err := server.Add(ctx, docs)
	var bad []*verdict
	for _, r := range refused {
		bad = append(bad, verdictOf(r.Document, r.Answer, nil))
	}
	return bad, err
}

// settingsFlags are the flags for the settings of a repository and for baselines.
type settingsFlags struct {
	config        string
	trusted       bool
	baseline      string
	writeBaseline string
}

func (s *settingsFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.config, "config", "", "settings `file` (default: "+settings.Name+" in the working directory or above it, up to the root of the repository)")
	f.BoolVar(&s.trusted, "trust-settings", false, "let the settings file name URLs and files outside of its repository")
	f.StringVar(&s.baseline, "baseline", "", "`file` with known findings, which are not reported")
	f.StringVar(&s.writeBaseline, "write-baseline", "", "write all findings to this `file`, as known ones, and succeed")
}

// load returns the settings and a filter of the findings of lint, or of validate.
func (s *settingsFlags) load(lint bool) (*settings.Settings, *settings.Filter, error) {
	var err error
	var found *settings.Settings
	if s.config != "" {
		found, err = settings.Read(s.config, s.trusted)
	} else {
		found, err = settings.Find(".", s.trusted)
	}
	if err != nil {
		return nil, nil, command.UsageError(err)
	}
	if s.baseline == "" {
		s.baseline = found.Baseline
	}
	file := s.baseline
	if s.writeBaseline != "" {
		file = s.writeBaseline
	}
	filter, err := found.Filter(file, lint, s.writeBaseline != "")
	return found, filter, err
}

// finish writes the baseline if it is asked for, and notes about settings that have no effect. done
// reports whether a baseline was written.
func (s *settingsFlags) finish(filter *settings.Filter, notes io.Writer) (done bool, err error) {
	if s.writeBaseline != "" {
		n, err := filter.Write(s.writeBaseline)
		if err == nil {
			fmt.Fprintf(notes, "keelson: %s: %s written; name it with --baseline, or as baseline in %s\n", s.writeBaseline, command.Plural(n, "finding"), settings.Name)
		}
		return true, err
	}
	for _, note := range filter.Notes() {
		fmt.Fprintln(notes, "keelson: "+note)
	}
	return false, nil
}
