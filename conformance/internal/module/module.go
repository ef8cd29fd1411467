// Package module helps to run tests that others wrote, of a Go module that this one requires, against the keelson binary.
//
// A module's own tests cannot be run where the go command keeps it, which is read-only, with a file of theirs replaced, and with the
// versions of their dependencies that are built here already. So a module is copied to a place that stays the same from run to
// run: what is built there is built once.
package module

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Keelson is the path of the binary to test: the one that KEELSON_BIN names, or else one that is built into the folder. The working
// directory is that of a test of a package two levels below the root of the repository.
func Keelson(dir string) (string, error) {
	if bin := os.Getenv("KEELSON_BIN"); bin != "" {
		return bin, nil
	}
	bin := filepath.Join(dir, "keelson")
	cmd := exec.Command("go", "build", "-o", bin, "./cmd/keelson")
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return bin, nil
}

// Copy copies a module to a folder of the user's cache. put is the text of files that are other ones there, by their paths in the
// module. Scripts can be run, as they can in the module's repository, and not in what the go command downloads.
func Copy(name string, put map[string][]byte) (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}} {{.Version}}", name).Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	from, version, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	cached, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	to := filepath.Join(cached, "keelson-conformance", filepath.Base(name)+"@"+version)
	for path := range put {
		if _, err := os.Stat(filepath.Join(from, path)); err != nil {
			return "", err // the module is another one
		}
	}
	return to, filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if e.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		text, other := put[rel]
		if !other {
			if text, err = os.ReadFile(path); err != nil {
				return err
			}
		}
		return writeChanged(filepath.Join(to, rel), text)
	})
}

// writeChanged writes a file unless it is so already.
func writeChanged(path string, text []byte) error {
	mode := os.FileMode(0o644)
	if bytes.HasPrefix(text, []byte("#!")) {
		mode = 0o755
	}
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, text) {
		return os.Chmod(path, mode)
	}
	return os.WriteFile(path, text, mode)
}

// File writes this module's go.mod and go.sum into a folder, with a copy of a module in place of the original, so that everything
// else is what this module has built already. It returns what the go command is to be given as -modfile.
func File(dir, name, src string) (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	from := filepath.Dir(strings.TrimSpace(string(out)))
	for _, file := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(from, file))
		if err != nil {
			return "", err
		}
		if file == "go.mod" {
			text = fmt.Appendf(text, "\nreplace %s => %s\n", name, src)
		}
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, "go.mod"), nil
}
