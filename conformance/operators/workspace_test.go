package operators

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keelson-io/keelson/conformance/internal/module"
)

// This file builds what the suites need: the two control planes, and a copy of a project with its test binaries.

// project is a row: whose suites run, and how.
type project struct {
	name   string        // in the table, and in PROJECTS
	module string        // path@version
	suites []string      // patterns of packages, as in ./test/integration/...
	labels string        // Ginkgo's label filter; "" for all specs
	limit  time.Duration // for one suite on one server
	// env has more variables of the suites. "$SRC" stands for the folder of the copy.
	env []string
	// prepare makes what the project's Makefile makes before its tests; nil for nothing.
	prepare func(*source) error
	// elsewhere has the specs that cannot pass here, by package and name, and why.
	elsewhere map[string]string
}

// workspace is the folder in which everything is built.
type workspace struct {
	dir  string
	keep bool
}

// newWorkspace returns the folder of the flag -keep, or one that goes with the test.
func newWorkspace(t *testing.T) *workspace {
	t.Helper()
	if *keep == "" {
		return &workspace{dir: t.TempDir()}
	}
	dir, err := filepath.Abs(*keep)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return &workspace{dir, true}
}

// reference is the version of kube-apiserver, which the module conformance/builtin requires.
const reference = "v1.37.1"

// servers lays out the folders of both control planes: Keelson's first.
func (w *workspace) servers(t *testing.T) [2]server {
	t.Helper()
	ours, upstream := filepath.Join(w.dir, "keelson-assets"), filepath.Join(w.dir, "upstream-assets")
	keelson, err := module.Keelson(w.dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run("", nil, keelson, "envtest-assets", ours); err != nil {
		t.Fatal(err)
	}
	minor := strings.Split(reference, ".")[1]
	version := fmt.Sprintf("-X k8s.io/component-base/version.gitVersion=%s -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=%s", reference, minor)
	for _, p := range []struct{ name, from, pkg, flags string }{
		{"kube-apiserver", "../builtin", "k8s.io/kubernetes/cmd/kube-apiserver", version},
		{"etcd", "../builtin", "go.etcd.io/etcd/server/v3", ""},
		{"kubectl", "../../e2e/kubectl", ".", version},
	} {
		bin := filepath.Join(upstream, p.name)
		if _, err := os.Stat(bin); err == nil && w.keep {
			continue
		}
		if _, err := run(p.from, environment(), "go", "build", "-ldflags", "-s -w "+p.flags, "-o", bin, p.pkg); err != nil {
			t.Fatal(err)
		}
	}
	// Suites find kubectl beside the servers.
	if err := link(filepath.Join(upstream, "kubectl"), filepath.Join(ours, "kubectl")); err != nil {
		t.Fatal(err)
	}
	return [2]server{{"keelson", ours}, {"kube-apiserver", upstream}}
}

// link makes a second name of a file.
func link(from, to string) error {
	if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Link(from, to)
}

// source is a copy of a project.
type source struct {
	*project
	w    *workspace
	dir  string
	tmp  string // for test binaries, reports, and what suites write
	tool string // for programs that the project's Makefile would install
}

// copyOf copies a project's module to the workspace and prepares it.
func (w *workspace) copyOf(p *project) (*source, error) {
	s := &source{project: p, w: w, dir: filepath.Join(w.dir, "src", p.name), tmp: filepath.Join(w.dir, "tmp", p.name), tool: filepath.Join(w.dir, "bin")}
	if err := errors.Join(os.RemoveAll(s.dir), os.RemoveAll(s.tmp), os.MkdirAll(s.tmp, 0o755)); err != nil {
		return nil, err
	}
	from, err := download(s.tmp, p.module)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.CopyFS(s.dir, os.DirFS(from)), executable(s.dir)); err != nil {
		return nil, err
	}
	if p.prepare != nil {
		if err := p.prepare(s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// download fetches a module, and returns its folder in the module cache. The module in which it is called chooses the version
// of a path without one.
func download(dir, module string) (string, error) {
	var downloaded struct{ Dir string }
	text, err := run(dir, environment("GOFLAGS=-mod=mod", "GOWORK=off"), "go", "mod", "download", "-json", module)
	if err == nil {
		err = json.Unmarshal(text, &downloaded)
	}
	return downloaded.Dir, err
}

// executable lets scripts be run, as in the project's repository. Modules have no such modes.
func executable(dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if text, err := os.ReadFile(path); err != nil || !bytes.HasPrefix(text, []byte("#!")) {
			return err
		}
		return os.Chmod(path, 0o755)
	})
}

// maxCache is the size of the build cache, in bytes, from which on it is emptied between projects.
const maxCache = 8 << 30

// remove deletes the copy, and the build cache if it is large. With the flag -keep it deletes nothing.
func (s *source) remove() {
	if s.w.keep {
		return
	}
	os.RemoveAll(s.dir)
	os.RemoveAll(s.tmp)
	if size(s.w.cache()) > maxCache {
		os.RemoveAll(s.w.cache())
	}
}

func (w *workspace) cache() string { return filepath.Join(w.dir, "gocache") }

// size adds up the files below a folder.
func size(dir string) (bytes int64) {
	filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // gone
		}
		if info, err := e.Info(); err == nil && !e.IsDir() {
			bytes += info.Size()
		}
		return nil
	})
	return bytes
}

// goEnv is the environment of the go command in the copy. The build cache is the workspace's own: the libraries of all these
// projects, each in its versions, would fill the user's.
func (s *source) goEnv() []string {
	return environment("GOCACHE="+s.w.cache(), "GOFLAGS=-mod=mod", "GOWORK=off", "GOBIN="+s.tool)
}

// goRun runs the go command in the copy.
func (s *source) goRun(args ...string) ([]byte, error) {
	return run(s.dir, s.goEnv(), "go", args...)
}

// copyFiles copies the files that a pattern matches in the folder of a module to a folder of the copy. The project chooses the
// version of the module, unless it is named.
func (s *source) copyFiles(module, pattern, to string, without ...string) error {
	dir, err := download(s.dir, module)
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s has no %s", module, pattern)
	}
	if err == nil {
		err = os.MkdirAll(filepath.Join(s.dir, to), 0o755)
	}
	if err != nil {
		return err
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		if info.IsDir() || slices.Contains(without, filepath.Base(file)) {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(s.dir, to, filepath.Base(file)), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// install builds a program from its module, path@version, and returns where it is.
func (s *source) install(pkg, name string) (string, error) {
	_, err := s.goRun("install", pkg)
	return filepath.Join(s.tool, name), err
}

// packages lists the packages with tests that the patterns match, relative to the root of the module.
func (s *source) packages(patterns []string) ([]string, error) {
	out, err := s.goRun(append([]string{"list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}"}, patterns...)...)
	if err != nil {
		return nil, err
	}
	root, err := filepath.EvalSymlinks(s.dir)
	if err != nil {
		return nil, err
	}
	var all []string
	for dir := range strings.Lines(string(out)) {
		rel, err := filepath.Rel(root, strings.TrimSpace(dir))
		if err != nil {
			return nil, err
		}
		all = append(all, filepath.ToSlash(rel))
	}
	if len(all) == 0 {
		err = fmt.Errorf("%s: no tests in %q", s.name, patterns)
	}
	return all, err
}

// environment is this process's, without what make and the go command say to their children, and with more variables.
func environment(more ...string) []string {
	ours := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS", "GOBIN", "GOWORK", "PROJECTS"}, name)
	})
	return append(ours, more...)
}

// run runs a command and returns what it printed. Its error has what it said.
func run(dir string, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, env
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s%s", cmd, err, out, errs.String())
	}
	return out, err
}
