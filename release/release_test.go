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
	"syscall"
	"testing"
	"time"

	"aead.dev/minisign"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/internal/cli"
)

// This file tests the packages: their form with small files in place of programs, and with -packages the finished ones of this machine's
// architecture, which it installs in folders and runs there.

// packages is the folder of a finished release.
var packages = flag.String("packages", "", "`folder` of a finished release, to install and run what is for this machine")

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
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte("#!/bin/sh\necho "+tt.String()+"\n"), 0o755)); err != nil {
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
		"keelson_1.2.3_linux_amd64.tar.gz keelson_1.2.3_linux_arm64.tar.gz keelson_1.2.3_sbom.spdx.json keelson_1.2.3_windows_amd64.zip keelson_1.2.3_windows_arm64.zip krew.yaml kubernetes.yaml"
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

// TestSignature holds that the checksums are signed with the key that is given.
func TestSignature(t *testing.T) {
	public, private, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := minisign.EncryptKey("secret", private)
	if err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, text, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("MINISIGN_PASSWORD", "secret")
	r := sample(t, key)
	sums, err := os.ReadFile(filepath.Join(r.out, "checksums.txt"))
	if err != nil {
		t.Fatal(err)
	}
	signature, err := os.ReadFile(filepath.Join(r.out, "checksums.txt.minisig"))
	if err != nil || !minisign.Verify(public, sums, signature) || minisign.Verify(public, append(sums, ' '), signature) {
		t.Errorf("the signature (%v) does not verify, or verifies another text", err)
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

// TestInstalled installs the finished packages for this machine in folders, and runs what they install.
func TestInstalled(t *testing.T) {
	if *packages == "" {
		t.Skip("it needs a finished release: make release-check")
	}
	if os.Getuid() != 0 {
		t.Fatal("got an ordinary user, want root, who can install packages and change the root folder")
	}
	one := func(pattern string) string {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(*packages, pattern))
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: got %q (%v), want one file", pattern, found, err)
		}
		return found[0]
	}
	t.Run("archive", func(t *testing.T) {
		dir := t.TempDir()
		command(t, "tar", "-xzf", one("*_linux_amd64.tar.gz"), "-C", dir)
		binary, err := filepath.Glob(dir + "/*/keelson")
		if err != nil || len(binary) != 1 {
			t.Fatalf("got %q (%v), want one program", binary, err)
		}
		if got := command(t, binary[0], "--version"); !strings.HasPrefix(got, "keelson v") {
			t.Errorf("got %s, want a version", got)
		}
	})
	t.Run("deb", func(t *testing.T) {
		dir := t.TempDir()
		for _, sub := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/keelson", "tmp"} {
			if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "var/lib/dpkg/status"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		command(t, "dpkg", "--root="+dir, "--install", one("*_amd64.deb"))
		unit, err := os.ReadFile(filepath.Join(dir, "usr/lib/systemd/system/keelson.service"))
		if err != nil {
			t.Fatal(err)
		}
		_, line, _ := strings.Cut(string(unit), "ExecStart=")
		line, _, _ = strings.Cut(line, "\n")
		serves(t, dir, 0, append(strings.Fields(line), "--secure-port", "0"))
		for _, name := range []string{"usr/share/man/man1/keelson.1", "usr/share/bash-completion/completions/keelson", "usr/share/doc/keelson/copyright"} {
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("image", func(t *testing.T) {
		dir, root := t.TempDir(), t.TempDir()
		command(t, "tar", "-xf", one("*_image.tar"), "-C", dir)
		index, err := layout.ImageIndexFromPath(dir)
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := index.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		image, err := index.Image(manifest.Manifests[0].Digest)
		if err != nil {
			t.Fatal(err)
		}
		layers, err := image.Layers()
		if err != nil {
			t.Fatal(err)
		}
		size, err := layers[0].Size()
		if err != nil || size > 30<<20 {
			t.Errorf("got %d bytes (%v), want at most 30 MiB", size, err)
		}
		t.Logf("the image has %d bytes", size)
		layer, err := layers[0].Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		unpack := exec.Command("tar", "-x", "--numeric-owner", "-p", "-C", root)
		unpack.Stdin = layer
		if out, err := unpack.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		c, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		serves(t, root, user, append(append(c.Config.Entrypoint, c.Config.Cmd...), "--secure-port", "0"))
	})
}

// command runs a command to its end and returns what it prints.
func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// serves runs a command that serves in another root folder as a user, until it says that it is ready, and ends it.
func serves(t *testing.T, root string, uid uint32, line []string) {
	t.Helper()
	cmd := exec.Command(line[0], line[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: uid, Gid: uid}, Pdeathsig: syscall.SIGKILL}
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/", "HOME=/"}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	cmd.Stdout, cmd.Stderr = write, write
	if err := cmd.Start(); err != nil {
		t.Fatalf("%s in %s: %v", line, root, err)
	}
	write.Close()
	read.SetReadDeadline(time.Now().Add(2 * time.Minute))
	var log bytes.Buffer
	for part := make([]byte, 4096); !bytes.Contains(log.Bytes(), []byte("ready")); {
		n, err := read.Read(part)
		log.Write(part[:n])
		if err != nil {
			t.Errorf("%s: got no server that is ready (%v):\n%s", line, err, log.String())
			break
		}
	}
	cmd.Process.Signal(syscall.SIGTERM)
	go io.Copy(io.Discard, read)
	if err := cmd.Wait(); err != nil {
		t.Errorf("%s, after SIGTERM: %v\n%s", line, err, log.String())
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
	action := func(version string) (string, error) {
		cmd := exec.Command("bash", "../deploy/action.sh")
		cmd.Env = append(os.Environ(), "KEELSON_RELEASES=file://"+releases, "KEELSON_VERSION="+version, "KEELSON_ARGS=validate .")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := action("v1.2.3"); err != nil || !strings.HasPrefix(out, "linux_") {
		t.Errorf("got %q (%v), want the output of the program for this machine", out, err)
	}
	for _, version := range []string{"", "main", "v1.2.4"} {
		if out, err := action(version); err == nil {
			t.Errorf("version %q: got no error:\n%s", version, out)
		}
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

// TestHooks holds that the commands of the pre-commit hooks exist and judge a repository.
func TestHooks(t *testing.T) {
	text, err := os.ReadFile("../.pre-commit-hooks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var hooks []struct {
		ID            string   `json:"id"`
		Name          string   `json:"name"`
		Description   string   `json:"description"`
		Language      string   `json:"language"`
		Entry         string   `json:"entry"`
		TypesOr       []string `json:"types_or"`
		PassFilenames bool     `json:"pass_filenames"`
	}
	if err := yaml.UnmarshalStrict(text, &hooks); err != nil || len(hooks) != 2 {
		t.Fatalf("got %d hooks (%v), want 2", len(hooks), err)
	}
	good := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	definition := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: as.example.com}\nspec:\n  group: example.com\n  scope: Cluster\n" +
		"  names: {kind: A, plural: as}\n  versions:\n  - name: v1\n    served: true\n    storage: true\n    schema: {openAPIV3Schema: {type: object, properties: {b: {type: TYPE}}}}\n"
	for _, h := range hooks {
		for _, row := range []struct {
			object, kind string
			code         int
		}{{good, "string", 0}, {good + "colour: red\n", "none", 1}} {
			dir := t.TempDir()
			if err := errors.Join(os.WriteFile(dir+"/a.yaml", []byte(row.object), 0o644),
				os.WriteFile(dir+"/crd.yaml", []byte(strings.ReplaceAll(definition, "TYPE", row.kind)), 0o644)); err != nil {
				t.Fatal(err)
			}
			t.Chdir(dir)
			var out bytes.Buffer
			if code := cli.Main(strings.Fields(h.Entry), strings.NewReader(""), &out, &out); code != row.code {
				t.Errorf("%s: got %d, want %d:\n%s", h.Entry, code, row.code, out.String())
			}
		}
	}
}
