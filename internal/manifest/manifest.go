// Package manifest reads the YAML and JSON documents that commands are given: files, folders and standard input.
//
// A [Document] is one object's text with its position. What is no YAML or JSON becomes a Document with an error of its own, so that
// it does not hide the others. A List of kind v1, as kubectl prints it, stands for its items.
//
// [Read] reads files and folders, [Split] a text.
package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// Document is one object's text, with where it was found.
type Document struct {
	File  string // as the user named it; "-" is standard input
	Line  int    // of its first line in File, counted from 1
	Alone bool   // it is the only document of File
	JSON  []byte // the object; nil if Err is set
	// Duplicates says which keys a YAML text repeats. In JSON the strict check of a schema finds them.
	Duplicates []string
	Err        error // the text is no YAML or JSON; its position is in the text of the error
}

// String is the document's position as messages show it.
func (d Document) String() string {
	if d.Alone {
		return d.File
	}
	return fmt.Sprintf("%s:%d", d.File, d.Line)
}

// Explain is an error of [json.Unmarshal] without the names that types have in Go.
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

// Read reads every file, every YAML or JSON file below every folder, and standard input for "-". Documents that
// are no YAML come back with an error of their own, so that one of them does not hide the verdict on the others.
func Read(paths []string, stdin io.Reader) ([]Document, error) {
	var docs []Document
	err := Each(paths, stdin, func(file string, text []byte) error {
		docs = append(docs, Split(file, text)...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return docs, nil
}

// Each calls f with the files that [Read] reads, by name and text, until f fails.
func Each(paths []string, stdin io.Reader, f func(file string, text []byte) error) error {
	for _, p := range paths {
		files, err := Expand(p)
		if err != nil {
			return err
		}
		for _, file := range files {
			text, err := read(file, stdin)
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

func read(file string, stdin io.Reader) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(file)
}

// Expand lists the files that a path stands for.
func Expand(p string) ([]string, error) {
	if p == "-" {
		return []string{p}, nil
	}
	info, err := os.Stat(p)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{p}, nil
	}
	var files []string
	err = filepath.WalkDir(p, func(f string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(f)) {
			files = append(files, f)
		}
		return err
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s: no .yaml, .yml or .json file below it", p)
	}
	return files, err
}

// Split cuts a text into its documents: at lines that begin with "---" or "...", or after each value of a JSON stream.
func Split(file string, text []byte) []Document {
	var docs []Document
	if first := bytes.TrimLeft(text, " \t\r\n"); len(first) > 0 && first[0] == '{' {
		docs = splitJSON(file, text)
		// YAML may begin with a brace, too.
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

// separator says whether a line parts documents, and returns what it says besides: a document may begin on the line of
// its "---". A document may also end with "..." (YAML 1.2, section 9.1).
func separator(line []byte) (rest []byte, parts bool) {
	for _, mark := range []string{"---", "..."} {
		rest, ok := bytes.CutPrefix(line, []byte(mark))
		if ok && (len(rest) == 0 || bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0) {
			return rest, true
		}
	}
	return line, false
}

// yamlLine finds the line that the YAML parser names; it counts from the document's first one.
var yamlLine = regexp.MustCompile(`line (\d+): `)

// fromYAML converts one document; ok is false if nothing but comments is in it.
func fromYAML(file string, start int, text []byte) (d Document, ok bool) {
	// The document's position is its first line that says something.
	for l := range bytes.Lines(text) {
		if t := bytes.TrimSpace(l); len(t) > 0 && t[0] != '#' {
			break
		}
		start++
		text = text[len(l):]
	}
	d = Document{File: file, Line: start}
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

// oneShort finds the errors of the YAML parser, as opposed to its scanner, in which it names the line before the one meant.
var oneShort = regexp.MustCompile(`did not find expected (node content|key|'-' indicator|',' or |<document start>)`)

// yamlError is the parser's error with the line counted from the start of the file.
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

// rebase changes a line number that counts from the document's first line to one that counts from the file's.
func rebase(msg string, start int) string {
	return yamlLine.ReplaceAllStringFunc(msg, func(m string) string {
		n, _ := strconv.Atoi(yamlLine.FindStringSubmatch(m)[1])
		return fmt.Sprintf("line %d: ", start+n-1)
	})
}

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
			docs = append(docs, Document{File: file, Line: line, JSON: raw})
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

// withoutSeparators blanks the lines that part YAML documents, which may be written as JSON. Nowhere else can JSON have
// such a line.
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

// expandList takes a List of kind v1, as kubectl prints it, apart.
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
		docs[i] = Document{File: d.File, Line: d.Line, JSON: item, Duplicates: d.Duplicates}
	}
	return docs
}
