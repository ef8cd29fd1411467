// Package gate decides whether a measured change is a regression.
//
// A Row holds figures that were measured in pairs: in each round once on the old side and once on the new one, with little time
// between the two. The pair gives a ratio of costs, new to old: above 1 the new side takes longer, or more memory. Judge takes the
// median of the ratios and its 95 % confidence interval from benchstat's statistics (golang.org/x/perf/benchmath), without an
// assumption about their distribution. A row fails if the whole interval lies above the tolerance: a slow moment of the machine
// widens the interval, and does not move it.
package gate

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/perf/benchmath"
)

// MinRounds is how many rounds the interval of a median needs: with fewer it is infinite, and no row could fail.
const MinRounds = 6

// confidence is the level of the intervals.
const confidence = 0.95

// Row is one thing that is measured on both sides.
type Row struct {
	Name, Unit string
	HigherBest bool      // the figures are rates: the cost is their inverse
	Old, New   []float64 // one figure for each round; empty if the side does not have the row
}

// Verdict is what Judge finds.
type Verdict struct {
	Old, New    float64 // medians
	Ratio       float64 // median of the rounds' ratios of costs, new to old
	Low, High   float64 // the ratio's 95 % confidence interval
	Least, Most float64 // the least and the greatest ratio of a round
	P           float64 // that both sides are equal, by the Mann-Whitney U test; 0 if the figures are exact
	Failed      bool
}

// Judge compares the sides of a row that both have. limit is the tolerance, 0.03 for 3 %.
func Judge(r Row, limit float64) (Verdict, error) {
	if len(r.Old) != len(r.New) || len(r.Old) < MinRounds {
		return Verdict{}, fmt.Errorf("%s: got %d old and %d new figures, want equally many, at least %d", r.Name, len(r.Old), len(r.New), MinRounds)
	}
	ratios := make([]float64, len(r.Old))
	for i := range ratios {
		if r.HigherBest {
			ratios[i] = ratio(r.New[i], r.Old[i])
		} else {
			ratios[i] = ratio(r.Old[i], r.New[i])
		}
	}
	least, most := slices.Min(ratios), slices.Max(ratios)
	sum := summary(ratios)
	before, after := sample(r.Old), sample(r.New)
	return Verdict{
		Old: summary(r.Old).Center, New: summary(r.New).Center,
		Ratio: sum.Center, Low: sum.Lo, High: sum.Hi, Least: least, Most: most,
		P:      benchmath.AssumeNothing.Compare(before, after).P,
		Failed: sum.Lo > 1+limit,
	}, nil
}

// ratio returns how many times the cost grew from one figure to the other. A count that was 0 is taken for 1, and the other one for
// one more: the first allocation of a path without any doubles the cost.
func ratio(from, to float64) float64 {
	if from == 0 {
		return to + 1
	}
	return to / from
}

// sample copies the figures, because benchmath sorts what it gets.
func sample(figures []float64) *benchmath.Sample {
	return benchmath.NewSample(slices.Clone(figures), &benchmath.DefaultThresholds)
}

func summary(figures []float64) benchmath.Summary {
	return benchmath.AssumeNothing.Summary(sample(figures), confidence)
}

// Table lays out the rows as a Markdown table. Rows that one side does not have are listed below it. failed counts the rows that
// became worse by more than limit, compared those that both sides have.
func Table(rows []Row, limit float64) (text string, compared, failed int, err error) {
	var b, missing strings.Builder
	b.WriteString("| row | old | new | cost, new to old | 95 % interval | least and most of a round | p | |\n" +
		"| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n")
	for _, r := range rows {
		switch {
		case len(r.Old) == 0 && len(r.New) == 0:
			fmt.Fprintf(&missing, "%s: neither side has it\n", r.Name)
			continue
		case len(r.Old) == 0:
			fmt.Fprintf(&missing, "%s: the old side does not have it\n", r.Name)
			continue
		case len(r.New) == 0:
			fmt.Fprintf(&missing, "%s: the new side does not have it\n", r.Name)
			continue
		}
		v, err := Judge(r, limit)
		if err != nil {
			return "", compared, failed, err
		}
		compared++
		word := "ok"
		switch {
		case v.Failed:
			word = "**FAIL**"
			failed++
		case v.High > 1+limit:
			word = "ok, not certain" // the interval reaches beyond the tolerance: more rounds narrow it
		}
		fmt.Fprintf(&b, "| %s | %s | %s %s | **%.3f** | %.3f–%.3f | %.3f–%.3f | %.3f | %s |\n",
			r.Name, figure(v.Old), figure(v.New), r.Unit, v.Ratio, v.Low, v.High, v.Least, v.Most, v.P, word)
	}
	if missing.Len() > 0 {
		b.WriteString("\nNot compared:\n" + missing.String())
	}
	return b.String(), compared, failed, nil
}

// figure prints three digits that matter, and all of a longer number.
func figure(v float64) string {
	if v >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// resultLine is a line that testing prints for a benchmark: name, processors, runs, and pairs of a figure and a unit.
var resultLine = regexp.MustCompile(`^(Benchmark\S*?)(?:-\d+)?\s+\d+\s+(.*)$`)

// ReadBenchmarks reads what a test binary prints: benchmark -> unit -> figure. The name is without the number of processors.
func ReadBenchmarks(r io.Reader) (map[string]map[string]float64, error) {
	out := map[string]map[string]float64{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		m := resultLine.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		f := strings.Fields(m[2])
		if len(f)%2 != 0 {
			return nil, fmt.Errorf("%q: got %d fields after the runs, want pairs of a figure and a unit", lines.Text(), len(f))
		}
		figures := map[string]float64{}
		for i := 0; i < len(f); i += 2 {
			v, err := strconv.ParseFloat(f[i], 64)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", lines.Text(), err)
			}
			figures[f[i+1]] = v
		}
		out[m[1]] = figures
	}
	return out, lines.Err()
}
