// This file is the command "bench admission": what admission costs a request, beside upstream's dispatchers in the same process.

package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"k8s.io/klog/v2"
)

// What is wanted, in microseconds: of a request that nothing is for, and of one that a hundred policies are for.
const (
	wantedUnmatched = 2.0
	wantedMatching  = 100.0
)

// admissionRow is a request with what is configured, for both sides; each function lets it through once.
type admissionRow struct {
	decision
	free bool // it is to allocate nothing
}

func runAdmission(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("bench admission", flag.ExitOnError)
	rounds := fs.Int("rounds", 15, "rounds; each measures every row on both sides, turn by turn")
	files := fs.String("o", "", "write the table as Markdown between the markers of these files, separated by commas")
	if err := fs.Parse(args); err != nil {
		return err
	}
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	rows, err := policyRows(ctx)
	if err != nil {
		return err
	}
	hooks, err := webhookRows(ctx)
	if err != nil {
		return err
	}
	rows = append(rows, hooks...)
	text := fmt.Sprintf("%s, %s, %d processors, %s, %s. Medians of %d rounds.\n\n", time.Now().UTC().Format("2006-01-02"), cpuModel(), runtime.NumCPU(),
		runtime.Version(), versions(), *rounds) + admissionTable(rows, *rounds)
	fmt.Println(text)
	for file := range strings.SplitSeq(*files, ",") {
		if file == "" {
			continue
		}
		if err := replaceBetween(file, "<!-- admission:begin -->", "<!-- admission:end -->", text); err != nil {
			return err
		}
	}
	return nil
}

// admissionTable measures every row on both sides.
func admissionTable(rows []*admissionRow, rounds int) string {
	var b strings.Builder
	b.WriteString("| configured, and the request | keelson µs | upstream µs | ratio | allocations (upstream) | wanted | as wanted |\n| --- | ---: | ---: | ---: | ---: | ---: | --- |\n")
	for _, r := range rows {
		say("admission: %s", r.name)
		var ours, up []float64
		for range rounds {
			t := leastOf(20, r.ours, r.upstream)
			ours, up = append(ours, t[0]), append(up, t[1])
		}
		allocs, upAllocs := allocations(100, r.ours), allocations(10, r.upstream)
		wanted := figure(r.wanted) + " µs"
		if r.free {
			wanted += ", no allocation"
		}
		fmt.Fprintf(&b, "| %s | %.2f | %s | **%s** | %.0f (%s) | %s | %s |\n", r.name, median(ours), figure(median(up)), figure(median(quotients(up, ours))),
			allocs, figure(upAllocs), wanted, yes(median(ours) < r.wanted && (allocs == 0 || !r.free)))
	}
	return b.String()
}
