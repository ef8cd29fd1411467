package cel_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// This file compares random expressions on random data with upstream, for as
// long as it is told to.

var (
	fuzzTime   = flag.Duration("compare.time", 0, "compare random expressions for this long (default: 1m)")
	fuzzCases  = flag.Int64("compare.cases", 0, "compare this many cases in place of a time")
	fuzzEnough = flag.Int("compare.enough", 8, "stop after so many differences")
	fuzzSeed   = flag.Uint64("compare.seed", 1, "where the random expressions begin")
	fuzzParts  = flag.Int("compare.parts", 3, "evaluate each expression so many times with unknown parts")
	fuzzExpr   = flag.String("compare.expr", "", "compare this expression on the data of the seed, in place of random ones")
)

// A case is one expression on one datum. A world is dear to make and an
// expression dear to compile, so both are used often.
const (
	expressionsPerWorld = 150
	dataPerWorld        = 40
)

// comparison is a run of the whole.
type comparison struct {
	t      *testing.T
	until  time.Time
	cases  atomic.Int64
	exprs  atomic.Int64
	parts  atomic.Int64 // evaluations with unknown parts
	failed atomic.Int64 // evaluations that end with an error
	said   atomic.Int64 // millions of cases of which progress was said

	mu        sync.Mutex
	reached   map[string]bool // overloads that a compiled call had
	evaluated map[string]bool // overloads in an expression that had a value
	found     []string        // differences
	excuses   map[string]int  // how often each excuse was used
}

// TestRandom compares random expressions, and requires that they reach every
// overload and macro of Kubernetes' environment.
func TestRandom(t *testing.T) {
	c := &comparison{t: t, reached: map[string]bool{}, evaluated: map[string]bool{}, excuses: map[string]int{}}
	if *fuzzExpr != "" {
		c.one(*fuzzSeed, *fuzzExpr)
		return
	}
	length := *fuzzTime
	switch {
	case length > 0:
	case *fuzzCases > 0:
		length = 1000 * time.Hour
	case testing.Short():
		t.Skip("make conformance runs it by itself, for a minute")
	default:
		length = time.Minute
	}
	c.until = time.Now().Add(length)
	for _, general := range []bool{false, true} {
		c.everyOverload(general)
	}
	var seed atomic.Uint64
	seed.Store(*fuzzSeed)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for !c.over() {
				c.world(seed.Add(1) - 1)
			}
		})
	}
	workers.Wait()
	c.report()
	c.checkReached()
	c.reportExcuses()
	t.Logf("%d cases of %d expressions, %d evaluations in parts; %d evaluations ended with an error; the next seed is %d",
		c.cases.Load(), c.exprs.Load(), c.parts.Load(), c.failed.Load(), seed.Load())
}

func (c *comparison) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.found) >= *fuzzEnough || time.Now().After(c.until) || *fuzzCases > 0 && c.cases.Load() >= *fuzzCases
}

// report fails for the differences that were found.
func (c *comparison) report() {
	for _, text := range c.found {
		c.t.Error(text)
	}
}

// one compares an expression in the world of a seed, and shows what it is there.
func (c *comparison) one(seed uint64, text string) {
	w, _ := c.newWorld(seed)
	c.limited(w, form(text), seed, perCallLimit)
	c.report()
	p, compiled, _ := w.compile(text, perCallLimit)
	c.t.Logf("upstream compiles: %v", compiled)
	for i := 0; p != nil && i < w.data(); i++ {
		c.t.Logf("%v\n\t%s", p.upstream(i), w.describe(i, text))
	}
}

// newWorld makes the world of a seed; r goes on behind it.
func (c *comparison) newWorld(seed uint64) (w world, r *rand.Rand) {
	r = rand.New(rand.NewPCG(seed, 11))
	if kind := seed % 8; kind >= 5 {
		return newPlainWorld(c.t, r, dataPerWorld, plainKind{general: kind == 7, untyped: seed%24 >= 16}), r
	}
	return newSchemaWorld(c.t, r, dataPerWorld), r
}

// world compares expressions in the world of a seed. It ends with the last of
// them, so that a run is what its seeds are.
func (c *comparison) world(seed uint64) {
	w, r := c.newWorld(seed)
	wr := &writer{Rand: r, g: w.grammar(), words: w.vocabulary()}
	defer c.progress(seed)
	for range expressionsPerWorld {
		t := wr.anyType()
		if wr.one(2) {
			t = scalarTypes[0]
		}
		c.expression(w, wr.expression(t, 1+wr.IntN(4)), wr, seed)
	}
}

// progress says after each million cases how far a run is.
func (c *comparison) progress(seed uint64) {
	for millions := c.cases.Load() / 1_000_000; ; {
		said := c.said.Load()
		if said >= millions {
			return
		}
		if c.said.CompareAndSwap(said, millions) {
			fmt.Fprintf(os.Stderr, "%d million cases, %d differences, at seed %d\n", millions, c.differences(), seed)
			return
		}
	}
}

// differences is how many were found.
func (c *comparison) differences() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.found)
}

// everyOverload writes calls of each overload, and each macro, until one has a
// value.
func (c *comparison) everyOverload(general bool) {
	r := rand.New(rand.NewPCG(*fuzzSeed, 12))
	w := newPlainWorld(c.t, r, dataPerWorld, plainKind{general: general})
	wr := &writer{Rand: r, g: w.grammar(), words: w.vocabulary()}
	for i, o := range wr.g.overloads {
		wr.Rand = rand.New(rand.NewPCG(*fuzzSeed, uint64(100+i))) // its own: how often others are tried may depend on the order of a map
		for range 400 {
			if c.evaluated[o.id] || hidden(o.function) {
				break
			}
			wr.expression(scalarTypes[0], 0)
			c.limited(w, wr.callOf(o, nil, 1), *fuzzSeed, perCallLimit)
		}
	}
	wr.expression(scalarTypes[0], 0)
	wr.every(func(p *phrase) { c.expression(w, p, wr, *fuzzSeed) })
}

// unreachable are the overloads that no expression can have.
var unreachable = map[string]string{
	"__not_strictly_false__": "the old name of @not_strictly_false",
	"cel_block_list":         "what cel-go's optimizer makes",
}

// checkReached fails for every overload that no expression had.
func (c *comparison) checkReached() {
	for _, g := range []*grammar{kubernetesGrammar(), generalGrammar(c.t)} {
		c.t.Logf("%d overloads and %d macros", len(g.overloads), len(g.macros))
		for _, o := range g.overloads {
			switch {
			case unreachable[o.id] != "":
			case !c.reached[o.id]:
				c.t.Errorf("overload %s of %s is never reached", o.id, o.function)
			case !c.evaluated[o.id]:
				c.t.Errorf("overload %s of %s is reached, but nothing with it has a value", o.id, o.function)
			}
		}
		for _, m := range g.macros {
			if !c.reached["macro "+m] {
				c.t.Errorf("macro %s is never used", m)
			}
		}
	}
}

var limits = []uint64{20_000, 20_000, 20_000, 20_000, 20_000, 20_000, 500, 40, 5, 1_000_000}

// expression compares one expression on all data of its world.
func (c *comparison) expression(w world, p *phrase, wr *writer, seed uint64) {
	c.limited(w, p, seed, limits[wr.IntN(len(limits))])
}

func (c *comparison) limited(w world, p *phrase, seed, limit uint64) {
	text := p.String()
	at, values := c.compare(w, text, limit)
	if at.ok && at.pair != nil {
		at.checkLaw(c, w, text, seed)
	}
	c.note(w, text, at.pair, values)
	c.exprs.Add(1)
	if at.ok {
		return
	}
	least := text
	for _, part := range p.closed() {
		if part.String() == text {
			break
		}
		if smaller, _ := c.compare(w, part.String(), limit); !smaller.ok {
			at, least = smaller, part.String()
			break
		}
	}
	datum := ""
	if at.datum >= 0 {
		datum = "\n\t" + w.describe(at.datum, least)
	}
	c.find("seed %d, limit %d: %s\n\tupstream %v\n\tkeelson  %v%s", seed, limit, least, at.want, at.got, datum)
}

// find notes a difference, and prints it at once: a run may take hours.
func (c *comparison) find(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.found = append(c.found, fmt.Sprintf(format, args...))
	fmt.Fprintln(os.Stderr, c.found[len(c.found)-1])
}

// checkLaw evaluates in parts, on a few of the data.
func (v *verdict) checkLaw(c *comparison, w world, text string, seed uint64) {
	r := rand.New(rand.NewPCG(seed, uint64(len(text))))
	for range *fuzzParts {
		i := r.IntN(w.data())
		c.parts.Add(1)
		breach, excuse := v.pair.breach(r, i)
		if excuse != "" {
			c.excuse(excuse)
		}
		if breach != "" {
			c.find("seed %d: %s\n\t%s\n\t%s", seed, text, breach, w.describe(i, text))
			return
		}
	}
}

// verdict is how a comparison ended.
type verdict struct {
	ok        bool
	pair      sides
	datum     int // the first on which the sides differ; -1: they do not compile alike
	want, got outcome
}

// compare compiles and evaluates on both sides. values is how many data have a
// value.
func (c *comparison) compare(w world, text string, limit uint64) (v verdict, values int) {
	p, want, got := w.compile(text, limit)
	if strings.HasPrefix(want.compile, panicked) && c.excusedPanic(text, want.compile, nil, got) {
		p = nil // we have an error or a program
	} else if want, got = normal(want), normal(got); want != got {
		c.cases.Add(1)
		return verdict{datum: -1, want: want, got: got}, 0
	}
	if p == nil {
		c.cases.Add(1)
		return verdict{ok: true}, 0
	}
	for i := range w.data() {
		want := p.upstream(i)
		c.cases.Add(1)
		if want.err == "" {
			values++
		} else {
			c.failed.Add(1)
		}
		for _, got := range p.ours(i) {
			if want == got || c.excused(p, i, want, got) {
				continue
			}
			return verdict{pair: p, datum: i, want: want, got: got}, values
		}
	}
	return verdict{ok: true, pair: p}, values
}

// note remembers what was reached.
func (c *comparison) note(w world, text string, p sides, values int) {
	if p == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, only := range p.overloads() {
		if only {
			c.reached[id] = true
			c.evaluated[id] = c.evaluated[id] || values > 0
		}
	}
	for _, m := range w.grammar().macros {
		name, _, _ := strings.Cut(m, "/")
		if strings.Contains(text, name+"(") {
			c.reached["macro "+m] = true
		}
	}
}

// generalGrammar is that of the libraries that are not Kubernetes'.
func generalGrammar(t testing.TB) *grammar {
	w, err := plainWorlds[plainKind{general: true}]()
	if err != nil {
		t.Fatal(err)
	}
	return w.g
}

// private is a grammar for one goroutine.
func (g *grammar) private() *grammar {
	return &grammar{overloads: slices.Clip(g.overloads), macros: g.macros, makes: map[string][]int{}}
}
