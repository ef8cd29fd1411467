// Package source finds the lines and columns of an object's fields in the file that it comes from.
//
// # Model
//
// A [Text] is one YAML or JSON document of a file. It is parsed when the first position is asked for,
// so a text without mistakes costs nothing. Paths have the form of Kubernetes' field errors:
// spec.rules[0].host, metadata.annotations[example.com/a].
//
// # Invariants
//
//   - Lines and columns count from 1, and columns count characters.
//   - A path that the text does not have has the position of the deepest part that it has: a missing
//     field is reported where it belongs.
//   - A Text is immutable, and safe for concurrent use.
//
// # Calls
//
// [New], [Text.Find], [Text.Duplicates].
package source

import (
	"bytes"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// Text is a document and the line in its file at which it begins.
type Text struct {
	text  []byte
	first int
	once  sync.Once
	root  *yaml.Node // nil if the text is not valid YAML
	lines []int      // offsets of the lines; set with root
}

// New returns the text of a document whose first line is line first of its file.
func New(text []byte, first int) *Text {
	return &Text{text: text, first: first}
}

// First returns the line of the document's first line in its file.
func (t *Text) First() int { return t.first }

// Bytes returns the text.
func (t *Text) Bytes() []byte { return t.text }

// Find returns the position of a path, or of the deepest part of it that the text has. A text that
// is not valid YAML has only its beginning.
func (t *Text) Find(path string) (line, column int) {
	at, _, _ := t.Walk(path)
	if at == nil {
		return t.first, 1
	}
	return t.first + at.Line - 1, at.Column
}

// Walk follows a path as far as the text has it. It returns the key or item to point at, its value,
// and whether the whole path exists. Lines in the nodes count from the beginning of the document.
// The nodes are nil if the text is not valid YAML; callers must not change them.
func (t *Text) Walk(path string) (at, value *yaml.Node, all bool) {
	t.once.Do(t.parse)
	at, value = t.root, t.root
	if t.root == nil {
		return nil, nil, false
	}
	for _, step := range Split(path) {
		key, next := child(resolve(value), step)
		if next == nil {
			return at, resolve(value), false
		}
		at, value = key, next
	}
	return at, resolve(value), true
}

func (t *Text) parse() {
	var n yaml.Node
	if yaml.NewDecoder(bytes.NewReader(t.text)).Decode(&n) == nil && len(n.Content) == 1 {
		t.root = n.Content[0]
		start := 0
		for l := range bytes.Lines(t.text) {
			t.lines = append(t.lines, start)
			start += len(l)
		}
	}
}

// resolve returns the node that an alias stands for. An alias of an alias is not possible in YAML.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// Split splits a path into names, indices and keys.
func Split(path string) []string {
	var steps []string
	for path != "" {
		if path[0] == '.' {
			path = path[1:]
			continue
		}
		if path[0] == '[' {
			if end := strings.IndexByte(path, ']'); end > 0 {
				steps = append(steps, path[1:end])
				path = path[end+1:]
				continue
			}
		}
		end := strings.IndexAny(path[1:], ".[")
		if end < 0 {
			return append(steps, path)
		}
		steps = append(steps, path[:end+1])
		path = path[end+1:]
	}
	return steps
}

// child returns the key and the value of one step below a YAML node.
func child(n *yaml.Node, step string) (at, value *yaml.Node) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if NameOf(n.Content[i]) == step {
				return n.Content[i], n.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i], n.Content[i]
		}
	}
	return nil, nil
}

// Duplicate is a key that a mapping of a text repeats.
type Duplicate struct {
	Key, Path    string
	Line, Column int // of the repetition, in the file
	First        int // line of the first one, in the file
}

// maxDuplicates is the number of repeated keys that are listed.
const maxDuplicates = 100

// Duplicates returns the repeated keys of all mappings, in the order of the text.
func (t *Text) Duplicates() []Duplicate {
	t.once.Do(t.parse)
	var out []Duplicate
	if t.root != nil {
		t.duplicates(t.root, "", &out)
	}
	return out
}

// duplicates adds the repeated keys at and below a node. It does not follow aliases: their targets
// are in the text once.
func (t *Text) duplicates(n *yaml.Node, path string, out *[]Duplicate) {
	if len(*out) >= maxDuplicates {
		return
	}
	switch n.Kind {
	case yaml.MappingNode:
		seen := make(map[string]int, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			name := NameOf(key)
			below := Join(path, name)
			first, again := seen[name]
			if again && key.Value != "<<" && key.Kind == yaml.ScalarNode {
				*out = append(*out, Duplicate{key.Value, below, t.first + key.Line - 1, key.Column, first})
			} else {
				seen[name] = t.first + key.Line - 1
			}
			t.duplicates(n.Content[i+1], below, out)
		}
	case yaml.SequenceNode:
		for i, item := range n.Content {
			t.duplicates(item, path+"["+strconv.Itoa(i)+"]", out)
		}
	}
}

// Join appends a name to a path.
func Join(path, name string) string {
	switch {
	case strings.ContainsAny(name, ".[]"):
		return path + "[" + name + "]"
	case path == "":
		return name
	}
	return path + "." + name
}
