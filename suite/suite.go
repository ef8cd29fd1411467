package suite

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	kyaml "sigs.k8s.io/yaml"
)

// This file reads suites.

// Suite is a file of cases.
type Suite struct {
	File  string
	Kinds *Kinds
	Cases []Case

	text []byte
	root *yaml.Node
}

// Case is an object, or a change of one, and what must come of it.
type Case struct {
	Name string
	Line int // in the file

	Object           []byte // to create, as JSON
	Initial, Updated []byte // or to update
	Options          Options

	// Stored is what the server must store; Error must be part of the refusal; each of Warnings must be part of a warning, and
	// there must be no others. nil stands for no expectation. Stored and Error exclude each other.
	Stored   []byte
	Error    *string
	Warnings *[]string
}

// file is a suite as it is written.
type file struct {
	CRD             paths      `json:"crd"`
	Namespace       string     `json:"namespace"`
	FieldValidation string     `json:"fieldValidation"`
	Cases           []caseText `json:"cases"`
}

type caseText struct {
	Name            string          `json:"name"`
	Object          json.RawMessage `json:"object"`
	Initial         json.RawMessage `json:"initial"`
	Updated         json.RawMessage `json:"updated"`
	Subresource     string          `json:"subresource"`
	FieldValidation string          `json:"fieldValidation"`
	Stored          json.RawMessage `json:"stored"`
	Error           *string         `json:"error"`
	Warnings        *[]string       `json:"warnings"`
}

// paths is one path or a list.
type paths []string

// UnmarshalJSON accepts both.
func (p *paths) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*p = paths{one}
		return nil
	}
	var list []string
	if json.Unmarshal(b, &list) != nil {
		return errors.New("crd: want a path or a list of paths")
	}
	*p = list
	return nil
}

// IsSuite reports whether a text looks like a suite: it has cases at the top.
func IsSuite(text []byte) bool {
	var f struct{ Cases []json.RawMessage }
	return kyaml.Unmarshal(text, &f) == nil && f.Cases != nil
}

// Load reads a suite and the definitions it names, whose paths start at the suite's folder.
func Load(name string) (*Suite, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return Parse(name, text, func(p string) ([]byte, error) {
		if !filepath.IsAbs(p) {
			p = filepath.Join(filepath.Dir(name), p)
		}
		return readAll(p)
	})
}

// readAll is the text of a file, or of all YAML and JSON files below a folder.
func readAll(p string) ([]byte, error) {
	info, err := os.Stat(p)
	if err != nil || !info.IsDir() {
		if err != nil {
			return nil, err
		}
		return os.ReadFile(p)
	}
	var all []byte
	err = filepath.WalkDir(p, func(f string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(f)) {
			return err
		}
		text, err := os.ReadFile(f)
		all = append(append(all, "\n---\n"...), text...)
		return err
	})
	return all, err
}

// Parse reads a suite. read returns the text of the definitions that the suite names by a path.
func Parse(name string, text []byte, read func(path string) ([]byte, error)) (*Suite, error) {
	body, err := kyaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var f file
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		if wrong := new(json.UnmarshalTypeError); errors.As(err, &wrong) {
			return nil, fmt.Errorf("%s: %s: got %s, want %s", name, wrong.Field, wrong.Value, wrong.Type)
		}
		return nil, fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "json: "))
	}
	s := &Suite{File: name, text: text, root: new(yaml.Node)}
	if err := yaml.Unmarshal(text, s.root); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(f.CRD) == 0 {
		return nil, fmt.Errorf("%s: crd: names no definition", name)
	}
	if len(f.Cases) == 0 {
		return nil, fmt.Errorf("%s: cases: there are none", name)
	}
	if s.Kinds, err = kinds(f.CRD, read); err != nil {
		return nil, fmt.Errorf("%s: crd: %w", name, err)
	}
	nodes := s.nodes()
	for i := range f.Cases {
		c, err := f.Cases[i].parse(f.Namespace, f.FieldValidation)
		if i < len(nodes) {
			c.Line = nodes[i].Line
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: case %q: %w", name, c.Line, c.Name, err)
		}
		s.Cases = append(s.Cases, c)
	}
	return s, nil
}

// kinds compiles the definitions at the paths.
func kinds(paths []string, read func(string) ([]byte, error)) (*Kinds, error) {
	var definitions [][]byte
	for _, p := range paths {
		text, err := read(p)
		if err != nil {
			return nil, err
		}
		before := len(definitions)
		for _, part := range documents(text) {
			var head struct{ Kind string }
			if err := kyaml.Unmarshal(part, &head); err != nil {
				return nil, fmt.Errorf("%s: %w", p, err)
			}
			if head.Kind == "CustomResourceDefinition" {
				definitions = append(definitions, part)
			}
		}
		if len(definitions) == before {
			return nil, fmt.Errorf("%s: no CustomResourceDefinition in it", p)
		}
	}
	return NewKinds(definitions...)
}

// documents cuts a text at its "---" lines.
func documents(text []byte) [][]byte {
	var out [][]byte
	var part []byte
	for l := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(l, []byte("---")); ok && (len(bytes.TrimSpace(rest)) == 0 || rest[0] == ' ') {
			out, part = append(out, part), nil
			continue
		}
		part = append(part, l...)
	}
	return append(out, part)
}

func (t *caseText) parse(namespace, fieldValidation string) (Case, error) {
	c := Case{Name: t.Name, Error: t.Error, Warnings: t.Warnings,
		Options: Options{Namespace: namespace, FieldValidation: fieldValidation, Subresource: t.Subresource}}
	if t.FieldValidation != "" {
		c.Options.FieldValidation = t.FieldValidation
	}
	if c.Name == "" {
		return c, errors.New("name: there is none")
	}
	for _, o := range []struct {
		name string
		from json.RawMessage
		to   *[]byte
	}{{"object", t.Object, &c.Object}, {"initial", t.Initial, &c.Initial}, {"updated", t.Updated, &c.Updated}, {"stored", t.Stored, &c.Stored}} {
		var err error
		if *o.to, err = objectText(o.from); err != nil {
			return c, fmt.Errorf("%s: %w", o.name, err)
		}
	}
	switch {
	case c.Object == nil && (c.Initial == nil || c.Updated == nil):
		return c, errors.New("want object, or initial and updated")
	case c.Object != nil && (c.Initial != nil || c.Updated != nil):
		return c, errors.New("got object and initial or updated, want either object, or both of the others")
	case c.Stored != nil && c.Error != nil:
		return c, errors.New("got stored and error, want one of them")
	case c.Error != nil && *c.Error == "":
		return c, errors.New("error: is empty, and would be part of every refusal")
	}
	return c, nil
}

// objectText is an object that is written as one, or as a text that holds one.
func objectText(raw json.RawMessage) ([]byte, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if raw[0] == '"' {
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return nil, err
		}
		body, err := kyaml.YAMLToJSON([]byte(text))
		if err != nil {
			return nil, err
		}
		raw = body
	}
	if raw[0] != '{' {
		return nil, errors.New("want an object")
	}
	return raw, nil
}

// nodes are the cases in the text.
func (s *Suite) nodes() []*yaml.Node {
	if len(s.root.Content) == 0 {
		return nil
	}
	top := s.root.Content[0].Content
	for i := 0; i+1 < len(top); i += 2 {
		if top[i].Value == "cases" {
			return top[i+1].Content
		}
	}
	return nil
}
