// This file has the flag --fix of "lint".

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/keelson-io/keelson/internal/cli/command"
	"github.com/keelson-io/keelson/internal/manifest"
	"github.com/keelson-io/keelson/internal/settings"
	"github.com/keelson-io/keelson/lint"
	"github.com/keelson-io/keelson/offline"
)

// fixFiles repairs the definitions in files. It writes each change to notes. Findings that the
// filter drops are left alone.
func fixFiles(ctx context.Context, paths []string, files manifest.Options, filter *settings.Filter, notes io.Writer) error {
	if slices.Contains(paths, "-") {
		return command.UsageError(errors.New("--fix edits files, and standard input is none"))
	}
	in, err := files.Read(paths, nil)
	if err != nil {
		return err
	}
	byFile := map[string][]manifest.Document{}
	var order []string
	for _, d := range in.Documents {
		if d.Err != nil || !offline.IsDefinition(d) {
			continue
		}
		if byFile[d.File] == nil {
			order = append(order, d.File)
		}
		byFile[d.File] = append(byFile[d.File], d)
	}
	for _, file := range order {
		if err := fixFile(ctx, file, byFile[file], filter, notes); err != nil {
			return err
		}
	}
	return nil
}

// fixFile repairs the definitions of one file, the last one first, so that the positions of the
// others stay valid.
func fixFile(ctx context.Context, file string, docs []manifest.Document, filter *settings.Filter, notes io.Writer) error {
	text, err := manifest.ReadFile(file, nil)
	if err != nil {
		return err
	}
	was := text
	var done []lint.Repair
	for _, d := range slices.Backward(docs) {
		object := "CustomResourceDefinition " + offline.SubjectOf(d, "").Name
		skip := func(f lint.Finding) bool {
			return filter.Drops(settings.Entry{ID: f.ID, File: file, Object: object, Path: f.Path})
		}
		own := d.Text()
		fixed, repairs, err := lint.Fix(ctx, lint.Source{Name: file, Line: d.Line, Text: own}, skip)
		if err != nil {
			return err
		}
		if fixed == nil {
			continue
		}
		start := lineStart(text, d.Line)
		if start < 0 || !bytes.HasPrefix(text[start:], own) {
			fmt.Fprintf(notes, "%s: is an item of a list, which --fix does not edit\n", d)
			continue
		}
		text = slices.Concat(text[:start], fixed, text[start+len(own):])
		done = slices.Concat(repairs, done)
	}
	if bytes.Equal(text, was) {
		return nil
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, text, info.Mode().Perm()); err != nil {
		return err
	}
	for _, r := range done {
		fmt.Fprintf(notes, "%s:%d: fixed %s: %s: %s\n", file, r.Line, r.ID, r.Where, r.Message)
		if r.Marker != "" {
			fmt.Fprintf(notes, "    in Go: %s\n", r.Marker)
		}
	}
	return nil
}

// lineStart returns the offset of a line, which counts from 1; -1 if the text is shorter.
func lineStart(text []byte, line int) int {
	at := 0
	for range line - 1 {
		next := bytes.IndexByte(text[at:], '\n')
		if next < 0 {
			return -1
		}
		at += next + 1
	}
	return at
}
