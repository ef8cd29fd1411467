// Package operators runs the envtest suites of published operators, unchanged, on the keelson binary and on kube-apiserver,
// and compares the outcome of every spec.
//
// A project is a row of [projects]: a Go module in a pinned version, and the packages of its tests that start a control plane.
// Its module is copied out of the module cache. Each package is compiled once, with the versions of the libraries that the
// project chose, and the same test binary runs twice: with the folder of `keelson envtest-assets`, and with a folder of
// kube-apiserver, etcd and kubectl, built from their modules. Only one suite runs at a time.
//
// The reference decides: a spec that passes on kube-apiserver and not here is a failure. Specs that fail on either side run
// again on both before that is judged ([attempts]). What cannot pass here stands in project.elsewhere, with the reason.
//
// To add a project, write a file like lws_test.go and name its variable in [projects].
package operators

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// projects are the operators whose suites run.
var projects = []*project{&lws, &jobset, &kro, &karpenter, &clusterAPI, &kueue, &trainer}

var (
	only   = flag.String("projects", "", "names of the projects to run, with commas between; empty for all")
	suites = flag.String("suites", "", "regular expression of the packages to run; empty for all")
	focus  = flag.String("focus", "", "regular expression of the specs to run; empty for all")
	update = flag.Bool("update", false, "write the rows of the projects that ran into docs/conformance.md")
	keep   = flag.String("keep", "", "folder that keeps programs, copies and the build cache for the next run; empty for a temporary one")
	logs   = flag.String("logs", "", "folder to write the output of each suite to")
)

// attempts is how often a spec that fails runs: once with its suite, then alone.
const attempts = 3

const docsFile = "../../docs/conformance.md"

func TestOperators(t *testing.T) {
	if testing.Short() {
		t.Skip("make conformance-operators runs these")
	}
	wantedSuites, err := regexp.Compile(*suites)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorkspace(t)
	servers := w.servers(t)
	var rows []row
	for _, p := range chosen(t) {
		t.Run(p.name, func(t *testing.T) {
			rows = append(rows, w.runProject(t, p, servers, wantedSuites))
		})
	}
	fmt.Print(table(rows))
	if *suites != "" || *focus != "" {
		return // parts of rows
	}
	docs, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		text, err := replaceRows(string(docs), rows)
		if err == nil {
			err = os.WriteFile(docsFile, []byte(text), 0o644)
		}
		if err != nil {
			t.Error(err)
		}
		return
	}
	for _, r := range rows {
		if !strings.Contains(string(docs), r.counts()) {
			t.Errorf("%s does not say %q: run with UPDATE=1", docsFile, r.counts())
		}
	}
}

// chosen returns the projects that the flag names.
func chosen(t *testing.T) []*project {
	t.Helper()
	if *only == "" {
		return projects
	}
	var some []*project
	for name := range strings.SplitSeq(*only, ",") {
		i := slices.IndexFunc(projects, func(p *project) bool { return p.name == name })
		if i < 0 {
			t.Fatalf("project %q: not in the table", name)
		}
		some = append(some, projects[i])
	}
	return some
}

// runProject runs the suites of a project on both servers and returns its row of the table.
func (w *workspace) runProject(t *testing.T, p *project, servers [2]server, wanted *regexp.Regexp) row {
	t.Helper()
	r := row{project: p}
	c, err := w.copyOf(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.remove)
	packages, err := c.packages(p.suites)
	if err != nil {
		t.Fatal(err)
	}
	unused := map[string]bool{}
	for id := range p.elsewhere {
		unused[id] = true
	}
	for _, pkg := range packages {
		if !wanted.MatchString(pkg) {
			continue
		}
		t.Run(pkg, func(t *testing.T) {
			s, err := c.build(pkg)
			if err != nil {
				t.Fatal(err)
			}
			defer os.Remove(s.binary)
			var got [2]*report
			for i, server := range servers {
				if got[i], err = s.run(server, *focus); err != nil {
					t.Errorf("on %s: %v", server.name, err)
					return
				}
			}
			s.repeat(t, servers, got)
			r.add(got)
			for _, v := range judge(pkg, p.elsewhere, got[0], got[1]) {
				delete(unused, v.id)
				switch v.verdict {
				case worse:
					t.Errorf("%s: passes on kube-apiserver, not here: %s", v.id, v.why)
				case needless:
					t.Errorf("%s: passes, and is listed as one that cannot", v.id)
				case both:
					t.Logf("%s: passes on neither server: %s", v.id, v.why)
				}
			}
		})
	}
	if *suites == "" && *focus == "" {
		for id := range unused {
			t.Errorf("%s: listed as one that cannot pass, and there is no such spec", id)
		}
	}
	return r
}

// repeat runs what did not pass on both servers again, on both, and keeps the better outcomes.
func (s *suite) repeat(t *testing.T, servers [2]server, got [2]*report) {
	t.Helper()
	for n := 2; n <= attempts; n++ {
		again := retries(got[0], got[1])
		if again == nil {
			return
		}
		args := focusOn(got, again, s.ginkgo)
		for i, server := range servers {
			more, err := s.start(server, args)
			if err != nil {
				t.Logf("attempt %d on %s: %v", n, server.name, err)
				continue
			}
			for _, id := range got[i].improve(more) {
				t.Logf("%s: passes on %s at attempt %d", id, server.name, n)
			}
		}
	}
}

// verdict is what becomes of a spec.
type verdict int

const (
	worse    verdict = iota // passes there, not here
	known                   // the same, and the project's row says why
	needless                // the row says that it cannot pass, and it does
	both                    // passes on neither
)

// judged is a spec about which there is something to say.
type judged struct {
	id      string // package and spec
	verdict verdict
	why     string
}

// judge compares the outcomes here and there. A spec that was skipped on both servers is not mentioned.
func judge(pkg string, elsewhere map[string]string, here, there *report) []judged {
	var all []judged
	for _, name := range there.names(here) {
		id, h, th := pkg+" "+name, here.specs[name], there.specs[name]
		_, listed := elsewhere[id]
		switch {
		case h.passed() && listed:
			all = append(all, judged{id, needless, ""})
		case h.passed() || !h.failed() && !th.passed():
		case listed:
			all = append(all, judged{id, known, h.why})
		case th.passed():
			all = append(all, judged{id, worse, h.state + ": " + h.why})
		default:
			all = append(all, judged{id, both, h.why})
		}
	}
	return all
}

// server is one of the two control planes.
type server struct {
	name   string
	assets string // folder for KUBEBUILDER_ASSETS
}

// TestProjects holds that the rows are complete, and that the page about them names what cannot pass.
func TestProjects(t *testing.T) {
	docs, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, p := range projects {
		if path, version, _ := strings.Cut(p.module, "@"); path == "" || version == "" || len(p.suites) == 0 || p.limit < time.Minute || seen[p.name] {
			t.Errorf("project %q: name, module, suites or limit is missing, or it is there twice", p.name)
		}
		seen[p.name] = true
		for id, reason := range p.elsewhere {
			if line := fmt.Sprintf("- %s `%s`: %s\n", p.name, id, reason); !strings.Contains(string(docs), line) {
				t.Errorf("%s lacks the line %q", docsFile, line)
			}
		}
	}
}

// TestJudge holds that a spec which only the other server passes is never overlooked.
func TestJudge(t *testing.T) {
	passed, failed, skipped := outcome{state: "passed"}, outcome{state: "failed", why: "no"}, outcome{state: "skipped"}
	here := &report{specs: map[string]outcome{"same": passed, "worse": failed, "skipped here": skipped, "both": failed, "skipped": skipped,
		"known": failed, "needless": passed, "better": passed}}
	there := &report{specs: map[string]outcome{"same": passed, "worse": passed, "skipped here": passed, "both": failed, "skipped": skipped,
		"known": passed, "needless": passed, "better": failed, "absent here": passed}}
	var got []string
	for _, v := range judge("p", map[string]string{"p known": "why", "p needless": "why"}, here, there) {
		got = append(got, fmt.Sprintf("%s %d", filepath.ToSlash(v.id), v.verdict))
	}
	want := []string{"p absent here 0", "p both 3", "p known 1", "p needless 2", "p skipped here 0", "p worse 0"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	again := retries(here, there)
	want = []string{"absent here", "better", "both", "known", "skipped here", "worse"}
	if !slices.Equal(again, want) {
		t.Errorf("run again: got %q, want %q", again, want)
	}
}
