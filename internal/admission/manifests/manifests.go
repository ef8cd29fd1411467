// Package manifests reads webhook configurations and admission policies from the files of a folder,
// so that they are in force from the first request on, and nobody can change them through the API
// (KEP-5793).
//
// # Model
//
// A [Folder] has the objects of some kinds. It reads all files with the endings .yaml, .yml and
// .json, in the order of their names, decodes each object as a request body, with its defaults, and
// validates it. It reads them again when they change. If anything is wrong then, it logs the error
// and keeps the objects that it has.
//
// # Invariants
//
//   - The name of each object ends with [Suffix], which the API refuses. Two objects of a kind have
//     different names.
//   - Objects refer to nothing in the store: a webhook has a URL, a policy has no parameters, and a
//     binding is for a policy of the same folder.
//   - A [State] does not change once it is made.
//
// [Open] and [Folder.Run] are the functions to call.
package manifests

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/keelson-io/keelson/internal/manifest"
	"github.com/keelson-io/keelson/internal/watchfile"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file reads the folder; references.go checks what objects refer to.

// Suffix ends the names of objects from files.
const Suffix = ".static.k8s.io"

// Bounds of a folder.
const (
	maxBytes   = 32 << 20 // of all files
	maxObjects = 10_000
)

// Object is an object from a file.
type Object struct {
	Name string
	JSON []byte // with defaults
	ID   string // changes whenever the object does
	file string
}

// State has the objects of a folder at one moment.
type State struct {
	objects map[*kind.Version][]Object // sorted by name
	hash    [sha256.Size]byte          // of the files
}

// Of returns the objects of a kind, sorted by name. A nil State has none.
func (s *State) Of(v *kind.Version) []Object {
	if s == nil {
		return nil
	}
	return s.objects[v]
}

// Folder is a folder of files.
type Folder struct {
	dir     string
	kinds   []*kind.Version
	current atomic.Pointer[State]
}

// Open reads a folder, whose objects must be of the given kinds.
func Open(dir string, kinds ...*kind.Version) (*Folder, error) {
	f := &Folder{dir: dir, kinds: kinds}
	s, err := f.read(nil)
	if err != nil {
		return nil, err
	}
	f.current.Store(s)
	return f, nil
}

// Load returns the objects as they are now. A nil Folder has none.
func (f *Folder) Load() *State {
	if f == nil {
		return nil
	}
	return f.current.Load()
}

// Run reads the folder again when it changes, until ctx ends. interval is the time between two looks
// in addition to file system events; 0 means one minute.
func (f *Folder) Run(ctx context.Context, interval time.Duration, logger *slog.Logger) {
	// The watcher watches the directories of its files: any name in the folder stands for it.
	w := watchfile.New(func() { f.reload(logger) }, filepath.Join(f.dir, "any.yaml"))
	w.Interval, w.Logger, w.What = interval, logger, "static manifests"
	w.Run(ctx)
}

// reload reads the folder again. A mistake in it leaves the objects as they are.
func (f *Folder) reload(logger *slog.Logger) {
	before := f.Load()
	s, err := f.read(before)
	switch {
	case err != nil:
		logger.Error("static manifests cannot be read, those of before stay in force", "folder", f.dir, "error", err)
	case s != before:
		f.current.Store(s)
		logger.Info("static manifests were read again", "folder", f.dir)
	}
}

// read reads the folder. It returns before if the files have not changed.
func (f *Folder) read(before *State) (*State, error) {
	files, err := f.files()
	if err != nil {
		return nil, err
	}
	sum, total := sha256.New(), 0
	texts := make([][]byte, len(files))
	for i, file := range files {
		if texts[i], err = manifest.ReadFile(file, nil); err != nil {
			return nil, err
		}
		if total += len(texts[i]); total > maxBytes {
			return nil, fmt.Errorf("folder %s: got more than %d bytes of manifests", f.dir, maxBytes)
		}
		fmt.Fprintf(sum, "%q %d\n", file, len(texts[i]))
		sum.Write(texts[i])
	}
	s := &State{objects: map[*kind.Version][]Object{}, hash: [sha256.Size]byte(sum.Sum(nil))}
	if before != nil && before.hash == s.hash {
		return before, nil
	}
	count := 0
	for i, file := range files {
		for _, d := range manifest.Split(file, texts[i]) {
			if count++; count > maxObjects {
				return nil, fmt.Errorf("folder %s: got more than %d objects", f.dir, maxObjects)
			}
			if d.Err != nil { // its text has the position
				return nil, d.Err
			}
			if err := f.add(s, &d); err != nil {
				return nil, fmt.Errorf("%s: %w", d.String(), err)
			}
		}
	}
	for _, list := range s.objects {
		slices.SortFunc(list, func(a, b Object) int { return strings.Compare(a.Name, b.Name) })
	}
	return s, checkReferences(f.kinds, s)
}

// files returns the paths of the files with manifests, sorted.
func (f *Folder) files() ([]string, error) {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		switch strings.ToLower(filepath.Ext(e.Name())) {
		case ".yaml", ".yml", ".json":
			if !e.IsDir() {
				files = append(files, filepath.Join(f.dir, e.Name()))
			}
		}
	}
	return files, nil
}

// add decodes and checks a document.
func (f *Folder) add(s *State, d *manifest.Document) error {
	if len(d.Duplicates) > 0 {
		return errors.New(strings.Join(d.Duplicates, ", "))
	}
	head, ok := d.Head()
	if !ok {
		return errors.New("got no object with an apiVersion and a kind")
	}
	var v *kind.Version
	var known []string
	for _, k := range f.kinds {
		known = append(known, k.Kind.Name)
		if head.Kind == k.Kind.Name && head.APIVersion == k.APIVersion() {
			v = k
		}
	}
	if v == nil {
		return fmt.Errorf("got %s of %s, want %s of %s", cmp.Or(head.Kind, "no kind"), cmp.Or(head.APIVersion, "no apiVersion"), strings.Join(known, " or "), f.kinds[0].APIVersion())
	}
	if !strings.HasSuffix(head.Name, Suffix) || head.Name == Suffix {
		return fmt.Errorf("%s: got the name %q, want one that ends with %s", head.Kind, head.Name, Suffix)
	}
	if unknown := v.Strict(d.JSON); len(unknown) > 0 {
		return fmt.Errorf("%s %s: %s", head.Kind, head.Name, strings.Join(jsondoc.StrictTexts(unknown), ", "))
	}
	text, err := decode(v, head.Name, d.JSON)
	if err != nil {
		return fmt.Errorf("%s %s: %w", head.Kind, head.Name, err)
	}
	id := sha256.Sum256(text)
	for _, other := range s.objects[v] {
		if other.Name == head.Name {
			return fmt.Errorf("%s %s: is in %s, too", head.Kind, head.Name, other.file)
		}
	}
	s.objects[v] = append(s.objects[v], Object{Name: head.Name, JSON: text, ID: "manifest/" + hex.EncodeToString(id[:]), file: d.String()})
	return nil
}

// decode returns an object with its defaults, if it is valid.
func decode(v *kind.Version, name string, text []byte) ([]byte, error) {
	d := jsondoc.Get()
	defer d.Release()
	if _, err := v.Decode(d, text); err != nil {
		return nil, err
	}
	// The rule that no client may use such a name is not for files. All others are.
	d.Set(d.NewString(strings.TrimSuffix(name, Suffix)), "metadata", "name")
	d.Remove("metadata", "namespace")
	if r := v.Validate(context.Background(), d, nil, schema.Whole); len(r.Errors) > 0 {
		return nil, r.Errors.ToAggregate()
	}
	d.Set(d.NewString(name), "metadata", "name")
	return d.AppendJSON(nil, d.Root().Node), nil
}
