// This file runs the rounds and prints the table.

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// side is one of the two that are compared.
type side struct {
	name  string
	start func(ctx context.Context, dir string) (*target, error)
	got   map[string][]float64 // row -> one figure for each round
	share map[string][]float64 // row -> the client's part of the processors' time, likewise
}

// measure starts both sides, runs every row on each in turn, and prints what it found.
func measure(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp(o.Dir, "keelson-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	sides, err := bothSides(ctx, o, dir)
	if err != nil {
		return err
	}
	if err := measureStarts(ctx, o, sides, dir); err != nil {
		return err
	}
	etcd, err := measureRounds(ctx, o, sides, dir)
	if err != nil {
		return err
	}
	return report(o, sides, etcd)
}

func bothSides(ctx context.Context, o options, dir string) ([]*side, error) {
	var sides []*side
	if o.Only != "keelson" {
		sides = append(sides, &side{name: "upstream", start: startUpstream, got: map[string][]float64{}, share: map[string][]float64{}})
	}
	if o.Only != "upstream" {
		bin := o.Keelson
		if bin == "" {
			var err error
			if bin, err = buildKeelson(ctx, dir); err != nil {
				return nil, err
			}
		}
		start := func(ctx context.Context, dir string) (*target, error) { return startKeelson(ctx, bin, dir) }
		sides = append(sides, &side{name: "keelson", start: start, got: map[string][]float64{}, share: map[string][]float64{}})
	}
	return sides, nil
}

// buildKeelson builds the binary of the module beside this one into dir and returns its path.
func buildKeelson(ctx context.Context, dir string) (string, error) {
	bin := filepath.Join(dir, "keelson-binary") // beside the sides' folders, which have their names
	say("building keelson")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", bin, "./cmd/keelson")
	cmd.Dir = ".." // as the product's own module has it
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return bin, nil
}

// measureStarts starts each side several times with nothing on disk yet, and installs the definition.
func measureStarts(ctx context.Context, o options, sides []*side, dir string) error {
	crd, err := httpRouteCRD()
	if err != nil {
		return err
	}
	for i := range o.Starts {
		for _, s := range sides {
			d := filepath.Join(dir, fmt.Sprintf("%s-start-%d", s.name, i))
			p, err := s.open(ctx, o, d, crd)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			t := p.target
			s.got["start to ready"] = append(s.got["start to ready"], t.ready.Seconds()*1000)
			if t.aside > 0 {
				s.got["of it etcd"] = append(s.got["of it etcd"], t.aside.Seconds()*1000)
			}
			p.close()
			t.stop()
			if err := os.RemoveAll(d); err != nil {
				return err
			}
		}
	}
	return nil
}

// measureRounds keeps both sides running and gives them the rows in turn; the side that goes first changes by round. It returns what
// etcd alone did in each round.
func measureRounds(ctx context.Context, o options, sides []*side, dir string) (etcd []etcdAlone, err error) {
	crd, err := httpRouteCRD()
	if err != nil {
		return nil, err
	}
	pools := map[*side]*pool{}
	for _, s := range sides {
		p, err := s.open(ctx, o, filepath.Join(dir, s.name), crd)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		defer p.target.stop()
		defer p.close()
		pools[s] = p
	}
	for n := range o.Rounds {
		rounds := map[*side]*round{}
		for _, s := range sides {
			if rounds[s], err = newRound(pools[s], o, n); err != nil {
				return nil, err
			}
		}
		for i, row := range rows() {
			if i > 0 && !strings.Contains(row.Name, o.Run) {
				continue // the first one creates what the others work with
			}
			for _, s := range sides {
				if err := measureRow(ctx, s, row, rounds[s], n); err != nil {
					return nil, fmt.Errorf("%s: %s: %w", s.name, row.Name, err)
				}
			}
		}
		a, err := rounds[sides[len(sides)-1]].etcd(ctx, dir)
		if err != nil {
			return nil, err
		}
		say("round %d  etcd alone: %.1f puts/s in process, %.1f over its own API, the client's share %.0f %%", n+1, a.bare, a.remote, 100*a.share)
		etcd = append(etcd, a)
		slices.Reverse(sides)
	}
	return etcd, nil
}

// open starts a side in a folder of its own, with the definition.
func (s *side) open(ctx context.Context, o options, dir string, crd []byte) (*pool, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	t, err := s.start(ctx, dir)
	if err != nil {
		return nil, err
	}
	p, err := newPool(t, o.Conns)
	if err != nil {
		t.stop()
		return nil, err
	}
	served, err := install(ctx, p, crd)
	if err != nil {
		p.close()
		t.stop()
		return nil, fmt.Errorf("installing the definition: %w", err)
	}
	s.got["definition to served"] = append(s.got["definition to served"], served.Seconds()*1000)
	return p, nil
}

// measureRow runs one row on one side, and finds out whose the work was.
func measureRow(ctx context.Context, s *side, row row, r *round, n int) error {
	var err error
	if r.before, err = r.pool.target.spent(); err != nil {
		return err
	}
	v, err := row.run(ctx, r)
	if err != nil {
		return err
	}
	after, err := r.pool.target.spent()
	if err != nil {
		return err
	}
	before := r.before
	s.got[row.Name] = append(s.got[row.Name], v)
	client, server := after.client-before.client, after.server-before.server
	if client+server > 0 && !row.LessBetter {
		s.share[row.Name] = append(s.share[row.Name], float64(client)/float64(client+server))
	}
	say("round %d  %-22s %-9s %10.1f %s, processors: client %v, server %v", n+1, row.Name, s.name, v, row.Unit,
		client.Round(time.Millisecond), server.Round(time.Millisecond))
	return nil
}

// report prints the table, and writes it into a document if asked.
func report(o options, sides []*side, etcd []etcdAlone) error {
	slices.SortFunc(sides, func(a, b *side) int { return strings.Compare(b.name, a.name) }) // upstream first
	table := markdown(o, sides) + beside(sides, etcd)
	fmt.Println(table)
	for file := range strings.SplitSeq(o.Markdown, ",") {
		if file == "" {
			continue
		}
		if err := replaceBetween(file, "<!-- table:begin -->", "<!-- table:end -->", table); err != nil {
			return err
		}
	}
	return nil
}

// markdown lays the medians out as a table, the ratio being the median over the rounds of each round's ratio.
func markdown(o options, sides []*side) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s, %d processors, %s, %s.\n", time.Now().UTC().Format("2006-01-02"), cpuModel(), runtime.NumCPU(), runtime.Version(), versions())
	fmt.Fprintf(&b, "%d rounds of %d routes (%d bytes each), %d connections, %d watchers, %d starts.\n\n", o.Rounds, o.Objects, len(route("route-000000")), o.Conns, o.Watchers, o.Starts)
	b.WriteString("| work | ")
	for _, s := range sides {
		b.WriteString(s.name + " | ")
	}
	b.WriteString("ratio | least and most of a round | the client's share |\n| --- |" + strings.Repeat(" ---: |", len(sides)+3) + "\n")
	all := []row{
		{Name: "start to ready", Unit: "ms", LessBetter: true},
		{Name: "of it etcd", Unit: "ms", LessBetter: true},
		{Name: "definition to served", Unit: "ms", LessBetter: true},
	}
	for _, r := range append(all, rows()...) {
		name := r.Name
		if name == "list of all" {
			name = fmt.Sprintf("list of %d", o.Objects)
		}
		if name == "memory after create" {
			name = "memory after the first creates" // later rounds hold more objects than the row's name says
		}
		fmt.Fprintf(&b, "| %s | ", name)
		for _, s := range sides {
			got := s.got[r.Name]
			if r.Name == "memory after create" {
				got = got[:min(1, len(got))]
			}
			if len(got) == 0 {
				b.WriteString("– | ")
				continue
			}
			fmt.Fprintf(&b, "%s %s | ", figure(median(got)), r.Unit)
		}
		b.WriteString(ratios(r, sides) + " " + shares(r, sides) + " |\n")
	}
	return b.String()
}

// ratios says how many times better the second side was, over all rounds and at its worst and best.
func ratios(r row, sides []*side) string {
	if len(sides) < 2 {
		return "– | – |"
	}
	base, ours := sides[0].got[r.Name], sides[1].got[r.Name]
	if r.Name == "memory after create" && len(base) > 0 && len(ours) > 0 {
		base, ours = base[:1], ours[:1]
	}
	var all []float64
	for i := range min(len(base), len(ours)) {
		if r.LessBetter {
			all = append(all, base[i]/ours[i])
		} else {
			all = append(all, ours[i]/base[i])
		}
	}
	if len(all) == 0 {
		return "– | – |"
	}
	return fmt.Sprintf("**%s x** | %s–%s x |", figure(median(all)), figure(slices.Min(all)), figure(slices.Max(all)))
}

// shares says which part of the processors' time was the client's, side by side.
func shares(r row, sides []*side) string {
	var all []string
	for _, s := range sides {
		if got := s.share[r.Name]; len(got) > 0 {
			all = append(all, fmt.Sprintf("%.0f %%", 100*median(got)))
		}
	}
	if len(all) == 0 {
		return "–"
	}
	return strings.Join(all, ", ")
}

func median(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	return v[len(v)/2]
}

// figure prints three digits that matter, with thousands set off.
func figure(v float64) string {
	switch {
	case v < 10:
		return fmt.Sprintf("%.1f", v)
	case v < 1000:
		return fmt.Sprintf("%.0f", v)
	}
	n := int(v)
	if n >= 1_000_000 {
		return fmt.Sprintf("%d,%03d,%03d", n/1_000_000, n/1000%1000, n%1000)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

func cpuModel() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err == nil {
		for line := range strings.Lines(string(b)) {
			if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
				return strings.TrimSpace(v)
			}
		}
	}
	return runtime.GOARCH
}

// versions names the modules of upstream's side as they were built in.
func versions() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "no build information"
	}
	var out []string
	for _, m := range info.Deps {
		switch m.Path {
		case "k8s.io/apiextensions-apiserver", "go.etcd.io/etcd/server/v3", "github.com/google/cel-go":
			out = append(out, m.Path+" "+m.Version)
		}
	}
	return strings.Join(out, ", ")
}

// writeTable writes table between the markers called name of the files, whose names are separated by
// commas. An empty table, of a measurement that failed, leaves them alone.
func writeTable(files, name, table string) error {
	var errs []error
	for file := range strings.SplitSeq(files, ",") {
		if file != "" && table != "" {
			errs = append(errs, replaceBetween(file, "<!-- "+name+":begin -->", "<!-- "+name+":end -->", table))
		}
	}
	return errors.Join(errs...)
}

// replaceBetween sets the text between two marker lines of a file.
func replaceBetween(file, begin, end, text string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	i, j := bytes.Index(b, []byte(begin)), bytes.Index(b, []byte(end))
	if i < 0 || j < i {
		return errors.New(file + ": no markers " + begin + " and " + end)
	}
	out := slices.Concat(b[:i+len(begin)], []byte("\n"), []byte(text), b[j:])
	return os.WriteFile(file, out, 0o644)
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
