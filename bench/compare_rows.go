// This file holds the rows of "bench compare": those of the servers, with the load of the table beside upstream, and those of the
// engine, which are benchmarks of the packages.

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/keelson-io/keelson/bench/gate"
)

// startRows are measured before the load. s.open keeps the second one's figures.
var startRows = []row{
	{Name: "start to ready", Unit: "ms", LessBetter: true},
	{Name: "definition to served", Unit: "ms", LessBetter: true},
}

// serverRows returns the rows of the servers that are wanted.
func (c *comparison) serverRows() []row {
	return slices.DeleteFunc(slices.Concat(startRows, rows()), func(r row) bool { return !c.rows.MatchString(r.Name) })
}

// serverRound starts both servers in empty folders, and gives them the wanted rows in turn. New processes for each round make its
// figures independent of the rounds before it, memory above all.
func (c *comparison) serverRound(ctx context.Context, n int, order []int) error {
	crd, err := httpRouteCRD()
	if err != nil {
		return err
	}
	dir := filepath.Join(c.dir, fmt.Sprintf("round-%d", n))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var pools [2]*pool
	for _, i := range order {
		s := c.sides[i]
		p, err := s.open(ctx, c.o, filepath.Join(dir, s.name), crd)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		defer p.target.stop()
		defer p.close()
		s.got["start to ready"] = append(s.got["start to ready"], p.target.ready.Seconds()*1000)
		pools[i] = p
	}
	all := rows()
	if !slices.ContainsFunc(all, func(r row) bool { return c.rows.MatchString(r.Name) }) {
		return nil
	}
	var rounds [2]*round
	for _, i := range order {
		if rounds[i], err = newRound(pools[i], c.o, n); err != nil {
			return fmt.Errorf("%s: %w", c.sides[i].name, err)
		}
	}
	for at, r := range all {
		if at > 0 && !c.rows.MatchString(r.Name) {
			continue // the first one creates what the others work with
		}
		for _, i := range order {
			if err := measureRow(ctx, c.sides[i], r, rounds[i], n); err != nil {
				return fmt.Errorf("%s: %s: %w", c.sides[i].name, r.Name, err)
			}
		}
	}
	return nil
}

// engineRow is a figure that a benchmark of a package prints.
type engineRow struct {
	name, pkg string
	bench     string // its full name
	pattern   string // what -test.bench selects it by
	unit      string
	runs      int // how often it runs its loop: one number for both sides, so that what happens once weighs the same
}

// engineRows returns the rows of the engine that are wanted. Their benchmarks are old: most commits have them.
func (c *comparison) engineRows() []engineRow {
	return slices.DeleteFunc(everyEngineRow(), func(r engineRow) bool { return !c.rows.MatchString(r.name) })
}

func everyEngineRow() []engineRow {
	var out []engineRow
	for _, b := range []struct {
		what, pkg, bench, pattern string
		runs                      int
	}{
		{"engine: decode and validate a route", "schema", "BenchmarkHTTPRoute/all", "^BenchmarkHTTPRoute$/^all$", 20000},
		{"engine: rules of a route", "schema", "BenchmarkHTTPRoute/rules", "^BenchmarkHTTPRoute$/^rules$", 50000},
		{"engine: compile a schema with its rules", "schema", "BenchmarkCompile/schema_and_rules", "^BenchmarkCompile$/^schema_and_rules$", 30},
		{"engine: compile a definition", "crd", "BenchmarkDefinition/compile", "^BenchmarkDefinition$/^compile$", 20000},
		{"engine: decode a Deployment", "internal/builtin", "BenchmarkDecode/Deployment", "^BenchmarkDecode$/^Deployment$", 5000},
		{"engine: parse JSON", "jsondoc", "BenchmarkParse", "^BenchmarkParse$", 100000},
		{"engine: get in the handler", "internal/api", "BenchmarkGet", "^BenchmarkGet$", 20000},
		{"engine: patch in the handler", "internal/api", "BenchmarkPatch", "^BenchmarkPatch$", 2000},
		{"engine: apply in the handler", "internal/api", "BenchmarkApply", "^BenchmarkApply$", 1000},
	} {
		for _, unit := range []string{"ns/op", "allocs/op"} {
			name := b.what
			if unit == "allocs/op" {
				name += ", allocations"
			}
			out = append(out, engineRow{name, b.pkg, b.bench, b.pattern, unit, b.runs})
		}
	}
	return out
}

// allRows returns the names of all rows.
func allRows() []string {
	var out []string
	for _, r := range slices.Concat(startRows, rows()) {
		out = append(out, r.Name)
	}
	for _, r := range everyEngineRow() {
		out = append(out, r.name)
	}
	return out
}

// engineRound runs each wanted benchmark once on both sides in turn. A benchmark that a side does not have leaves no figure.
func (c *comparison) engineRound(ctx context.Context, n int, order []int) error {
	var done []string
	for _, r := range c.engineRows() {
		key := r.pkg + " " + r.pattern
		if slices.Contains(done, key) {
			continue
		}
		done = append(done, key)
		for _, i := range order {
			figures, err := c.benchmark(ctx, i, r)
			if err != nil {
				return err
			}
			for _, same := range c.engineRows() {
				v, ok := figures[same.bench][same.unit]
				if !ok || same.pkg != r.pkg || same.bench != r.bench {
					continue
				}
				c.engine[i][same.name] = append(c.engine[i][same.name], v)
				say("round %d  %-55s %s %12.1f %s", n+1, same.name, []string{"old", "new"}[i], v, same.unit)
			}
		}
	}
	return nil
}

// benchmark runs one benchmark, for some fifth of a second: rounds count, not their length.
func (c *comparison) benchmark(ctx context.Context, i int, r engineRow) (map[string]map[string]float64, error) {
	bin := c.tests[i][r.pkg]
	if bin == "" {
		return nil, nil
	}
	cmd := exec.CommandContext(ctx, bin, "-test.run=^$", "-test.bench="+r.pattern, "-test.benchmem",
		fmt.Sprintf("-test.benchtime=%dx", r.runs), "-test.timeout=5m")
	c.setFastPaths(i)
	cmd.Dir = filepath.Join(c.tree[i], c.folder(i, r.pkg)) // where go test runs it
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s, in %s: %w\n%s", cmd, cmd.Dir, err, out)
	}
	return gate.ReadBenchmarks(bytes.NewReader(out))
}
