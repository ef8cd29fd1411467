// Package testcrds finds the CustomResourceDefinitions and example objects that tests run on.
//
// They are other projects' files, so they are not kept in this repository: they come out of the Go
// modules that publish them, which the go command downloads, checks against the checksum database
// and keeps in its module cache. A Module names one; Open reads it; FS is then the module's file
// tree.
//
// The zip in the module cache is read, not the unpacked folder: a module may ask for a newer Go
// than the one that runs the test, in which case the go command refuses to unpack it although
// nothing of it is compiled here.
package testcrds

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Module is a Go module at a version.
type Module struct{ Path, Version string }

// The families of definitions on which the end-to-end tests run.
var (
	GatewayAPI         = Module{"sigs.k8s.io/gateway-api", "v1.7.0"}
	CertManager        = Module{"github.com/cert-manager/cert-manager", "v1.21.2"}
	PrometheusOperator = Module{"github.com/prometheus-operator/prometheus-operator", "v0.85.0"}
)

// Family is a module with its folders of definitions and of example objects.
type Family struct {
	Name     string
	Module   Module
	CRDs     string   // folder of the definitions
	Examples []string // folders of the objects
}

// Families lists all families. The two channels of the Gateway API define the same kinds, so that a
// server can have only one of them.
func Families() []Family {
	return []Family{
		{"gateway-standard", GatewayAPI, "config/crd/standard", []string{"examples/standard"}},
		{"gateway-experimental", GatewayAPI, "config/crd/experimental", []string{"examples/experimental"}},
		{"cert-manager", CertManager, "deploy/crds", nil},
		{"prometheus-operator", PrometheusOperator, "example/prometheus-operator-crd",
			[]string{"example/user-guides/alerting", "example/user-guides/getting-started"}},
	}
}

// Open returns the files of a module. It downloads the module unless the module cache has it.
func Open(m Module) (fs.FS, error) {
	cmd := exec.Command("go", "mod", "download", "-json", m.Path+"@"+m.Version)
	cmd.Dir = os.TempDir()                                                  // outside of any module, so that no go.mod changes the versions
	cmd.Env = append(os.Environ(), "GOTOOLCHAIN=local", "GOFLAGS=-mod=mod") // and a module cannot select another toolchain
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, runErr := cmd.Output()
	var got struct{ Zip, Error string }
	if err := json.Unmarshal(out, &got); err != nil {
		return nil, fmt.Errorf("go mod download %s@%s: %w: %s", m.Path, m.Version, errors.Join(runErr, err), stderr.Bytes())
	}
	if got.Zip == "" {
		return nil, fmt.Errorf("go mod download %s@%s: %s", m.Path, m.Version, got.Error)
	}
	data, err := os.ReadFile(got.Zip)
	if err != nil {
		return nil, err
	}
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", got.Zip, err)
	}
	return fs.Sub(r, m.Path+"@"+m.Version)
}

// Files reads the YAML files below a folder, and returns their paths in order.
func Files(tree fs.FS, dir string) (map[string][]byte, []string, error) {
	files := map[string][]byte{}
	var names []string
	err := fs.WalkDir(tree, dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || path.Ext(p) != ".yaml" && path.Ext(p) != ".yml" {
			return err
		}
		b, err := fs.ReadFile(tree, p)
		files[p] = b
		names = append(names, p)
		return err
	})
	slices.Sort(names)
	return files, names, err
}

// Doc is one document of a YAML file.
type Doc struct {
	Source           string // file, and number of the document in it
	APIVersion, Kind string
	Namespace, Name  string
	YAML             []byte
}

// Docs splits YAML files into documents. It skips documents without a kind.
func Docs(tree fs.FS, dir string) ([]Doc, error) {
	files, names, err := Files(tree, dir)
	if err != nil {
		return nil, err
	}
	var docs []Doc
	for _, name := range names {
		for i, text := range splitYAML(files[name]) {
			var head struct {
				APIVersion string `json:"apiVersion"`
				Kind       string `json:"kind"`
				Metadata   struct {
					Name      string `json:"name"`
					Namespace string `json:"namespace"`
				} `json:"metadata"`
			}
			if err := yaml.Unmarshal(text, &head); err != nil || head.Kind == "" {
				continue
			}
			docs = append(docs, Doc{
				Source:     fmt.Sprintf("%s#%d", name, i+1),
				APIVersion: head.APIVersion, Kind: head.Kind,
				Namespace: head.Metadata.Namespace, Name: head.Metadata.Name,
				YAML: text,
			})
		}
	}
	return docs, nil
}

// CRDs returns the definitions of a family as YAML documents.
func CRDs(f Family) ([]Doc, error) {
	tree, err := Open(f.Module)
	if err != nil {
		return nil, err
	}
	docs, err := Docs(tree, f.CRDs)
	if err != nil {
		return nil, err
	}
	docs = slices.DeleteFunc(docs, func(d Doc) bool { return d.Kind != "CustomResourceDefinition" })
	if len(docs) == 0 {
		return nil, fmt.Errorf("%s@%s: folder %s holds no CustomResourceDefinition", f.Module.Path, f.Module.Version, f.CRDs)
	}
	return docs, nil
}

// CRD returns one definition of a family by name, as YAML.
func CRD(f Family, name string) ([]byte, error) {
	docs, err := CRDs(f)
	if err != nil {
		return nil, err
	}
	for _, d := range docs {
		if d.Name == name {
			return d.YAML, nil
		}
	}
	return nil, fmt.Errorf("%s@%s: no CustomResourceDefinition %q in %s", f.Module.Path, f.Module.Version, name, f.CRDs)
}

// Examples returns the example objects of a family whose kinds the family defines.
func Examples(f Family) ([]Doc, error) {
	tree, err := Open(f.Module)
	if err != nil {
		return nil, err
	}
	crds, err := Docs(tree, f.CRDs)
	if err != nil {
		return nil, err
	}
	groups := map[string]bool{}
	for _, d := range crds {
		_, group, _ := strings.Cut(d.Name, ".")
		groups[group] = true
	}
	var docs []Doc
	for _, dir := range f.Examples {
		more, err := Docs(tree, dir)
		if err != nil {
			return nil, err
		}
		docs = append(docs, more...)
	}
	return slices.DeleteFunc(docs, func(d Doc) bool {
		group, _, _ := strings.Cut(d.APIVersion, "/")
		return !groups[group]
	}), nil
}

// splitYAML splits a stream at its document separators.
func splitYAML(b []byte) [][]byte {
	var docs [][]byte
	var doc []byte
	for line := range bytes.Lines(b) {
		if bytes.HasPrefix(line, []byte("---")) {
			docs = append(docs, doc)
			doc = nil
			continue
		}
		doc = append(doc, line...)
	}
	docs = append(docs, doc)
	return slices.DeleteFunc(docs, func(d []byte) bool { return len(bytes.TrimSpace(d)) == 0 })
}
