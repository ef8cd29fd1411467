// Package controllerruntime runs controller-runtime's own tests, unchanged, on the keelson binary.
//
// They are those of every package of the module sigs.k8s.io/controller-runtime, in the version that this module requires, whose tests
// start a control plane: they start the folder of `keelson envtest-assets`. Most are specs of Ginkgo suites, which report what came
// of each; a package without such counts its Go tests. Specs without a body ("pending") do not count.
//
// What cannot pass stands in [elsewhere] with its reason, and is run all the same: what begins to pass is to be taken off the list.
package controllerruntime

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/conformance/internal/module"
)

const name = "sigs.k8s.io/controller-runtime"

const docsFile = "../../docs/conformance.md"

// elsewhere are the tests that do not pass, by their package and name, and why.
var elsewhere = map[string]string{
	"pkg/client/apiutil TestApiMachinery/aggregatedDiscovery=false":           older,
	"pkg/client/apiutil TestLazyRestMapperProvider/aggregatedDiscovery=false": older,
}

const older = "downloads the binaries of Kubernetes 1.28, to have a server without aggregated discovery"

func TestSuites(t *testing.T) {
	if testing.Short() {
		t.Skip("make conformance-controller-runtime runs these")
	}
	dir := t.TempDir()
	keelson, err := module.Keelson(dir)
	if err != nil {
		t.Fatal(err)
	}
	assets, tmp := filepath.Join(dir, "assets"), filepath.Join(dir, "tmp")
	if err := os.Mkdir(tmp, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(keelson, "envtest-assets", assets).CombinedOutput(); err != nil {
		t.Fatalf("envtest-assets: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		if err := module.EndAll(assets); err != nil {
			t.Error(err)
		}
	})
	src, err := module.Copy(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	modfile, err := module.File(dir, name, src)
	if err != nil {
		t.Fatal(err)
	}
	packages, err := withControlPlane(src)
	if err != nil {
		t.Fatal(err)
	}
	passed, failed := 0, map[string]string{}
	for i, p := range packages {
		t.Run(p, func(t *testing.T) {
			report := filepath.Join(dir, fmt.Sprintf("report-%d.json", i))
			cmd := exec.Command("go", "test", "-count=1", "-v", "-vet=off", "-timeout=15m", "-modfile="+modfile, "-mod=mod", name+"/"+p,
				"-ginkgo.json-report="+report)
			cmd.Env = append(os.Environ(), "KUBEBUILDER_ASSETS="+assets, "TMPDIR="+tmp)
			out, ended := cmd.CombinedOutput()
			results, err := read(report, string(out))
			if err != nil {
				t.Fatalf("%v (%v)\n%s", err, ended, out)
			}
			known := 0
			for test, why := range results {
				id := p + " " + test
				reason, listed := elsewhere[id]
				switch {
				case why == "" && listed:
					t.Errorf("passes, and is listed as one that cannot: %s", test)
				case why == "":
					passed++
				case listed:
					failed[id] = reason
					known++
				default:
					failed[id] = "FAILED"
					t.Errorf("%s:\n%s", test, why)
				}
			}
			if ended != nil && known == 0 && !t.Failed() {
				t.Errorf("%v, and no test failed:\n%s", ended, out)
			}
		})
	}
	total := fmt.Sprintf("controller-runtime: %d of %d", passed, passed+len(failed))
	fmt.Println(total)
	for _, id := range slices.Sorted(maps.Keys(failed)) {
		fmt.Printf("  not %s: %s\n", id, failed[id])
	}
	if docs, err := os.ReadFile(docsFile); err != nil || !strings.Contains(string(docs), total) {
		t.Errorf("%s does not say %q (%v)", docsFile, total, err)
	}
}

// TestDocumented holds that the page about it names every test that cannot pass, with the reason.
func TestDocumented(t *testing.T) {
	docs, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	for id, reason := range elsewhere {
		if line := fmt.Sprintf("- `%s`: %s\n", id, reason); !strings.Contains(string(docs), line) {
			t.Errorf("%s lacks the line %q", docsFile, line)
		}
	}
}

// starts is what tests write that start a control plane.
var starts = regexp.MustCompile(`\b(Environment|ControlPlane|APIServer|Etcd)\{`)

// withControlPlane lists the packages whose tests start a control plane.
func withControlPlane(src string) ([]string, error) {
	found := map[string]bool{}
	err := filepath.WalkDir(filepath.Join(src, "pkg"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(src, filepath.Dir(path))
		if starts.Match(text) {
			found[filepath.ToSlash(rel)] = true
		}
		return err
	})
	if len(found) == 0 && err == nil {
		err = errors.New("no tests found")
	}
	return slices.Sorted(maps.Keys(found)), err
}

// suite is what Ginkgo reports of a suite.
type suite struct {
	SpecReports []struct {
		ContainerHierarchyTexts []string
		LeafNodeType            string
		LeafNodeText            string
		State                   string
		Failure                 struct{ Message string }
	}
}

// goTest is a line of a Go test's result.
var goTest = regexp.MustCompile(`(?m)^ *--- (PASS|FAIL): (\S+)`)

// read reads the results of a package: why each test failed, "" if it did not.
func read(report, out string) (map[string]string, error) {
	text, err := os.ReadFile(report)
	if err != nil {
		return nil, err
	}
	var suites []suite
	if err := json.Unmarshal(text, &suites); err != nil {
		return nil, err
	}
	results := map[string]string{}
	for _, s := range suites {
		for _, r := range s.SpecReports {
			id := strings.Join(append(r.ContainerHierarchyTexts, r.LeafNodeText), " ")
			switch {
			case r.State == "pending" || r.LeafNodeType != "It" && r.State == "passed":
				continue
			case r.LeafNodeType != "It": // what goes before or after all of them
				id = strings.TrimSpace(r.LeafNodeType + " " + id)
			}
			for base, n := id, 2; ; n++ {
				if _, twice := results[id]; !twice {
					break
				}
				id = fmt.Sprintf("%s (%d)", base, n)
			}
			results[id] = ""
			if r.State != "passed" {
				results[id] = r.State + ": " + r.Failure.Message
			}
		}
	}
	if len(results) > 0 {
		return results, nil
	}
	for _, m := range goTest.FindAllStringSubmatch(out, -1) {
		if results[m[2]] = ""; m[1] == "FAIL" {
			results[m[2]] = "failed"
		}
	}
	for id := range results { // those with tests of their own are no more than these
		for parent := id; strings.Contains(parent, "/"); {
			parent = parent[:strings.LastIndex(parent, "/")]
			delete(results, parent)
		}
	}
	return results, nil
}

// TestRead holds that nothing that failed is lost, and that what is not written yet does not count.
func TestRead(t *testing.T) {
	report := filepath.Join(t.TempDir(), "report.json")
	write := func(text string) {
		if err := os.WriteFile(report, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`[{"SpecReports":[{"LeafNodeType":"BeforeSuite","State":"passed"},
		{"ContainerHierarchyTexts":["a"],"LeafNodeType":"It","LeafNodeText":"b","State":"passed"},
		{"ContainerHierarchyTexts":["a"],"LeafNodeType":"It","LeafNodeText":"b","State":"failed","Failure":{"Message":"no"}},
		{"LeafNodeType":"It","LeafNodeText":"c","State":"pending"},
		{"LeafNodeType":"It","LeafNodeText":"d","State":"skipped"},
		{"LeafNodeType":"AfterSuite","State":"timedout"}]}]`)
	got, err := read(report, "--- PASS: TestSuite (1s)\n")
	if want := map[string]string{"a b": "", "a b (2)": "failed: no", "d": "skipped: ", "AfterSuite": "timedout: "}; err != nil || !maps.Equal(got, want) {
		t.Errorf("got %q, error %v, want %q", got, err, want)
	}
	write(`[{"SpecReports":null}]`)
	got, err = read(report, "--- FAIL: TestA (1s)\n    --- FAIL: TestA/x (1s)\n        --- FAIL: TestA/x/y (0s)\n    --- PASS: TestA/z (0s)\n--- PASS: TestB (0s)\n")
	if want := map[string]string{"TestA/x/y": "failed", "TestA/z": "", "TestB": ""}; err != nil || !maps.Equal(got, want) {
		t.Errorf("got %q, error %v, want %q", got, err, want)
	}
	if _, err := read(report+".none", ""); err == nil {
		t.Error("no report, and no error")
	}
}
