// Package settings reads .keelson.yaml, the settings of the offline commands for a repository, and
// decides which findings are suppressed.
//
// # Model
//
// [Find] returns the [Settings] of a working directory: those of the first .keelson.yaml in it or
// above it, up to the root of its repository. A [Filter] drops findings: those that a suppression
// names, and those in the baseline, a file with the findings of an earlier run.
//
// # Invariants
//
//   - Reading is strict. An error has the file, the line and the column.
//   - Paths in the file count from its folder, so that the working directory does not matter.
//   - A suppression has a reason.
//   - The file may come from a stranger's repository. It runs nothing and contacts nobody, and names only files inside the repository
//     and git revisions of it, unless the user trusts it.
package settings

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/keelson-io/keelson/internal/manifest"
	"github.com/keelson-io/keelson/internal/nearest"
)

// Name is the name of the file.
const Name = ".keelson.yaml"

// The head of the file.
const (
	apiVersion = "cli.keelson.io/v1"
	kind       = "Configuration"
)

// Settings are the contents of the file. Empty fields leave the defaults of the commands.
type Settings struct {
	File string `json:"-"` // "" if there is none
	Root string `json:"-"` // the folder that files named here must be in; "" if the user trusts the settings

	CRDs          []string      `json:"crds"`          // files, folders or templates with the definitions, as --crd takes them
	Exclude       []string      `json:"exclude"`       // globs of files that are left out
	SkipKinds     []string      `json:"skipKinds"`     // kinds whose objects are not checked
	IgnoreMissing bool          `json:"ignoreMissing"` // true: objects whose kind is not known are not a mistake
	IgnorePaths   []string      `json:"ignorePaths"`   // fields that are not checked
	Suppress      []Suppression `json:"suppress"`      // findings that are not reported
	Baseline      string        `json:"baseline"`      // a file with findings that are known
	Output        string        `json:"output"`        // the format, as -o takes it
}

// Suppression drops findings.
type Suppression struct {
	ID     string `json:"id"`     // of the findings
	Path   string `json:"path"`   // glob of their files
	Reason string `json:"reason"` // for readers
}

// The keys of the file, for errors.
var (
	keys         = []string{"apiVersion", "kind", "crds", "exclude", "skipKinds", "ignoreMissing", "ignorePaths", "suppress", "baseline", "output"}
	suppressKeys = []string{"id", "path", "reason"}
)

// Find returns the settings for a folder. Without a file, they are empty. trusted lifts the bounds on what they may name.
func Find(folder string, trusted bool) (*Settings, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	root, _ := Repository(folder)
	for dir := folder; ; dir = filepath.Dir(dir) {
		file := filepath.Join(dir, Name)
		if _, err := os.Stat(file); err == nil {
			if near, err := filepath.Rel(folder, file); err == nil {
				return Read(near, trusted)
			}
			return Read(file, trusted)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if dir == root {
			return &Settings{}, nil
		}
	}
}

// Repository returns the root of the repository in which a folder is; the folder itself, and false, if
// there is none. Files above a repository may be somebody else's. The folder is absolute.
func Repository(folder string) (root string, found bool) {
	for dir := folder; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
			return dir, true
		}
		if filepath.Dir(dir) == dir {
			return folder, false
		}
	}
}

// Read reads a file. trusted lifts the bounds on what it may name.
func Read(file string, trusted bool) (*Settings, error) {
	folder, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	root, _ := Repository(folder)
	within := root
	if trusted {
		within = ""
	}
	text, err := manifest.ReadWithin(within, file)
	if errors.Is(err, manifest.ErrOutside) {
		return nil, fmt.Errorf("%w; %s", err, HowToTrust)
	}
	if err != nil {
		return nil, err
	}
	docs := manifest.Split(file, text)
	if len(docs) != 1 {
		return nil, fmt.Errorf("%s: got %d documents, want one of kind %s", file, len(docs), kind)
	}
	d := docs[0]
	if d.Err != nil {
		return nil, d.Err
	}
	s := &Settings{File: file, Root: within}
	if err := s.decode(d); err != nil {
		return nil, err
	}
	return s, s.check(d)
}

// decode decodes a document strictly.
func (s *Settings) decode(d manifest.Document) error {
	fail := func(path, format string, args ...any) error {
		line, column := d.Position(path)
		return fmt.Errorf("%s:%d:%d: %s", d.File, line, column, fmt.Sprintf(format, args...))
	}
	for _, k := range d.DuplicateKeys() {
		return fmt.Errorf("%s:%d:%d: key %q is there already, in line %d", d.File, k.Line, k.Column, k.Key, k.First)
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(d.JSON, &all); err != nil {
		return fail("", "want a mapping with apiVersion: %s and kind: %s", apiVersion, kind)
	}
	unknown := func(path string, got map[string]json.RawMessage, known []string) error {
		for key := range got {
			if !slices.Contains(known, key) {
				if like := nearest.Name(key, known); like != "" {
					return fail(path+key, "unknown key %q; did you mean %q?", key, like)
				}
				return fail(path+key, "unknown key %q, want some of %s", key, strings.Join(known, ", "))
			}
		}
		return nil
	}
	if err := unknown("", all, keys); err != nil {
		return err
	}
	var head struct{ APIVersion, Kind string }
	if json.Unmarshal(d.JSON, &head) != nil || head.APIVersion != apiVersion || head.Kind != kind {
		return fail("apiVersion", "got apiVersion %q and kind %q, want %s and %s", head.APIVersion, head.Kind, apiVersion, kind)
	}
	if err := json.Unmarshal(d.JSON, s); err != nil {
		var mismatch *json.UnmarshalTypeError
		if errors.As(err, &mismatch) {
			return fail(mismatch.Field, "%s: got a %s, want a %s", mismatch.Field, mismatch.Value, strings.NewReplacer("[]", "list of ", "settings.", "").Replace(mismatch.Type.String()))
		}
		return fail("", "%s", err)
	}
	var items []map[string]json.RawMessage
	if all["suppress"] != nil && json.Unmarshal(all["suppress"], &items) == nil {
		for i, item := range items {
			if err := unknown(fmt.Sprintf("suppress[%d].", i), item, suppressKeys); err != nil {
				return err
			}
		}
	}
	return nil
}

// check validates the values, and makes paths relative to the working directory.
func (s *Settings) check(d manifest.Document) error {
	fail := func(path, format string, args ...any) error {
		line, column := d.Position(path)
		return fmt.Errorf("%s:%d:%d: %s: %s", d.File, line, column, path, fmt.Sprintf(format, args...))
	}
	for i, p := range s.Suppress {
		at := fmt.Sprintf("suppress[%d]", i)
		switch {
		case p.ID == "":
			return fail(at+".id", "missing; write the ID of a finding, as -o json shows it")
		case p.Path == "":
			return fail(at+".path", `missing; write a glob of files, "**" for all`)
		case strings.TrimSpace(p.Reason) == "":
			return fail(at+".reason", "missing; write why these findings do not matter")
		}
		if err := manifest.CheckGlob(p.Path); err != nil {
			return fail(at+".path", "%s", err)
		}
	}
	for i, glob := range s.Exclude {
		if err := manifest.CheckGlob(glob); err != nil {
			return fail(fmt.Sprintf("exclude[%d]", i), "%s", err)
		}
	}
	if s.Output != "" && !slices.Contains([]string{"text", "json", "junit", "sarif", "github"}, s.Output) {
		return fail("output", "got %q, want text, json, junit, sarif or github", s.Output)
	}
	folder, err := filepath.Abs(filepath.Dir(s.File))
	if err != nil {
		return err
	}
	for i, source := range s.CRDs {
		if source == "" || source == "-" {
			return fail(fmt.Sprintf("crds[%d]", i), "got %q, want a file, folder, glob, git revision or catalogue", source)
		}
		if s.CRDs[i], err = s.inside(source); err != nil {
			return fail(fmt.Sprintf("crds[%d]", i), "%s; %s", err, HowToTrust)
		}
	}
	for i, glob := range s.Exclude {
		if strings.Contains(strings.TrimSuffix(glob, "/"), "/") && !filepath.IsAbs(glob) {
			s.Exclude[i] = globEscaper.Replace(filepath.ToSlash(folder)) + "/" + strings.TrimPrefix(glob, "./")
		}
	}
	if s.Baseline != "" {
		if s.Baseline, err = s.inside(s.Baseline); err != nil {
			return fail("baseline", "%s; %s", err, HowToTrust)
		}
	}
	return nil
}

// HowToTrust ends the errors about what only trusted settings may name.
const HowToTrust = "settings name files inside their repository and git revisions of it, or pass --trust-settings"

// inside returns a path of the file as the working directory sees it, see local, and an error for one that a stranger's settings may not
// name. Links are followed; a file that is not there is inside.
func (s *Settings) inside(path string) (string, error) {
	near := s.local(path)
	switch {
	case s.Root == "" || strings.HasPrefix(path, "git:"):
		return near, nil
	case strings.HasPrefix(path, "https://") || strings.HasPrefix(path, "http://"):
		return near, fmt.Errorf("%s is a URL: %w", path, manifest.ErrOutside)
	case filepath.IsAbs(path) || filepath.VolumeName(path) != "":
		return near, fmt.Errorf("%s is an absolute path: %w", path, manifest.ErrOutside)
	}
	return near, manifest.Inside(s.Root, near)
}

// globEscaper escapes the characters of a path that mean something in a glob.
var globEscaper = strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `{`, `\{`, `\`, `\\`)

// local returns a path of the file as the working directory sees it. URLs and git revisions do not
// change.
func (s *Settings) local(path string) string {
	if strings.HasPrefix(path, "https://") || strings.HasPrefix(path, "http://") || strings.HasPrefix(path, "git:") || filepath.IsAbs(path) {
		return path
	}
	slash := strings.HasSuffix(path, "/")
	path = filepath.Join(filepath.Dir(s.File), filepath.FromSlash(path))
	if slash {
		path += string(filepath.Separator)
	}
	return path
}
