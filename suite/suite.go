package suite

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/keelson-io/keelson/internal/manifest"
	"github.com/keelson-io/keelson/internal/source"
	"github.com/keelson-io/keelson/internal/yamljson"
)

// This file decodes suites.

// Suite is a file of cases.
type Suite struct {
	File  string
	Kinds *Kinds
	Cases []Case

	text []byte
	root *yaml.Node
	docs []manifest.Document // the definitions and policies
}

// Case is an object, or a change of one, with its expected result.
type Case struct {
	Name string
	Line int // in the file

	Object           []byte // to create, as JSON
	Initial, Updated []byte // or to update
	Deleted          []byte // or to delete
	Options          Options

	// Expectations; nil means none. Stored is the stored object. Error is a part of the refusal.
	// Each of Warnings is a part of a warning, and there must be no other warnings. Each of
	// AuditAnnotations is a part of the annotation with that key, and there must be no others.
	// Stored and Error exclude each other.
	Stored           []byte
	Error            *string
	Warnings         *[]string
	AuditAnnotations *map[string]string
}

// file is the form of a suite in its file.
type file struct {
	CRD             paths      `json:"crd"`
	Policies        paths      `json:"policies"`
	Namespace       string     `json:"namespace"`
	FieldValidation string     `json:"fieldValidation"`
	User            *userText  `json:"user"`
	Cases           []caseText `json:"cases"`
}

type caseText struct {
	Name             string             `json:"name"`
	Object           json.RawMessage    `json:"object"`
	Initial          json.RawMessage    `json:"initial"`
	Updated          json.RawMessage    `json:"updated"`
	Deleted          json.RawMessage    `json:"deleted"`
	Given            []json.RawMessage  `json:"given"`
	User             *userText          `json:"user"`
	Subresource      string             `json:"subresource"`
	FieldValidation  string             `json:"fieldValidation"`
	Stored           json.RawMessage    `json:"stored"`
	Error            *string            `json:"error"`
	Warnings         *[]string          `json:"warnings"`
	AuditAnnotations *map[string]string `json:"auditAnnotations"`
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
		return errors.New("crd and policies: want a path or a list of paths")
	}
	*p = list
	return nil
}

// userText is a user's name or the fields of a user.
type userText User

// UnmarshalJSON accepts both.
func (u *userText) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, &u.Name) == nil {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode((*User)(u)); err != nil {
		return fmt.Errorf("user: want a name, or name, uid, groups and extra: %w", err)
	}
	if u.Name == "" {
		return errors.New("user: has no name")
	}
	return nil
}

// IsSuite reports whether a text looks like a suite: it has the key cases.
func IsSuite(text []byte) bool {
	var f struct{ Cases []json.RawMessage }
	body, _, err := yamljson.JSON(context.Background(), text, false)
	return err == nil && json.Unmarshal(body, &f) == nil && f.Cases != nil
}

// Load reads a suite and the definitions that it names by paths relative to its folder.
func Load(name string) (*Suite, error) { return LoadWithin("", name) }

// LoadWithin is Load for a suite that may be a stranger's. The suite may name only files inside a
// folder, by relative paths, and none of git's data. Links that lead out of the folder are refused.
func LoadWithin(folder, name string) (*Suite, error) {
	text, err := manifest.ReadFile(name, nil)
	if err != nil {
		return nil, err
	}
	return parseSuite(name, text, func(p string) ([]manifest.Document, error) {
		switch {
		case !filepath.IsAbs(p):
			p = filepath.Join(filepath.Dir(name), p)
		case folder != "":
			return nil, fmt.Errorf("%s is an absolute path: %w", p, manifest.ErrOutside)
		}
		return readAll(folder, p)
	})
}

// readAll returns the documents of a file, or of all YAML and JSON files below a folder, which are
// within another folder.
func readAll(within, p string) ([]manifest.Document, error) {
	in, err := manifest.Options{Within: within}.Read([]string{p}, nil)
	if err != nil {
		return nil, err
	}
	docs := in.Documents
	for _, d := range docs {
		if d.Err != nil {
			return nil, d.Err
		}
	}
	return docs, nil
}

// Parse decodes a suite. read returns the text of a definition that the suite names by its path.
func Parse(name string, text []byte, read func(path string) ([]byte, error)) (*Suite, error) {
	return parseSuite(name, text, func(p string) ([]manifest.Document, error) {
		text, err := read(p)
		if err != nil {
			return nil, err
		}
		return manifest.Split(p, text), nil
	})
}

// parseSuite is Parse with a function that returns the documents of a path.
func parseSuite(name string, text []byte, read func(path string) ([]manifest.Document, error)) (*Suite, error) {
	body, duplicates, err := yamljson.JSON(context.Background(), text, true)
	if err = cmp.Or(err, duplicates); err != nil {
		return nil, notYAML(name, err)
	}
	var f file
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		if wrong := new(json.UnmarshalTypeError); errors.As(err, &wrong) {
			path := pathAt(body, wrong.Offset)
			line, column := source.New(text, 1).Find(path)
			return nil, &PositionError{File: name, Line: line, Column: column, Text: fmt.Sprintf("%s: got %s, want %s", path, wrong.Value, wrong.Type)}
		}
		if !IsSuite(text) {
			return nil, fmt.Errorf("%s: no suite: it has no cases", name)
		}
		line, column := unknownKey(text, err)
		return nil, &PositionError{File: name, Line: line, Column: column, Text: strings.TrimPrefix(err.Error(), "json: ")}
	}
	s := &Suite{File: name, text: text, root: new(yaml.Node)}
	if err := yaml.Unmarshal(text, s.root); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(f.Cases) == 0 {
		return nil, fmt.Errorf("%s: cases: there are none", name)
	}
	if s.docs, err = f.documents(read); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := s.parse(&f); err != nil {
		return nil, err
	}
	if s.Kinds, err = newKinds(s.docs); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

// PositionError is a mistake in a suite's file.
type PositionError struct {
	File         string
	Line, Column int // counted from 1; 0 if they are not known
	Text         string
}

// Error returns the text with its position.
func (e *PositionError) Error() string {
	at := e.File
	if e.Line > 0 {
		at += ":" + strconv.Itoa(e.Line)
	}
	if e.Column > 0 {
		at += ":" + strconv.Itoa(e.Column)
	}
	return at + ": " + e.Text
}

// yamlLine matches the line in an error of the YAML parser.
var yamlLine = regexp.MustCompile(`(?:yaml: )?line (\d+): `)

// notYAML returns the error of a suite that is not YAML, or has a key twice.
func notYAML(name string, err error) error {
	e := &PositionError{File: name, Text: strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")}
	if m := yamlLine.FindStringSubmatchIndex(e.Text); m != nil {
		e.Line, _ = strconv.Atoi(e.Text[m[2]:m[3]])
		e.Text = strings.TrimSpace(strings.TrimPrefix(e.Text[:m[0]], "yaml: unmarshal errors:") + e.Text[m[1]:])
	}
	return e
}

// pathAt returns the path of the value of a JSON text that ends at an offset.
func pathAt(body []byte, offset int64) string {
	dec := json.NewDecoder(bytes.NewReader(body))
	type level struct {
		key   string
		index int // of the item; -1 in an object
		named bool
	}
	var levels []level
	for {
		token, err := dec.Token()
		if err != nil {
			return ""
		}
		last := len(levels) - 1
		if text, ok := token.(string); ok && last >= 0 && levels[last].index < 0 && !levels[last].named {
			levels[last].key, levels[last].named = text, true
			continue
		}
		if delim, ok := token.(json.Delim); ok && (delim == ']' || delim == '}') {
			levels = levels[:last]
		} else {
			if last >= 0 && levels[last].index >= 0 {
				levels[last].key = strconv.Itoa(levels[last].index)
				levels[last].index++
			}
			if dec.InputOffset() >= offset {
				var path string
				for _, l := range levels {
					if l.index >= 0 {
						path += "[" + l.key + "]"
					} else {
						path = source.Join(path, l.key)
					}
				}
				return path
			}
			if ok {
				levels = append(levels, level{index: map[json.Delim]int{'[': 0, '{': -1}[delim]})
				continue
			}
		}
		if last = len(levels) - 1; last >= 0 {
			levels[last].named = false
		}
	}
}

// unknownKey returns the position of the key that an error of a strict decoder names; 0 if it names none.
func unknownKey(text []byte, err error) (line, column int) {
	_, quoted, _ := strings.Cut(err.Error(), "unknown field ")
	key, unquoted := strconv.Unquote(quoted)
	var root yaml.Node
	if unquoted != nil || yaml.Unmarshal(text, &root) != nil || len(root.Content) == 0 {
		return 0, 0
	}
	places := []*yaml.Node{root.Content[0]} // where the suite has keys of its own
	for len(places) > 0 {
		n := places[0]
		places = places[1:]
		for i := 0; i+1 < len(n.Content) && n.Kind == yaml.MappingNode; i += 2 {
			switch k, v := n.Content[i], n.Content[i+1]; k.Value {
			case key:
				return k.Line, k.Column
			case "user":
				places = append(places, v)
			case "cases":
				places = append(places, v.Content...)
			}
		}
	}
	return 0, 0
}

// parse reads the cases.
func (s *Suite) parse(f *file) error {
	nodes := s.nodes()
	for i := range f.Cases {
		c, err := f.Cases[i].parse(f)
		if i < len(nodes) {
			c.Line = nodes[i].Line
		}
		if err != nil {
			return &PositionError{File: s.File, Line: c.Line, Text: fmt.Sprintf("case %q: %v", c.Name, err)}
		}
		s.Cases = append(s.Cases, c)
	}
	return nil
}

// Close releases the suite's kinds.
func (s *Suite) Close() error { return s.Kinds.Close() }

// documents returns the definitions and policies that the suite names.
func (f *file) documents(read func(string) ([]manifest.Document, error)) ([]manifest.Document, error) {
	var all []manifest.Document
	for _, part := range []struct {
		key, kind string
		paths     paths
	}{{"crd", "CustomResourceDefinition", f.CRD}, {"policies", "AdmissionPolicy", f.Policies}} {
		for _, p := range part.paths {
			docs, err := read(p)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", part.key, err)
			}
			found := slices.ContainsFunc(docs, func(d manifest.Document) bool {
				var head struct{ Kind string }
				return json.Unmarshal(d.JSON, &head) == nil && strings.HasSuffix(head.Kind, part.kind)
			})
			if !found {
				return nil, fmt.Errorf("%s: %s: no %s in it", part.key, p, part.kind)
			}
			all = append(all, docs...)
		}
	}
	return all, nil
}

func (t *caseText) parse(f *file) (Case, error) {
	c := Case{Name: t.Name, Error: t.Error, Warnings: t.Warnings, AuditAnnotations: t.AuditAnnotations,
		Options: Options{Namespace: f.Namespace, FieldValidation: f.FieldValidation, Subresource: t.Subresource, User: (*User)(f.User)}}
	if t.User != nil {
		c.Options.User = (*User)(t.User)
	}
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
	}{{"object", t.Object, &c.Object}, {"initial", t.Initial, &c.Initial}, {"updated", t.Updated, &c.Updated}, {"deleted", t.Deleted, &c.Deleted}, {"stored", t.Stored, &c.Stored}} {
		var err error
		if *o.to, err = objectText(o.from); err != nil {
			return c, fmt.Errorf("%s: %w", o.name, err)
		}
	}
	for i, raw := range t.Given {
		given, err := objectText(raw)
		if given == nil || err != nil {
			return c, fmt.Errorf("given[%d]: want an object", i)
		}
		c.Options.Given = append(c.Options.Given, given)
	}
	return c, c.check()
}

// check finds fields that exclude each other.
func (c *Case) check() error {
	asks := 0
	for _, asked := range []bool{c.Object != nil, c.Initial != nil || c.Updated != nil, c.Deleted != nil} {
		if asked {
			asks++
		}
	}
	switch {
	case asks != 1:
		return errors.New("want one of object, initial with updated, and deleted")
	case (c.Initial == nil) != (c.Updated == nil):
		return errors.New("got one of initial and updated, want both")
	case c.Deleted != nil && c.Stored != nil:
		return errors.New("got deleted and stored: nothing is stored of what is deleted")
	case c.Stored != nil && c.Error != nil:
		return errors.New("got stored and error, want one of them")
	case c.Error != nil && *c.Error == "":
		return errors.New("error: is empty, and would be part of every refusal")
	}
	return nil
}

// objectText returns an object that the case has as an object or as a string.
func objectText(raw json.RawMessage) ([]byte, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if raw[0] == '"' {
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return nil, err
		}
		body, _, err := yamljson.JSON(context.Background(), []byte(text), false)
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

// nodes returns the YAML nodes of the cases.
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
