package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/apk"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

// This file makes the packages of Linux distributions.

// packagers make packages, by kind.
var packagers = map[string]nfpm.Packager{"apk": apk.Default, "deb": deb.Default, "rpm": rpm.DefaultRPM}

// linuxPackages writes the packages of an architecture.
func (r *release) linuxPackages(t target, binary, docs string) error {
	unit, err := r.unit(filepath.Dir(binary))
	if err != nil {
		return err
	}
	for kind, p := range packagers {
		info, err := r.packageInfo(kind, t, binary, unit, docs)
		if err != nil {
			return err
		}
		if err := nfpm.PrepareForPackager(info, kind); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		f, err := os.Create(filepath.Join(r.out, p.ConventionalFileName(info)))
		if err != nil {
			return err
		}
		if err := errors.Join(p.Package(info, f), f.Close()); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	return nil
}

// packageInfo returns the names and files of a package.
func (r *release) packageInfo(kind string, t target, binary, unit, docs string) (*nfpm.Info, error) {
	contents, err := r.contents(kind, binary, unit, docs)
	if err != nil {
		return nil, err
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "keelson", Arch: t.arch, Platform: "linux", Version: r.version, MTime: r.date,
		Maintainer: "The Keelson authors <keelson@keelson.io>", Homepage: repository, License: "Apache-2.0",
		Section: "admin", Priority: "optional", Vendor: "Keelson",
		Description: summary + "\nAn API server for your own types, and commands that check their objects and definitions.",
		Overridables: nfpm.Overridables{
			Contents: contents,
			RPM:      nfpm.RPM{Summary: "Kubernetes API for custom resources", BuildHost: "localhost"},
		},
	})
	if kind == "apk" {
		// It has one line for the description.
		info.Description, info.Prerelease, info.Release = summary, apkPrerelease(info.Prerelease), "0"
	}
	return info, nil
}

const summary = "Kubernetes API for custom resources, without the rest of Kubernetes"

// contents returns the files of a package. Alpine has no systemd, and another folder for zsh.
func (r *release) contents(kind, binary, unit, docs string) (files.Contents, error) {
	zsh := "/usr/share/zsh/vendor-completions/_keelson"
	if kind == "apk" {
		zsh = "/usr/share/zsh/site-functions/_keelson"
	}
	contents := files.Contents{
		r.entry(binary, "/usr/bin/keelson", 0o755),
		r.entry(filepath.Join(docs, "completions", "keelson.bash"), "/usr/share/bash-completion/completions/keelson", 0o644),
		r.entry(filepath.Join(docs, "completions", "keelson.zsh"), zsh, 0o644),
		r.entry(filepath.Join(docs, "completions", "keelson.fish"), "/usr/share/fish/vendor_completions.d/keelson.fish", 0o644),
		r.entry(filepath.Join(docs, "LICENSE"), "/usr/share/doc/keelson/copyright", 0o644),
		r.entry(filepath.Join(docs, "README.md"), "/usr/share/doc/keelson/README.md", 0o644),
	}
	if kind != "apk" {
		contents = append(contents, r.entry(unit, "/usr/lib/systemd/system/keelson.service", 0o644))
	}
	for _, folder := range []struct{ from, to string }{{"man", "/usr/share/man/man1"}, {"licenses", "/usr/share/doc/keelson/licenses"}} {
		names, err := os.ReadDir(filepath.Join(docs, folder.from))
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			contents = append(contents, r.entry(filepath.Join(docs, folder.from, n.Name()), folder.to+"/"+n.Name(), 0o644))
		}
	}
	return contents, nil
}

// apkKnown matches the pre-releases that apk has a suffix for.
var apkKnown = regexp.MustCompile(`^(alpha|beta|pre|rc)\.?(\d*)$`)

// apkPrerelease returns a pre-release in the words of apk, which takes no others: rc.1 is rc1, and
// what it has no word for is an alpha.
func apkPrerelease(prerelease string) string {
	if prerelease == "" {
		return ""
	}
	if m := apkKnown.FindStringSubmatch(prerelease); m != nil {
		return m[1] + m[2]
	}
	return "alpha"
}

// entry returns a file of a package.
func (r *release) entry(from, to string, mode fs.FileMode) *files.Content {
	return &files.Content{Source: from, Destination: to, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.date}}
}
