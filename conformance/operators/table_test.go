package operators

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// This file has the table of the results, which stands in docs/conformance.md.

// row is what came of a project.
type row struct {
	*project
	ran    int // suites
	passed [2]int
	wall   [2]time.Duration
	ready  [2][]time.Duration // of each suite
}

// add adds a suite: what came of it here and there.
func (r *row) add(got [2]*report) {
	r.ran++
	for i, one := range got {
		r.passed[i] += one.passed()
		r.wall[i] += one.wall
		if one.ready > 0 {
			r.ready[i] = append(r.ready[i], one.ready)
		}
	}
}

// The head of the table.
const tableHead = `| project | version | suites | specs passed here | on kube-apiserver | time here | on kube-apiserver | ready here | on kube-apiserver |
| --- | --- | --: | --: | --: | --: | --: | --: | --: |
`

// counts is the part of a row that is the same on each machine.
func (r row) counts() string {
	_, version, _ := strings.Cut(r.module, "@")
	return fmt.Sprintf("| %s | %s | %d | %d | %d |", r.name, version, r.ran, r.passed[0], r.passed[1])
}

func (r row) String() string {
	return fmt.Sprintf("%s %.0f s | %.0f s | %.1f s | %.1f s |\n", r.counts(), r.wall[0].Seconds(), r.wall[1].Seconds(),
		median(r.ready[0]).Seconds(), median(r.ready[1]).Seconds())
}

// median returns the middle one; 0 of none.
func median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	all = slices.SortedFunc(slices.Values(all), cmp.Compare[time.Duration])
	return all[len(all)/2]
}

// table prints rows with the head.
func table(rows []row) string {
	var b strings.Builder
	b.WriteString(tableHead)
	for _, r := range rows {
		b.WriteString(r.String())
	}
	return b.String()
}

// replaceRows writes rows into the table of a document, in the order of [projects], and keeps the other rows.
func replaceRows(docs string, rows []row) (string, error) {
	before, rest, ok := strings.Cut(docs, tableHead)
	if !ok {
		return "", errors.New("the document lacks the head of the table")
	}
	byName := map[string]string{}
	after := rest
	for line := range strings.Lines(rest) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		byName[strings.TrimSpace(strings.Split(line, "|")[1])] = line
		after = strings.TrimPrefix(after, line)
	}
	for _, r := range rows {
		byName[r.name] = r.String()
	}
	var b strings.Builder
	for _, p := range projects {
		b.WriteString(byName[p.name])
	}
	return before + tableHead + b.String() + after, nil
}

// TestReplaceRows holds that only the rows of the projects that ran change.
func TestReplaceRows(t *testing.T) {
	ran := row{project: projects[1], ran: 2, passed: [2]int{3, 4}, wall: [2]time.Duration{time.Second, 2 * time.Second},
		ready: [2][]time.Duration{{time.Second, 3 * time.Second, 2 * time.Second}, nil}}
	_, version, _ := strings.Cut(ran.module, "@")
	want := "| " + ran.name + " | " + version + " | 2 | 3 | 4 | 1 s | 2 s | 2.0 s | 0.0 s |\n"
	kept := "| " + projects[0].name + " | v1 | 1 | 1 | 1 | 1 s | 1 s | 1 s | 1 s |\n"
	got, err := replaceRows("a\n"+tableHead+"| "+ran.name+" | old |\n"+kept+"\n| b |\n", []row{ran})
	if want := "a\n" + tableHead + kept + want + "\n| b |\n"; err != nil || got != want {
		t.Errorf("got %q, error %v, want %q", got, err, want)
	}
	if _, err := replaceRows("a", nil); err == nil {
		t.Error("no table, and no error")
	}
}
