// Command release makes all packages of a release:
//
//	go run . -version v1.0.0 -o ../bin/release
//
// "make release" calls it. It compiles keelson for each target, and makes archives, deb, rpm and
// apk packages, a container image for two architectures, a Helm chart, manual pages, completions, a
// krew manifest, a Homebrew formula, a list of components (SBOM), checksums, and with -key a
// signature of the checksums. Archives and images above a size are an error.
//
// The result depends on nothing but the sources, the version, the date and the version of Go: all
// times are -date, owners are root, and files are in order. -twice makes everything twice and
// compares the bytes. No daemon is needed, and nothing is published.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// This file has the command line and the order of the steps.

// release is what is made, and where.
type release struct {
	root    string    // of the repository
	out     string    // folder of the results
	version string    // without v
	date    time.Time // of all files
	targets []target
	key     string // file with the secret key; none if empty
	limits  limits
}

// limits are the most bytes that results may have.
type limits struct {
	archive int64 // each archive
	image   int64 // what a machine downloads to run the image: the compressed image for one architecture
}

// releaseLimits are for people who wait for a download. The program is most of both: Deflate makes
// some 27 MB of its 77 MB.
var releaseLimits = limits{archive: 30e6, image: 30e6}

// target is a system and an architecture, in Go's words.
type target struct{ os, arch string }

// String returns the target as in file names.
func (t target) String() string { return t.os + "_" + t.arch }

const allTargets = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64"

// versions are what -version takes.
var versions = regexp.MustCompile(`^v(\d+\.\d+\.\d+(-[0-9a-z.]+)?)$`)

func main() {
	version := flag.String("version", "v0.0.0-dev", "`version`, such as v1.0.0")
	out := flag.String("o", "../bin/release", "`folder` for the results; it is emptied")
	date := flag.Int64("date", 0, "time of all files, in `seconds` since 1970")
	targets := flag.String("targets", allTargets, "`list` of OS/ARCH")
	key := flag.String("key", "", "`file` with the private key of cosign that signs the checksums; its password is in COSIGN_PASSWORD")
	twice := flag.Bool("twice", false, "make everything twice and compare")
	flag.Parse()
	r := &release{root: "..", out: *out, date: time.Unix(*date, 0).UTC(), key: *key, limits: releaseLimits}
	if err := r.parse(*version, *targets); err != nil {
		fmt.Fprintln(os.Stderr, "release: "+err.Error())
		os.Exit(2)
	}
	if err := r.run(*twice); err != nil {
		fmt.Fprintln(os.Stderr, "release: "+err.Error())
		os.Exit(1)
	}
}

// parse sets the version and the targets.
func (r *release) parse(version, targets string) error {
	m := versions.FindStringSubmatch(version)
	if m == nil {
		return fmt.Errorf("-version: got %q, want a version such as v1.0.0 or v1.0.0-rc.1", version)
	}
	r.version = m[1]
	for word := range strings.SplitSeq(targets, ",") {
		system, arch, ok := strings.Cut(word, "/")
		if !ok || !strings.Contains(","+allTargets+",", ","+word+",") {
			return fmt.Errorf("-targets: got %q, want some of %s", word, allTargets)
		}
		r.targets = append(r.targets, target{system, arch})
	}
	return nil
}

// run makes the release, and with twice once more, to compare.
func (r *release) run(twice bool) error {
	if err := r.make(); err != nil {
		return err
	}
	if !twice {
		return nil
	}
	second := *r
	second.out = r.out + ".again"
	defer os.RemoveAll(second.out)
	if err := second.make(); err != nil {
		return err
	}
	return equalFolders(r.out, second.out)
}

// make makes everything. A release that is not complete has no checksums.
func (r *release) make() error {
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "keelson-release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	binaries, err := r.compile(work)
	if err != nil {
		return err
	}
	docs, err := r.documents(work)
	if err != nil {
		return err
	}
	components, err := r.components(binaries, filepath.Join(docs, "licenses"))
	if err != nil {
		return err
	}
	return r.pack(binaries, docs, components)
}

// pack makes the packages of compiled programs.
func (r *release) pack(binaries map[target]string, docs string, components []component) error {
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	for t, binary := range binaries {
		if err := r.archive(t, binary, docs); err != nil {
			return err
		}
		if t.os == "linux" {
			if err := r.linuxPackages(t, binary, docs); err != nil {
				return err
			}
		}
	}
	for _, step := range []func() error{
		func() error { return r.image(binaries) }, func() error { return r.sbom(binaries, components) },
		r.chart, r.files, r.manifests, r.checksums,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// files copies what is published as it is.
func (r *release) files() error {
	for _, name := range []string{"deploy/kubernetes.yaml", "deploy/kubernetes-etcd.yaml", "deploy/grafana.json", "deploy/alerts.yaml"} {
		text, err := os.ReadFile(filepath.Join(r.root, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(r.out, filepath.Base(name)), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// equalFolders compares all files of two folders.
func equalFolders(a, b string) error {
	var differ []string
	for _, pair := range [][2]string{{a, b}, {b, a}} {
		files, err := os.ReadDir(pair[0])
		if err != nil {
			return err
		}
		for _, f := range files {
			first, err := os.ReadFile(filepath.Join(pair[0], f.Name()))
			if err != nil {
				return err
			}
			second, err := os.ReadFile(filepath.Join(pair[1], f.Name()))
			if errors.Is(err, os.ErrNotExist) || err == nil && string(first) != string(second) {
				differ = append(differ, f.Name())
			} else if err != nil {
				return err
			}
		}
	}
	if len(differ) > 0 {
		return fmt.Errorf("two builds differ in %s", strings.Join(differ, ", "))
	}
	fmt.Println("two builds are equal")
	return nil
}
