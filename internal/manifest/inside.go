package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
)

// This file keeps files that a stranger names in a folder.

// ErrOutside is the error of [Inside].
var ErrOutside = errors.New("not a file of the repository")

// Inside returns an error if a path, which may be a glob, leads out of a folder, or into its git data, where credentials may be. Links are
// followed. A path that does not exist is judged by the part of it that does.
func Inside(folder, path string) error {
	_, _, err := resolve(folder, path)
	return err
}

// resolve returns the folder, and the path as seen from it, both without links. Its errors are those
// of Inside.
func resolve(folder, path string) (root, rel string, err error) {
	fail := func(err error) (string, string, error) { return "", "", err }
	if root, err = filepath.EvalSymlinks(folder); err != nil {
		return fail(err)
	}
	if root, err = filepath.Abs(root); err != nil {
		return fail(err)
	}
	part, err := filepath.Abs(path)
	if err != nil {
		return fail(err)
	}
	real, rest := "", ""
	for {
		if real, err = filepath.EvalSymlinks(part); err == nil || part == filepath.Dir(part) {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return fail(err)
		}
		rest = filepath.Join(filepath.Base(part), rest)
		part = filepath.Dir(part)
	}
	rel, err = filepath.Rel(root, filepath.Join(real, rest))
	if err != nil || !filepath.IsLocal(rel) {
		return "", "", fmt.Errorf("%s leads out of the repository %s: %w", path, folder, ErrOutside)
	}
	for step := range strings.SplitSeq(filepath.ToSlash(rel), "/") {
		if strings.EqualFold(step, ".git") {
			return "", "", fmt.Errorf("%s is part of git's data: %w", path, ErrOutside)
		}
	}
	return root, rel, nil
}
