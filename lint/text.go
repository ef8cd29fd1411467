package lint

import (
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/keelson-io/keelson/internal/source"
)

// This file finds positions in a file.

// text is a definition's text, with positions.
type text struct {
	*source.Text
	file  string
	lines []string
}

func readText(src Source) *text {
	return &text{Text: source.New(src.Text, src.Line), file: src.Name, lines: strings.Split(string(src.Text), "\n")}
}

// place sets the position of a finding.
func (t *text) place(f Finding) Finding {
	f.File = t.file
	if f.Where == "" {
		f.Where = f.Path
	}
	if f.Line == 0 {
		f.Line, f.Column = t.Find(f.Path)
	}
	if f.Expression != nil {
		if line, column, ok := t.inside(f.Path, f.Expression); ok {
			f.Line, f.Column = line, column
		}
	}
	return f
}

// inside returns the position in the file for a position in an expression, which may be folded over
// several lines.
func (t *text) inside(path string, e *Expression) (line, column int, ok bool) {
	_, v, all := t.Walk(path)
	if !all || v.Kind != yaml.ScalarNode || v.Line < 1 {
		return 0, 0, false
	}
	lines := strings.Split(v.Value, "\n")
	for i := v.Line - 1; i < len(t.lines) && i <= v.Line-1+len(lines); i++ {
		if at := strings.Index(t.lines[i], e.Text); at >= 0 && e.Text != "" {
			return t.First() + i, at + e.Column, true
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
			return t.First() + i, strings.Index(t.lines[i], part) + e.Column - start, e.Column-1 >= start
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
