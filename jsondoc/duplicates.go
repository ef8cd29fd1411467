package jsondoc

import (
	"slices"
	"strconv"
)

// This file finds duplicate keys. It is the slow path: the decoders only report
// that there were any.

// StrictKind says why strict decoding refuses a field.
type StrictKind uint8

// The kinds of refused fields.
const (
	UnknownField StrictKind = iota
	DuplicateField
)

// String returns the kind in the words of Kubernetes' decoder.
func (k StrictKind) String() string {
	if k == DuplicateField {
		return "duplicate field"
	}
	return "unknown field"
}

// StrictError is a field that strict decoding refuses. Other decoding drops it.
type StrictError struct {
	Kind StrictKind
	Path string // such as spec.containers[0].image
	// Verbatim: the error's text has the path as it is between quotation marks, as Kubernetes'
	// pruning writes it. Otherwise the path is quoted like a string in Go.
	Verbatim bool
}

// Error returns Kubernetes' text for the field, such as `unknown field "spec.x"`.
func (e StrictError) Error() string {
	if e.Verbatim {
		return e.Kind.String() + ` "` + e.Path + `"`
	}
	return e.Kind.String() + " " + strconv.Quote(e.Path)
}

// StrictTexts returns the texts of errors.
func StrictTexts(list []StrictError) []string {
	var texts []string
	for _, e := range list {
		texts = append(texts, e.Error())
	}
	return texts
}

// maxStrict is how many errors about one text are reported, as in Kubernetes'
// decoder.
const maxStrict = 100

// Duplicates lists the duplicate fields of src, in the order in which they
// occur, each once. It returns nil for malformed JSON.
func Duplicates(src []byte) []StrictError {
	d := Get()
	defer d.Release()
	d.Reset(nil)
	f := duplicateFinder{s: d.Scan(src)}
	if f.value() != nil || f.s.End() != nil {
		return nil
	}
	return f.found
}

type duplicateFinder struct {
	s     Scanner
	path  []byte
	found []StrictError
}

func (f *duplicateFinder) value() error {
	switch kind, err := f.s.Kind(); {
	case err != nil:
		return err
	case kind == Array:
		return f.array()
	case kind == Object:
		return f.object()
	}
	return f.s.Skip()
}

func (f *duplicateFinder) array() error {
	if err := f.s.ArrayStart(); err != nil {
		return err
	}
	base := len(f.path)
	for i := 0; ; i++ {
		more, err := f.s.More(i == 0)
		if !more || err != nil {
			return err
		}
		f.path = append(strconv.AppendInt(append(f.path, '['), int64(i), 10), ']')
		if err := f.value(); err != nil {
			return err
		}
		f.path = f.path[:base]
	}
}

func (f *duplicateFinder) object() error {
	if err := f.s.ObjectStart(); err != nil {
		return err
	}
	base := len(f.path)
	seen := make(map[string]bool)
	for first := true; ; first = false {
		key, more, err := f.s.Key(first)
		if !more || err != nil {
			return err
		}
		name := f.s.d.Str(key)
		if f.s.depth > 1 {
			f.path = append(f.path, '.')
		}
		f.path = append(f.path, name...)
		if seen[name] {
			f.note()
		}
		seen[name] = true
		if err := f.value(); err != nil {
			return err
		}
		f.path = f.path[:base]
	}
}

func (f *duplicateFinder) note() {
	if len(f.found) == maxStrict {
		return
	}
	e := StrictError{Kind: DuplicateField, Path: string(f.path)}
	if !slices.Contains(f.found, e) {
		f.found = append(f.found, e)
	}
}
