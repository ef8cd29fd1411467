// Package integration runs the integration tests of Kubernetes' API server for custom resources against the keelson binary.
//
// The tests are upstream's own, of the module k8s.io/apiextensions-apiserver in the version that this module requires. They are
// copied out of the module cache as they are, save for one file, fixtures/server.go, which starts the server: testdata/server.go
// takes its place. Each test runs in a process of its own, several at a time, all with one etcd and each server with its own
// prefix there.
//
// Some tests change switches inside of upstream's process and cannot be meant for another one. They stand in [elsewhere] with
// their reason, and are run all the same: one that begins to pass is to be taken off the list.
package integration

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keelson-io/keelson/conformance/internal/module"
	"github.com/keelson-io/keelson/internal/testpeers"
	"github.com/keelson-io/keelson/internal/testports"
)

// upstreamModule is whose tests are run.
const upstreamModule = "k8s.io/apiextensions-apiserver"

//go:embed testdata/server.go
var fixture []byte

// elsewhere are the tests that only upstream's own process can pass, and why.
var elsewhere = map[string]string{
	"TestCBORStorageEnablement":    "switches a feature of upstream's process on (CBORServingAndStorage, off by default)",
	"TestCBORServingEnablement":    "switches a feature of upstream's process on (CBORServingAndStorage, off by default); the part without it passes",
	"TestFieldSelectorDropFields":  "asks for the server to be an older one, without a feature (--emulated-version=1.31 --feature-gates=CustomResourceFieldSelectors=false)",
	"TestFieldSelectorDisablement": "asks for the server to be an older one, and switches a feature of upstream's process off in the middle",
	"TestRatchetingDropFields":     "switches a feature of upstream's process off (CRDValidationRatcheting)",
}

var (
	only     = flag.String("tests", "", "regular expression of upstream's tests to run; empty for all")
	parallel = flag.Int("at-once", 0, "how many of upstream's tests run at a time; 0 for twice the processors")
	written  = flag.String("logs", "", "directory to write the output of upstream's tests to")
)

// limit is how long one of upstream's tests may take.
const limit = 5 * time.Minute

func TestUpstreamIntegration(t *testing.T) {
	if testing.Short() && *only == "" {
		t.Skip("make conformance-upstream runs these")
	}
	s := newSuite(t)
	var tests []test
	for _, bin := range s.binaries {
		tests = append(tests, s.list(t, bin)...)
	}
	if len(tests) == 0 {
		t.Fatal("no tests found")
	}
	n := *parallel
	if n == 0 {
		n = 2 * runtime.NumCPU()
	}
	places := make(chan struct{}, n)
	var mu sync.Mutex
	var failed []string
	t.Run("tests", func(t *testing.T) {
		for _, one := range tests {
			t.Run(one.name, func(t *testing.T) {
				t.Parallel()
				places <- struct{}{}
				defer func() { <-places }()
				out, err := s.run(one)
				reason := elsewhere[one.name]
				switch {
				case err != nil && reason == "":
					mu.Lock()
					failed = append(failed, one.name)
					mu.Unlock()
					t.Errorf("%v\n%s", err, digest(out))
				case err != nil:
					mu.Lock()
					failed = append(failed, one.name)
					mu.Unlock()
					t.Skip(reason)
				case reason != "":
					t.Errorf("passes, and is listed as one that cannot: %s", reason)
				}
			})
		}
	})
	total := fmt.Sprintf("upstream-integration: %d of %d", len(tests)-len(failed), len(tests))
	fmt.Println(total)
	if docs, err := os.ReadFile(docsFile); *only == "" && (err != nil || !strings.Contains(string(docs), total)) {
		t.Errorf("%s does not say %q", docsFile, total)
	}
	slices.Sort(failed)
	for _, name := range failed {
		if reason := elsewhere[name]; reason != "" {
			fmt.Printf("  not %s: %s\n", name, reason)
		} else {
			fmt.Printf("  FAILED: %s\n", name)
		}
	}
}

const docsFile = "../../docs/conformance.md"

// TestDocumented holds that the page about it names every test that cannot pass, with the reason.
func TestDocumented(t *testing.T) {
	docs, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	for name, reason := range elsewhere {
		if line := fmt.Sprintf("- `%s`: %s\n", name, reason); !strings.Contains(string(docs), line) {
			t.Errorf("%s lacks the line %q", docsFile, line)
		}
	}
}

// suite is upstream's tests, built, and what they need.
type suite struct {
	keelson  string
	etcd     string
	tmp      string // for temporary files of the tests
	binaries []binary
}

type binary struct{ path, dir string }

type test struct {
	name string
	binary
}

func newSuite(t *testing.T) *suite {
	t.Helper()
	dir := t.TempDir()
	keelson, err := module.Keelson(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := &suite{keelson: keelson, etcd: startEtcd(t), tmp: t.TempDir()}
	src, err := module.Copy(upstreamModule, map[string][]byte{filepath.Join("test", "integration", "fixtures", "server.go"): fixture})
	if err != nil {
		t.Fatal(err)
	}
	mod, err := module.File(dir, upstreamModule, src)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"test/integration", "test/integration/conversion"} {
		// The tests compare the name of the client, which is that of the program.
		b := binary{filepath.Join(dir, filepath.Base(p)+".test"), filepath.Join(src, p)}
		cmd := exec.Command("go", "test", "-c", "-modfile="+mod, "-mod=mod", "-vet=off", "-o", b.path, upstreamModule+"/"+p)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
		s.binaries = append(s.binaries, b)
	}
	return s
}

// list finds the tests of a binary.
func (s *suite) list(t *testing.T, b binary) []test {
	t.Helper()
	out, err := exec.Command(b.path, "-test.list", "^Test").Output()
	if err != nil {
		t.Fatalf("%s: %v", b.path, err)
	}
	wanted, err := regexp.Compile(*only)
	if err != nil {
		t.Fatal(err)
	}
	var tests []test
	for name := range strings.Lines(string(out)) {
		if name = strings.TrimSpace(name); strings.HasPrefix(name, "Test") && wanted.MatchString(name) {
			tests = append(tests, test{name, b})
		}
	}
	return tests
}

// run runs one test.
func (s *suite) run(one test) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, one.path, "-test.run", "^"+one.name+"$", "-test.v", "-test.timeout", (limit - 10*time.Second).String())
	cmd.Dir = one.dir
	cmd.Env = append(os.Environ(), "KEELSON_BIN="+s.keelson, "KUBE_INTEGRATION_ETCD_URL="+s.etcd, "TMPDIR="+s.tmp)
	out, err := cmd.CombinedOutput()
	if *written != "" {
		err = errors.Join(err, os.WriteFile(filepath.Join(*written, one.name+".log"), out, 0o644))
	}
	return out, err
}

// digest is what of a test's output says why it failed.
func digest(out []byte) string {
	var kept []string
	for line := range strings.Lines(string(out)) {
		t := strings.TrimSpace(line)
		if strings.HasPrefix(t, "=== ") || strings.HasPrefix(t, "--- PASS") {
			continue
		}
		if len(line) > 1000 {
			line = line[:1000] + "…\n"
		}
		kept = append(kept, line)
	}
	if len(kept) > 60 {
		kept = append(append(kept[:40:40], "…\n"), kept[len(kept)-20:]...)
	}
	return strings.Join(kept, "")
}

// startEtcd starts an etcd for all servers.
func startEtcd(t *testing.T) string {
	t.Helper()
	ports, err := testports.Free(2)
	if err != nil {
		t.Fatal(err)
	}
	e, err := testpeers.StartEtcd(t.TempDir(), ports[0], ports[1], testpeers.NoSync)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	client := testpeers.EtcdURL(ports[0])
	return client.String()
}
