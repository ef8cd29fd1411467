package crdsource

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/internal/manifest"
)

// This file looks up kinds in catalogues.

// Catalogue has a file for each kind: a JSON schema, or a definition.
type Catalogue struct {
	reader *Reader
	source string
}

// placeholder matches a placeholder of a catalogue's template.
var placeholder = regexp.MustCompile(`\{\{-?\s*\.?([A-Za-z]*)\s*-?\}\}`)

// placeholders lists the placeholders, with the values for the kind Widget in example.com/v1. They
// have the names that kubeconform gives them.
var placeholders = []struct {
	name  string
	value func(schema.GroupVersionKind) string
}{
	{"Group", func(k schema.GroupVersionKind) string { // example.com
		if k.Group == "" {
			return k.Version
		}
		return k.Group
	}},
	{"ResourceKind", func(k schema.GroupVersionKind) string { return strings.ToLower(k.Kind) }}, // widget
	{"ResourceAPIVersion", func(k schema.GroupVersionKind) string { return k.Version }},         // v1
	{"KindSuffix", kindSuffix}, // -example-v1
	{"NormalizedKubernetesVersion", func(schema.GroupVersionKind) string { return "v1.37.0" }}, // v1.37.0
	{"StrictSuffix", func(schema.GroupVersionKind) string { return "-strict" }},                // -strict
}

// kindSuffix returns the group up to its first dot, and the version.
func kindSuffix(k schema.GroupVersionKind) string {
	if k.Group == "" {
		return "-" + k.Version
	}
	first, _, _ := strings.Cut(k.Group, ".")
	return "-" + strings.ToLower(first+"-"+k.Version)
}

// Catalogue returns a catalogue. It refuses a template that has unknown placeholders, or none for
// the kind.
func (r *Reader) Catalogue(source string) (*Catalogue, error) {
	var names []string
	for _, p := range placeholders {
		names = append(names, "{{."+p.name+"}}")
	}
	used := placeholder.FindAllStringSubmatch(source, -1)
	for _, m := range used {
		if !slices.ContainsFunc(placeholders, func(p struct {
			name  string
			value func(schema.GroupVersionKind) string
		}) bool {
			return p.name == m[1]
		}) {
			return nil, fmt.Errorf("%s: unknown placeholder %s, want some of %s", source, m[0], strings.Join(names, " "))
		}
	}
	switch {
	case strings.Contains(placeholder.ReplaceAllString(source, ""), "{{"):
		return nil, fmt.Errorf("%s: malformed placeholder, want some of %s", source, strings.Join(names, " "))
	case !slices.ContainsFunc(used, func(m []string) bool { return m[1] == "ResourceKind" }):
		return nil, fmt.Errorf("%s: no {{.ResourceKind}} in it, so that all kinds have one file; write for example DIRECTORY/{{.Group}}/{{.ResourceKind}}_{{.ResourceAPIVersion}}.json", source)
	case strings.HasPrefix(source, "http://"):
		return nil, fmt.Errorf("%s: definitions are read over https only: write https://%s", source, strings.TrimPrefix(source, "http://"))
	}
	return &Catalogue{r, source}, nil
}

// Parts of kinds that may become parts of a path.
var (
	safeGroup = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*\.)*[a-z0-9-]*$`)
	safeKind  = regexp.MustCompile(`^[A-Za-z0-9]{1,253}$`)
)

// Find returns the definition of a kind, nil if the catalogue has none.
func (c *Catalogue) Find(ctx context.Context, k schema.GroupVersionKind) ([]manifest.Document, error) {
	if k.Group != "" && (len(k.Group) > 253 || !safeGroup.MatchString(k.Group)) || !safeKind.MatchString(k.Kind) || !safeKind.MatchString(k.Version) {
		return nil, nil
	}
	file := placeholder.ReplaceAllStringFunc(c.source, func(m string) string {
		name := placeholder.FindStringSubmatch(m)[1]
		for _, p := range placeholders {
			if p.name == name {
				return p.value(k)
			}
		}
		panic("BUG: unknown placeholder " + name)
	})
	var text []byte
	var err error
	if strings.HasPrefix(file, "https://") {
		text, err = c.reader.get(ctx, file)
	} else {
		text, err = manifest.ReadWithin(c.reader.Files.Within, file)
	}
	switch {
	case errors.Is(err, errNotFound) || errors.Is(err, os.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	docs, err := documents(file, text)
	if err != nil {
		return nil, err
	}
	if len(docs) == 1 && !isDefinition(docs[0]) {
		d, err := fromJSONSchema(file, docs[0].JSON, k)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		return []manifest.Document{d}, nil
	}
	return docs, nil
}
