package suite

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// This file writes results into the text of a suite as the new expectations. Other lines do not
// change.

// Update returns the text of the suite with new expectations for failed cases, and the number of
// changed cases. Cases without an answer stay as they are.
func (s *Suite) Update(results []Result) ([]byte, int, error) {
	lines := strings.SplitAfter(string(s.text), "\n")
	nodes := s.nodes()
	n := 0
	// Backwards, so that the line numbers of earlier cases stay valid.
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

// expectation returns the result of a case as expectations in YAML. It has the keys for which the
// case expects something, and those that the result needs.
func (c *Case) expectation(r *Result) (string, error) {
	expect := ""
	for _, part := range []func(*Result) (key string, value any){c.newAnswer, c.newWarnings, c.newAnnotations} {
		key, value := part(r)
		if key == "" {
			continue
		}
		b, err := json.Marshal(map[string]any{key: value})
		if err != nil {
			return "", err
		}
		text, err := yamlOf(b)
		if err != nil {
			return "", err
		}
		expect += text
	}
	return expect, nil
}

// newAnswer returns the expectation of the stored object or the refusal. The key is "" if the case
// is only about warnings or audit annotations, and the object is accepted.
func (c *Case) newAnswer(r *Result) (key string, value any) {
	if r.Error != "" {
		text := r.Error
		if _, reason, ok := strings.Cut(text, ` is invalid: `); ok {
			text = reason // the object's name in the text does not matter
		}
		if c.Error != nil && strings.Contains(r.Error, *c.Error) {
			text = *c.Error // only the warnings differ
		}
		return "error", text
	}
	if r.Object != nil && (c.Stored != nil || c.Error != nil || c.Warnings == nil && c.AuditAnnotations == nil) {
		return "stored", r.Object
	}
	return "", nil
}

// newWarnings returns the expectation of the warnings, with the key "" if the case needs none.
func (c *Case) newWarnings(r *Result) (key string, value any) {
	deleted := r.Object == nil && r.Error == "" && c.AuditAnnotations == nil // there is nothing else to expect
	warned := len(r.Warnings) > 0 && c.Stored == nil && c.Error == nil && c.AuditAnnotations == nil
	if c.Warnings == nil && !deleted && !warned {
		return "", nil
	}
	if r.Warnings == nil {
		return "warnings", []string{}
	}
	return "warnings", r.Warnings
}

// newAnnotations returns the expectation of the audit annotations, with the key "" if the case
// needs none.
func (c *Case) newAnnotations(r *Result) (key string, value any) {
	isNew := c.Stored == nil && c.Error == nil && c.Warnings == nil && c.AuditAnnotations == nil
	if c.AuditAnnotations == nil && !(isNew && len(r.AuditAnnotations) > 0) {
		return "", nil
	}
	if r.AuditAnnotations == nil {
		return "auditAnnotations", map[string]string{}
	}
	return "auditAnnotations", r.AuditAnnotations
}

// replace replaces the expectations of a case by entry, or appends it.
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

// entryEnd returns the index of the line after an entry: the entry includes all lines with deeper
// indentation, but not blank lines and comments at the end. line counts from 1, the result from 0.
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
