// This file compares two commits of Keelson, so that a change that makes something slower is seen before it is released.
//
// Both sides are built by this command. It drives them by their command lines and over HTTP only, and reads what the benchmarks
// of their packages print: the commits may differ in everything else.

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/keelson-io/keelson/bench/gate"
)

// comparison is one run of the command.
type comparison struct {
	o     options
	rows  *regexp.Regexp
	limit float64 // 0.03 for 3 %
	dir   string  // temporary, removed at the end
	off   string  // fast paths that the new side does without; the old side is the work tree, too
	base  string  // hash of the old commit
	head  string  // hash of the commit below the work tree, with a note if there are changes, when the run began
	// tree has the folders of the old and of the new source, sides the servers of both, in the same order.
	tree  [2]string
	sides [2]*side
	// engine has the figures of the benchmarks: row -> one for each round, for either side.
	engine [2]map[string][]float64
	tests  [2]map[string]string // package -> its test binary
}

func runCompare(ctx context.Context, args []string) error {
	c := &comparison{o: options{Objects: 2000, Conns: 16, Watchers: 50}}
	fs := flag.NewFlagSet("bench compare", flag.ExitOnError)
	base := fs.String("base", "", "the old commit; the new side is the work tree as it is")
	fs.StringVar(&c.off, "off", "", "instead of a commit: the work tree beside itself without these fast paths, names with commas between")
	rows := fs.String("rows", "", "measure only rows that this regular expression matches; the objects that a row needs are created all the same")
	limit := fs.Float64("limit", 3, "tolerance in percent: a row fails if the 95 % interval of its ratio lies wholly above it")
	fs.IntVar(&c.o.Rounds, "rounds", 10, fmt.Sprintf("rounds, each with every row on both sides; at least %d", gate.MinRounds))
	fs.StringVar(&c.o.Dir, "dir", "", "folder for sources, binaries and data directories, on a real disk (default: the system's temporary folder)")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *base == "" && c.off == "" {
		return errors.New("base: got nothing, want a commit: make bench-compare BASE=<commit>")
	}
	if c.o.Rounds < gate.MinRounds {
		return fmt.Errorf("rounds: got %d, want at least %d: fewer have no 95 %% interval", c.o.Rounds, gate.MinRounds)
	}
	if *limit < 0 {
		return fmt.Errorf("limit: got %v %%, want 0 or more", *limit)
	}
	c.limit = *limit / 100
	var err error
	if c.rows, err = regexp.Compile(*rows); err != nil {
		return fmt.Errorf("rows: %w", err)
	}
	if len(c.serverRows()) == 0 && len(c.engineRows()) == 0 {
		return fmt.Errorf("rows: got %q, which matches none of: %s", *rows, strings.Join(allRows(), "; "))
	}
	return c.run(ctx, *base)
}

// run builds both sides, measures, and prints the table. It returns an error if a row failed.
func (c *comparison) run(ctx context.Context, base string) (err error) {
	if err = c.readHead(ctx); err != nil {
		return err
	}
	if c.off != "" {
		base = "HEAD"
	}
	if c.base, err = git(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", base+"^{commit}"); err != nil {
		return fmt.Errorf("base: got %q, want a commit of this repository: %w", base, err)
	}
	if c.dir, err = os.MkdirTemp(c.o.Dir, "keelson-compare-"); err != nil {
		return err
	}
	c.tree[0] = filepath.Join(c.dir, "base-source")
	defer func() { err = errors.Join(err, c.cleanUp()) }()
	if c.off != "" {
		c.tree[0] = c.tree[1]
	} else if _, err := git(ctx, "worktree", "add", "--quiet", "--detach", c.tree[0], c.base); err != nil {
		return err
	}
	if err := c.build(ctx); err != nil {
		return err
	}
	for n := range c.o.Rounds {
		if err := c.round(ctx, n); err != nil {
			return err
		}
	}
	return c.report()
}

// readHead finds out what the new side is.
func (c *comparison) readHead(ctx context.Context) (err error) {
	if c.tree[1], err = git(ctx, "rev-parse", "--show-toplevel"); err != nil {
		return err
	}
	if c.head, err = git(ctx, "rev-parse", "--short=12", "HEAD"); err != nil {
		return err
	}
	changes, err := git(ctx, "status", "--porcelain")
	if changes != "" {
		c.head += " with changes that are not committed"
	}
	return err
}

// cleanUp removes the work tree and the temporary folder, also after an interrupt.
func (c *comparison) cleanUp() error {
	var errs []error
	if _, err := os.Stat(c.tree[0]); err == nil && c.off == "" {
		_, err := git(context.Background(), "worktree", "remove", "--force", c.tree[0])
		errs = append(errs, err)
	}
	return errors.Join(append(errs, os.RemoveAll(c.dir))...)
}

// build makes the server of either side, and the test binaries with the benchmarks of the engine.
func (c *comparison) build(ctx context.Context) error {
	for i, name := range []string{"old", "new"} {
		c.engine[i], c.tests[i] = map[string][]float64{}, map[string]string{}
		say("building the %s side", name)
		if len(c.serverRows()) > 0 {
			bin := filepath.Join(c.dir, name+"-keelson")
			if err := goCommand(ctx, c.tree[i], "build", "-o", bin, "./cmd/keelson"); err != nil {
				return err
			}
			start := func(ctx context.Context, dir string) (*target, error) {
				c.setFastPaths(i)
				return startKeelson(ctx, bin, dir)
			}
			c.sides[i] = &side{name: name, start: start, got: map[string][]float64{}, share: map[string][]float64{}}
		}
		for _, r := range c.engineRows() {
			if _, ok := c.tests[i][r.pkg]; ok {
				continue
			}
			c.tests[i][r.pkg] = "" // the side has no such package
			folder := c.folder(i, r.pkg)
			if folder == "" {
				continue
			}
			bin := filepath.Join(c.dir, name+"-"+strings.ReplaceAll(r.pkg, "/", "-")+".test")
			if err := goCommand(ctx, c.tree[i], "test", "-c", "-o", bin, "./"+folder); err != nil {
				return err
			}
			c.tests[i][r.pkg] = bin
		}
	}
	return nil
}

// setFastPaths makes the environment that of a side, for the processes that are started next.
func (c *comparison) setFastPaths(side int) {
	if side == 1 && c.off != "" {
		os.Setenv("KEELSON_FASTPATHS", "off:"+c.off)
	} else {
		os.Unsetenv("KEELSON_FASTPATHS")
	}
}

// formerFolders are the folders that packages had before they moved.
var formerFolders = map[string]string{"internal/builtin": "builtin", "internal/api": "api"}

// folder returns the folder of a package on a side, "" if the side has no such package.
func (c *comparison) folder(side int, pkg string) string {
	for _, folder := range []string{pkg, formerFolders[pkg]} {
		if _, err := os.Stat(filepath.Join(c.tree[side], folder)); folder != "" && err == nil {
			return folder
		}
	}
	return ""
}

// round measures every row on both sides. The side that goes first changes from round to round.
func (c *comparison) round(ctx context.Context, n int) error {
	order := []int{0, 1}
	if n%2 == 1 {
		slices.Reverse(order)
	}
	if len(c.serverRows()) > 0 {
		if err := c.serverRound(ctx, n, order); err != nil {
			return err
		}
	}
	return c.engineRound(ctx, n, order)
}

// report prints what was compared and the table.
func (c *comparison) report() error {
	table, compared, failed, err := gate.Table(c.table(), c.limit)
	if err != nil {
		return err
	}
	if c.off != "" {
		c.head += " without the fast paths " + c.off
	}
	fmt.Printf("Old: %s. New: %s.\n%s, %d processors, %s. %d rounds of %d routes, %d connections, %d watchers. Tolerance: %g %%.\n\n%s\n",
		c.base[:12], c.head, cpuModel(), runtime.NumCPU(), runtime.Version(), c.o.Rounds, c.o.Objects, c.o.Conns, c.o.Watchers, 100*c.limit, table)
	switch {
	case compared == 0:
		return errors.New("no row could be compared")
	case failed > 0:
		return fmt.Errorf("%d of %d rows: the cost grew by more than %g %%", failed, compared, 100*c.limit)
	}
	return nil
}

// table collects the figures of all rows that were wanted.
func (c *comparison) table() []gate.Row {
	var out []gate.Row
	for _, r := range c.serverRows() {
		name := r.Name
		if name == "list of all" {
			name = fmt.Sprintf("list of %d", c.o.Objects)
		}
		out = append(out, gate.Row{Name: name, Unit: r.Unit, HigherBest: !r.LessBetter, Old: c.sides[0].got[r.Name], New: c.sides[1].got[r.Name]})
	}
	for _, r := range c.engineRows() {
		out = append(out, gate.Row{Name: r.name, Unit: r.unit, Old: c.engine[0][r.name], New: c.engine[1][r.name]})
	}
	return out
}

// git runs git in the current folder and returns what it prints, without the last line feed.
func git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", cmd, err, errs.Bytes())
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}

// goCommand runs the go command in a folder.
func goCommand(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s, in %s: %w\n%s", cmd, dir, err, out)
	}
	return nil
}
