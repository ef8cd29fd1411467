package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/internal/cli"
)

// This file tests the form of the packages, with small files in place of programs.

// packages is the folder of a finished release.
var packages = flag.String("packages", "", "`folder` of a finished release, to install and run what is for Linux on amd64")

// sources returns a release that is not packed, with shell scripts in place of programs.
func sources(t *testing.T, targets string) (r *release, binaries map[target]string, docs string) {
	t.Helper()
	r = &release{root: "..", out: filepath.Join(t.TempDir(), "out"), date: time.Unix(1700000000, 0).UTC(), limits: releaseLimits}
	if err := r.parse("v1.2.3", targets); err != nil {
		t.Fatal(err)
	}
	work := t.TempDir()
	binaries = map[target]string{}
	for _, tt := range r.targets {
		name := filepath.Join(work, tt.String(), "keelson")
		if tt.os == "windows" {
			name += ".exe"
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte("#!/bin/sh\necho "+tt.String()+" \"$@\"\n"), 0o755)); err != nil {
			t.Fatal(err)
		}
		binaries[tt] = name
	}
	docs = filepath.Join(work, "docs")
	for _, name := range []string{"LICENSE", "README.md", "man/keelson.1", "completions/keelson.bash", "completions/keelson.zsh", "completions/keelson.fish", "licenses/a_LICENSE"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(docs, name)), 0o755), os.WriteFile(filepath.Join(docs, name), []byte(name), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return r, binaries, docs
}

// sample packs a release with shell scripts in place of programs.
func sample(t *testing.T, key string) *release {
	t.Helper()
	r, binaries, docs := sources(t, allTargets)
	r.key = key
	if err := r.pack(binaries, docs, []component{{"example.com/a", "v1.0.0", []string{"MIT"}, nil}, {standardLibrary, "1.26.0", []string{"BSD-3-Clause"}, nil}}); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestEqualBytes holds that packing twice, at different times and in different folders, gives the same bytes.
func TestEqualBytes(t *testing.T) {
	first := sample(t, "")
	second := sample(t, "")
	if err := equalFolders(first.out, second.out); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(second.out, "krew.yaml"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(second.out, "alerts.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := equalFolders(first.out, second.out); err == nil || err.Error() != "two builds differ in alerts.yaml, krew.yaml, krew.yaml" {
		t.Errorf("got %v, want the two files that differ", err)
	}
}

// TestContents holds what is in a release.
func TestContents(t *testing.T) {
	r := sample(t, "")
	files, err := os.ReadDir(r.out)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
	}
	want := "alerts.yaml checksums.txt grafana.json keelson-1.2.3-1.aarch64.rpm keelson-1.2.3-1.x86_64.rpm keelson-1.2.3.tgz keelson.rb " +
		"keelson_1.2.3-r0_aarch64.apk keelson_1.2.3-r0_x86_64.apk keelson_1.2.3_amd64.deb keelson_1.2.3_arm64.deb keelson_1.2.3_darwin_amd64.tar.gz keelson_1.2.3_darwin_arm64.tar.gz keelson_1.2.3_image.tar " +
		"keelson_1.2.3_linux_amd64.tar.gz keelson_1.2.3_linux_arm64.tar.gz keelson_1.2.3_sbom.spdx.json keelson_1.2.3_windows_amd64.zip keelson_1.2.3_windows_arm64.zip krew.yaml kubernetes-etcd.yaml kubernetes.yaml"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	check := exec.Command("sha256sum", "--check", "--quiet", "checksums.txt")
	check.Dir = r.out
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("sha256sum: %v\n%s", err, out)
	}
	archive := untar(t, gunzip(t, filepath.Join(r.out, "keelson_1.2.3_linux_amd64.tar.gz")))
	if h := archive["keelson_1.2.3_linux_amd64/keelson"]; h == nil || h.Mode != 0o755 || h.Uid != 0 {
		t.Errorf("the program in the archive: got %+v, want an executable file of root", h)
	}
	for _, name := range []string{"LICENSE", "man/keelson.1", "licenses/a_LICENSE", "completions/keelson.zsh"} {
		if archive["keelson_1.2.3_linux_amd64/"+name] == nil {
			t.Errorf("the archive has no %s", name)
		}
	}
	var krew struct {
		Spec struct {
			Platforms []struct{ URI, SHA256, Bin string }
		}
	}
	text, err := os.ReadFile(filepath.Join(r.out, "krew.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, &struct {
		APIVersion, Kind string
		Metadata, Spec   map[string]any
	}{}); err != nil {
		t.Errorf("krew.yaml: %v", err)
	}
	if err := yaml.Unmarshal(text, &krew); err != nil || len(krew.Spec.Platforms) != 6 {
		t.Fatalf("krew.yaml: got %d platforms (%v), want 6", len(krew.Spec.Platforms), err)
	}
	for _, p := range krew.Spec.Platforms {
		if sum, err := r.sum(filepath.Base(p.URI)); err != nil || sum != p.SHA256 {
			t.Errorf("krew.yaml: %s: got %s, want %s (%v)", p.URI, p.SHA256, sum, err)
		}
	}
	formula, err := os.ReadFile(filepath.Join(r.out, "keelson.rb"))
	if err != nil || strings.Count(string(formula), "sha256") != 4 || strings.Contains(string(formula), "<<") {
		t.Errorf("keelson.rb (%v): got\n%s\nwant four archives", err, formula)
	}
}

// TestImage holds that the image has both architectures, runs as an unprivileged user, and has an own data folder.
func TestImage(t *testing.T) {
	r := sample(t, "")
	dir := t.TempDir()
	if out, err := exec.Command("tar", "-xf", filepath.Join(r.out, "keelson_1.2.3_image.tar"), "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 2 {
		t.Fatalf("got %+v (%v), want two images", manifest, err)
	}
	for _, m := range manifest.Manifests {
		image, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		c, err := image.ConfigFile()
		if err != nil || c.Architecture != m.Platform.Architecture || c.Config.User != "65532:65532" || c.Config.Entrypoint[0] != "/keelson" || len(c.RootFS.DiffIDs) != 1 {
			t.Errorf("%s: got %+v (%v)", m.Platform, c, err)
		}
		layers, err := image.Layers()
		if err != nil {
			t.Fatal(err)
		}
		layer, err := layers[0].Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(layer)
		if err != nil {
			t.Fatal(err)
		}
		if h := untar(t, text)["data/"]; h == nil || h.Uid != user || h.Mode != 0o700 {
			t.Errorf("data: got %+v, want a private folder of the user", h)
		}
	}
}

// TestCommandLine holds that versions and targets that do not exist are refused.
func TestCommandLine(t *testing.T) {
	for _, row := range [][2]string{{"1.0.0", allTargets}, {"v1.0", allTargets}, {"v1.0.0;x", allTargets}, {"v1.0.0", "linux"}, {"v1.0.0", "plan9/amd64"}, {"v1.0.0", "linux/amd64,"}} {
		if err := new(release).parse(row[0], row[1]); err == nil {
			t.Errorf("%q: got no error", row)
		}
	}
}

// gunzip returns the content of a compressed file.
func gunzip(t *testing.T, name string) []byte {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// untar returns the headers of a tar file by name.
func untar(t *testing.T, text []byte) map[string]*tar.Header {
	t.Helper()
	out := map[string]*tar.Header{}
	for r := tar.NewReader(bytes.NewReader(text)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out[h.Name] = h
	}
}

// TestDashboardIsJSON holds that the dashboard can be imported.
func TestDashboardIsJSON(t *testing.T) {
	text, err := os.ReadFile("../deploy/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct{ Panels []any }
	if err := json.Unmarshal(text, &d); err != nil || len(d.Panels) == 0 {
		t.Errorf("got %d panels (%v), want some", len(d.Panels), err)
	}
}

// TestAction holds that the script of the GitHub Action runs the archive of a release, and refuses wrong checksums and versions.
func TestAction(t *testing.T) {
	r := sample(t, "")
	releases := t.TempDir()
	if err := os.Rename(r.out, filepath.Join(releases, "v1.2.3")); err != nil {
		t.Fatal(err)
	}
	run := func(version, args string) (string, error) {
		cmd := exec.Command("bash", "../deploy/action.sh")
		cmd.Env = append(os.Environ(), "KEELSON_RELEASES=file://"+releases, "KEELSON_VERSION="+version, "KEELSON_ARGS="+args)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	action := func(version string) (string, error) { return run(version, "validate .") }
	for args, want := range map[string]string{
		"validate .": "validate .", "": "validate -o github .", " \n": "validate -o github .",
		"validate -o github .\n  --schema-strict\n\n--crd crds/\n": "validate -o github . --schema-strict --crd crds/",
		"validate\r\n\tdeploy/*\r\n":                               "validate deploy/*",
	} {
		out, err := run("v1.2.3", args)
		if platform, words, _ := strings.Cut(strings.TrimSuffix(out, "\n"), " "); err != nil || !strings.HasPrefix(platform, "linux_") || words != want {
			t.Errorf("args %q: got %q (%v), want the output of the program for this machine, with %s", args, out, err, want)
		}
	}
	if out, err := action("v1.2.4"); err == nil {
		t.Errorf("a release that is missing: got no error:\n%s", out)
	}
	for _, version := range []string{"", "main", "v1", "v1.2.3/", "v1.2.3\n", "v1.2.3-", "v1.2.3-..", "v1.2.3/../v1.2.3", "xv1.2.3", "x\n::add-mask::a\r\n::stop-commands::b", "v1.2.3 \n::debug::100%"} {
		out, err := action(version)
		if line, more, _ := strings.Cut(out, "\n"); err == nil || more != "" || strings.ContainsRune(line, '\r') || !strings.HasPrefix(line, "::error::keelson: version: got ") {
			t.Errorf("version %q: got %q (%v), want one error in one line", version, out, err)
		}
	}
	if out, _ := action("100%\r\n"); !strings.Contains(out, `got "100%25%0D%0A", want`) {
		t.Errorf("got %q, want the version with escapes", out)
	}
	archives, err := filepath.Glob(releases + "/v1.2.3/*_linux_*.tar.gz")
	if err != nil || len(archives) != 2 {
		t.Fatalf("got %q (%v)", archives, err)
	}
	for _, a := range archives {
		if err := os.WriteFile(a, []byte("another"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := action("v1.2.3"); err == nil || !strings.Contains(out, "got the checksum") {
		t.Errorf("a changed archive: got %q (%v), want a refusal", out, err)
	}
	text, err := os.ReadFile("../action.yml")
	if err != nil {
		t.Fatal(err)
	}
	var a struct {
		Name, Description string
		Inputs            map[string]struct{ Description, Default string }
		Runs              struct {
			Using string
			Steps []map[string]any
		}
		Branding map[string]string
	}
	if err := yaml.UnmarshalStrict(text, &a); err != nil || a.Runs.Using != "composite" || !strings.Contains(fmt.Sprint(a.Runs.Steps), "deploy/action.sh") {
		t.Errorf("action.yml: got %+v (%v)", a, err)
	}
}

// hook is a hook for pre-commit.
type hook struct {
	ID            string   `json:"id"`
	Name          string   `json:"name"`
	Description   string   `json:"description"`
	Language      string   `json:"language"`
	Entry         string   `json:"entry"`
	TypesOr       []string `json:"types_or"`
	PassFilenames bool     `json:"pass_filenames"`
}

// hooks returns the hooks for pre-commit.
func hooks(t *testing.T) []hook {
	t.Helper()
	text, err := os.ReadFile("../.pre-commit-hooks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []hook
	if err := yaml.UnmarshalStrict(text, &all); err != nil || len(all) != 2 {
		t.Fatalf("got %d hooks (%v), want 2", len(all), err)
	}
	return all
}

// definition is a CRD with a field b of a TYPE.
const definition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: as.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {kind: A, plural: as}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {b: {type: TYPE}}}}
`

// checkedRepository returns a folder with a CRD and an object. With a mistake, the object has an unknown field, and the CRD an unknown type.
func checkedRepository(t *testing.T, mistake bool) string {
	t.Helper()
	dir, object, kind := t.TempDir(), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", "string"
	if mistake {
		object, kind = object+"colour: red\n", "none"
	}
	if err := errors.Join(os.WriteFile(dir+"/a.yaml", []byte(object), 0o644),
		os.WriteFile(dir+"/crd.yaml", []byte(strings.ReplaceAll(definition, "TYPE", kind)), 0o644)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestHooks holds that the commands of the pre-commit hooks exist and judge a repository.
func TestHooks(t *testing.T) {
	for _, h := range hooks(t) {
		for _, row := range []struct {
			mistake bool
			code    int
		}{{false, 0}, {true, 1}} {
			t.Chdir(checkedRepository(t, row.mistake))
			var out bytes.Buffer
			if code := cli.Main(strings.Fields(h.Entry), strings.NewReader(""), &out, &out); code != row.code {
				t.Errorf("%s: got %d, want %d:\n%s", h.Entry, code, row.code, out.String())
			}
		}
	}
}
