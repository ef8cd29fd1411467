package lint

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// This file finds positions in a file.

// text is the tree of a definition's text, with positions.
type text struct {
	root  *yaml.Node // nil if the text is not valid YAML
	first int        // line of the text's first line in its file
	lines []string
}

// readText parses a text for positions. An invalid text has no positions.
func readText(src Source) *text {
	t := &text{first: src.Line, lines: strings.Split(string(src.Text), "\n")}
	var n yaml.Node
	if yaml.NewDecoder(bytes.NewReader(src.Text)).Decode(&n) == nil && len(n.Content) == 1 {
		t.root = n.Content[0]
	}
	return t
}

// split splits a path into names, indices and keys.
func split(path string) []string {
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

// walk follows a path as far as the text has it. It returns the key or item to point at, its value,
// and whether the whole path exists.
func (t *text) walk(path string) (at, value *yaml.Node, all bool) {
	at, value = t.root, t.root
	if t.root == nil {
		return nil, nil, false
	}
	for _, step := range split(path) {
		for value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		key, next := child(value, step)
		if next == nil {
			return at, value, false
		}
		at, value = key, next
	}
	for value.Kind == yaml.AliasNode {
		value = value.Alias
	}
	return at, value, true
}

// child returns the key and the value of one step below a YAML node.
func child(n *yaml.Node, step string) (at, value *yaml.Node) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
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

// find returns the position of a path, or of the part of it that exists.
func (t *text) find(path string) (line, column int) {
	at, _, _ := t.walk(path)
	if at == nil {
		return t.first, 1
	}
	return t.first + at.Line - 1, at.Column
}

// place sets the position of a finding.
func (t *text) place(f Finding) Finding {
	if f.Where == "" {
		f.Where = f.Path
	}
	if f.Line == 0 {
		f.Line, f.Column = t.find(f.Path)
	}
	if f.Expression != nil {
		if line, column, ok := t.inside(f.Path, f.Expression); ok {
			f.Line, f.Column = line, column
		}
	}
	return f
}

// value returns the text of a scalar; "" if there is none.
func (t *text) value(path string) string {
	if _, v, all := t.walk(path); all && v.Kind == yaml.ScalarNode {
		return v.Value
	}
	return ""
}

// inside returns the position in the file for a position in an expression, which may be folded over
// several lines.
func (t *text) inside(path string, e *Expression) (line, column int, ok bool) {
	_, v, all := t.walk(path)
	if !all || v.Kind != yaml.ScalarNode || v.Line < 1 {
		return 0, 0, false
	}
	lines := strings.Split(v.Value, "\n")
	for i := v.Line - 1; i < len(t.lines) && i <= v.Line-1+len(lines); i++ {
		if at := strings.Index(t.lines[i], e.Text); at >= 0 && e.Text != "" {
			return t.first + i, at + e.Column, true
		}
	}
	// A folded text: consecutive lines in the file are parts of the same line.
	offset := 0
	for i := v.Line - 1; i < len(t.lines); i++ {
		part := strings.TrimSpace(t.lines[i])
		start := strings.Index(e.Text, part)
		if i == v.Line-1 && (start < 0 || part == "") { // the line with the key also has the start of the value
			tail := t.lines[i][min(len(t.lines[i]), v.Column-1):]
			part = strings.TrimSpace(strings.TrimLeft(tail, `"'`))
			if start = strings.Index(e.Text, part); start < 0 || part == "" {
				continue
			}
		}
		if start < offset-1 || part == "" {
			return 0, 0, false
		}
		if e.Column-1 < start+len(part) {
			return t.first + i, strings.Index(t.lines[i], part) + e.Column - start, e.Column-1 >= start
		}
		offset = start + len(part)
	}
	return 0, 0, false
}

// celError matches the positions in an error of cel-go.
var celError = regexp.MustCompile(`(?m)^.*?ERROR: <input>:(\d+):(\d+): (.*)$`)

// pointers splits the errors of an expression into texts and positions.
func pointers(detail, expr string) (texts []string, places []*Expression) {
	lines := strings.Split(expr, "\n")
	for _, m := range celError.FindAllStringSubmatch(detail, -1) {
		line, _ := strconv.Atoi(m[1])
		column, _ := strconv.Atoi(m[2])
		if line < 1 || line > len(lines) {
			continue
		}
		texts = append(texts, m[3])
		places = append(places, &Expression{Text: lines[line-1], Line: line, Column: column})
	}
	return texts, places
}

// oldSelf finds expressions that look at the old value.
var oldSelf = regexp.MustCompile(`\boldSelf\b`)

// oneLine returns a text on one line, shortened to most bytes.
func oneLine(s string, most int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}
