package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

// This file makes what other tools install from: a Helm chart, a krew manifest, a Homebrew formula.

// chart packs deploy/chart with the version of the release.
func (r *release) chart() error {
	dir, err := os.MkdirTemp("", "keelson-chart")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	source := os.DirFS(filepath.Join(r.root, "deploy", "chart"))
	var files []file
	err = fs.WalkDir(source, ".", func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := fs.ReadFile(source, p)
		if err != nil {
			return err
		}
		if p == "Chart.yaml" {
			text = bytes.ReplaceAll(text, []byte("0.0.0-dev"), []byte(r.version))
		}
		to := filepath.Join(dir, strings.ReplaceAll(p, "/", "_"))
		files = append(files, file{"keelson/" + p, to, 0o644})
		return os.WriteFile(to, text, 0o644)
	})
	if err != nil {
		return err
	}
	text, err := r.tar(files)
	if err != nil {
		return err
	}
	return writeGzip(filepath.Join(r.out, "keelson-"+r.version+".tgz"), text)
}

// unit writes the unit of systemd for packages, where the program is in /usr/bin.
func (r *release) unit(dir string) (string, error) {
	text, err := os.ReadFile(filepath.Join(r.root, "deploy", "keelson.service"))
	if err != nil {
		return "", err
	}
	if !bytes.Contains(text, []byte("ExecStart=/usr/local/bin/keelson ")) {
		return "", fmt.Errorf("deploy/keelson.service: got no ExecStart of /usr/local/bin/keelson")
	}
	text = bytes.ReplaceAll(text, []byte("/usr/local/bin/keelson"), []byte("/usr/bin/keelson"))
	// The first lines say how to install the unit by hand.
	if at := bytes.Index(text, []byte("[Unit]")); at > 0 {
		text = text[at:]
	}
	name := filepath.Join(dir, "keelson.service")
	return name, os.WriteFile(name, text, 0o644)
}

// packed is an archive, as the manifests name it.
type packed struct{ OS, Arch, Name, Sum, Folder, Binary string }

// manifests fills in deploy/krew.yaml and deploy/keelson.rb with the checksums of the archives.
func (r *release) manifests() error {
	var archives []packed
	for _, t := range r.targets {
		folder := fmt.Sprintf("keelson_%s_%s", r.version, t)
		p := packed{OS: t.os, Arch: t.arch, Folder: folder, Name: folder + ".tar.gz", Binary: "keelson"}
		if t.os == "windows" {
			p.Name, p.Binary = folder+".zip", "keelson.exe"
		}
		sum, err := r.sum(p.Name)
		if err != nil {
			return err
		}
		p.Sum = sum
		archives = append(archives, p)
	}
	for _, name := range []string{"krew.yaml", "keelson.rb"} {
		text, err := os.ReadFile(filepath.Join(r.root, "deploy", name))
		if err != nil {
			return err
		}
		parsed, err := template.New(name).Delims("<<", ">>").Parse(string(text))
		if err != nil {
			return err
		}
		var b bytes.Buffer
		if err := parsed.Execute(&b, map[string]any{"Version": r.version, "Archives": archives}); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(r.out, name), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}
