package crdsource

import (
	"cmp"
	"context"
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

// Bounds of what is copied of a repository, which may have hard links and FIFOs.
const (
	maxReferences     = 100_000  // files and folders
	maxReferenceBytes = 64 << 20 // of all files
)

// workTree matches the setting of a submodule that names its working tree.
var workTree = regexp.MustCompile(`(?im)^[ \t]*worktree[ \t]*=[ \t]*"?([^"\r\n]*?)"?[ \t\r]*$`)

// formats matches the settings of a repository without which git does not understand its objects and references.
var formats = regexp.MustCompile(`(?im)^[ \t]*(objectformat[ \t]*=[ \t]*sha256|refstorage[ \t]*=[ \t]*reftable)[ \t\r]*$`)

// openRepository copies what git needs of the repository of the working directory. close removes it.
func openRepository(ctx context.Context) (*repository, error) {
	gitDir, root, given, err := findRepository()
	if err != nil {
		return nil, err
	}
	c := &copier{ctx: ctx, files: maxReferences, bytes: maxReferenceBytes}
	if c.git, err = os.OpenRoot(gitDir); err != nil {
		return nil, err
	}
	defer c.git.Close()
	common := gitDir
	text, err := c.read(c.git, "commondir") // of a further work tree
	switch {
	case err == nil:
		common = anchored(gitDir, strings.TrimSpace(string(text)))
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if c.common, err = os.OpenRoot(common); err != nil {
		return nil, err
	}
	defer c.common.Close()
	if !given {
		if err := c.belongs(gitDir, common, root); err != nil {
			return nil, err
		}
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
	if err := r.fill(c); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// findRepository returns the folder of git's data and the root of the working tree: those that the variable GIT_DIR names, as in a hook,
// for which given is true, or those of the next .git above the working directory. A bare repository is not looked for: a folder of a working tree can look
// like one.
func findRepository() (gitDir, root string, given bool, err error) {
	here, err := os.Getwd()
	if err != nil {
		return "", "", false, err
	}
	if given := os.Getenv("GIT_DIR"); given != "" {
		root = here
		if _, above, err := nextRepository(here); err == nil {
			root = above
		}
		return anchored(here, given), root, true, nil
	}
	gitDir, root, err = nextRepository(here)
	return gitDir, root, false, err
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
			target, err := namedFolder(dir, file)
			return anchored(dir, target), dir, err
		case dir == filepath.Dir(dir):
			return "", "", fmt.Errorf("%s is not in a git repository: there is no .git in it or above it", here)
		}
	}
}

// namedFolder returns the folder that the file .git names.
func namedFolder(dir, file string) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	text, err := manifest.ReadFrom(root, ".git", file)
	target, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir: ")
	if err != nil || !ok {
		return "", fmt.Errorf("%s: neither a folder nor a file that names one", file)
	}
	return target, nil
}

// anchored returns a path that counts from a folder if it is not absolute.
func anchored(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// copier reads files of a repository, within the bounds of all of them. Links in it lead nowhere else.
type copier struct {
	ctx         context.Context
	git, common *os.Root // git's data of the working tree, and those of all working trees
	files       int      // that may still be copied
	bytes       int64    // that may still be read
}

// belongs returns an error if git's data are outside of the working tree, and do not name it as theirs. An archive can
// name any repository of its reader, in a file .git or commondir, but cannot write to it.
func (c *copier) belongs(gitDir, common, root string) error {
	inGit, err := within(root, gitDir)
	if err != nil {
		return err
	}
	inCommon, err := within(root, common)
	if err != nil || inGit && inCommon {
		return err
	}
	if text, err := c.read(c.git, "gitdir"); err == nil && !inGit { // of a further work tree
		names := same(anchored(gitDir, strings.TrimSpace(string(text))), filepath.Join(root, ".git"))
		if names && same(filepath.Join(common, "worktrees"), filepath.Dir(gitDir)) {
			return nil
		}
	}
	if text, err := c.read(c.common, "config"); err == nil && !inGit && same(gitDir, common) { // of a submodule
		if m := workTree.FindSubmatch(text); m != nil && same(anchored(gitDir, string(m[1])), root) {
			return nil
		}
	}
	return fmt.Errorf("%s names the repository %s, which does not name it as a working tree of its own; to read it, set GIT_DIR=%[2]s", root, common)
}

// within reports whether a folder is in another one. Links are followed.
func within(root, folder string) (bool, error) {
	root, err := filepath.EvalSymlinks(root)
	if err != nil {
		return false, err
	}
	if folder, err = filepath.EvalSymlinks(folder); err != nil {
		return false, err
	}
	rel, err := filepath.Rel(root, folder)
	return err == nil && filepath.IsLocal(rel), nil
}

// same reports whether two paths lead to the same file.
func same(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// read reads a regular file of the repository.
func (c *copier) read(root *os.Root, name string) ([]byte, error) {
	if err := c.ctx.Err(); err != nil {
		return nil, err
	}
	shown := filepath.Join(root.Name(), name)
	info, err := root.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: not a regular file", shown)
	case info.Size() > c.bytes:
		return nil, fmt.Errorf("%s: the references up to this file have more than %d bytes; pack them with git pack-refs --all", shown, maxReferenceBytes)
	}
	text, err := manifest.ReadFrom(root, name, shown)
	c.bytes -= int64(len(text))
	return text, err
}

// fill writes the folder that git sees.
func (r *repository) fill(c *copier) error {
	config := "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n"
	if text, err := c.read(c.common, "config"); err == nil {
		for _, m := range formats.FindAllSubmatch(text, -1) {
			config += "\t" + string(m[1]) + "\n"
		}
	}
	if err := errors.Join(os.WriteFile(filepath.Join(r.dir, "config"), []byte(config), 0o600), os.Mkdir(filepath.Join(r.dir, "refs"), 0o700)); err != nil {
		return err
	}
	for _, f := range []struct {
		root *os.Root
		name string
	}{{c.common, "packed-refs"}, {c.common, "shallow"}, {c.git, "HEAD"}} {
		text, err := c.read(f.root, f.name)
		if err == nil {
			err = os.WriteFile(filepath.Join(r.dir, f.name), text, 0o600)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := r.copyTree(c, "refs"); err != nil {
		return err
	}
	return r.copyTree(c, "reftable")
}

// copyTree copies the regular files below a folder of the repository.
func (r *repository) copyTree(c *copier, name string) error {
	return fs.WalkDir(c.common.FS(), name, func(file string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err = cmp.Or(err, c.ctx.Err()); err != nil {
			return err
		}
		if c.files--; c.files < 0 {
			return fmt.Errorf("%s: more than %d references in files of their own: pack them with git pack-refs --all", c.common.Name(), maxReferences)
		}
		to := filepath.Join(r.dir, filepath.FromSlash(file))
		if e.IsDir() {
			return os.MkdirAll(to, 0o700)
		}
		if !e.Type().IsRegular() {
			return nil
		}
		text, err := c.read(c.common, filepath.FromSlash(file))
		if err != nil {
			return err
		}
		return os.WriteFile(to, text, 0o600)
	})
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
