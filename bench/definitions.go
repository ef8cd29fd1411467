// This file measures how many definitions can be installed: whether the last is served as soon as the first, and what each keeps
// in memory while nobody uses it.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/crd"
)

// definitionOptions says how many definitions each side gets. Upstream gets fewer: each takes it a megabyte and more.
type definitionOptions struct {
	options
	Count, UpstreamCount int
}

// runDefinitions is the command "bench definitions".
func runDefinitions(ctx context.Context, args []string) error {
	var o definitionOptions
	fs := flag.NewFlagSet("bench definitions", flag.ExitOnError)
	fs.IntVar(&o.Count, "n", 2000, "definitions that Keelson gets")
	fs.IntVar(&o.UpstreamCount, "upstream", 200, "definitions that upstream gets")
	fs.StringVar(&o.Dir, "dir", "", "folder for data directories, on a real disk (default: the system's temporary folder)")
	fs.StringVar(&o.Keelson, "keelson", "", "binary to measure (default: built from the module beside this one)")
	fs.StringVar(&o.Only, "only", "", "measure one side only: upstream or keelson")
	fs.StringVar(&o.Markdown, "o", "", "write the table as Markdown between the markers of these files, separated by commas")
	if err := fs.Parse(args); err != nil {
		return err
	}
	return measureDefinitions(ctx, o)
}

// definitionSide is what one side took.
type definitionSide struct {
	name      string
	sort      string // of definitions
	count     int
	answered  []float64 // milliseconds from sending each definition until its creation was answered
	served    []float64 // and until its objects were listed
	each      float64   // kilobytes of memory for a definition
	textBytes float64   // of a definition, on average
}

func measureDefinitions(ctx context.Context, o definitionOptions) error {
	dir, err := os.MkdirTemp(o.Dir, "keelson-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	sides, err := bothSides(ctx, o.options, dir)
	if err != nil {
		return err
	}
	all, err := subjects()
	if err != nil {
		return err
	}
	small, err := smallDefinition()
	if err != nil {
		return err
	}
	var found []*definitionSide
	for _, sort := range []struct {
		name string
		from []subject
		part int // of the count
	}{{"small", []subject{*small}, 1}, {"of six projects", all[:6], 4}, {alone, all[2:3], 20}} {
		for _, s := range sides {
			count := o.Count / sort.part
			if s.name == "upstream" {
				count = o.UpstreamCount / sort.part
			}
			say("definitions: %s, %d %s", s.name, count, sort.name)
			side, err := installMany(ctx, s, filepath.Join(dir, s.name+"-"+strings.Fields(sort.name)[0]), sort.from, count, sort.name == alone)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			side.sort = sort.name
			found = append(found, side)
		}
	}
	table := definitionsTable(found)
	fmt.Println(table)
	err = errors.Join(err, writeTable(o.Markdown, "definitions", table))
	return err
}

// alone is the largest definition of the Gateway API, every time with other descriptions and rules, so that nothing that was made of
// the ones before is of use.
const alone = "HTTPRoute, no two alike"

// installMany creates definitions one after the other, each as soon as the objects of the one before are served.
func installMany(ctx context.Context, s *side, dir string, from []subject, count int, unlike bool) (*definitionSide, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	t, err := s.start(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer t.stop()
	p, err := newPool(t, 1)
	if err != nil {
		return nil, err
	}
	defer p.close()
	out := &definitionSide{name: s.name, count: count}
	var warm int64 // once one definition of each sort was served
	for i := range count {
		body, list, err := renamed(&from[i%len(from)], i, unlike)
		if err != nil {
			return nil, err
		}
		answered, took, err := installAt(ctx, p, body, list)
		if err != nil {
			return nil, fmt.Errorf("definition %d: %w", i, err)
		}
		out.answered, out.served = append(out.answered, answered.Seconds()*1000), append(out.served, took.Seconds()*1000)
		out.textBytes += float64(len(body)) / float64(count)
		if i == warmUp(from)-1 {
			if warm, err = t.memory(); err != nil {
				return nil, err
			}
		}
	}
	full, err := t.memory()
	out.each = float64(full-warm) / 1024 / float64(count-warmUp(from))
	return out, err
}

// warmUp is how many definitions are not counted: they bring what all have in common.
func warmUp(from []subject) int { return 2 * len(from) }

// smallDefinition is one as people write them first: a few fields, a rule, a status.
func smallDefinition() (*subject, error) {
	s := &subject{name: "Widget", body: []byte(`{"apiVersion":"bench.example.org/v1","kind":"Widget","metadata":{"name":"w"}}`), crd: new(apiextv1.CustomResourceDefinition)}
	err := yaml.Unmarshal([]byte(`{metadata: {name: widgets.bench.example.org}, spec: {group: bench.example.org, scope: Namespaced, names: {plural: widgets, kind: Widget},
		versions: [{name: v1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, properties: {
			spec: {type: object, required: [size], properties: {size: {type: integer, minimum: 1}, colour: {type: string, enum: [red, green], default: red},
				parts: {type: array, maxItems: 10, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name], items: {type: object, required: [name], properties: {name: {type: string, maxLength: 63}, of: {type: string}}}}},
				x-kubernetes-validations: [{rule: "self.size > 1 || !has(self.parts)"}]},
			status: {type: object, properties: {ready: {type: boolean}, phase: {type: string}}}}}}}]}}`), s.crd)
	crd.Default(s.crd)
	return s, err
}

// renamed is a definition in a group of its own, unlike every other one if that is asked for, and the path of its objects.
func renamed(s *subject, i int, unlike bool) (body []byte, list string, err error) {
	definition := s.crd.DeepCopy()
	definition.Spec.Group = fmt.Sprintf("g%04d.bench.example.org", i)
	definition.ObjectMeta = s.crd.ObjectMeta
	definition.Name = definition.Spec.Names.Plural + "." + definition.Spec.Group
	definition.Annotations = nil
	definition.Spec.Conversion = nil
	definition.Status = apiextv1.CustomResourceDefinitionStatus{}
	for v := range definition.Spec.Versions {
		if unlike {
			reword(definition.Spec.Versions[v].Schema.OpenAPIV3Schema, fmt.Sprint(i))
		}
	}
	definition.APIVersion, definition.Kind = apiextv1.SchemeGroupVersion.String(), "CustomResourceDefinition"
	v, err := s.version()
	if err != nil {
		return nil, "", err
	}
	body, err = json.Marshal(definition)
	return body, "/apis/" + definition.Spec.Group + "/" + v.Name + "/" + definition.Spec.Names.Plural, err
}

// reword puts a word into every description and every rule of a schema, as a comment there. Metadata may have no description.
func reword(s *apiextv1.JSONSchemaProps, word string) {
	s.Description += " " + word
	for i := range s.XValidations {
		s.XValidations[i].Rule += " // " + word
	}
	for name, p := range s.Properties {
		if name != "metadata" {
			reword(&p, word)
			s.Properties[name] = p
		}
	}
	if s.Items != nil && s.Items.Schema != nil {
		reword(s.Items.Schema, word)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		reword(s.AdditionalProperties.Schema, word)
	}
}

func definitionsTable(sides []*definitionSide) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s.\n\n", time.Now().UTC().Format("2006-01-02"), versions())
	b.WriteString("| sort | side | definitions | bytes of one | the first 60, served after | the last 60 | of it until the creation is answered | last by first | memory for each |\n| --- | --- |" + strings.Repeat(" ---: |", 7) + "\n")
	for _, s := range sides {
		few := min(60, len(s.served)/2)
		first, last := median(s.served[:few]), median(s.served[len(s.served)-few:])
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s ms | %s ms | %s ms | **%.2f** | %s KB |\n", s.sort, s.name, figure(float64(s.count)), figure(s.textBytes),
			figure(first), figure(last), figure(median(s.answered[len(s.answered)-few:])), last/first, figure(s.each))
	}
	return b.String()
}
