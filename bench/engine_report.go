// This file runs the measurements of the engine and prints their tables.

package main

import (
	"errors"
	"flag"
	"fmt"
	"runtime"
	"strings"
	"time"
)

// runEngine is the command "bench engine".
func runEngine(args []string) error {
	fs := flag.NewFlagSet("bench engine", flag.ExitOnError)
	rounds := fs.Int("rounds", 7, "rounds; each measures every row on both sides")
	files := fs.String("o", "", "write the tables as Markdown between the markers of this benchmarks.md and of the limits.md beside it")
	if err := fs.Parse(args); err != nil {
		return err
	}
	return measureEngine(*rounds, *files)
}

// measureEngine measures the engine and writes its tables between the markers of the files that have them.
func measureEngine(rounds int, files string) error {
	all, err := subjects()
	if err != nil {
		return err
	}
	var objects []*objectRow
	var definitions []*definitionRow
	for i := range all {
		say("engine: %s", all[i].name)
		o, err := measureObject(&all[i], rounds)
		if err != nil {
			return err
		}
		d, err := measureDefinition(&all[i], rounds)
		if err != nil {
			return err
		}
		objects, definitions = append(objects, o), append(definitions, d)
	}
	say("engine: growth and limits")
	growth, err := growthTable()
	if err != nil {
		return err
	}
	limits, err := hostileTable()
	if err != nil {
		return err
	}
	refused, err := hostileDefinitionTable()
	if err != nil {
		return err
	}
	limits += "\n" + refused
	table := engineHeading(rounds) + objectTable(objects) + "\n" + definitionTable(definitions) + "\n" + growth
	fmt.Println(table + "\n" + limits)
	for file := range strings.SplitSeq(files, ",") {
		if file == "" {
			continue
		}
		if err := errors.Join(
			replaceBetween(file, "<!-- engine:begin -->", "<!-- engine:end -->", table),
			replaceBetween(strings.Replace(file, "benchmarks", "limits", 1), "<!-- limits:begin -->", "<!-- limits:end -->", engineHeading(1)+limits),
		); err != nil {
			return err
		}
	}
	return nil
}

func engineHeading(rounds int) string {
	return fmt.Sprintf("%s, %s, %d processors, %s, %s. Medians of %d rounds, an object's time in a round being the least of 20 turns, a definition's of 3.\n\n",
		time.Now().UTC().Format("2006-01-02"), cpuModel(), runtime.NumCPU(), runtime.Version(), versions(), rounds)
}

func objectTable(rows []*objectRow) string {
	var b strings.Builder
	b.WriteString("| object | bytes | cost of its rules | json.Unmarshal | upstream | keelson | of json.Unmarshal | ns per unit of cost | allocations (upstream) | as wanted |\n")
	b.WriteString("| --- |" + strings.Repeat(" ---: |", 8) + " --- |\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s µs | %s µs | %s µs | **%.2f** | %s | %.0f (%s) | %s |\n", r.name, figure(float64(r.bytes)), figure(float64(r.cost)),
			figure(median(r.unmarshal)), figure(median(r.up)), figure(median(r.ours)), r.share(), perUnit(r), r.allocs, figure(r.upAllocs), r.verdict())
	}
	return b.String()
}

func perUnit(r *objectRow) string {
	if r.cost == 0 {
		return "–"
	}
	return figure(r.perUnit())
}

// The budgets of a definition: for each version to compile, for each rule to keep, for each definition to keep idle.
const (
	compileBudget = 8.0
	ruleBudget    = 1 << 10
	idleBudget    = 40 << 10
)

func definitionTable(rows []*definitionRow) string {
	var b strings.Builder
	b.WriteString("| version of | rules | compile, upstream | keelson | kept per rule, upstream | keelson | idle definition | to decode a version | as wanted |\n")
	b.WriteString("| --- |" + strings.Repeat(" ---: |", 7) + " --- |\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %d | %s ms | %s ms | %s | %s | %s | %s | %s |\n", r.name, r.rules, figure(median(r.up)), figure(median(r.ours)),
			perRule(r.upKept, r.rules), perRule(r.ourKept, r.rules), kilobytes(r.idle), kilobytes(r.decodes), r.verdict())
	}
	return b.String()
}

func perRule(bytes int64, rules int) string {
	if rules == 0 {
		return "–"
	}
	return kilobytes(bytes / int64(rules))
}

func kilobytes(n int64) string { return fmt.Sprintf("%.1f KB", float64(n)/1024) }

// verdict names what is not as wanted.
func (r *definitionRow) verdict() string {
	var missed []string
	if median(r.ours) > compileBudget {
		missed = append(missed, "time")
	}
	if r.rules > 0 && r.ourKept/int64(r.rules) > ruleBudget {
		missed = append(missed, "rules' memory")
	}
	if r.idle > idleBudget {
		missed = append(missed, "idle memory")
	}
	if len(missed) == 0 {
		return "yes"
	}
	return "**no**: " + strings.Join(missed, ", ")
}
