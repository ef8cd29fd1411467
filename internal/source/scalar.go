package source

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// This file finds positions within a scalar, whose text YAML writes with quotes, escapes, and
// indentation.

// Within returns the position of the byte at an offset of the string at path. If the string is
// missing, it returns the position of the deepest part of the path that the text has.
func (t *Text) Within(path string, offset int) (line, column int) {
	at, value, all := t.Walk(path)
	if !all || value == nil || value.Kind != yaml.ScalarNode || offset > len(value.Value) {
		if at == nil {
			return t.first, 1
		}
		return t.first + at.Line - 1, at.Column
	}
	i := t.rawOffset(value, offset)
	before := t.text[:i]
	start := bytes.LastIndexByte(before, '\n') + 1
	return t.first + bytes.Count(before, []byte("\n")), 1 + utf8.RuneCount(before[start:])
}

// rawOffset returns the offset in the text of the byte at an offset of a scalar's value.
func (t *Text) rawOffset(n *yaml.Node, offset int) int {
	i := t.start(n.Line, n.Column)
	for i < len(t.text) && (t.text[i] == '&' || t.text[i] == '!') { // an anchor, a tag
		for i < len(t.text) && bytes.IndexByte([]byte(" \t\r\n"), t.text[i]) < 0 {
			i++
		}
		i = t.skip(i, 0, true)
	}
	block := n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0
	indent := 0
	switch {
	case block:
		if end := bytes.IndexByte(t.text[i:], '\n'); end >= 0 {
			i += end + 1
		}
		for i+indent < len(t.text) && t.text[i+indent] == ' ' {
			indent++
		}
		i += indent
	case n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0:
		i++
	}
	for at, r := range n.Value {
		i = t.skip(i, r, block)
		if at >= offset {
			return min(i, len(t.text))
		}
		i = t.after(i, r, n.Style, indent)
	}
	return min(i, len(t.text))
}

// start returns the offset of a position.
func (t *Text) start(line, column int) int {
	if line > len(t.lines) {
		return len(t.text)
	}
	i := t.lines[max(line, 1)-1]
	for ; column > 1 && i < len(t.text); column-- {
		_, size := utf8.DecodeRune(t.text[i:])
		i += size
	}
	return min(i, len(t.text))
}

// skip returns the offset of the next character that is not a line break or indentation, unless r is
// one of them.
func (t *Text) skip(i int, r rune, block bool) int {
	if strings.ContainsRune(" \t\n", r) {
		return i
	}
	for i < len(t.text) && bytes.IndexByte([]byte(" \t\r\n"), t.text[i]) >= 0 {
		i++
	}
	if !block && bytes.HasPrefix(t.text[min(i, len(t.text)):], []byte("\\\n")) { // a break of a quoted line
		return t.skip(i+2, r, block)
	}
	return i
}

// after returns the offset behind the character r at i. indent is the indentation of a block.
func (t *Text) after(i int, r rune, style yaml.Style, indent int) int {
	rest := t.text[min(i, len(t.text)):]
	block := style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0
	switch {
	case len(rest) == 0:
		return i
	case style&yaml.DoubleQuotedStyle != 0 && rest[0] == '\\':
		return i + escapeSize(rest)
	case style&yaml.SingleQuotedStyle != 0 && bytes.HasPrefix(rest, []byte("''")):
		return i + 2
	case rest[0] == '\n' && block:
		i++
		for n := 0; n < indent && i < len(t.text) && t.text[i] == ' '; n++ {
			i++
		}
		return i
	case (r == ' ' || r == '\n') && (rest[0] == '\n' || rest[0] == '\r'): // lines that are folded
		for i < len(t.text) && bytes.IndexByte([]byte(" \t\r\n"), t.text[i]) >= 0 {
			i++
		}
		return i
	}
	_, size := utf8.DecodeRune(rest)
	return i + size
}

// escapeSize returns the size of an escape sequence of a double-quoted text.
func escapeSize(s []byte) int {
	if len(s) < 2 {
		return len(s)
	}
	switch s[1] {
	case 'x':
		return 4
	case 'U':
		return 10
	case 'u':
		return 6
	}
	return 2
}

// Item returns the text of the object at a path, from its first line on, with spaces in place of what
// stands before it there, and that line in the file. text is nil if the object is written in flow
// style, but not as JSON.
func (t *Text) Item(path string) (text []byte, line int) {
	at, value, all := t.Walk(path)
	if !all || value.Kind != yaml.MappingNode {
		return nil, 0
	}
	rest := t.text[t.start(at.Line, at.Column):]
	var end int
	if value.Style&yaml.FlowStyle != 0 {
		var raw json.RawMessage
		dec := json.NewDecoder(bytes.NewReader(rest))
		if dec.Decode(&raw) != nil {
			return nil, 0
		}
		end = int(dec.InputOffset())
	} else {
		for l := range bytes.Lines(rest) {
			words := bytes.TrimLeft(l, " ")
			if end > 0 && len(bytes.TrimSpace(words)) > 0 && words[0] != '#' && len(l)-len(words) < at.Column-1 {
				break // the line has less indentation than the object's keys
			}
			end += len(l)
		}
	}
	return append(bytes.Repeat([]byte(" "), at.Column-1), rest[:end]...), t.first + at.Line - 1
}
