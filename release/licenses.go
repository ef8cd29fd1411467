package main

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// This file finds the modules that are compiled into the programs, and their licences.

// component is a module in the programs, or the standard library.
type component struct {
	path, version string
	licenses      []string // SPDX identifiers of the licences in its files, sorted
	unrecognized  []string // files with a licence that has no known text
}

// standardLibrary is the path of the component with Go's own packages.
const standardLibrary = "stdlib"

// modules returns the versions of the modules in a program by path, and that of Go.
func modules(binary string) (map[string]string, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	versions := map[string]string{standardLibrary: strings.TrimPrefix(info.GoVersion, "go")}
	for _, m := range info.Deps {
		versions[m.Path] = m.Version
	}
	return versions, nil
}

// components returns the modules in all programs, sorted by path, and copies their licences to a
// folder. A module without a licence is an error: it must not be distributed.
func (r *release) components(binaries map[target]string, dir string) ([]component, error) {
	versions := map[string]string{}
	for _, binary := range binaries {
		more, err := modules(binary)
		if err != nil {
			return nil, err
		}
		maps.Copy(versions, more)
	}
	folders, err := r.moduleFolders(versions)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var all []component
	for path, version := range versions {
		c := component{path: path, version: version}
		if err := c.copyLicenses(folders[path], dir); err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b component) int { return cmp.Compare(a.path, b.path) })
	return all, nil
}

// moduleFolders returns the folder with the sources of each module.
func (r *release) moduleFolders(versions map[string]string) (map[string]string, error) {
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT: %w", err)
	}
	folders := map[string]string{standardLibrary: strings.TrimSpace(string(goroot))}
	args := []string{"list", "-m", "-f", "{{.Path}}\t{{.Version}}\t{{.Dir}}"}
	for path := range versions {
		if path != standardLibrary {
			args = append(args, path)
		}
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = r.root
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("listing the modules: %w\n%s", err, errs.String())
	}
	for line := range strings.Lines(string(out)) {
		words := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(words) != 3 || words[2] == "" || words[1] != versions[words[0]] {
			return nil, fmt.Errorf("go list -m: got %q, want the folder of version %s", line, versions[words[0]])
		}
		folders[words[0]] = words[2]
	}
	return folders, nil
}

// licenseNames are the beginnings of the names of files with licences.
var licenseNames = []string{"LICENSE", "LICENCE", "COPYING", "NOTICE"}

// copyLicenses copies the licences of a component from its folder, and recognizes them.
func (c *component) copyLicenses(from, to string) error {
	files, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	prefix := strings.NewReplacer("/", "_", "@", "_").Replace(c.path+"@"+c.version) + "_"
	for _, f := range files {
		upper := strings.ToUpper(f.Name())
		if f.IsDir() || filepath.Ext(f.Name()) == ".go" ||
			!slices.ContainsFunc(licenseNames, func(begin string) bool { return strings.HasPrefix(upper, begin) }) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(from, f.Name()))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, prefix+f.Name()), text, 0o644); err != nil {
			return err
		}
		if !strings.HasPrefix(upper, "NOTICE") {
			c.recognize(f.Name(), text)
		}
	}
	if len(c.licenses) == 0 {
		return errors.New(c.path + "@" + c.version + ": got no known licence in its root, want one")
	}
	return nil
}

// recognize adds the licences in a text.
func (c *component) recognize(name string, text []byte) {
	matches := licensecheck.Scan(text).Match
	if len(matches) == 0 {
		c.unrecognized = append(c.unrecognized, name)
	}
	for _, m := range matches {
		c.licenses = append(c.licenses, m.ID)
	}
	slices.Sort(c.licenses)
	c.licenses = slices.Compact(c.licenses)
}
