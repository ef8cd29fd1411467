package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/bmatcuk/doublestar/v4"
)

// This file finds the files below folders and globs, and recognizes texts in them that are not for a
// server.

// Options restrict what is read from folders and globs. Files that the user names are always read.
type Options struct {
	// Exclude has globs of files and folders to leave out. A glob without a slash matches names, one
	// with a slash matches whole paths, an absolute one absolute paths; ** matches any number of
	// folders.
	Exclude []string
	// ObjectsOnly skips the texts in folders that are not objects of a server: templates, files of
	// kustomize and other tools, other YAML.
	ObjectsOnly bool
	// Within is a folder that no file may lead out of, by a link: see [Inside]. "" is none.
	Within string
}

// Skipped is a text in a folder that is not a manifest.
type Skipped struct {
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"` // of the text's first line; 0 means all of the file
	Reason string `json:"reason"`
}

// Skip returns the document as a text that is not a manifest.
func (d *Document) Skip(reason string) Skipped {
	if d.Alone {
		return Skipped{File: d.File, Reason: reason}
	}
	return Skipped{d.File, d.Line, reason}
}

// String returns the position: the file, and the line if the file has other texts, too.
func (s Skipped) String() string {
	if s.Line == 0 {
		return s.File
	}
	return fmt.Sprintf("%s:%d", s.File, s.Line)
}

// Input has the documents of files and folders, and the texts in the folders that are not objects.
type Input struct {
	Documents []Document
	Skipped   []Skipped
}

// Read reads files, globs, all YAML and JSON files below folders, and standard input for "-". In
// folders and globs, hidden files and folders are left out. A document that is not YAML has an error
// of its own, and does not prevent the others from being checked.
func (o Options) Read(paths []string, stdin io.Reader) (*Input, error) {
	in := new(Input)
	t := tally{from: o}
	for _, p := range paths {
		found, err := o.find(p)
		if err != nil {
			return nil, err
		}
		filter := o.ObjectsOnly && !found.named
		var parts map[string]string
		if filter {
			parts = o.testParts(found.files)
			maps.Copy(parts, o.kustomizeParts(found.files))
			in.Skipped = append(in.Skipped, found.skipped...)
		}
		read, err := t.split(found.files, stdin, func(file string, text []byte) func(*Document) string {
			if !filter {
				return func(*Document) string { return "" }
			}
			hints := hintsOf(text)
			return func(d *Document) string {
				d.Found = true
				if reason := notObject(*d, hints); reason != "" {
					return reason
				}
				return parts[filepath.Clean(file)]
			}
		})
		if err != nil {
			return nil, err
		}
		for _, one := range read {
			in.Documents = append(in.Documents, one.Documents...)
			in.Skipped = append(in.Skipped, one.Skipped...)
		}
	}
	return in, nil
}

// split reads files and splits them into documents, on all cores. skipper is called once for a file.
// The function that it returns says why a document of the file is left out; "" if it is not.
func (t *tally) split(files []string, stdin io.Reader, skipper func(file string, text []byte) func(*Document) string) ([]Input, error) {
	parts, errs := make([]Input, len(files)), make([]error, len(files))
	var next atomic.Int64
	var failed atomic.Bool
	var wait sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(files)) {
		wait.Go(func() {
			for !failed.Load() {
				i := int(next.Add(1)) - 1
				if i >= len(files) {
					return
				}
				text, err := t.read(files[i], stdin)
				if err != nil {
					errs[i] = err
					failed.Store(true)
					return
				}
				skip := skipper(files[i], text)
				for _, d := range Split(files[i], text) {
					if reason := skip(&d); reason != "" {
						parts[i].Skipped = append(parts[i].Skipped, d.Skip(reason))
					} else {
						parts[i].Documents = append(parts[i].Documents, d)
					}
				}
			}
		})
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return parts, nil
}

// Expand returns the files that a path names: itself, those below a folder, or those that match a
// glob.
func Expand(p string) ([]string, error) {
	found, err := Options{}.find(p)
	return found.files, err
}

// found has the files of a path.
type found struct {
	files   []string
	named   bool      // the path is that of a file, and not a folder or glob that contains it
	skipped []Skipped // files that cannot be read without waiting or looping
}

// find returns the files of a path.
func (o Options) find(p string) (out found, err error) {
	if p == "-" {
		return found{files: []string{p}, named: true}, nil
	}
	if o.Within != "" {
		p = filepath.Clean(p)
		if err := Inside(o.Within, p); err != nil {
			return found{}, err
		}
		defer func() {
			for _, file := range out.files {
				err = errors.Join(err, Inside(o.Within, file))
			}
		}()
	}
	info, err := o.stat(p)
	isRegular := map[string]bool{}
	switch {
	case err == nil && !info.IsDir():
		return found{files: []string{p}, named: true}, nil
	case err == nil:
		out.files, err = o.below(p, isRegular)
	case errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(p, "*?[{"):
		out.files, err = o.glob(p)
	}
	out.files = slices.DeleteFunc(out.files, func(file string) bool {
		if isRegular[file] {
			return false
		}
		reason := unreadable(file)
		if reason != "" {
			out.skipped = append(out.skipped, Skipped{File: file, Reason: reason})
		}
		return reason != ""
	})
	return out, err
}

// unreadable returns why a file found in a folder is not read; "" if it is. Folders may have links in
// a circle, FIFOs and devices.
func unreadable(file string) string {
	info, err := os.Lstat(file)
	if err != nil || info.Mode().IsRegular() {
		return "" // reading it reports the error
	}
	if info, err = os.Stat(file); err != nil {
		return "a link that leads nowhere"
	}
	switch {
	case info.IsDir():
		return "a link to a folder; name the folder to check it"
	case !info.Mode().IsRegular():
		return "not a regular file"
	}
	return ""
}

// below returns the files below a folder that is not hidden or excluded. It does not follow links to
// folders. It adds those that the folder lists as regular files to isRegular, unless that is nil.
func (o Options) below(folder string, isRegular map[string]bool) ([]string, error) {
	var files []string
	err := o.walk(folder, func(f string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case f != folder && (hidden(e.Name()) || o.excludes(f)):
			if e.IsDir() {
				return fs.SkipDir
			}
		case !e.IsDir() && isManifest(f):
			if isRegular != nil && e.Type().IsRegular() {
				isRegular[f] = true
			}
			if files = append(files, f); len(files) > MaxFiles {
				return fmt.Errorf("%s: more than %d files below it: name a smaller folder, or leave some out with --exclude", folder, MaxFiles)
			}
		}
		return nil
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s: no .yaml, .yml or .json file below it", folder)
	}
	return files, err
}

// glob returns the files that match a glob. Of a folder that matches, these are the files below it.
func (o Options) glob(pattern string) ([]string, error) {
	if err := CheckGlob(pattern); err != nil {
		return nil, err
	}
	matches, err := o.matches(pattern)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", pattern, err)
	}
	var files []string
	for _, f := range matches {
		info, err := os.Lstat(f)
		if err == nil && info.Mode()&fs.ModeSymlink != 0 && !strings.Contains(pattern, "**") {
			if target, err := os.Stat(f); err == nil {
				info = target // a link that the glob names
			}
		}
		switch {
		case err != nil:
			return nil, err
		case o.excludes(f):
		case !info.IsDir():
			files = append(files, f)
		case !strings.Contains(pattern, "**"): // otherwise the files match, too
			below, err := o.below(f, nil)
			if err == nil {
				files = append(files, below...)
			}
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: no file matches", pattern)
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

// hidden reports whether a name is that of a hidden file or folder.
func hidden(name string) bool { return strings.HasPrefix(name, ".") && name != "." && name != ".." }

// isManifest reports whether a file in a folder can have manifests, by its name.
func isManifest(file string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(file))
}

// excludes reports whether a file or folder is excluded.
func (o Options) excludes(file string) bool {
	slashed := filepath.ToSlash(filepath.Clean(file))
	return slices.ContainsFunc(o.Exclude, func(glob string) bool {
		glob = strings.TrimSuffix(strings.TrimPrefix(glob, "./"), "/")
		subject := slashed
		switch {
		case !strings.Contains(glob, "/"):
			subject = filepath.Base(slashed)
		case filepath.IsAbs(glob):
			if abs, err := filepath.Abs(file); err == nil {
				subject = filepath.ToSlash(abs)
			}
		}
		return doublestar.MatchUnvalidated(glob, subject)
	})
}

// Check returns an error for a glob that CheckGlob refuses.
func (o Options) Check() error {
	for _, glob := range o.Exclude {
		if err := CheckGlob(glob); err != nil {
			return err
		}
	}
	return nil
}

// hints say what the text of a file contains, for all its documents.
type hints struct {
	braces     bool // {{ or {%: it may be a template
	apiVersion bool // the word is in it
}

func hintsOf(text []byte) hints {
	return hints{
		braces:     hasBraces(text),
		apiVersion: bytes.Contains(text, []byte("apiVersion")),
	}
}

// templateHint follows the syntax error of a text with braces.
const templateHint = "; if it is a template, check what it renders to, for example the output of helm template"

// hasBraces reports whether a text may be a template.
func hasBraces(text []byte) bool {
	return bytes.Contains(text, []byte("{{")) || bytes.Contains(text, []byte("{%"))
}

// ToolOf returns why a document is not for a server, although it has a kind; "" if it may be for one.
func ToolOf(d Document) string { return notObject(d, hints{apiVersion: true}) }

// notObject returns why a document found in a folder is not an object of a server; "" if it is one,
// or if it is a mistake that the user wants to see.
func notObject(d Document, in hints) string {
	if in.braces && isTemplate(d) {
		return "a template; check what it renders to"
	}
	if d.Err != nil {
		if !in.apiVersion {
			return "neither YAML nor JSON, and apiVersion is nowhere in it"
		}
		return ""
	}
	h, ok := d.Head()
	if !ok {
		var head struct{ APIVersion, Kind any }
		if err := json.Unmarshal(d.JSON, &head); err != nil || head.APIVersion == nil && head.Kind == nil {
			if isKustomization(d.File) {
				return toolFile("kustomize")
			}
			return "not an object: it has no apiVersion and no kind"
		}
		if head.Kind == nil && filepath.Base(d.File) == "Chart.yaml" {
			return toolFile("Helm")
		}
		h.APIVersion, _ = head.APIVersion.(string)
		h.Kind, _ = head.Kind.(string)
	}
	if h.APIVersion == "" && (h.Kind == "Kustomization" || h.Kind == "Component") && isKustomization(d.File) {
		return toolFile("kustomize") // which assumes its version
	}
	if h.APIVersion == "v1" && h.Kind == "Config" {
		return "a kubeconfig, which is not sent to a server"
	}
	group, _, ok := strings.Cut(h.APIVersion, "/")
	if tool := toolGroups[group]; tool != "" && (ok || group == "builtin") {
		return toolFile(tool)
	}
	return ""
}

// toolFile says that a file is read by a tool.
func toolFile(tool string) string { return "a file of " + tool + ", which is not sent to a server" }

// toolGroups maps API groups whose objects are configuration files to the tools that read them.
var toolGroups = map[string]string{
	"kustomize.config.k8s.io":              "kustomize",
	"builtin":                              "kustomize", // its plugins have no other group
	"kind.x-k8s.io":                        "kind",
	"k3d.io":                               "k3d",
	"kubeadm.k8s.io":                       "kubeadm",
	"kubelet.config.k8s.io":                "the kubelet",
	"credentialprovider.kubelet.k8s.io":    "the kubelet",
	"kubeproxy.config.k8s.io":              "kube-proxy",
	"kubectl.config.k8s.io":                "kubectl",
	"client.authentication.k8s.io":         "kubectl",
	"skaffold":                             "Skaffold",
	"ctlptl.dev":                           "ctlptl",
	"kuttl.dev":                            "KUTTL",
	"chainsaw.kyverno.io":                  "Chainsaw",
	"cli.kyverno.io":                       "kyverno test",
	"eksctl.io":                            "eksctl",
	"krew.googlecontainertools.github.com": "krew",
	"audit.k8s.io":                         "the API server",
	"apiserver.config.k8s.io":              "the API server",
	"apiserver.k8s.io":                     "the API server",
	"pod-security.admission.config.k8s.io": "the API server",
	"eventratelimit.admission.k8s.io":      "the API server",
	"scorecard.operatorframework.io":       "the Operator SDK",
	"kubescheduler.config.k8s.io":          "the scheduler",
	"controller-runtime.sigs.k8s.io":       "controller-runtime",
}

// isTemplate reports whether a document of a file with braces is a template: of a Helm chart, or not
// YAML.
func isTemplate(d Document) bool {
	if d.Err != nil {
		return true
	}
	for dir := filepath.Dir(d.File); ; dir = filepath.Dir(dir) {
		if filepath.Base(dir) == "templates" {
			if _, err := os.Stat(filepath.Join(filepath.Dir(dir), "Chart.yaml")); err == nil {
				return true
			}
		}
		if parent := filepath.Dir(dir); parent == dir {
			return false
		}
	}
}
