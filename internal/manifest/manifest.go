// Package manifest reads YAML and JSON documents for commands, from files, folders and standard
// input.
//
// A [Document] is the text of one object with its position. A text that is neither YAML nor JSON
// becomes a Document with an error, so that the others are still checked. A List of kind v1, as
// kubectl prints it, is replaced by its items.
//
// [Read] reads files and folders, [Split] a text.
package manifest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/keelson-io/keelson/internal/source"
	"github.com/keelson-io/keelson/internal/yamljson"
)

// Document is the text of one object and its position.
type Document struct {
	File  string // as the user named it; "-" is standard input
	Line  int    // of its first line in File, counted from 1
	Alone bool   // File has no other document
	Found bool   // File was found in a folder or by a glob; the user did not name it
	JSON  []byte // nil if Err is set
	// Duplicates lists the keys that a YAML text repeats. For JSON, the strict check of a schema
	// finds them.
	Duplicates []string
	Err        error // set if the text is neither YAML nor JSON; its text has the position

	head *Head        // nil if it has to be decoded
	text *source.Text // all items of a List share one
	path string       // of the object in text: "" or items[3]
}

// Position returns the line and column, in File, of a field of the object, or of the deepest part of
// the path that the text has. The path has the form of Kubernetes' field errors.
func (d Document) Position(path string) (line, column int) {
	if d.text == nil {
		return d.Line, 1
	}
	if d.path != "" {
		path = d.path + "." + path
	}
	return d.text.Find(path)
}

// Within returns the line and column, in File, of the byte at an offset of the string at path: see
// [Document.Position].
func (d Document) Within(path string, offset int) (line, column int) {
	if d.text == nil {
		return d.Line, 1
	}
	if d.path != "" {
		path = d.path + "." + path
	}
	return d.text.Within(path, offset)
}

// Scalar returns the characters of a field that is neither a list nor an object; "" if there is none.
func (d Document) Scalar(path string) string {
	if d.text == nil {
		return ""
	}
	if d.path != "" {
		path = d.path + "." + path
	}
	return d.text.Scalar(path)
}

// BooleanKeys returns the keys that YAML reads as true or false, with their positions.
func (d Document) BooleanKeys() []source.Key {
	if d.text == nil || d.path != "" {
		return nil
	}
	return d.text.BooleanKeys()
}

// Text returns the text of the document as it is in its file, from Line on. For an item of a List it
// is the JSON of the item.
func (d Document) Text() []byte {
	if d.text == nil || d.path != "" {
		return d.JSON
	}
	return d.text.Bytes()
}

// Lines returns the text of the document as Text does, and its first line in File. For an item of a
// List it is the item's part of the file, with the columns there, if that says the same as its JSON.
func (d Document) Lines() (text []byte, line int) {
	if d.text == nil || d.path == "" {
		return d.Text(), d.Line
	}
	text, line = d.text.Item(d.path)
	if alone := Split(d.File, text); len(alone) != 1 || !bytes.Equal(compact(alone[0].JSON), compact(d.JSON)) {
		return d.JSON, d.Line
	}
	return text, line
}

// compact returns a JSON text without spaces.
func compact(text []byte) []byte {
	var b bytes.Buffer
	if json.Compact(&b, text) != nil {
		return text
	}
	return b.Bytes()
}

// DuplicateKeys returns the keys that the text repeats, with their positions.
func (d Document) DuplicateKeys() []source.Duplicate {
	if d.text == nil {
		return nil
	}
	all := d.text.Duplicates()
	if d.path == "" {
		return all
	}
	var out []source.Duplicate
	for _, k := range all {
		if path, ok := strings.CutPrefix(k.Path, d.path+"."); ok {
			k.Path = path
			out = append(out, k)
		}
	}
	return out
}

// String returns the document's position as messages show it.
func (d Document) String() string {
	if d.Alone {
		return d.File
	}
	return fmt.Sprintf("%s:%d", d.File, d.Line)
}

// Explain returns the text of a [json.Unmarshal] error without names of Go types.
func Explain(err error) error {
	var mismatch *json.UnmarshalTypeError
	switch {
	case !errors.As(err, &mismatch):
		return err
	case mismatch.Field == "":
		return fmt.Errorf("got a %s, want an object with fields", mismatch.Value)
	}
	return fmt.Errorf("%s: a %s is not what belongs there", mismatch.Field, mismatch.Value)
}

// Read reads the documents of files, folders, globs and standard input. See [Options.Read].
func Read(paths []string, stdin io.Reader) ([]Document, error) {
	in, err := Options{}.Read(paths, stdin)
	if err != nil {
		return nil, err
	}
	return in.Documents, nil
}

// Bounds of what one command reads. A folder may be a stranger's.
const (
	maxFile  = 128 << 20 // bytes of a file; a link may lead to an endless device such as /dev/zero
	MaxFiles = 200_000   // files
	maxTotal = 1 << 30   // bytes of all files
	maxJSON  = 256 << 20 // bytes of JSON that the documents of a YAML file become, which aliases make long
)

// tally reads files, and counts what it reads.
type tally struct {
	from         Options
	mu           sync.Mutex
	files, bytes int
}

// add counts files and bytes. It returns the sums.
func (t *tally) add(files, bytes int) (allFiles, allBytes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.files, t.bytes = t.files+files, t.bytes+bytes
	return t.files, t.bytes
}

// read reads a file, within the bounds of all files. It is safe for concurrent use.
func (t *tally) read(file string, stdin io.Reader) ([]byte, error) {
	if files, _ := t.add(1, 0); files > MaxFiles {
		return nil, fmt.Errorf("%s: more than %d files: name a smaller folder, or leave some out with --exclude", file, MaxFiles)
	}
	text, err := t.from.read(file, stdin)
	if err != nil {
		return nil, err
	}
	if _, bytes := t.add(0, len(text)); bytes > maxTotal {
		return nil, fmt.Errorf("%s: the files up to this one have more than %d bytes: name a smaller folder, or leave some out with --exclude", file, maxTotal)
	}
	return text, nil
}

// Split splits a text into its documents: at lines that begin with "---" or "...", or after each
// value of a JSON stream.
func Split(file string, text []byte) []Document {
	var docs []Document
	switch first := bytes.TrimLeft(text, " \t\r\n"); {
	case len(first) > 0 && first[0] == '[' && json.Valid(first): // JSON has no limit of the items of a list
		docs = splitJSON(file, text)
	case len(first) > 0 && first[0] == '{':
		docs = splitJSON(file, text)
		// A YAML text may begin with a brace, too.
		if len(docs) > 0 && docs[0].Err != nil && filepath.Ext(file) != ".json" {
			if other := splitYAML(file, text); !slices.ContainsFunc(other, func(d Document) bool { return d.Err != nil }) {
				docs = other
			}
		}
	default:
		docs = splitYAML(file, text)
	}
	var out []Document
	for _, d := range docs {
		d.setHead()
		if d.head != nil && d.head.Kind != "List" {
			out = append(out, d)
			continue
		}
		for _, item := range expandList(d) {
			item.setHead()
			out = append(out, item)
		}
	}
	for i := range out {
		out[i].Alone = len(out) == 1
	}
	return out
}

// splitYAML splits a YAML text at its separators.
func splitYAML(file string, text []byte) []Document {
	var docs []Document
	start, line := 1, 0
	from, to := 0, 0 // of the document in text
	size := 0
	flush := func() {
		d, ok := fromYAML(file, start, text[from:to:to])
		if size += len(d.JSON); size > maxJSON && ok {
			d.JSON, d.Err = nil, fmt.Errorf("%s:%d: the documents up to this one become more than %d bytes of JSON", file, d.Line, maxJSON)
		}
		if ok {
			docs = append(docs, d)
		}
	}
	for l := range bytes.Lines(text) {
		line++
		rest, parts := separator(l)
		if parts {
			flush()
			start, from = line, to+len(l)-len(rest)
		}
		to += len(l)
	}
	flush()
	return docs
}

// separator reports whether a line separates documents, and returns the rest of the line, with
// which a document may begin. "..." ends a document (YAML 1.2, section 9.1).
func separator(line []byte) (rest []byte, parts bool) {
	if line[0] != '-' && line[0] != '.' {
		return line, false
	}
	for _, mark := range []string{"---", "..."} {
		rest, ok := bytes.CutPrefix(line, []byte(mark))
		if ok && (len(rest) == 0 || bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0) {
			return rest, true
		}
	}
	return line, false
}

// yamlLine matches the line number in an error of the YAML parser, which counts from the start of
// the document.
var yamlLine = regexp.MustCompile(`line (\d+): `)

// fromYAML converts one document. ok is false if it has only comments.
func fromYAML(file string, start int, text []byte) (d Document, ok bool) {
	// A document's position is its first line with content.
	for l := range bytes.Lines(text) {
		if t := bytes.TrimSpace(l); len(t) > 0 && t[0] != '#' {
			break
		}
		start++
		text = text[len(l):]
	}
	d = Document{File: file, Line: start, text: source.New(text, start)}
	out, duplicates, err := yamljson.Any(context.Background(), text, true)
	if err != nil {
		d.Err = errors.New(yamlError(file, start, err))
		if what, line, column := d.text.OddKey(); what != "" && strings.Contains(err.Error(), "unsupported map key") {
			d.Err = fmt.Errorf("%s:%d:%d: the key is %s, want a string; write it in quotes", file, line, column, what)
		}
		if hasBraces(text) {
			d.Err = fmt.Errorf("%w%s", d.Err, templateHint)
		}
		return d, true
	}
	if duplicates != nil {
		for _, m := range yamljson.Messages(duplicates) {
			d.Duplicates = append(d.Duplicates, rebase(m, start))
		}
	}
	if string(out) == "null" {
		return d, false
	}
	d.JSON = out
	return d, true
}

// oneShort matches errors of the YAML parser (not of its scanner) that name the line before the
// mistake.
var oneShort = regexp.MustCompile(`did not find expected (node content|key|'-' indicator|',' or |<document start>)`)

// yamlError returns the parser's error with the line counted from the start of the file.
func yamlError(file string, start int, err error) string {
	msg := strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
	msg = strings.TrimPrefix(msg, "yaml: ")
	if before, _, found := strings.Cut(msg, "invalid map key: "); found { // a Go value follows
		msg = before + "a key is an object or a list, want a string; write it in quotes"
	}
	if m := yamlLine.FindStringSubmatch(msg); m != nil {
		n, _ := strconv.Atoi(m[1])
		if oneShort.MatchString(msg) {
			n++
		}
		return fmt.Sprintf("%s:%d: %s", file, start+n-1, strings.Replace(msg, m[0], "", 1))
	}
	return fmt.Sprintf("%s:%d: %s", file, start, msg)
}

// rebase replaces a line number that counts from the document by one that counts from the file.
func rebase(msg string, start int) string {
	return yamlLine.ReplaceAllStringFunc(msg, func(m string) string {
		n, _ := strconv.Atoi(yamlLine.FindStringSubmatch(m)[1])
		return fmt.Sprintf("line %d: ", start+n-1)
	})
}

// splitJSON splits a stream of JSON values.
func splitJSON(file string, text []byte) []Document {
	text = withoutSeparators(text)
	var docs []Document
	dec := json.NewDecoder(bytes.NewReader(text))
	line, counted := 1, 0 // the line of the byte at counted
	for {
		var raw json.RawMessage
		err := dec.Decode(&raw)
		if err == io.EOF {
			return docs
		}
		if err == nil {
			end := dec.InputOffset()
			start := int(end) - len(raw)
			line += bytes.Count(text[counted:start], []byte("\n"))
			counted = start
			docs = append(docs, Document{File: file, Line: line, JSON: raw, text: source.New(lineFrom(text, raw, end), line)})
			continue
		}
		at := len(text) // the text ends too early
		if syntax := new(json.SyntaxError); errors.As(err, &syntax) && err != io.ErrUnexpectedEOF {
			at = max(0, int(syntax.Offset)-1)
		}
		row := 1 + bytes.Count(text[:at], []byte("\n"))
		col := at - bytes.LastIndexByte(text[:at], '\n')
		err = fmt.Errorf("%s:%d:%d: %w", file, row, col, err)
		if hasBraces(text) {
			err = fmt.Errorf("%w%s", err, templateHint)
		}
		return append(docs, Document{File: file, Line: row, Err: err})
	}
}

// lineFrom returns the text of a JSON value that ends at offset end, with spaces in place of what
// stands before it on its first line, so that its columns are those of the file.
func lineFrom(text, value []byte, end int64) []byte {
	start := int(end) - len(value)
	before := text[bytes.LastIndexByte(text[:start], '\n')+1 : start]
	if len(before) == 0 {
		return value
	}
	return append(bytes.Repeat([]byte(" "), utf8.RuneCount(before)), value...)
}

// withoutSeparators blanks the separator lines of YAML documents that are written as JSON. JSON
// itself cannot contain such a line.
func withoutSeparators(text []byte) []byte {
	if !bytes.Contains(text, []byte("\n---")) {
		return text
	}
	text = bytes.Clone(text)
	for l := range bytes.Lines(text) {
		if bytes.Equal(bytes.TrimSpace(l), []byte("---")) {
			copy(l, "   ")
		}
	}
	return text
}

// expandList returns the items of a List of kind v1, as kubectl prints it.
func expandList(d Document) []Document {
	var list struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Items      []json.RawMessage `json:"items"`
	}
	if d.Err != nil || json.Unmarshal(d.JSON, &list) != nil || list.APIVersion != "v1" || list.Kind != "List" {
		return []Document{d}
	}
	docs := make([]Document, len(list.Items))
	for i, item := range list.Items {
		docs[i] = Document{File: d.File, Line: d.Line, JSON: item, Duplicates: d.Duplicates, text: d.text, path: fmt.Sprintf("items[%d]", i)}
	}
	return docs
}
