package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

// This file makes the packages of Linux distributions.

// linuxPackages writes the deb and the rpm package of an architecture.
func (r *release) linuxPackages(t target, binary, docs string) error {
	unit, err := r.unit(filepath.Dir(binary))
	if err != nil {
		return err
	}
	contents := files.Contents{
		r.entry(binary, "/usr/bin/keelson", 0o755),
		r.entry(unit, "/usr/lib/systemd/system/keelson.service", 0o644),
		r.entry(filepath.Join(docs, "completions", "keelson.bash"), "/usr/share/bash-completion/completions/keelson", 0o644),
		r.entry(filepath.Join(docs, "completions", "keelson.zsh"), "/usr/share/zsh/vendor-completions/_keelson", 0o644),
		r.entry(filepath.Join(docs, "completions", "keelson.fish"), "/usr/share/fish/vendor_completions.d/keelson.fish", 0o644),
		r.entry(filepath.Join(docs, "LICENSE"), "/usr/share/doc/keelson/copyright", 0o644),
		r.entry(filepath.Join(docs, "README.md"), "/usr/share/doc/keelson/README.md", 0o644),
	}
	for _, folder := range []struct{ from, to string }{{"man", "/usr/share/man/man1"}, {"licenses", "/usr/share/doc/keelson/licenses"}} {
		names, err := os.ReadDir(filepath.Join(docs, folder.from))
		if err != nil {
			return err
		}
		for _, n := range names {
			contents = append(contents, r.entry(filepath.Join(docs, folder.from, n.Name()), folder.to+"/"+n.Name(), 0o644))
		}
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "keelson", Arch: t.arch, Platform: "linux", Version: r.version, MTime: r.date,
		Maintainer: "The Keelson authors <keelson@keelson.io>", Homepage: "https://github.com/keelson-io/keelson", License: "Apache-2.0",
		Section: "admin", Priority: "optional", Vendor: "Keelson",
		Description: "Kubernetes API for custom resources, without the rest of Kubernetes\nAn API server for your own types, and commands that check their objects and definitions.",
		Overridables: nfpm.Overridables{
			Contents: contents,
			RPM:      nfpm.RPM{Summary: "Kubernetes API for custom resources", BuildHost: "localhost"},
		},
	})
	for kind, p := range map[string]nfpm.Packager{"deb": deb.Default, "rpm": rpm.DefaultRPM} {
		copied := *info
		copied.Contents = append(files.Contents{}, contents...)
		if err := nfpm.PrepareForPackager(&copied, kind); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		f, err := os.Create(filepath.Join(r.out, p.ConventionalFileName(&copied)))
		if err != nil {
			return err
		}
		if err := errors.Join(p.Package(&copied, f), f.Close()); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	return nil
}

// entry returns a file of a package.
func (r *release) entry(from, to string, mode fs.FileMode) *files.Content {
	return &files.Content{Source: from, Destination: to, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.date}}
}
