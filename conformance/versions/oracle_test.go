// Package versions compares what Keelson says of older releases of Kubernetes with upstream's own
// libraries of these releases, each in a process of its own.
package versions

import (
	"bufio"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/keelson-io/keelson/kubernetes"
)

// This file builds the programs that answer for a release, and talks to them.

// modules has the patch release of k8s.io/apiextensions-apiserver that stands for each release: the
// newest one that the module proxy lists.
var modules = map[string]string{
	"1.29": "v0.29.6", "1.30": "v0.30.14", "1.31": "v0.31.14", "1.32": "v0.32.13", "1.33": "v0.33.13", "1.34": "v0.34.13",
	"1.35": "v0.35.10", "1.36": "v0.36.6", "1.37": "v0.37.2",
}

var (
	asked = flag.String("kubernetes", "all", "releases to compare, such as 1.29,1.31")
	built = flag.Bool("built", false, "compare only the releases whose oracle was built before")
)

//go:embed testdata/oracle/main.go
var program []byte

// oracle is a running program with the libraries of one release. It answers one question at a time.
type oracle struct {
	release kubernetes.Release
	mu      sync.Mutex
	write   *json.Encoder
	read    *json.Decoder
}

// answer is what the program says; see testdata/oracle/main.go.
type answer struct {
	Errors, Unknown, Dropped []string
	Cost                     uint64
	Compatible               string
	Functions                map[string][]string
	Macros                   []string
	Gates                    map[string]string
}

// refuses reports whether a server of the release refuses a definition, or drops a part of it.
func (a *answer) refuses() bool { return len(a.Errors)+len(a.Unknown)+len(a.Dropped) > 0 }

// ask sends a question, which is the value of one field of the program's type.
func (o *oracle) ask(t *testing.T, field string, value any) *answer {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.write.Encode(map[string]any{field: value}); err != nil {
		t.Fatalf("%s: %v", o.release, err)
	}
	a := new(answer)
	if err := o.read.Decode(a); err != nil {
		t.Fatalf("%s: %v", o.release, err)
	}
	return a
}

// start starts the program of a release, which is built if it was not.
func start(t *testing.T, r kubernetes.Release) *oracle {
	bin, err := build(t, r)
	if err != nil {
		t.Fatalf("%s: %v", r, err)
	}
	if bin == "" {
		return nil
	}
	cmd := exec.Command(bin)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		io.Copy(io.Discard, out)
		cmd.Wait()
	})
	return &oracle{release: r, write: json.NewEncoder(in), read: json.NewDecoder(bufio.NewReaderSize(out, 1<<20))}
}

// oracles starts the programs of the releases that -kubernetes names, the oldest first.
func oracles(t *testing.T) []*oracle {
	if testing.Short() {
		t.Skip("building the oracles takes minutes: make conformance-versions")
	}
	releases, err := kubernetes.ParseReleases(*asked)
	if err != nil {
		t.Fatal(err)
	}
	var out []*oracle
	for _, r := range releases {
		if o := start(t, r); o != nil {
			out = append(out, o)
		} else {
			t.Logf("%s: the oracle is not built", r)
		}
	}
	if len(out) == 0 {
		t.Skip("no oracle is built: run make conformance-versions")
	}
	return out
}

// build returns the path of the program for a release, in a folder of the user's cache. The module
// is made there for the time of the build. The path is "" if only built programs are wanted.
func build(t *testing.T, r kubernetes.Release) (string, error) {
	version := modules[r.String()]
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(program)
	dir := filepath.Join(cache, "keelson-conformance", "versions")
	name := fmt.Sprintf("%s-%x", version, sum[:6])
	bin := filepath.Join(dir, name)
	if _, err := os.Stat(bin); err == nil || *built {
		if err != nil {
			bin = ""
		}
		return bin, nil
	}
	t.Logf("building the oracle of %s, which takes minutes", r)
	older, err := filepath.Glob(filepath.Join(dir, version+"-*"))
	if err != nil {
		return "", err
	}
	for _, path := range older {
		os.Remove(path)
	}
	work := filepath.Join(dir, version+".build")
	defer os.RemoveAll(work)
	if err := os.MkdirAll(work, 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(work, "main.go"), program, 0o644); err != nil {
		return "", err
	}
	for _, args := range [][]string{
		{"mod", "init", "oracle"},
		{"get", "k8s.io/apiextensions-apiserver@" + version},
		{"build", "-mod=mod", "-ldflags=-s -w", "-o", bin, "."},
	} {
		if _, err := os.Stat(filepath.Join(work, "go.mod")); err == nil && args[1] == "init" {
			continue
		}
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Env = work, append(os.Environ(), "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w\n%s", cmd, err, tail(string(out)))
		}
	}
	return bin, nil
}

// tail returns the last lines of a text.
func tail(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// TestCompatible holds the rule by which a release selects the language for new expressions.
func TestCompatible(t *testing.T) {
	for _, o := range oracles(t) {
		if got := o.ask(t, "Functions", true).Compatible; got != o.release.Compatible() {
			t.Errorf("%s: upstream compiles new expressions in the language of %s, we in that of %s", o.release, got, o.release.Compatible())
		}
	}
}

// TestGates holds the feature gates whose defaults package crd knows.
func TestGates(t *testing.T) {
	for _, o := range oracles(t) {
		gates := o.ask(t, "Gates", true).Gates
		for gate, on := range map[string]int{"CRDValidationRatcheting": 30, "CustomResourceFieldSelectors": 31} {
			state, known := gates[gate]
			want := "false A"
			if o.release.Minor() >= on {
				want = "true"
			}
			if known && !strings.HasPrefix(state, want) {
				t.Errorf("%s: %s is %s, want %s", o.release, gate, state, want)
			}
			if !known && o.release.Minor() < on && !slices.Contains([]int{29}, o.release.Minor()) {
				t.Errorf("%s: %s does not exist", o.release, gate)
			}
		}
	}
}
