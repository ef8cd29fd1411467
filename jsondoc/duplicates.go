package jsondoc

import (
	"slices"
	"strconv"
)

// This file words duplicate keys. It is the slow path: the decoders only note
// that there were any.

// maxStrict is how many complaints about one text are reported, as in
// Kubernetes' decoder.
const maxStrict = 100

// Duplicates lists the duplicate fields of src as Kubernetes' decoder words
// them (`duplicate field "spec.x"`), in the order in which they occur, each
// once. It is nil if src is no JSON.
func Duplicates(src []byte) []string {
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
	found []string
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
	text := "duplicate field " + strconv.Quote(string(f.path))
	if !slices.Contains(f.found, text) {
		f.found = append(f.found, text)
	}
}
