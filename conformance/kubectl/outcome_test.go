package kubectl

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// This file reads how a function ended from what it printed and from the lines that bash executed.

// outcome is how a function ended on a server.
type outcome struct {
	err     error           // nil if it passed
	ended   []place         // where it was when it ended: in the function itself first, then in those of test/cmd that it called
	refuted map[string]bool // places of the assertions that failed, as FILE:LINE; a function may try another assertion then
	out     []byte
}

// place is a line of a script.
type place struct {
	file string
	line int
}

// String implements fmt.Stringer.
func (p place) String() string { return fmt.Sprintf("%s:%d", p.file, p.line) }

// String implements fmt.Stringer.
func (o *outcome) String() string {
	switch {
	case o.err == nil:
		return "passes"
	case len(o.ended) == 0:
		return "does not start"
	case o.err == errLimit:
		return fmt.Sprintf("waits at %s", o.ended[len(o.ended)-1])
	}
	return fmt.Sprintf("ends at %s", o.ended[len(o.ended)-1])
}

// passes reports whether the function passed.
func (o *outcome) passes() bool { return o.err == nil }

// newOutcome reads what a run of a function printed and the trace of its lines.
func newOutcome(function string, out, trace []byte, err error) *outcome {
	o := &outcome{err: err, refuted: refuted(out), out: out}
	lines := bytes.Split(trace, []byte("\n"))
	for _, line := range slices.Backward(lines) {
		if at := stack(function, string(line)); at != nil {
			o.ended = at
			break
		}
	}
	return o
}

// stack returns the places of a line of the trace, from the function inwards, as far as they are in scripts of test/cmd. It returns nil
// for a line outside of the function. runner.sh sets the format of the trace.
func stack(function, line string) []place {
	fields := strings.Split(line, "@")
	if len(fields) < 6 || strings.Trim(fields[0], "+") != "" {
		return nil // a line of a command that has several
	}
	names, sources, callers := strings.Fields(fields[1]), strings.Fields(fields[2]), strings.Fields(fields[3])
	first := slices.Index(names, function)
	if first < 0 || len(sources) != len(names) || len(callers) != len(names) || slices.Contains(names, "kube::log::errexit") {
		return nil
	}
	var at []place
	for i := first; i >= 0; i-- {
		if strings.HasPrefix(names[i], "kube::") {
			break
		}
		text := fields[4]
		if i > 0 {
			text = callers[i-1]
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil
		}
		at = append(at, place{sources[i], n})
	}
	return at
}

// Upstream's assertions print where they were called in two ways: FILE:LINE: FAIL! in one line, or FAIL! and LINE PATH in a later one.
var (
	color      = regexp.MustCompile("\x1b(\\[[0-9;]*m|\\(B)")
	failedAt   = regexp.MustCompile(`^(\S+\.sh:\d+): FAIL`)
	callerLine = regexp.MustCompile(`^(\d+) \S*/test/cmd/(\S+\.sh)$`)
)

// refuted returns the places of the assertions that failed.
func refuted(out []byte) map[string]bool {
	at, open := map[string]bool{}, false
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(color.ReplaceAllString(line, ""))
		if m := failedAt.FindStringSubmatch(line); m != nil {
			at[m[1]] = true
		} else if strings.HasPrefix(line, "FAIL") {
			open = true
		} else if m := callerLine.FindStringSubmatch(line); m != nil && open {
			at[m[2]+":"+m[1]], open = true, false
		}
	}
	return at
}

// compareEnds compares how far two runs got: at each level, the line. A helper that was called twice, and loops, are not seen.
func compareEnds(x, y []place) int {
	for i := range min(len(x), len(y)) {
		if x[i].file != y[i].file {
			return 0
		}
		if c := cmp.Compare(x[i].line, y[i].line); c != 0 {
			return c
		}
	}
	return 0
}

// difference returns what is worse here than there, or "".
func (r *result) difference() string {
	switch {
	case r.here.passes():
	case r.there.passes():
		return r.here.String()
	case len(r.there.ended) == 0:
		return "there: " + r.there.String() // nothing was compared
	case len(r.here.ended) == 0 || compareEnds(r.here.ended, r.there.ended) < 0:
		return fmt.Sprintf("%s, there %s", r.here, r.there)
	}
	for _, at := range slices.Sorted(maps.Keys(r.here.refuted)) {
		if !r.there.refuted[at] && (r.there.passes() || before(at, r.there.ended)) {
			return "fails at " + at
		}
	}
	return ""
}

// before reports whether a place, as FILE:LINE, is before the end of a run.
func before(at string, end []place) bool {
	file, text, _ := strings.Cut(at, ":")
	n, err := strconv.Atoi(text)
	return err == nil && slices.ContainsFunc(end, func(p place) bool { return p.file == file && n < p.line })
}

// tail returns the last lines of a text, without colors.
func tail(out []byte, n int) string {
	lines := strings.Split(strings.TrimSpace(color.ReplaceAllString(string(out), "")), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// TestOutcomes holds what is read from the output and the trace of a run.
func TestOutcomes(t *testing.T) {
	trace := `+@run_a_tests eVal juLog record_command main@a.sh sh2ju.sh sh2ju.sh legacy-script.sh runner.sh@0 49 130 150 90@20@kubectl create
++@kube::test::object_assert helper run_a_tests main@test.sh a.sh a.sh runner.sh@12 7 31 90@80@seq 1 10
a second line of a command
+@kube::log::errexit run_a_tests main@logging.sh a.sh runner.sh@40 31 90@25@exit 1
+@record_command main@legacy-script.sh runner.sh@150 90@152@local exitCode=1
`
	out := "\x1b[31ma.sh:12: FAIL!\n  Expected: x\n\x1b[1mFAIL!\x1b(B\x1b[m\nmessage:y\n14 /tmp/k/test/cmd/../../test/cmd/a.sh\nkube 15 /x.sh\n"
	o := newOutcome("run_a_tests", []byte(out), []byte(trace), errLimit)
	if got, want := fmt.Sprint(o.ended), "[a.sh:7 a.sh:12]"; got != want {
		t.Errorf("ended: got %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(slices.Sorted(maps.Keys(o.refuted))), "[a.sh:12 a.sh:14]"; got != want {
		t.Errorf("refuted: got %s, want %s", got, want)
	}
	passed := &outcome{ended: []place{{"a.sh", 90}}}
	early := &outcome{err: errLimit, ended: []place{{"a.sh", 7}, {"a.sh", 11}}}
	for _, c := range []struct {
		of          string
		there, here *outcome
		want        string
	}{
		{"both pass", passed, passed, ""},
		{"passes there only", passed, o, "waits at a.sh:12"},
		{"passes here only", early, passed, ""},
		{"gets as far", o, &outcome{err: errLimit, ended: o.ended}, ""},
		{"gets farther", early, &outcome{err: errLimit, ended: []place{{"a.sh", 8}}}, ""},
		{"does not get as far", o, early, "waits at a.sh:11, there waits at a.sh:12"},
		{"does not start", o, &outcome{err: errLimit}, "does not start, there waits at a.sh:12"},
		{"passes, with an assertion that fails", passed, &outcome{ended: passed.ended, refuted: map[string]bool{"a.sh:14": true}}, "fails at a.sh:14"},
		{"fails after the end there", early, &outcome{err: errLimit, ended: o.ended, refuted: map[string]bool{"a.sh:12": true}}, ""},
	} {
		if got := (&result{there: c.there, here: c.here}).difference(); got != c.want {
			t.Errorf("%s: got %q, want %q", c.of, got, c.want)
		}
	}
}
