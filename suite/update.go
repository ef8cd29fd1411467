package suite

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// This file writes expectations back into the text of a suite, line by line: all other lines stay as they are.

// Update returns the text of the suite with the expectations of failed cases replaced by what came of them, and how many
// cases it changed. Cases without an answer stay as they are.
func (s *Suite) Update(results []Result) ([]byte, int, error) {
	lines := strings.SplitAfter(string(s.text), "\n")
	nodes := s.nodes()
	n := 0
	// From the end, so that the lines before keep their numbers.
	for i := len(s.Cases) - 1; i >= 0; i-- {
		c := &s.Cases[i]
		at := slices.IndexFunc(results, func(r Result) bool { return r.Line == c.Line && r.Case == c.Name })
		if at < 0 || results[at].Passed || !results[at].answered {
			continue
		}
		if i >= len(nodes) || nodes[i].Kind != yaml.MappingNode || nodes[i].Style&yaml.FlowStyle != 0 {
			return nil, 0, fmt.Errorf("%s:%d: case %q: only a case in block style, with one key a line, can be updated", s.File, c.Line, c.Name)
		}
		entry, err := c.expectation(&results[at])
		if err != nil {
			return nil, 0, err
		}
		if lines, err = replace(lines, nodes[i], entry); err != nil {
			return nil, 0, fmt.Errorf("%s:%d: case %q: %w", s.File, c.Line, c.Name, err)
		}
		n++
	}
	text := []byte(strings.Join(lines, ""))
	if err := yaml.Unmarshal(text, new(yaml.Node)); err != nil {
		return nil, 0, fmt.Errorf("%s: cannot be updated, its form is not understood: %w", s.File, err)
	}
	return text, n, nil
}

// expectation is what a result makes of a case's expectations, as YAML.
func (c *Case) expectation(r *Result) (string, error) {
	expect := ""
	add := func(key string, value any) error {
		b, err := json.Marshal(map[string]any{key: value})
		if err != nil {
			return err
		}
		text, err := yamlOf(b)
		expect += text
		return err
	}
	if r.Error != "" {
		text := r.Error
		if _, reason, ok := strings.Cut(text, ` is invalid: `); ok {
			text = reason // the name of the object says nothing
		}
		if c.Error != nil && strings.Contains(r.Error, *c.Error) {
			text = *c.Error // only the warnings differ
		}
		if err := add("error", text); err != nil {
			return "", err
		}
	} else if r.Object != nil && (c.Stored != nil || c.Error != nil || c.Warnings == nil && c.AuditAnnotations == nil) {
		if err := add("stored", r.Object); err != nil {
			return "", err
		}
	}
	fresh := c.Stored == nil && c.Error == nil && c.Warnings == nil && c.AuditAnnotations == nil
	deleted := r.Object == nil && r.Error == "" && c.AuditAnnotations == nil // nothing else can be expected of it
	if c.Warnings != nil || deleted || len(r.Warnings) > 0 && c.Stored == nil && c.Error == nil && c.AuditAnnotations == nil {
		warnings := r.Warnings
		if warnings == nil {
			warnings = []string{}
		}
		if err := add("warnings", warnings); err != nil {
			return "", err
		}
	}
	if c.AuditAnnotations != nil || fresh && len(r.AuditAnnotations) > 0 {
		notes := r.AuditAnnotations
		if notes == nil {
			notes = map[string]string{}
		}
		if err := add("auditAnnotations", notes); err != nil {
			return "", err
		}
	}
	return expect, nil
}

// replace puts an entry into a case in place of its expectations, or at its end.
func replace(lines []string, n *yaml.Node, entry string) ([]string, error) {
	if len(n.Content) == 0 {
		return nil, fmt.Errorf("it is empty")
	}
	column := n.Content[0].Column - 1
	end := n.Line // line after the last key's value
	type span struct{ from, to int }
	var old []span
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		to := entryEnd(lines, key.Line, column, n.Content[i+1].Kind == yaml.SequenceNode)
		end = max(end, to)
		switch key.Value {
		case "stored", "error", "warnings", "auditAnnotations":
			if key.Line == n.Line {
				return nil, fmt.Errorf("its name must come first to be updated")
			}
			old = append(old, span{key.Line - 1, to})
		}
	}
	var text []string
	for l := range strings.Lines(entry) {
		text = append(text, strings.Repeat(" ", column)+l)
	}
	at := end
	if len(old) > 0 {
		at = old[0].from
	}
	if at == len(lines) && at > 0 && !strings.HasSuffix(lines[at-1], "\n") {
		lines[at-1] += "\n"
	}
	for i := len(old) - 1; i >= 0; i-- {
		lines = slices.Delete(slices.Clone(lines), old[i].from, old[i].to)
	}
	return slices.Insert(slices.Clone(lines), at, text...), nil
}

// entryEnd is the line after an entry that starts at a line, both counted from 1 and 0: everything that is indented deeper,
// without blank lines and comments at the end.
func entryEnd(lines []string, line, column int, sequence bool) int {
	end := line
	for i := line; i < len(lines); i++ {
		trimmed := strings.TrimSpace(lines[i])
		if trimmed == "" || trimmed[0] == '#' {
			continue
		}
		indent := len(lines[i]) - len(strings.TrimLeft(lines[i], " "))
		if indent < column || indent == column && !(sequence && strings.HasPrefix(trimmed, "-")) {
			break
		}
		end = i + 1
	}
	return end
}
