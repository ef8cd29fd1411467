package declared

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/internal/nearest"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file has the resource Conversion, and reads it.

// APIVersion and Kind are those of a Conversion.
const (
	APIVersion = "keelson.io/v1alpha1"
	Kind       = "Conversion"
)

// MaxBytes is the greatest length of a Conversion.
const MaxBytes = 1 << 20

// Definition is the definition of the kind Conversion, as YAML.
//
//go:embed conversions.yaml
var Definition []byte

// Conversion says how objects are converted between the versions of a definition.
type Conversion struct {
	Metadata struct {
		Name string `json:"name"` // of the definition
	} `json:"metadata"`
	Spec struct {
		Hub      string  `json:"hub"`
		Versions []Spoke `json:"versions"`
	} `json:"spec"`
}

// Spoke is the difference between a version and the hub.
type Spoke struct {
	Name    string    `json:"name"`
	Both    []Step    `json:"both"`
	ToHub   Direction `json:"toHub"`
	FromHub Direction `json:"fromHub"`
}

// Step is a change that can run in both directions. One of its fields is set.
type Step struct {
	Move      *Move   `json:"move"`
	Values    *Values `json:"values"`
	Split     *Split  `json:"split"`
	Join      *Join   `json:"join"`
	ListToMap *Keyed  `json:"listToMap"`
	MapToList *Keyed  `json:"mapToList"`
}

// Move has the places of a field.
type Move struct {
	Version string `json:"version"`
	Hub     string `json:"hub"`
}

// Values has the places and the values of a field.
type Values struct {
	Move
	Pairs []ValuePair `json:"pairs"`
}

// ValuePair is a value in both versions, as JSON.
type ValuePair struct {
	Version json.RawMessage `json:"version"`
	Hub     json.RawMessage `json:"hub"`
}

// Split has the place of a text in the version, and the places of its parts in the hub.
type Split struct {
	Version   string   `json:"version"`
	Hub       []string `json:"hub"`
	Separator string   `json:"separator"`
}

// Join has the places of parts in the version, and the place of their text in the hub.
type Join struct {
	Version   []string `json:"version"`
	Hub       string   `json:"hub"`
	Separator string   `json:"separator"`
}

// Keyed has the places of a list of objects and of the map by one of their members.
type Keyed struct {
	Move
	Key string `json:"key"` // the member of an item that is the key
	// Value is the member of an item that is the value. "" means that the value is the item without
	// its key.
	Value string `json:"value"`
}

// Direction has what happens in one direction only.
type Direction struct {
	Set      []Set    `json:"set"`
	Preserve []string `json:"preserve"`
	Drop     []Drop   `json:"drop"`
}

// Set writes a field of the result.
type Set struct {
	Field      string          `json:"field"`
	Value      json.RawMessage `json:"value"`
	Expression string          `json:"expression"`
	Item       string          `json:"item"`
	When       string          `json:"when"`
	IfAbsent   bool            `json:"ifAbsent"`
}

// Drop is a field that a round trip may lose.
type Drop struct {
	Field     string `json:"field"`
	OnlyEmpty bool   `json:"onlyEmpty"`
}

// Problem is a mistake in a Conversion.
type Problem struct {
	Path    string // in the Conversion, such as spec.versions[0].both[1].move.hub
	Message string
}

// Problems are the mistakes in a Conversion. As an error, they have one line each.
type Problems []Problem

// Error returns the problems as text.
func (p Problems) Error() string {
	var lines []string
	for _, one := range p {
		lines = append(lines, one.Path+": "+one.Message)
	}
	return strings.Join(lines, "\n")
}

// program returns the program that reads Conversions.
var program = sync.OnceValues(func() (*schema.Program, error) {
	var def apiextv1.CustomResourceDefinition
	if err := yaml.Unmarshal(Definition, &def); err != nil {
		return nil, err
	}
	s, errs := structural.Parse(def.Spec.Versions[0].Schema.OpenAPIV3Schema, nil)
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	env, err := cel.NewEnv(cel.EnvOptions{})
	if err != nil {
		return nil, err
	}
	return schema.Compile(s, schema.Options{Resource: true, Env: env})
})

// Parse reads a Conversion from JSON. The error is a Problems if the text is JSON.
func Parse(text []byte) (*Conversion, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("a %s has %d bytes, want at most %d", Kind, len(text), MaxBytes)
	}
	p, err := program()
	if err != nil {
		return nil, err
	}
	d := jsondoc.Get()
	defer d.Release()
	found, err := p.Decode(d, text)
	if err != nil {
		return nil, err
	}
	var problems Problems
	if found != 0 {
		for _, e := range p.Strict(text) {
			problems = append(problems, refused(p.Source(), e))
		}
	}
	for _, e := range p.Validate(ctxNone, d, nil, schema.Whole).Errors {
		problems = append(problems, Problem{e.Field, e.ErrorBody()})
	}
	if v, k := d.Root().Get("apiVersion").Text(), d.Root().Get("kind").Text(); v != APIVersion || k != Kind {
		problems = append(problems, Problem{"kind", fmt.Sprintf("got %s of %s, want %s of %s", k, v, Kind, APIVersion)})
	}
	if len(problems) > 0 {
		return nil, problems
	}
	out := new(Conversion)
	if err := json.Unmarshal(text, out); err != nil {
		return nil, err
	}
	if out.Metadata.Name == "" {
		return nil, Problems{{"metadata.name", "want the name of a CustomResourceDefinition"}}
	}
	return out, nil
}

// refused returns the problem for an unknown or duplicate field, with the names that may be meant.
func refused(s *structural.Schema, e jsondoc.StrictError) Problem {
	path := e.Path
	parent, name := "", path
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		parent, name = path[:i], path[i+1:]
	}
	message := jsondoc.StrictError{Kind: e.Kind, Path: name}.Error()
	at := s
	for step := range strings.SplitSeq(parent, ".") {
		if at == nil || step == "" {
			break
		}
		step, _, isList := strings.Cut(step, "[")
		if at = at.Properties[step]; at != nil && isList {
			at = at.Items
		}
	}
	if at != nil {
		message += didYouMean(name, at.Names)
	}
	return Problem{path, message}
}

// didYouMean returns a question with the name that name probably stands for, or "".
func didYouMean(name string, names []string) string {
	sorted := slices.Sorted(slices.Values(names))
	if best := nearest.Name(name, sorted); best != "" {
		return fmt.Sprintf(": did you mean %q?", best)
	}
	if len(sorted) == 0 || len(sorted) > 12 {
		return ""
	}
	return fmt.Sprintf(": the names here are %s", strings.Join(sorted, ", "))
}
