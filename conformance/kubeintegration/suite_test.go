// Package kubeintegration runs Kubernetes' integration tests (k8s.io/kubernetes/test/integration) against the keelson binary.
//
// The tests are upstream's own, in the version that this module requires. They are copied out of the module cache as they are, save
// for two files, which start the server: testdata/testserver.go and testdata/framework.go take their place. The copy is a module of
// another name, so that only what imports these files is compiled anew: its import paths in the tests change with it. A few tests start
// the server for definitions alone, by upstream's fixture for it, which the file of conformance/integration replaces. Where upstream's run
// kube-apiserver in the process of the test, these run the binary, under the name kube-apiserver and with the same flags. Each test
// runs in a process of its own; all share one etcd, and each server has its own prefix there.
//
// What cannot pass stands in testdata/elsewhere.txt, with what it needs of upstream's process or is a difference that is intended. It
// is run all the same: what begins to pass is to be taken off the list.
//
//	go test -v . -packages='^auth$' -tests=TestNode    # some of them
//	go test -v . -packages='^auth$' -original          # with upstream's own server: does the test pass there?
//	go test -v . -update                               # write the table of docs/conformance.md
package kubeintegration

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keelson-io/keelson/conformance/internal/module"
	"github.com/keelson-io/keelson/internal/testpeers"
	"github.com/keelson-io/keelson/internal/testports"
)

// upstreamModule is whose tests are run, and copyModule is the name of the copy.
const (
	upstreamModule = "k8s.io/kubernetes"
	copyModule     = "copy.keelson.io/kubernetes"
)

// What starts servers in upstream's module, and what takes its place.
var (
	//go:embed testdata/testserver.go
	testServer []byte
	//go:embed testdata/framework.go
	framework []byte

	replaced = map[string][]byte{
		filepath.Join("cmd", "kube-apiserver", "app", "testing", "testserver.go"): testServer,
		filepath.Join("test", "integration", "framework", "test_server.go"):       framework,
	}

	// copied are the folders whose packages are those of the copy. All others are upstream's.
	copied = []string{filepath.Join("cmd", "kube-apiserver", "app", "testing"), filepath.Join("test", "integration")}
)

// packages are the packages of test/integration that are run.
var packages = strings.Fields(`
	apimachinery apiserver apiserver/apply auth controlplane defaulttolerationseconds dryrun events evictions garbagecollector namespace pods
	quota secrets serviceaccount`)

var (
	onlyPackages = flag.String("packages", "", "regular expression of upstream's packages to run; empty for all")
	onlyTests    = flag.String("tests", "", "regular expression of upstream's tests to run; empty for all")
	parallel     = flag.Int("at-once", 2, "how many of upstream's tests run at a time")
	written      = flag.String("logs", "", "directory to write the output of upstream's tests to")
	kept         = flag.String("keep", "", "directory for upstream's compiled tests, some 150 MB each: those that are there are used as they are; empty to compile and remove them")
	original     = flag.Bool("original", false, "run upstream's own server, to see what passes there; nothing is compared")
	update       = flag.Bool("update", false, "write the table of docs/conformance.md")
)

// limit is how long one of upstream's tests may take.
const limit = 6 * time.Minute

func TestKubernetesIntegration(t *testing.T) {
	if testing.Short() && *onlyTests == "" && *onlyPackages == "" {
		t.Skip("make conformance-integration runs these")
	}
	listed, err := readElsewhere()
	if err != nil {
		t.Fatal(err)
	}
	chosen, err := regexp.Compile(*onlyPackages)
	if err != nil {
		t.Fatal(err)
	}
	s := newSuite(t)
	var rows []row
	for _, p := range packages {
		if !chosen.MatchString(p) {
			continue
		}
		t.Run(p, func(t *testing.T) {
			r := row{name: p}
			s.runPackage(t, &r, listed)
			rows = append(rows, r)
			fmt.Println(r)
		})
	}
	if *onlyPackages != "" || *onlyTests != "" || *original {
		return
	}
	checkTable(t, rows)
}

// row is what came of a package.
type row struct {
	name                    string
	passed, failed, skipped []string // names of tests; skipped are those that upstream's test skips itself
}

func (r row) String() string {
	return fmt.Sprintf("kube-integration %s: %d of %d", r.name, len(r.passed), len(r.passed)+len(r.failed))
}

// suite is what all of upstream's tests need.
type suite struct {
	dir     string // for binaries
	src     string // upstream's module, with the files replaced
	modfile string // what builds them
	tests   *regexp.Regexp
	env     []string
}

func newSuite(t *testing.T) *suite {
	t.Helper()
	tests, err := regexp.Compile(*onlyTests)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	keelson, err := module.Keelson(dir)
	if err != nil {
		t.Fatal(err)
	}
	assets := filepath.Join(dir, "assets")
	if out, err := exec.Command(keelson, "envtest-assets", assets).CombinedOutput(); err != nil {
		t.Fatalf("envtest-assets: %v\n%s", err, out)
	}
	put, err := renamed()
	if err != nil {
		t.Fatal(err)
	}
	src, err := module.Copy(upstreamModule, put)
	if err == nil {
		err = copyFixtures(filepath.Join(src, "test", "integration", "fixtures"))
	}
	if err != nil {
		t.Fatal(err)
	}
	modfile, err := module.File(dir, copyModule, src)
	if err != nil {
		t.Fatal(err)
	}
	if *original {
		modfile = "go.mod"
	}
	// Some tests start an etcd of their own, which they find in the PATH.
	programs := filepath.Join(dir, "bin")
	build := exec.Command("go", "build", "-o", filepath.Join(programs, "etcd"), "go.etcd.io/etcd/server/v3")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", build, err, out)
	}
	tmp, err := os.MkdirTemp("", "ki-") // short: paths of sockets are below it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(tmp) })
	return &suite{dir: dir, src: src, modfile: modfile, tests: tests, env: append(os.Environ(),
		"KEELSON_KUBE_APISERVER="+filepath.Join(assets, "kube-apiserver"),
		"KEELSON_TEST_CERTIFICATES="+filepath.Join(src, "cmd", "kube-apiserver", "app", "testing", "testdata"),
		"KEELSON_BIN="+keelson,
		"KUBE_INTEGRATION_ETCD_URL="+startEtcd(t), "TMPDIR="+tmp, "PATH="+programs+string(filepath.ListSeparator)+os.Getenv("PATH"))}
}

// goLine is the line of a go.mod that says which version of the language the module is written in.
var goLine = regexp.MustCompile(`(?m)^go .*$`)

// renamed returns the files that are other ones in the copy: those in replaced, the name of the module, and the Go files below
// copied, which import each other by the new name.
func renamed() (map[string][]byte, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", upstreamModule).Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", upstreamModule, err)
	}
	from := strings.TrimSpace(string(out))
	mod, err := os.ReadFile(filepath.Join(from, "go.mod"))
	if err != nil {
		return nil, err
	}
	put := map[string][]byte{"go.mod": fmt.Appendf(nil, "module %s\n\n%s\n", copyModule, goLine.Find(mod))}
	for _, folder := range copied {
		err := filepath.WalkDir(filepath.Join(from, folder), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || filepath.Ext(path) != ".go" {
				return err
			}
			rel, err := filepath.Rel(from, path)
			if err != nil {
				return err
			}
			text, other := replaced[rel]
			if !other {
				if text, err = os.ReadFile(path); err != nil {
					return err
				}
			}
			for _, to := range copied {
				for _, end := range []string{`"`, `/`} {
					imports := `"` + upstreamModule + "/" + filepath.ToSlash(to) + end
					text = bytes.ReplaceAll(text, []byte(imports), []byte(strings.Replace(imports, upstreamModule, copyModule, 1)))
				}
			}
			put[rel] = bytes.ReplaceAll(text, []byte(`"`+fixtures+`"`), []byte(`"`+copyModule+`/test/integration/fixtures"`))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return put, nil
}

// fixtures is the package that starts upstream's server for definitions alone.
const fixtures = "k8s.io/apiextensions-apiserver/test/integration/fixtures"

// copyFixtures copies that package into a folder, with the file that starts the keelson binary.
func copyFixtures(to string) error {
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}", fixtures).Output()
	if err != nil {
		return fmt.Errorf("%s: %w", fixtures, err)
	}
	from := strings.TrimSpace(string(out))
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, path := range []string{filepath.Join(from, "etcd.go"), filepath.Join(from, "resources.go"), filepath.Join("..", "integration", "testdata", "server.go")} {
		text, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(filepath.Join(to, filepath.Base(path)), text, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// runPackage builds the tests of a package and runs them.
func (s *suite) runPackage(t *testing.T, r *row, listed map[string]string) {
	t.Helper()
	bin := filepath.Join(s.dir, filepath.Base(r.name)+".test") // clients are called as the program is
	if *kept == "" {
		defer os.Remove(bin)
	} else if bin = filepath.Join(*kept, strings.ReplaceAll(r.name, "/", "-"), filepath.Base(bin)); *original {
		bin = filepath.Join(filepath.Dir(bin), "original", filepath.Base(bin))
	}
	if _, err := os.Stat(bin); err != nil {
		from := copyModule
		if *original {
			from = upstreamModule
		}
		cmd := exec.Command("go", "test", "-c", "-ldflags=-s -w", "-modfile="+s.modfile, "-mod=mod", "-vet=off", "-o", bin, from+"/test/integration/"+r.name)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
	}
	names, err := s.list(bin)
	if err != nil {
		t.Fatal(err)
	}
	places := make(chan struct{}, *parallel)
	var mu sync.Mutex
	t.Run("tests", func(t *testing.T) {
		for _, name := range names {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				places <- struct{}{}
				defer func() { <-places }()
				out, err := s.run(bin, r.name, name)
				mu.Lock()
				defer mu.Unlock()
				reason, known := listed[r.name+" "+name]
				switch {
				case err == nil && strings.Contains(string(out), "--- SKIP: "+name+" "):
					r.skipped = append(r.skipped, name)
					t.Skip("upstream's test skips itself")
				case err == nil:
					r.passed = append(r.passed, name)
					if known && !*original {
						t.Errorf("passes, and is listed as one that cannot: %s", reason)
					}
				case known && !*original:
					r.failed = append(r.failed, name)
					t.Skip(reason)
				default:
					r.failed = append(r.failed, name)
					t.Errorf("%v\n%s", err, digest(out))
				}
			})
		}
	})
}

// list returns the tests of a binary.
func (s *suite) list(bin string) ([]string, error) {
	cmd := exec.Command(bin, "-test.list", "^Test")
	cmd.Env = s.env
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", bin, err)
	}
	var names []string
	for name := range strings.Lines(string(out)) {
		if name = strings.TrimSpace(name); strings.HasPrefix(name, "Test") && s.tests.MatchString(name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 && *onlyTests == "" {
		return nil, errors.New("no tests found")
	}
	return names, nil
}

// run runs one test.
func (s *suite) run(bin, pkg, name string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, "-test.run", "^"+name+"$", "-test.v", "-test.timeout", (limit - 10*time.Second).String())
	cmd.Dir = filepath.Join(s.src, "test", "integration", filepath.FromSlash(pkg))
	cmd.Env = s.env
	out, err := cmd.CombinedOutput()
	if *written != "" {
		err = errors.Join(err, os.WriteFile(filepath.Join(*written, strings.ReplaceAll(pkg, "/", "-")+"."+name+".log"), out, 0o644))
	}
	return out, err
}

// noise are lines of a test's output that say nothing about its failure.
var noise = regexp.MustCompile(`^ *(=== |--- PASS|[IW]\d{4} )`)

// digest is what of a test's output says why it failed.
func digest(out []byte) string {
	var kept []string
	for line := range strings.Lines(string(out)) {
		if noise.MatchString(line) {
			continue
		}
		if len(line) > 1000 {
			line = line[:1000] + "…\n"
		}
		kept = append(kept, line)
	}
	if len(kept) > 60 {
		kept = slices.Concat(kept[:40], []string{"…\n"}, kept[len(kept)-20:])
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
