package operators

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/conformance/internal/module"
)

// This file runs suites whose start-up lines were changed from envtest to keelsontest, by the patches in testdata. docs/gotests.md
// shows one of them.

// changed are the projects with a patch, and the packages that run.
var changed = []struct {
	project *project
	suites  []string
	specs   int    // that pass with envtest on kube-apiserver
	neither string // the end of the name of a spec that passes on neither server
}{
	{&lws, lws.suites, 134, ""},
	// It expects the refusal of a webhook that its suite does not install.
	{&jobset, jobset.suites, 99, "Elastic scaling behavior is blocked rejects updates to parallelism and completions"},
	{&karpenter, []string{"./pkg/controllers/state", "./pkg/controllers/node/termination", "./pkg/controllers/nodepool/validation"}, 140, ""},
}

// maxPatch is the number of lines that a patch may add or remove.
const maxPatch = 20

func TestKeelsontest(t *testing.T) {
	if testing.Short() {
		t.Skip("make conformance-keelsontest runs these")
	}
	w := newWorkspace(t)
	keelson, err := module.Keelson(w.dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("KEELSON_BINARY", keelson)
	for _, c := range changed {
		if *only != "" && !strings.Contains(","+*only+",", ","+c.project.name+",") {
			continue
		}
		t.Run(c.project.name, func(t *testing.T) {
			s, err := w.copyOf(c.project)
			if err != nil {
				t.Fatal(err)
			}
			defer s.remove()
			if err := s.change(); err != nil {
				t.Fatal(err)
			}
			packages, err := s.packages(c.suites)
			if err != nil {
				t.Fatal(err)
			}
			passed := 0
			for _, pkg := range packages {
				passed += runChanged(t, s, pkg, c.neither)
			}
			fmt.Printf("%s with keelsontest: %d specs passed\n", c.project.module, passed)
			if passed < c.specs {
				t.Errorf("got %d specs that passed, want %d", passed, c.specs)
			}
		})
	}
}

// change applies the project's patch to the copy, and adds module keelsontest.
func (s *source) change() error {
	patch, err := filepath.Abs(filepath.Join("testdata", s.name+".patch"))
	if err != nil {
		return err
	}
	text, err := os.ReadFile(patch)
	if err != nil {
		return err
	}
	lines := 0
	for line := range strings.Lines(string(text)) {
		if (line[0] == '+' || line[0] == '-') && !strings.HasPrefix(line, "+++ ") && !strings.HasPrefix(line, "--- ") {
			lines++
		}
	}
	if lines > maxPatch {
		return fmt.Errorf("%s: got %d changed lines, want at most %d", patch, lines, maxPatch)
	}
	if _, err := run(s.dir, environment("GIT_CEILING_DIRECTORIES="+filepath.Dir(s.dir)), "git", "apply", "-C1", patch); err != nil {
		return err
	}
	ours, err := filepath.Abs("../../keelsontest")
	if err != nil {
		return err
	}
	const path = "github.com/keelson-io/keelson/keelsontest"
	_, err = s.goRun("mod", "edit", "-require="+path+"@v0.0.0", "-replace="+path+"="+ours)
	return err
}

// runChanged runs the specs of a package and returns how many passed. Specs that fail run again, without the others, as in
// TestOperators: some do not wait for what they expect.
func runChanged(t *testing.T, s *source, pkg, neither string) (passed int) {
	b, err := s.build(pkg)
	if err != nil {
		t.Error(err)
		return 0
	}
	on := server{"keelsontest", s.tmp}
	r, err := b.run(on, "")
	for n := 2; err == nil && n <= attempts && len(retries(r, r)) > 0; n++ {
		var more *report
		if more, err = b.start(on, focusOn([2]*report{r, r}, retries(r, r), b.ginkgo)); err == nil {
			for _, name := range r.improve(more) {
				t.Logf("%s: passes at attempt %d", name, n)
			}
		}
	}
	if err != nil {
		t.Errorf("%s: %v", pkg, err)
		return 0
	}
	for _, name := range r.names() {
		switch o := r.specs[name]; {
		case o.failed() && neither != "" && strings.HasSuffix(name, neither):
			t.Logf("%s: %s: %s", pkg, name, o.why)
		case o.failed():
			t.Errorf("%s: %s: %s", pkg, name, o.why)
		case o.passed() && o.text != "":
			passed++
		}
	}
	return passed
}
