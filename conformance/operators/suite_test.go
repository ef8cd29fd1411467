package operators

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/keelson-io/keelson/conformance/internal/module"
)

// This file runs the test binary of one package, and reads what came of each spec.

// suite is a test binary.
type suite struct {
	*source
	pkg    string // relative to the module
	binary string
	ginkgo bool // its tests are specs of Ginkgo, which writes a report
}

// build compiles the tests of a package.
func (s *source) build(pkg string) (*suite, error) {
	b := &suite{source: s, pkg: pkg, binary: filepath.Join(s.tmp, strings.ReplaceAll(pkg, "/", "-")+".test")}
	// Tests find files by the path of their source.
	if _, err := s.goRun("test", "-c", "-vet=off", "-trimpath=false", "-ldflags=-s -w", "-o", b.binary, "./"+pkg); err != nil {
		return nil, err
	}
	help, _ := exec.Command(b.binary, "-help").CombinedOutput() // exits with an error
	b.ginkgo = bytes.Contains(help, []byte("-ginkgo.json-report"))
	return b, nil
}

// run runs the specs that a regular expression matches, "" for all, on a server.
func (s *suite) run(on server, focus string) (*report, error) {
	var args []string
	switch {
	case focus != "" && s.ginkgo:
		args = append(args, "-ginkgo.focus="+focus)
	case focus != "":
		args = append(args, "-test.run="+focus)
	}
	return s.start(on, args)
}

// maxFocused is how many specs are run again one by one. If more failed, all of the suite runs again.
const maxFocused = 60

// focusOn returns the arguments for running some specs of two reports only. A spec of an ordered container runs with the whole
// container, and a Go test with its siblings.
func focusOn(got [2]*report, ids []string, ginkgo bool) []string {
	if len(ids) > maxFocused {
		return nil
	}
	some := map[string]bool{}
	for _, id := range ids {
		o, ok := got[0].specs[id]
		if !ok {
			o = got[1].specs[id]
		}
		switch {
		case !ginkgo:
			top, _, _ := strings.Cut(id, "/")
			some["^"+regexp.QuoteMeta(top)+"$"] = true
		case o.text == "":
		case o.ordered != "":
			some[regexp.QuoteMeta(o.ordered)+" "] = true
		default:
			some[regexp.QuoteMeta(o.text)+"$"] = true
		}
	}
	if len(some) == 0 { // what goes before or after all specs: one of them is enough
		for _, name := range got[0].names() {
			if o := got[0].specs[name]; o.passed() && o.text != "" {
				some[regexp.QuoteMeta(o.text)+"$"] = true
				break
			}
		}
	}
	all := slices.Sorted(maps.Keys(some))
	if !ginkgo {
		return []string{"-test.run=" + strings.Join(all, "|")}
	}
	for i, f := range all {
		all[i] = "-ginkgo.focus=" + f
	}
	return all
}

// start runs the binary once. What it leaves behind is ended.
func (s *suite) start(on server, args []string) (*report, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.limit+2*time.Minute)
	defer cancel()
	if err := waitForPort(ctx, metricsAddress); err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp(s.tmp, "run-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	jsonReport := filepath.Join(tmp, "report.json")
	args = append(args, "-test.v=test2json", "-test.timeout="+(s.limit+time.Minute).String())
	if s.ginkgo {
		// The same order on both servers. With the limit, Ginkgo ends specs and reports the others.
		args = append(args, "-ginkgo.seed=1", "-ginkgo.timeout="+s.limit.String(), "-ginkgo.json-report="+jsonReport)
		if s.labels != "" {
			args = append(args, "-ginkgo.label-filter="+s.labels)
		}
	}
	cmd := exec.CommandContext(ctx, s.binary, args...)
	cmd.Dir = filepath.Join(s.dir, filepath.FromSlash(s.pkg))
	// A machine that does other work, too, is slower than envtest expects.
	cmd.Env = environment("KUBEBUILDER_ASSETS="+on.assets, "TMPDIR="+tmp, "KUBEBUILDER_CONTROLPLANE_START_TIMEOUT=3m",
		"KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT=3m")
	for _, v := range s.env {
		cmd.Env = append(cmd.Env, strings.ReplaceAll(v, "$SRC", s.dir))
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = 5 * time.Second
	began := time.Now()
	out := &output{began: began}
	cmd.Stdout, cmd.Stderr = out, out
	ended := cmd.Run()
	r := &report{wall: time.Since(began), ready: out.first, specs: map[string]outcome{}}
	ended = errors.Join(ended, module.EndAll(on.assets))
	if *logs != "" {
		name := fmt.Sprintf("%s-%s-%s-%s.log", s.name, strings.ReplaceAll(s.pkg, "/", "-"), on.name, began.Format("150405"))
		ended = errors.Join(ended, os.WriteFile(filepath.Join(*logs, name), out.text.Bytes(), 0o644))
	}
	if s.ginkgo {
		text, err := os.ReadFile(jsonReport)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("no report (%w)\n%s", ended, out.tail())
		}
		if err == nil {
			err = r.readGinkgo(text)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := r.readGoTests(out.text.Bytes()); err != nil {
		return nil, err
	}
	if ended != nil && !slices.ContainsFunc(r.names(), func(id string) bool { return r.specs[id].failed() }) {
		return nil, fmt.Errorf("%w, and no spec failed\n%s", ended, out.tail())
	}
	return r, nil
}

// metricsAddress is where controller-runtime serves metrics unless a suite says otherwise. A manager that does not get it stops,
// and then all specs of its suite fail by time.
const metricsAddress = ":8080"

// waitForPort waits until nothing listens at an address: two suites cannot run at a time, not even those of two of these tests.
func waitForPort(ctx context.Context, address string) error {
	for {
		l, err := net.Listen("tcp", address)
		if err == nil {
			return l.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: suites need it for metrics, and another program has it: %w", address, err)
		case <-time.After(time.Second):
		}
	}
}

// output is what a suite prints, and when it began with its first test.
type output struct {
	began time.Time
	first time.Duration // 0: not yet
	text  bytes.Buffer
}

// maxOutput is how much of a suite's output is kept, in bytes.
const maxOutput = 256 << 20

func (o *output) Write(p []byte) (int, error) {
	if o.text.Len() < maxOutput {
		o.text.Write(p)
	}
	if o.first == 0 && bytes.Contains(o.text.Bytes(), []byte("=== RUN")) {
		o.first = time.Since(o.began)
	}
	return len(p), nil
}

// tail returns the end of the output.
func (o *output) tail() []byte {
	return o.text.Bytes()[max(0, o.text.Len()-4000):]
}

// report is what came of a suite.
type report struct {
	specs map[string]outcome // by name
	wall  time.Duration
	ready time.Duration // until the first spec could run; 0 if unknown
}

// outcome is what came of one spec.
type outcome struct {
	state   string // Ginkgo's word
	why     string // if it failed
	text    string // Ginkgo's text of the spec; "" for a Go test, or what runs before or after all
	ordered string // the text of the outermost container, if specs in there must run in order
}

func (o outcome) passed() bool { return o.state == "passed" }

func (o outcome) failed() bool {
	return o.state != "" && !slices.Contains([]string{"passed", "skipped", "pending"}, o.state)
}

// names lists the specs of reports, sorted.
func (r *report) names(others ...*report) []string {
	all := map[string]bool{}
	for _, r := range append(others, r) {
		for name := range r.specs {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// passed counts the specs that passed.
func (r *report) passed() (n int) {
	for _, o := range r.specs {
		if o.passed() {
			n++
		}
	}
	return n
}

// retries lists the specs to run again: what failed on either server, and what only one of them passed.
func retries(here, there *report) []string {
	var all []string
	for _, name := range there.names(here) {
		h, t := here.specs[name], there.specs[name]
		if h.failed() || t.failed() || h.passed() != t.passed() {
			all = append(all, name)
		}
	}
	return all
}

// improve takes over the specs that passed in another run, and returns their names.
func (r *report) improve(more *report) []string {
	var better []string
	for _, name := range r.names() {
		o, again := r.specs[name], more.specs[name]
		_, ran := more.specs[name]
		switch {
		case again.passed() && !o.passed():
			r.specs[name] = again
			better = append(better, name)
		case o.aroundAll() && !ran: // it is reported only if it fails
			delete(r.specs, name)
			better = append(better, name)
		}
	}
	for name, o := range more.specs {
		if _, ran := r.specs[name]; !ran && o.passed() {
			r.specs[name] = o
			better = append(better, name)
		}
	}
	slices.Sort(better)
	return better
}

// aroundAll reports whether this is what a suite does before or after all of its specs, and it failed.
func (o outcome) aroundAll() bool { return o.ordered == aroundAll }

const aroundAll = "around all"

// ginkgoSuite is what Ginkgo reports of a suite.
type ginkgoSuite struct {
	SpecReports []struct {
		ContainerHierarchyTexts []string
		LeafNodeType            string
		LeafNodeText            string
		State                   string
		IsInOrderedContainer    bool
		RunTime                 time.Duration
		Failure                 struct{ Message string }
	}
}

// readGinkgo reads a report of Ginkgo. Specs without a body ("pending") do not count.
func (r *report) readGinkgo(text []byte) error {
	var all []ginkgoSuite
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	r.ready = 0
	for _, s := range all {
		for _, spec := range s.SpecReports {
			text := strings.Join(append(slices.Clone(spec.ContainerHierarchyTexts), spec.LeafNodeText), " ")
			o := outcome{state: spec.State, why: spec.Failure.Message, text: text}
			switch {
			case spec.LeafNodeType != "It":
				if strings.Contains(spec.LeafNodeType, "BeforeSuite") {
					r.ready += spec.RunTime
				}
				if !o.failed() {
					continue
				}
				text = strings.TrimSpace(spec.LeafNodeType + " " + text)
				o.text, o.ordered = "", aroundAll
			case spec.State == "pending":
				continue
			case spec.IsInOrderedContainer && len(spec.ContainerHierarchyTexts) > 0:
				o.ordered = spec.ContainerHierarchyTexts[0]
			}
			id := text
			for n := 2; ; n++ {
				if _, twice := r.specs[id]; !twice {
					break
				}
				id = fmt.Sprintf("%s (%d)", text, n)
			}
			r.specs[id] = o
		}
	}
	return nil
}

// readGoTests reads the Go tests of an output. Those that run Ginkgo's specs, and those with tests of their own, are no more
// than these, and do not count.
func (r *report) readGoTests(out []byte) error {
	cmd := exec.Command("go", "tool", "test2json")
	cmd.Stdin = bytes.NewReader(out)
	text, err := cmd.Output()
	if err != nil {
		return err
	}
	states := map[string]string{"pass": "passed", "fail": "failed", "skip": "skipped"}
	tests, printed := map[string]outcome{}, map[string][]string{}
	for dec := json.NewDecoder(bytes.NewReader(text)); ; {
		var e struct{ Action, Test, Output string }
		if err := dec.Decode(&e); err != nil {
			break // the end
		}
		switch {
		case e.Test == "":
		case e.Action == "run":
			tests[e.Test] = outcome{state: "interrupted"}
		case e.Action == "output":
			printed[e.Test] = append(printed[e.Test], e.Output)
		case states[e.Action] != "":
			tests[e.Test] = outcome{state: states[e.Action]}
		}
	}
	names := slices.Collect(maps.Keys(tests))
	for name, o := range tests {
		said := strings.Join(printed[name], "")
		parent := slices.ContainsFunc(names, func(other string) bool { return strings.HasPrefix(other, name+"/") })
		if parent || strings.Contains(said, "Running Suite: ") {
			continue
		}
		if o.failed() {
			o.why = said[max(0, len(said)-2000):]
		}
		r.specs[name] = o
	}
	return nil
}

// TestReadGinkgo holds that nothing that failed is lost, and how a spec runs again.
func TestReadGinkgo(t *testing.T) {
	r := &report{specs: map[string]outcome{}}
	err := r.readGinkgo([]byte(`[{"SpecReports":[{"LeafNodeType":"BeforeSuite","State":"passed","RunTime":1500000000},
		{"ContainerHierarchyTexts":["a"],"LeafNodeType":"It","LeafNodeText":"b","State":"passed"},
		{"ContainerHierarchyTexts":["a"],"LeafNodeType":"It","LeafNodeText":"b","State":"failed","Failure":{"Message":"no"}},
		{"ContainerHierarchyTexts":["o","p"],"LeafNodeType":"It","LeafNodeText":"q","State":"panicked","IsInOrderedContainer":true},
		{"LeafNodeType":"It","LeafNodeText":"c","State":"pending"},
		{"LeafNodeType":"It","LeafNodeText":"d","State":"skipped"},
		{"LeafNodeType":"AfterSuite","State":"timedout"}]}]`))
	if err != nil {
		t.Fatal(err)
	}
	if r.ready != 1500*time.Millisecond || r.passed() != 1 {
		t.Errorf("ready after %s, %d passed", r.ready, r.passed())
	}
	if got, want := retries(r, r), []string{"AfterSuite", "a b (2)", "o p q"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := focusOn([2]*report{{}, r}, retries(r, r), true), []string{"-ginkgo.focus=a b$", "-ginkgo.focus=o "}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := focusOn([2]*report{r, r}, []string{"AfterSuite"}, true), []string{"-ginkgo.focus=a b$"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	more := &report{specs: map[string]outcome{"a b (2)": {state: "passed"}, "o p q": {state: "failed"}}}
	if got, want := r.improve(more), []string{"AfterSuite", "a b (2)"}; !slices.Equal(got, want) || r.passed() != 2 || !r.specs["o p q"].failed() {
		t.Errorf("got %q, want %q; %v", got, want, r.specs)
	}
}

// TestReadGoTests holds that a test without an end has failed.
func TestReadGoTests(t *testing.T) {
	r := &report{specs: map[string]outcome{}}
	err := r.readGoTests([]byte("\x16=== RUN   TestSuite\nRunning Suite: S - /x\n\x16--- FAIL: TestSuite (1.00s)\n" +
		"\x16=== RUN   TestA\n\x16=== RUN   TestA/x\nwhy\n\x16--- FAIL: TestA/x (0.10s)\n\x16=== NAME  TestA\n\x16=== RUN   TestA/y\n\x16--- SKIP: TestA/y (0.10s)\n" +
		"\x16=== NAME  TestA\n\x16--- FAIL: TestA (0.20s)\n" +
		"\x16=== RUN   TestB\n\x16--- PASS: TestB (0.00s)\n\x16=== RUN   TestC\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, name := range r.names() {
		got = append(got, name+" "+r.specs[name].state)
	}
	want := []string{"TestA/x failed", "TestA/y skipped", "TestB passed", "TestC interrupted"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if args := focusOn([2]*report{r, r}, []string{"TestA/x", "TestC"}, false); !slices.Equal(args, []string{"-test.run=^TestA$|^TestC$"}) {
		t.Errorf("got %q", args)
	}
}

// TestWaitForPort holds that a suite waits for another that has the port of the metrics, and not forever.
func TestWaitForPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := waitForPort(ctx, l.Addr().String()); err == nil {
		t.Error("the port is taken, and no error")
	}
	waited := make(chan error, 1)
	go func() { waited <- waitForPort(context.Background(), l.Addr().String()) }()
	l.Close()
	if err := <-waited; err != nil {
		t.Error(err)
	}
}
