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
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/internal/source"
)

// Document is the text of one object and its position.
type Document struct {
	File  string // as the user named it; "-" is standard input
	Line  int    // of its first line in File, counted from 1
	Alone bool   // File has no other document
	JSON  []byte // nil if Err is set
	// Duplicates lists the keys that a YAML text repeats. For JSON, the strict check of a schema
	// finds them.
	Duplicates []string
	Err        error // set if the text is neither YAML nor JSON; its text has the position

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

// Each calls f with the files that paths name, by name and text, until f fails.
func Each(paths []string, stdin io.Reader, f func(file string, text []byte) error) error {
	for _, p := range paths {
		files, err := Expand(p)
		if err != nil {
			return err
		}
		for _, file := range files {
			text, err := ReadFile(file, stdin)
			if err != nil {
				return err
			}
			if err := f(file, text); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxFile is the largest file, in bytes. A folder may contain a link to an endless device such as
// /dev/zero.
const maxFile = 128 << 20

// ReadFile returns the text of a file, or of stdin for "-".
func ReadFile(file string, stdin io.Reader) ([]byte, error) {
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		stdin = f
	}
	text, err := io.ReadAll(io.LimitReader(stdin, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s: got more than %d bytes", file, maxFile)
	}
	return text, err
}

// Split splits a text into its documents: at lines that begin with "---" or "...", or after each
// value of a JSON stream.
func Split(file string, text []byte) []Document {
	var docs []Document
	if first := bytes.TrimLeft(text, " \t\r\n"); len(first) > 0 && first[0] == '{' {
		docs = splitJSON(file, text)
		// A YAML text may begin with a brace, too.
		if len(docs) > 0 && docs[0].Err != nil && filepath.Ext(file) != ".json" {
			if other := splitYAML(file, text); !slices.ContainsFunc(other, func(d Document) bool { return d.Err != nil }) {
				docs = other
			}
		}
	} else {
		docs = splitYAML(file, text)
	}
	var out []Document
	for _, d := range docs {
		out = append(out, expandList(d)...)
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
	var part []byte
	flush := func() {
		if d, ok := fromYAML(file, start, part); ok {
			docs = append(docs, d)
		}
		part = nil
	}
	for l := range bytes.Lines(text) {
		line++
		rest, parts := separator(l)
		if parts {
			flush()
			start = line
		}
		part = append(part, rest...)
	}
	flush()
	return docs
}

// separator reports whether a line separates documents, and returns the rest of the line, with
// which a document may begin. "..." ends a document (YAML 1.2, section 9.1).
func separator(line []byte) (rest []byte, parts bool) {
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
	out, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		lenient, lenientErr := yaml.YAMLToJSON(text)
		if lenientErr != nil {
			d.Err = errors.New(yamlError(file, start, lenientErr))
			return d, true
		}
		out = lenient
		for m := range strings.SplitSeq(err.Error(), "\n") {
			if _, m, found := strings.Cut(m, "line "); found {
				d.Duplicates = append(d.Duplicates, rebase("line "+m, start))
			}
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
	for {
		var raw json.RawMessage
		err := dec.Decode(&raw)
		if err == io.EOF {
			return docs
		}
		end := dec.InputOffset()
		line := 1 + bytes.Count(text[:end-int64(len(raw))], []byte("\n"))
		if err == nil {
			docs = append(docs, Document{File: file, Line: line, JSON: raw, text: source.New(lineFrom(text, raw, end), line)})
			continue
		}
		at := len(text) // the text ends too early
		if syntax := new(json.SyntaxError); errors.As(err, &syntax) && err != io.ErrUnexpectedEOF {
			at = max(0, int(syntax.Offset)-1)
		}
		row := 1 + bytes.Count(text[:at], []byte("\n"))
		col := at - bytes.LastIndexByte(text[:at], '\n')
		return append(docs, Document{File: file, Line: row, Err: fmt.Errorf("%s:%d:%d: %w", file, row, col, err)})
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
