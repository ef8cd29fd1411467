package lint

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/keelson-io/keelson/internal/source"
)

// This file repairs what can be repaired without a decision: missing bounds that a rule needs to fit
// its cost limit, and rules in the form of the first draft. It edits the text in place, so that
// comments, order and formatting stay.

// Repair is a change that Fix made.
type Repair struct {
	ID      string `json:"id"`   // of the finding that it repairs
	Path    string `json:"path"` // in the definition
	Where   string `json:"where"`
	Line    int    `json:"line"` // in the file, before the change
	Message string `json:"message"`
	// Marker is the marker of controller-gen that makes the same change in the Go type, "" if the
	// definition does not say that controller-gen wrote it, or if there is no such marker.
	Marker string `json:"marker,omitempty"`
}

// Fix repairs the definition in src, and returns its new text and the changes. The text is nil if
// there is nothing to repair. skip leaves a finding alone if it returns true; nil leaves none alone.
func Fix(ctx context.Context, src Source, skip func(Finding) bool) ([]byte, []Repair, error) {
	if skip == nil {
		skip = func(Finding) bool { return false }
	}
	var all []Repair
	changed := false
	for range maxFixPasses { // bounds of one rule change the costs of others
		d, err := Load(src)
		if err != nil {
			return nil, nil, err
		}
		e := &editor{d: d, skip: skip, lines: strings.Split(string(src.Text), "\n"), taken: map[claimed]bool{}}
		e.drafts()
		if len(e.repairs) == 0 { // costs are known once all rules compile
			e.bounds(ctx)
		}
		if len(e.edits) == 0 {
			break
		}
		text := e.apply()
		if _, err := Load(Source{Name: src.Name, Line: src.Line, Text: text}); err != nil {
			return nil, nil, fmt.Errorf("%s: its form is not understood, change it by hand: %w", src.Name, err)
		}
		src.Text, changed = text, true
		all = append(all, e.repairs...)
	}
	if !changed {
		return nil, nil, nil
	}
	return src.Text, all, nil
}

// maxFixPasses is the greatest number of passes over a definition.
const maxFixPasses = 8

// edit replaces a part of a line, or inserts a line before it.
type edit struct {
	line, from, to int // line counts from 0, columns are in bytes
	text           string
	insert         bool // text is a new line
}

// editor is one pass of Fix.
type editor struct {
	d       *Definition
	skip    func(Finding) bool
	lines   []string
	edits   []edit
	repairs []Repair
	taken   map[claimed]bool // what is edited already: an alias leads to the same text
}

// claimed identifies an edit.
type claimed struct {
	line, column int // of the node
	what         string
}

// apply returns the text with all edits.
func (e *editor) apply() []byte {
	lines := slices.Clone(e.lines)
	slices.SortStableFunc(e.edits, func(a, b edit) int {
		if c := cmp.Compare(b.line, a.line); c != 0 {
			return c
		}
		return cmp.Compare(b.from, a.from)
	})
	for _, one := range e.edits {
		if one.insert {
			lines = slices.Insert(lines, one.line, one.text)
			continue
		}
		l := lines[one.line]
		lines[one.line] = l[:one.from] + one.text + l[one.to:]
	}
	return []byte(strings.Join(lines, "\n"))
}

// offset returns the byte offset of a node's column in its line, false if the text has no such
// place.
func (e *editor) offset(n *yaml.Node) (line, at int, ok bool) {
	line = n.Line - 1
	if line < 0 || line >= len(e.lines) {
		return 0, 0, false
	}
	column := 1
	for i := range e.lines[line] {
		if column == n.Column {
			return line, i, true
		}
		column++
	}
	return 0, 0, false
}

// bounds sets the bounds that bring rules below their cost limits.
func (e *editor) bounds(ctx context.Context) {
	least := map[string]Bound{} // by path and keyword
	var order []string
	for _, t := range e.d.schemas() {
		if ctx.Err() != nil {
			return
		}
		c, ok := t.costs()
		if !ok {
			continue
		}
		for i := range c.Costs {
			cost := &c.Costs[i]
			f := identify(Finding{Severity: Error, Check: "cost", Path: cost.Path})
			if cost.Advice == nil || len(cost.Advice.Bounds) == 0 || e.skip(e.d.place(f)) {
				continue
			}
			for _, b := range cost.Advice.Bounds {
				key := b.Path + " " + b.Keyword
				if known, ok := least[key]; !ok || b.Value < known.Value {
					if !ok {
						order = append(order, key)
					}
					least[key] = b
				}
			}
		}
	}
	for _, key := range order {
		b := least[key]
		for _, path := range e.d.everyVersion(b.Path) {
			e.setBound(path, b)
		}
	}
}

// everyVersion returns a schema path in all versions that have the same schema.
func (d *Definition) everyVersion(path string) []string {
	versions := d.CRD.Spec.Versions
	for i := range versions {
		rest, ok := strings.CutPrefix(path, schemaPath(i))
		if !ok {
			continue
		}
		out := []string{path}
		for j := range versions {
			if j != i && equality.Semantic.DeepEqual(versions[i].Schema, versions[j].Schema) {
				out = append(out, schemaPath(j)+rest)
			}
		}
		return out
	}
	return []string{path}
}

// setBound sets a bound at a schema node of the text.
func (e *editor) setBound(path string, b Bound) {
	_, n, all := e.d.text.Walk(path)
	if !all || n.Kind != yaml.MappingNode || len(n.Content) == 0 || !e.claim(n, b.Keyword) {
		return
	}
	value := strconv.FormatInt(b.Value, 10)
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value != b.Keyword {
			continue
		}
		old := n.Content[i+1]
		line, at, ok := e.offset(old)
		if !ok || !strings.HasPrefix(e.lines[line][at:], old.Value) {
			return
		}
		e.edits = append(e.edits, edit{line: line, from: at, to: at + len(old.Value), text: value})
		e.record("cost/rule", path, old.Line, fmt.Sprintf("lowered %s from %s to %s", b.Keyword, old.Value, value), boundMarker(path, b))
		return
	}
	first := n.Content[0]
	before := first // the entry before which the bound goes, nil for the end
	if sorted := slices.IsSortedFunc(keysOf(n), strings.Compare); sorted {
		before = nil
		for i := 0; i < len(n.Content); i += 2 {
			if n.Content[i].Value > b.Keyword {
				before = n.Content[i]
				break
			}
		}
	}
	if !e.insertEntry(n, before, b.Keyword, value) {
		return
	}
	e.record("cost/rule", path, first.Line, fmt.Sprintf("set %s: %s", b.Keyword, value), boundMarker(path, b))
}

// claim reports whether something at a node is not edited yet, and claims it.
func (e *editor) claim(n *yaml.Node, keyword string) bool {
	key := claimed{n.Line, n.Column, keyword}
	if e.taken[key] {
		return false
	}
	e.taken[key] = true
	return true
}

// keysOf returns the keys of a mapping.
func keysOf(n *yaml.Node) []string {
	var out []string
	for i := 0; i < len(n.Content); i += 2 {
		out = append(out, n.Content[i].Value)
	}
	return out
}

// insertEntry inserts an entry into a mapping, before the key before; nil is the end, for which it
// goes before the first key in flow style.
func (e *editor) insertEntry(n, before *yaml.Node, key, value string) bool {
	first := n.Content[0]
	anchor := before
	if anchor == nil {
		anchor = first
	}
	line, at, ok := e.offset(anchor)
	if !ok {
		return false
	}
	if n.Style&yaml.FlowStyle != 0 {
		entry := key + ": " + value + ", "
		if first.Style&yaml.DoubleQuotedStyle != 0 {
			entry = strconv.Quote(key) + ": " + value + ", "
		}
		if strings.TrimSpace(e.lines[line][:at]) == "" { // one entry a line
			e.edits = append(e.edits, edit{line: line, text: e.lines[line][:at] + strings.TrimSpace(entry), insert: true})
			return true
		}
		e.edits = append(e.edits, edit{line: line, from: at, to: at, text: entry})
		return true
	}
	indent := e.lines[line][:at]
	if before == nil { // after the last entry
		last := n.Content[len(n.Content)-2]
		column := last.Column
		end := last.Line
		for end < len(e.lines) {
			trimmed := strings.TrimSpace(e.lines[end])
			deep := len(e.lines[end]) - len(strings.TrimLeft(e.lines[end], " ")) + 1
			isItem := strings.HasPrefix(trimmed, "- ") && n.Content[len(n.Content)-1].Kind == yaml.SequenceNode
			if trimmed != "" && trimmed[0] != '#' && (deep < column || deep == column && !isItem) {
				break
			}
			end++
		}
		for end > last.Line && (strings.TrimSpace(e.lines[end-1]) == "" || strings.HasPrefix(strings.TrimSpace(e.lines[end-1]), "#")) {
			end--
		}
		e.edits = append(e.edits, edit{line: end, text: strings.Repeat(" ", column-1) + key + ": " + value, insert: true})
		return true
	}
	if strings.TrimSpace(indent) != "" { // the first key of an item, after a dash
		e.edits = append(e.edits, edit{line: line, from: at, to: at, text: key + ": " + value + "\n" + strings.Repeat(" ", at)})
		return true
	}
	for line > 0 && strings.HasPrefix(strings.TrimSpace(e.lines[line-1]), "#") && before != first { // a comment belongs to the key below it
		line--
	}
	e.edits = append(e.edits, edit{line: line, text: indent + key + ": " + value, insert: true})
	return true
}

// record notes a repair.
func (e *editor) record(id, path string, line int, message, marker string) {
	if e.d.CRD.Annotations["controller-gen.kubebuilder.io/version"] == "" {
		marker = ""
	}
	e.repairs = append(e.repairs, Repair{ID: id, Path: path, Where: e.d.short(path, ""), Line: e.d.text.First() + line - 1, Message: message, Marker: marker})
}

// boundMarker returns the marker of controller-gen for a bound, "" if there is none.
func boundMarker(path string, b Bound) string {
	steps := source.Split(path)
	keyword := strings.ToUpper(b.Keyword[:1]) + b.Keyword[1:]
	value := strconv.FormatInt(b.Value, 10)
	switch last := steps[len(steps)-1]; {
	case len(steps) > 1 && steps[len(steps)-2] == "properties":
		return fmt.Sprintf("+kubebuilder:validation:%s=%s on the field %s", keyword, value, last)
	case last == "items" && len(steps) > 2 && steps[len(steps)-3] == "properties":
		return fmt.Sprintf("+kubebuilder:validation:items:%s=%s on the field %s", keyword, value, steps[len(steps)-2])
	}
	return fmt.Sprintf("+kubebuilder:validation:%s=%s on the Go type of %s", keyword, value, b.Where)
}

// drafts rewrites rules in the form of the first draft: the key, and names without self.
func (e *editor) drafts() {
	_, versions, ok := e.d.text.Walk("spec.versions")
	if !ok || versions.Kind != yaml.SequenceNode {
		return
	}
	for i := range versions.Content {
		if _, root, ok := e.d.text.Walk(schemaPath(i)); ok {
			e.draftsBelow(root, schemaPath(i))
		}
	}
}

// draftsBelow is drafts for a node and those below it.
func (e *editor) draftsBelow(n *yaml.Node, path string) {
	switch n.Kind {
	case yaml.MappingNode:
		current := slices.Contains(keysOf(n), currentKey)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			below := path + "." + key.Value
			switch {
			case strings.HasSuffix(path, ".properties"):
				e.draftsBelow(value, path+"["+key.Value+"]")
			case key.Value == draftKey && !current && value.Kind == yaml.SequenceNode && !e.skip(e.d.place(identify(Finding{Severity: Error, Check: "draft", Path: below}))):
				e.renameKey(key, below)
				e.rules(n, value, below, "draft")
			case key.Value == currentKey && value.Kind == yaml.SequenceNode:
				e.rules(n, value, below, "rule")
			case key.Value != draftKey:
				e.draftsBelow(value, below)
			}
		}
	case yaml.SequenceNode:
		for i, item := range n.Content {
			e.draftsBelow(item, fmt.Sprintf("%s[%d]", path, i))
		}
	}
}

// currentKey is the name of the key with rules.
const currentKey = "x-kubernetes-validations"

// renameKey gives the draft's key its current name.
func (e *editor) renameKey(key *yaml.Node, path string) {
	line, at, ok := e.offset(key)
	if !ok || !e.claim(key, draftKey) {
		return
	}
	start := strings.Index(e.lines[line][at:], draftKey)
	if start < 0 {
		return
	}
	e.edits = append(e.edits, edit{line: line, from: at + start, to: at + start + len(draftKey), text: currentKey})
	e.record("draft", path, key.Line, "renamed "+draftKey+" to "+currentKey, "")
}

// rules inserts self before the names of properties in the rules of a node. id is that of the
// findings.
func (e *editor) rules(at, rules *yaml.Node, path, id string) {
	for i, item := range rules.Content {
		for j := 0; item.Kind == yaml.MappingNode && j+1 < len(item.Content); j += 2 {
			value := item.Content[j+1]
			if item.Content[j].Value != "rule" || value.Kind != yaml.ScalarNode {
				continue
			}
			where := fmt.Sprintf("%s[%d].rule", path, i)
			f := e.d.place(identify(Finding{Severity: Error, Check: id, Path: where}))
			if e.skip(f) {
				continue
			}
			fixed, ok := withSelf(at, value.Value)
			if !ok || fixed == value.Value || !e.replaceScalar(value, fixed) {
				continue
			}
			quoted, err := json.Marshal(fixed)
			if err != nil {
				continue
			}
			e.record(id, where, value.Line, "named properties through self: "+fixed, "+kubebuilder:validation:XValidation:rule="+unescapeHTML(quoted)+" on the Go type")
		}
	}
}

// replaceScalar replaces the text of a scalar, which must be on one line, or in literal style.
func (e *editor) replaceScalar(n *yaml.Node, text string) bool {
	line, at, ok := e.offset(n)
	if !ok || !e.claim(n, text) {
		return false
	}
	if n.Style&yaml.LiteralStyle != 0 {
		was, is := strings.Split(n.Value, "\n"), strings.Split(text, "\n")
		for i := range was {
			if i >= len(is) || was[i] == is[i] {
				continue
			}
			l := line + 1 + i
			if l >= len(e.lines) || !strings.HasSuffix(e.lines[l], was[i]) {
				return false
			}
			e.edits = append(e.edits, edit{line: l, from: len(e.lines[l]) - len(was[i]), to: len(e.lines[l]), text: is[i]})
		}
		return true
	}
	rest := e.lines[line][at:]
	raw, quoted := n.Value, text
	switch {
	case n.Style&yaml.DoubleQuotedStyle != 0:
		raw, quoted = doubleQuoted(rest), jsonText(text)
	case n.Style&yaml.SingleQuotedStyle != 0:
		raw, quoted = "'"+strings.ReplaceAll(n.Value, "'", "''")+"'", "'"+strings.ReplaceAll(text, "'", "''")+"'"
	case strings.Contains(text, ": ") || strings.Contains(text, " #"):
		quoted = jsonText(text)
	}
	if raw == "" || !strings.HasPrefix(rest, raw) {
		return false // it is folded over several lines
	}
	e.edits = append(e.edits, edit{line: line, from: at, to: at + len(raw), text: quoted})
	return true
}

// doubleQuoted returns the double-quoted text at the start of s, "" if it does not end there.
func doubleQuoted(s string) string {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return s[:i+1]
		}
	}
	return ""
}

// jsonText returns a text in double quotes.
func jsonText(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic("BUG: a text that is not JSON: " + err.Error())
	}
	return unescapeHTML(b)
}
