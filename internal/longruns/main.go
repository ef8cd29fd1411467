// Command longruns goes on with a run that needs hours, for as long as there is time, and adds
// what it did to the totals in docs/longruns.md:
//
//	make longrun RUN=fuzz TIME=30m     # every fuzz target in turn, the least fuzzed first
//	make longrun RUN=attack TIME=1h    # generated hostile traffic beside ordinary work
//	make longrun RUN=kills TIME=1h     # kill -9 in the middle of concurrent writes
//
// Totals are counted for each binary, by a hash of its content, because a run says nothing about
// code that it did not run. A run that is stopped early loses only its current step: fuzzing steps
// of a minute, attacks of ten minutes, and 200 kills.
//
// The table has one row for each binary and run, and three sums over all binaries.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"
)

// totalsFile is the committed file, relative to the root of the repository.
const totalsFile = "docs/longruns.md"

func main() {
	length := flag.Duration("time", 10*time.Minute, "time after which no further step begins")
	seed := flag.Uint64("seed", uint64(time.Now().Unix()), "seed of the attack's first round")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: longruns [flags] fuzz|attack|kills\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, flag.Arg(0), *length, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "longruns:", err)
		os.Exit(1)
	}
}

// run does steps of the run called name until length has passed, and writes the totals after each
// of them. It stops at the first finding, which is an error.
func run(ctx context.Context, name string, length time.Duration, seed uint64) error {
	steps := map[string]func(context.Context, *state) (row, error){"fuzz": fuzzStep, "attack": attackStep, "kills": killStep}
	step, known := steps[name]
	if !known {
		return fmt.Errorf("no run %q: there are attack, fuzz and kills", name)
	}
	hash, err := buildHash(ctx)
	if err != nil {
		return err
	}
	s := &state{seed: seed, end: time.Now().Add(length), fuzzed: map[target]time.Duration{}}
	for time.Now().Before(s.end) && ctx.Err() == nil {
		done, err := step(ctx, s)
		if errors.Is(ctx.Err(), context.Canceled) {
			break
		}
		done.binary, done.run = hash, name
		if err := addToFile(totalsFile, done); err != nil {
			return err
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addToFile adds done to the table of file.
func addToFile(file string, done row) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	changed, err := addToText(string(text), done)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, []byte(changed), 0o644)
}

// row is one row of the table: what was run on one binary. The row of a sum has the binary "all".
type row struct {
	binary, run string
	count       int64         // executions, requests or kills: unitOf says which
	length      time.Duration // of core time for fuzz; of wall time for the others
	findings    int64
}

// unitOf names what the count of a run counts.
var unitOf = map[string]string{"fuzz": "executions", "attack": "requests", "kills": "kills"}

const tableHead = "| binary | run | count | hours | findings |\n| --- | --- | ---: | ---: | ---: |\n"

// addToText returns text, the content of the totals file, with done added to its table and the
// sums counted again.
func addToText(text string, done row) (string, error) {
	before, table, found := strings.Cut(text, tableHead)
	if !found {
		return "", errors.New("no table of totals")
	}
	rows, err := parseRows(table)
	if err != nil {
		return "", err
	}
	rows = slices.DeleteFunc(rows, func(r row) bool { return r.binary == "all" })
	at := slices.IndexFunc(rows, func(r row) bool { return r.binary == done.binary && r.run == done.run })
	if at < 0 {
		at = len(rows)
		rows = append(rows, row{binary: done.binary, run: done.run})
	}
	rows[at].add(done)
	for _, name := range []string{"attack", "fuzz", "kills"} {
		sum := row{binary: "all", run: name}
		for _, r := range rows {
			if r.run == name && r.binary != "all" {
				sum.add(r)
			}
		}
		rows = append(rows, sum)
	}
	var b strings.Builder
	b.WriteString(before + tableHead)
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %d %s | %.2f | %d |\n", r.binary, r.run, r.count, unitOf[r.run], r.length.Hours(), r.findings)
	}
	return b.String(), nil
}

func (r *row) add(o row) {
	r.count += o.count
	r.length += o.length
	r.findings += o.findings
}

func parseRows(table string) ([]row, error) {
	var rows []row
	for line := range strings.Lines(table) {
		var r row
		var unit string
		var hours float64
		if _, err := fmt.Sscanf(line, "| %s | %s | %d %s | %g | %d |", &r.binary, &r.run, &r.count, &unit, &hours, &r.findings); err != nil {
			return nil, fmt.Errorf("row %q: %w", line, err)
		}
		r.length = time.Duration(hours * float64(time.Hour))
		rows = append(rows, r)
	}
	return rows, nil
}
