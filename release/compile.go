package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/keelson-io/keelson/internal/cli"
)

// This file compiles the program, and writes the documents that are packed with it.

// program is the package that is compiled.
const program = "github.com/keelson-io/keelson/cmd/keelson"

// compile returns the file of the program for each target.
func (r *release) compile(work string) (map[target]string, error) {
	binaries := map[target]string{}
	for _, t := range r.targets {
		binary := filepath.Join(work, t.String(), "keelson")
		if t.os == "windows" {
			binary += ".exe"
		}
		fmt.Fprintf(os.Stderr, "compiling for %s/%s\n", t.os, t.arch)
		cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", binary,
			"-ldflags=-s -w -buildid= -X github.com/keelson-io/keelson/internal/api/program.release=v"+r.version, program)
		cmd.Dir = r.root
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+t.os, "GOARCH="+t.arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=")
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("compiling for %s/%s: %w\n%s", t.os, t.arch, err, out)
		}
		binaries[t] = binary
	}
	return binaries, nil
}

// documents returns a folder with the README, the licence, manual pages and completions.
func (r *release) documents(work string) (string, error) {
	dir := filepath.Join(work, "documents")
	for _, sub := range []string{"man", "completions"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return "", err
		}
	}
	root := cli.Command()
	root.DisableAutoGenTag = true
	header := &doc.GenManHeader{Section: "1", Source: "keelson " + r.version, Manual: "Keelson", Date: &r.date}
	if err := doc.GenManTree(root, header, filepath.Join(dir, "man")); err != nil {
		return "", err
	}
	if err := completions(root, filepath.Join(dir, "completions")); err != nil {
		return "", err
	}
	for _, name := range []string{"README.md", "LICENSE", "CHANGELOG.md"} {
		if err := copyFile(filepath.Join(r.root, name), filepath.Join(dir, name)); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// completions writes the completions of four shells.
func completions(root *cobra.Command, dir string) error {
	for name, write := range map[string]func(io.Writer) error{
		"keelson.bash": func(w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"keelson.zsh":  root.GenZshCompletion,
		"keelson.fish": func(w io.Writer) error { return root.GenFishCompletion(w, true) },
		"keelson.ps1":  root.GenPowerShellCompletionWithDesc,
	} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if err := errors.Join(write(f), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644)
}
