// Command attack drives the keelson binary with generated hostile traffic, while another user and the health probes do ordinary work:
// "make attack".
//
// A run is a sequence of rounds. A round draws some moves (see moves.go) from its seed, and makes them side by side against one
// server for some seconds. A move is hostile traffic of one sort, sent by one actor: an anonymous client, a user without roles, an
// editor of one namespace, an author of CRDs, of policies and webhooks, of quotas or of priorities, a monitoring user, or a node. The
// judge (judge.go) looks at the server
// during the round and after it. A round with findings is repeated on fresh servers with fewer and smaller moves, and the smallest
// that still has the finding is kept in a file, which -replay runs again.
//
// Attack is a module of its own. It knows the server only as a process and as an HTTP API, so that it can run the binary of any
// commit. All its traffic goes to the loopback interface, and each run ends by itself.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// options are the flags.
type options struct {
	binary   string
	time     time.Duration
	rounds   int
	patience time.Duration
	round    time.Duration
	settle   time.Duration
	seed     uint64
	memory   int64
	width    int
	size     int
	deal     bool
	fresh    int
	moves    string
	keep     string
	replay   string
	shrink   bool
	p99      time.Duration
	damage   bool
	power    bool
	machine  bool
	volume   int
	probe    string
	verbose  bool
	flags    []string // for the binary, see flagged
}

func main() {
	var o options
	flag.StringVar(&o.binary, "bin", "", "keelson binary to attack; built from the parent directory if empty")
	flag.DurationVar(&o.time, "time", time.Minute, "time after which no further round begins")
	flag.IntVar(&o.rounds, "rounds", 0, "number of rounds, in place of -time")
	flag.DurationVar(&o.patience, "patience", 10*time.Second, "time after which an ordinary request has failed")
	flag.DurationVar(&o.round, "round", 15*time.Second, "time that the moves of a round go on")
	flag.DurationVar(&o.settle, "settle", 30*time.Second, "time after a round until everything must be normal again")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the first round; the next round has the next one")
	flag.Int64Var(&o.memory, "memory", memoryLimit, "resident memory that the server may take, in MiB")
	flag.IntVar(&o.width, "width", 4, "largest number of moves in a round")
	flag.IntVar(&o.size, "size", 100, "largest size of a move, of 100")
	flag.BoolVar(&o.deal, "deal", false, "deal the moves out: -width of them a round, each once before any is made again")
	flag.IntVar(&o.fresh, "fresh", 6, "rounds after which a new server with an empty store is attacked")
	flag.StringVar(&o.moves, "moves", "", "comma-separated list of the moves to draw from; all if empty; -NAME leaves one out")
	flag.StringVar(&o.keep, "keep", "findings", "directory in which rounds with findings are kept")
	flag.StringVar(&o.replay, "replay", "", "file of a kept round to run once, in place of generated rounds")
	flag.BoolVar(&o.shrink, "shrink", true, "look for a smaller round with the same finding")
	flag.DurationVar(&o.p99, "p99", 0, "fail if the 99th percentile of the ordinary requests of the run is above this; 0 for no bound")
	flag.BoolVar(&o.damage, "damage", true, "damage copies of the data directory, too, and start servers on them")
	flag.BoolVar(&o.power, "power", false, "keep the data on a disk that fails, and whose power fails after each round (needs root and /dev/fuse)")
	flag.IntVar(&o.volume, "volume", 800, "MiB of the file system of the data directory, in memory (needs root); 0 for an ordinary folder")
	flag.BoolVar(&o.machine, "shared", false, "the machine does other work, too: time passes only as fast as the server gets the processor time that it asks for")
	flag.StringVar(&o.probe, "probe", "", "only ask the health endpoints of the server at this address, a comma and the number of its process; the attack runs itself so")
	flag.BoolVar(&o.verbose, "v", false, "print the moves of each round")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if o.probe != "" {
		if err := runProbe(ctx, &o); err != nil {
			fmt.Fprintln(os.Stderr, "attack:", err)
			os.Exit(2)
		}
		return
	}
	found, err := run(ctx, &o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "attack:", err)
		os.Exit(2)
	}
	if found {
		os.Exit(1)
	}
}

// Round is what is kept of a round: enough to run it again.
type Round struct {
	Seed     uint64    `json:"seed"`
	Seconds  float64   `json:"seconds"` // how long the moves go on
	Moves    []Move    `json:"moves"`
	Findings []Finding `json:"findings,omitempty"`
	Binary   string    `json:"binary,omitempty"` // hash of the binary that it was found in
}

// Finding is one thing that must not happen. Two findings of one Class are taken for the same when a round is made smaller.
type Finding struct {
	Class string `json:"class"`
	Text  string `json:"text"`
}

func run(ctx context.Context, o *options) (found bool, err error) {
	if o.binary == "" {
		if o.binary, err = build(ctx); err != nil {
			return false, err
		}
	}
	hash, err := hashOf(o.binary)
	if err != nil {
		return false, err
	}
	if o.flags, err = knownFlags(ctx, o.binary); err != nil {
		return false, err
	}
	c := &campaign{o: o, hash: hash, seen: map[string]int{}}
	defer c.close()
	if o.replay != "" {
		return c.replay(ctx)
	}
	names, err := chosen(o.moves)
	if err != nil {
		return false, err
	}
	fmt.Printf("attacking %s (%s) for %v, seed %d\n", o.binary, hash, o.time, o.seed)
	begin := time.Now()
	more := func(n uint64) bool {
		if o.rounds > 0 {
			return n < uint64(o.rounds)
		}
		return time.Since(begin) < o.time
	}
	for n := uint64(0); more(n) && ctx.Err() == nil; n++ {
		r := draw(o.seed+n, hand(names, n, o), o)
		if err := c.round(ctx, r, n); err != nil {
			return false, err
		}
	}
	return c.report(time.Since(begin)), nil
}

func build(ctx context.Context) (string, error) {
	dir, err := os.MkdirTemp("", "attack-")
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "keelson")
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", binary, "./cmd/keelson")
	cmd.Dir, cmd.Stderr = "..", os.Stderr
	return binary, cmd.Run()
}

// hashOf names a binary by its content, so that totals of long runs are counted for the code that they ran.
func hashOf(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	h := fnv.New64a()
	h.Write(b)
	return fmt.Sprintf("%016x", h.Sum64()), nil
}

// chosen returns the moves of a list; a name after a - is left out, of the list or of all.
func chosen(list string) ([]string, error) {
	all := moveNames()
	if list == "" {
		return all, nil
	}
	var names, without []string
	for n := range strings.SplitSeq(list, ",") {
		name, isWithout := strings.CutPrefix(n, "-")
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("no move %q: there are %s", name, strings.Join(all, ", "))
		}
		if isWithout {
			without = append(without, name)
		} else {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		names = all
	}
	return slices.DeleteFunc(names, func(n string) bool { return slices.Contains(without, n) }), nil
}

// hand returns the moves that the n-th round draws from. If moves are dealt out, they are those that it makes; the deck is shuffled
// again when all were made.
func hand(names []string, n uint64, o *options) []string {
	if !o.deal {
		return names
	}
	hands := uint64(len(names)+o.width-1) / uint64(o.width)
	deck, rng := slices.Clone(names), rand.New(rand.NewPCG(o.seed+n/hands, 5))
	rng.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
	return slices.Collect(slices.Chunk(deck, o.width))[n%hands]
}

// draw draws the moves of a round.
func draw(seed uint64, names []string, o *options) *Round {
	rng := rand.New(rand.NewPCG(seed, 1))
	r := &Round{Seed: seed, Seconds: o.round.Seconds()}
	if !o.deal {
		all := names
		names = make([]string, 1+rng.IntN(o.width))
		for i := range names {
			names[i] = all[rng.IntN(len(all))]
		}
	}
	for _, name := range names {
		actors := moves[name].actors
		r.Moves = append(r.Moves, Move{Name: name, Actor: actors[rng.IntN(len(actors))], Seed: rng.Uint64(), Size: 1 + rng.IntN(o.size)})
	}
	return r
}

// campaign is a run over many rounds.
type campaign struct {
	o       *options
	hash    string
	arena   *arena
	rounds  int
	seen    map[string]int // findings of each class
	kept    []string       // files
	latency []time.Duration
}

func (c *campaign) close() {
	if c.arena != nil {
		c.arena.close()
	}
}

// round runs one round, on the server of the last one unless that is worn out.
func (c *campaign) round(ctx context.Context, r *Round, n uint64) (err error) {
	if c.arena == nil {
		if c.arena, err = newArena(ctx, c.o); err != nil {
			return err
		}
	}
	c.rounds++
	began := time.Now()
	findings := c.arena.play(ctx, r)
	if len(findings) == 0 && (c.o.power || c.o.damage && n%3 == 2) {
		findings = c.arena.restart(ctx, r.Seed)
	}
	c.latency = append(c.latency, c.arena.ordinary.take()...)
	if c.o.verbose || len(findings) > 0 {
		fmt.Printf("round %d, seed %d, %.0f s, at most %d MiB: %s\n", c.rounds, r.Seed, time.Since(began).Seconds(), c.arena.peak>>20, movesText(r.Moves))
	}
	worn := n%uint64(c.o.fresh) == uint64(c.o.fresh)-1
	if worn || len(findings) > 0 {
		c.arena.close()
		c.arena = nil
	}
	if len(findings) == 0 || ctx.Err() != nil {
		return nil
	}
	c.note(ctx, r, findings)
	return nil
}

// note prints findings, makes the round smaller, and keeps it.
func (c *campaign) note(ctx context.Context, r *Round, findings []Finding) {
	fresh := false
	for _, f := range findings {
		fmt.Printf("  FOUND %s: %s\n", f.Class, f.Text)
		fresh = fresh || c.seen[f.Class] == 0 && f.Class == findings[0].Class
		c.seen[f.Class]++
	}
	r.Findings, r.Binary = findings, c.hash
	if c.o.shrink && fresh {
		r = c.smaller(ctx, r)
	}
	if err := os.MkdirAll(c.o.keep, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, "attack:", err)
		return
	}
	file := filepath.Join(c.o.keep, fmt.Sprintf("%s-%d.json", findings[0].Class, r.Seed))
	b, _ := json.MarshalIndent(r, "", "\t")
	if err := os.WriteFile(file, b, 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "attack:", err)
		return
	}
	c.kept = append(c.kept, file)
	fmt.Printf("  kept in %s: %s\n", file, movesText(r.Moves))
}

// smaller drops moves of a round and makes them smaller, as long as the first finding is found again on a fresh server.
func (c *campaign) smaller(ctx context.Context, r *Round) *Round {
	class := r.Findings[0].Class
	again := func(moves []Move) bool {
		a, err := newArena(ctx, c.o)
		if err != nil {
			return false
		}
		defer a.close()
		try := &Round{Seed: r.Seed, Seconds: r.Seconds, Moves: moves}
		found := a.play(ctx, try)
		if len(found) == 0 && (strings.HasPrefix(class, "restart") || strings.HasPrefix(class, "power")) {
			found = a.restart(ctx, r.Seed)
		}
		return slices.ContainsFunc(found, func(f Finding) bool { return f.Class == class })
	}
	small := *r
	for i := 0; i < len(small.Moves) && len(small.Moves) > 1 && ctx.Err() == nil; {
		if rest := slices.Delete(slices.Clone(small.Moves), i, i+1); again(rest) {
			small.Moves = rest
		} else {
			i++
		}
	}
	for i := range small.Moves {
		for small.Moves[i].Size > 1 && ctx.Err() == nil {
			half := slices.Clone(small.Moves)
			if half[i].Size /= 2; !again(half) {
				break
			}
			small.Moves = half
		}
	}
	return &small
}

func (c *campaign) replay(ctx context.Context) (found bool, err error) {
	b, err := os.ReadFile(c.o.replay)
	if err != nil {
		return false, err
	}
	var r Round
	if err := json.Unmarshal(b, &r); err != nil {
		return false, fmt.Errorf("%s: %w", c.o.replay, err)
	}
	for _, m := range r.Moves {
		if _, ok := moves[m.Name]; !ok {
			return false, fmt.Errorf("%s: no move %q", c.o.replay, m.Name)
		}
	}
	a, err := newArena(ctx, c.o)
	if err != nil {
		return false, err
	}
	defer a.close()
	findings := a.play(ctx, &r)
	if len(findings) == 0 && slices.ContainsFunc(r.Findings, func(f Finding) bool {
		return strings.HasPrefix(f.Class, "restart") || strings.HasPrefix(f.Class, "power")
	}) {
		findings = a.restart(ctx, r.Seed)
	}
	for _, f := range findings {
		fmt.Printf("FOUND %s: %s\n", f.Class, f.Text)
	}
	fmt.Printf("%s: %d findings, at most %d MiB\n", c.o.replay, len(findings), a.peak>>20)
	return len(findings) > 0, nil
}

// report prints what the run found, and whether that is anything.
func (c *campaign) report(took time.Duration) bool {
	slices.Sort(c.latency)
	at := func(p float64) time.Duration {
		if len(c.latency) == 0 {
			return 0
		}
		return c.latency[int(p*float64(len(c.latency)-1))].Round(time.Millisecond)
	}
	fmt.Printf("%d rounds in %v; %d ordinary requests, median %v, 99th percentile %v, longest %v\n",
		c.rounds, took.Round(time.Second), len(c.latency), at(0.5), at(0.99), at(1))
	found := len(c.seen) > 0
	if c.o.p99 > 0 && at(0.99) > c.o.p99 {
		found = true
		fmt.Printf("FOUND slow: the 99th percentile of the ordinary requests is %v, want at most %v\n", at(0.99), c.o.p99)
	}
	for class, n := range c.seen {
		fmt.Printf("FOUND %s in %d rounds\n", class, n)
	}
	if !found {
		fmt.Println("nothing found")
	}
	return found
}

func movesText(moves []Move) string {
	var b strings.Builder
	for i, m := range moves {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s by %s (size %d)", m.Name, m.Actor, m.Size)
	}
	return b.String()
}
