package crdsource

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/keelson-io/keelson/internal/manifest"
)

// This file shows git the objects and the references of a repository, and nothing else of it.

// repository is a folder with a configuration of its own and copies of the references of the repository that the working directory is
// in. Of the repository itself git reads the store of objects, which has no place for a command: no configuration, hook, attribute,
// index or file of it.
type repository struct {
	dir     string // the folder
	objects string // the repository's store of objects
	root    string // of the working tree
}

// Bounds of what is copied of a repository.
const (
	maxReferences     = 100_000
	maxReferenceBytes = 64 << 20 // of one file: packed-refs, or a table of a reftable
)

// formats matches the settings of a repository without which git does not understand its objects and references.
var formats = regexp.MustCompile(`(?im)^[ \t]*(objectformat[ \t]*=[ \t]*sha256|refstorage[ \t]*=[ \t]*reftable)[ \t\r]*$`)

// openRepository copies what git needs of the repository of the working directory. close removes it.
func openRepository() (*repository, error) {
	gitDir, root, err := findRepository()
	if err != nil {
		return nil, err
	}
	common := gitDir
	if text, err := os.ReadFile(filepath.Join(gitDir, "commondir")); err == nil { // of a further work tree
		common = anchored(gitDir, strings.TrimSpace(string(text)))
	}
	r := &repository{objects: filepath.Join(common, "objects"), root: root}
	if given := os.Getenv("GIT_OBJECT_DIRECTORY"); given != "" {
		r.objects = given
	}
	if r.objects, err = filepath.Abs(r.objects); err != nil {
		return nil, err
	}
	if r.dir, err = os.MkdirTemp("", "keelson-git-"); err != nil {
		return nil, err
	}
	if err := r.fill(gitDir, common); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// findRepository returns the folder of git's data and the root of the working tree: those that the variable GIT_DIR names, as in a hook,
// or those of the next .git above the working directory. A bare repository is not looked for: a folder of a working tree can look
// like one.
func findRepository() (gitDir, root string, err error) {
	here, err := os.Getwd()
	if err != nil {
		return "", "", err
	}
	if given := os.Getenv("GIT_DIR"); given != "" {
		root = here
		if _, above, err := nextRepository(here); err == nil {
			root = above
		}
		return anchored(here, given), root, nil
	}
	return nextRepository(here)
}

// nextRepository looks for .git in a folder and above it.
func nextRepository(here string) (gitDir, root string, err error) {
	for dir := here; ; dir = filepath.Dir(dir) {
		file := filepath.Join(dir, ".git")
		info, err := os.Stat(file)
		switch {
		case err == nil && info.IsDir():
			return file, dir, nil
		case err == nil:
			text, err := manifest.ReadFile(file, nil)
			target, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir: ")
			if err != nil || !ok {
				return "", "", fmt.Errorf("%s: neither a folder nor a file that names one", file)
			}
			return anchored(dir, target), dir, nil
		case dir == filepath.Dir(dir):
			return "", "", fmt.Errorf("%s is not in a git repository: there is no .git in it or above it", here)
		}
	}
}

// anchored returns a path that counts from a folder if it is not absolute.
func anchored(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// fill writes the folder that git sees.
func (r *repository) fill(gitDir, common string) error {
	config := "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n"
	if text, err := boundedFile(filepath.Join(common, "config")); err == nil {
		for _, m := range formats.FindAllSubmatch(text, -1) {
			config += "\t" + string(m[1]) + "\n"
		}
	}
	if err := errors.Join(os.WriteFile(filepath.Join(r.dir, "config"), []byte(config), 0o600), os.Mkdir(filepath.Join(r.dir, "refs"), 0o700)); err != nil {
		return err
	}
	for _, file := range []string{filepath.Join(common, "packed-refs"), filepath.Join(common, "shallow"), filepath.Join(gitDir, "HEAD")} {
		text, err := boundedFile(file)
		if err == nil {
			err = os.WriteFile(filepath.Join(r.dir, filepath.Base(file)), text, 0o600)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	left := maxReferences
	return errors.Join(r.copyTree(common, "refs", &left), r.copyTree(common, "reftable", &left))
}

// copyTree copies the regular files below a folder of the repository, at most left ones.
func (r *repository) copyTree(from, name string, left *int) error {
	return filepath.WalkDir(filepath.Join(from, name), func(file string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, file)
		if err != nil {
			return err
		}
		if e.IsDir() {
			return os.MkdirAll(filepath.Join(r.dir, rel), 0o700)
		}
		if *left--; *left < 0 {
			return fmt.Errorf("%s: more than %d references in files of their own: pack them with git pack-refs --all", from, maxReferences)
		}
		if !e.Type().IsRegular() {
			return nil
		}
		text, err := boundedFile(file)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(r.dir, rel), text, 0o600)
	})
}

// boundedFile reads a regular file of a repository, or one that a link leads to.
func boundedFile(file string) ([]byte, error) {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > maxReferenceBytes:
		return nil, fmt.Errorf("%s: want a regular file of at most %d bytes", file, maxReferenceBytes)
	}
	return os.ReadFile(file)
}

// close removes the folder.
func (r *repository) close() error { return os.RemoveAll(r.dir) }

// fromRoot returns a path as git counts it: from the root of the working tree.
func (r *repository) fromRoot(name string) (string, error) {
	if name == "." || strings.HasPrefix(name, "./") || strings.HasPrefix(name, "../") {
		here, err := os.Getwd()
		if err != nil {
			return "", err
		}
		prefix, err := filepath.Rel(r.root, here)
		if err != nil {
			return "", err
		}
		name = path.Join(filepath.ToSlash(prefix), name)
		if name == ".." || strings.HasPrefix(name, "../") {
			return "", fmt.Errorf("%s is outside of the repository %s", name, r.root)
		}
	}
	if name = strings.TrimSuffix(name, "/"); name == "." {
		name = ""
	}
	return name, nil
}

// env returns the environment of git: that of this process, without what it says to git, and with the folder, the objects, and no
// configuration, protocol or fetch. A missing object of a partial clone would be fetched by a command of the configuration.
func (r *repository) env() []string {
	out := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(strings.ToUpper(v), "=")
		return strings.HasPrefix(name, "GIT_") && name != "GIT_ALTERNATE_OBJECT_DIRECTORIES"
	})
	return append(out, "GIT_DIR="+r.dir, "GIT_OBJECT_DIRECTORY="+r.objects, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull,
		"GIT_ATTR_NOSYSTEM=1", "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=none", "GIT_NO_REPLACE_OBJECTS=1", "GIT_TERMINAL_PROMPT=0",
		"GIT_OPTIONAL_LOCKS=0", "LC_ALL=C")
}
