package keelsontest

// This file finds the binary, or builds it.

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
)

// Environment variables that replace options.
const (
	binaryVariable  = "KEELSON_BINARY"
	versionVariable = "KEELSON_VERSION"
)

// The modules of the binary and of this package. A release has the same version of both.
const (
	binaryModule = "github.com/keelson-io/keelson"
	ownModule    = binaryModule + "/keelsontest"
)

// advice is what to do if there is no binary.
const advice = "set " + binaryVariable + " to the path of a keelson binary, put one on the PATH, or install Go, so that it can be built"

// Find returns the path of the binary that a server would use, and builds it if necessary. Call it in
// TestMain, so that the time limit of the first test does not include the build.
func Find(ctx context.Context, opts ...Option) (string, error) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	path, err := find(ctx, &o)
	if err != nil {
		return "", fmt.Errorf("keelsontest: %w", err)
	}
	return path, nil
}

// find is Find for options.
func find(ctx context.Context, o *options) (string, error) {
	from := "Binary"
	path, version := o.binary, o.version
	if path == "" {
		path, from = os.Getenv(binaryVariable), binaryVariable
	}
	if path != "" {
		found, err := exec.LookPath(path)
		if err != nil {
			return "", fmt.Errorf("%s is %s: %w", from, path, err)
		}
		return filepath.Abs(found)
	}
	if version == "" {
		version = os.Getenv(versionVariable)
	}
	if found, err := exec.LookPath("keelson"); err == nil && (version == "" || versionOf(ctx, found) == version) {
		return filepath.Abs(found)
	}
	if _, err := exec.LookPath("go"); err != nil {
		return "", fmt.Errorf("no keelson binary: %s", advice)
	}
	if version == "" {
		if dir := checkout(); dir != "" {
			return build(ctx, "source-"+shortHash(dir), func(to string) *exec.Cmd {
				cmd := exec.CommandContext(ctx, "go", "build", "-o", to, "./cmd/keelson")
				cmd.Dir, cmd.Env = dir, slices.DeleteFunc(buildEnv(""), func(v string) bool { return v == "CGO_ENABLED=0" }) // as who works on it builds it: that is in the cache
				return cmd
			})
		}
		version = ownVersion()
	}
	if version == "latest" {
		var err error
		if version, err = latest(ctx); err != nil {
			return "", err
		}
	}
	if !released.MatchString(version) {
		return "", fmt.Errorf("version %q: want one such as v0.3.0, or latest", version)
	}
	return build(ctx, version, func(to string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "go", "install", binaryModule+"/cmd/keelson@"+version)
		cmd.Dir, cmd.Env = os.TempDir(), buildEnv(filepath.Dir(to))
		return cmd
	})
}

// released matches a version of a module.
var released = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+[-+.0-9A-Za-z]*$`)

// versionOf returns the version of a binary, "" if it does not say.
func versionOf(ctx context.Context, path string) string {
	out, err := output(exec.CommandContext(ctx, path, "version", "-o", "json"))
	if err != nil {
		return ""
	}
	var v struct{ Program string }
	if json.Unmarshal(out, &v) != nil {
		return ""
	}
	return v.Program
}

// ownVersion returns the version of this module in the test binary.
func ownVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Replace != nil {
				continue
			}
			if m.Path == ownModule && released.MatchString(m.Version) && !strings.HasPrefix(m.Version, "v0.0.0-") {
				return m.Version
			}
		}
	}
	return "latest"
}

// checkout returns the folder of the source of keelson that this file is in, "" if it is elsewhere,
// such as in the module cache.
func checkout() string {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		return ""
	}
	dir := filepath.Dir(filepath.Dir(file))
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil || !strings.HasPrefix(string(text), "module "+binaryModule+"\n") {
		return ""
	}
	return dir
}

// shortHash returns a name for a folder.
func shortHash(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return fmt.Sprintf("%x", sum[:6])
}

// latest returns the newest released version.
func latest(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", binaryModule+"@latest")
	cmd.Dir, cmd.Env = os.TempDir(), buildEnv("")
	out, err := output(cmd)
	if err != nil {
		return "", fmt.Errorf("asking for the newest version: %w\nor %s", err, advice)
	}
	return strings.TrimSpace(string(out)), nil
}

// buildEnv returns the environment of the go command. The flags and the workspace of the tests are not
// those of the build. bin is where go install puts the binary.
func buildEnv(bin string) []string {
	env := append(os.Environ(), "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0", "GOOS=", "GOARCH=", "GO111MODULE=on")
	if os.Getenv("GOTOOLCHAIN") == "" {
		env = append(env, "GOTOOLCHAIN=auto")
	}
	if bin != "" {
		env = append(env, "GOBIN="+bin)
	}
	return env
}

// build returns the path of a binary in the cache. If it is missing, or has no version, command builds
// it; one process does so at a time.
func build(ctx context.Context, name string, command func(to string) *exec.Cmd) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("a place for the built keelson: %w; or %s", err, advice)
	}
	dir := filepath.Join(cache, "keelsontest", name)
	path := filepath.Join(dir, "keelson"+suffix())
	isReleased := released.MatchString(name)
	if isReleased && isFile(path) {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	unlock, err := lockFile(filepath.Join(dir, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if isReleased && isFile(path) {
		return path, nil
	}
	if !isReleased {
		// go build does nothing if the file is what it would write.
		if _, err := output(command(path)); err != nil {
			return "", explain(ctx, err)
		}
		return path, nil
	}
	part, err := os.MkdirTemp(dir, "build-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(part)
	fmt.Fprintf(os.Stderr, "keelsontest: building keelson %s, once for all tests; this takes a minute or two\n", name)
	made := filepath.Join(part, "keelson"+suffix())
	if _, err := output(command(made)); err != nil {
		return "", explain(ctx, err)
	}
	if err := os.Rename(made, path); err != nil {
		return "", err
	}
	return path, nil
}

// explain adds advice to the error of a build.
func explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("building keelson: %w", ctx.Err())
	}
	return fmt.Errorf("building keelson: %w\nor %s", err, advice)
}

// suffix returns the suffix of binaries.
func suffix() string {
	if runtime.GOOS == "windows" {
		return ".exe"
	}
	return ""
}

// isFile reports whether there is a file.
func isFile(path string) bool {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	return err == nil && info.Mode().IsRegular()
}
