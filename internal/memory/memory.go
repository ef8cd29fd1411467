// Package memory keeps the memory of a server within a limit.
//
// A [Governor] has the limit and the shares that the parts of the server have in it ([SharesOf]). The parts bound themselves: each
// has a budget of its share's size. The sum of the shares is larger than the limit, because the parts do not fill all at once.
// What holds the limit then is a measurement: ten times in a second the Governor reads from the runtime how many bytes were live at
// the end of the last collection, and compares them with the bytes that the heap may take.
//
//   - From three quarters on the memory is tight: caches are dropped ([Governor.Evict]), and expensive requests wait
//     ([Governor.Await]). Small requests, deletes and health checks go on.
//   - What is stored is not cached: nothing but a delete frees it. So a write that would make it grow beyond its share is refused
//     ([Governor.Grow]).
//
// The Governor also sets the memory limit of Go's collector, to what is stored and the working memory of the server. The collector
// lets a heap double otherwise, and garbage counts as resident memory as live objects do.
//
// A nil *Governor has no limit: its methods may be called, and do nothing.
//
// The functions to call: New, Governor.Run, Governor.Await and Governor.Grow.
package memory

// This file holds the Governor: its parts, its measurement, and what follows from it.

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Governor holds a process to a limit of memory. Its methods may be called from any number of goroutines.
type Governor struct {
	limit  int64
	shares Shares
	logger *slog.Logger
	read   func() measured // in place of the runtime, in tests

	mu     sync.Mutex
	parts  []part
	evicts []eviction
	calm   chan struct{} // closed when the memory is not tight any more; nil if it is not tight

	tight  atomic.Bool
	full   atomic.Bool // a write was refused since the stored bytes were below their share
	live   atomic.Int64
	goal   atomic.Int64  // bytes that the heap may take, with what the runtime needs for it
	cycles uint64        // collections until the last measurement
	forced time.Time     // when the Governor last started a collection itself
	pause  time.Duration // between collections that it starts itself

	refusals  *prometheus.CounterVec
	evictions *prometheus.CounterVec
	figures   figures
}

// part is a part of the server whose memory is known.
type part struct {
	name  string
	share int64 // 0: it has none
	used  func() int64
}

// eviction frees memory of a part.
type eviction struct {
	name string
	free func()
}

// New returns a Governor for a limit in bytes; nil if the limit is 0.
func New(limit int64, logger *slog.Logger) *Governor {
	if limit == 0 {
		return nil
	}
	g := &Governor{limit: limit, shares: SharesOf(limit), logger: logger, read: measure, pause: leastPause, figures: newFigures()}
	g.goal.Store(limit)
	g.refusals = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "keelson_memory_refusals_total",
		Help: "Requests that were refused to keep the memory within its limit, by reason: stored (a write beyond the share of what is stored), or tight (an expensive request that waited too long).",
	}, []string{"reason"})
	g.evictions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "keelson_memory_evictions_total",
		Help: "How often a part was told to drop what it can make again, because the memory was tight.",
	}, []string{"part"})
	g.refusals.WithLabelValues(reasonStored)
	g.refusals.WithLabelValues(reasonTight)
	return g
}

// Reasons of refusals in metrics.
const (
	reasonStored = "stored"
	reasonTight  = "tight"
)

// Shares returns the shares of the parts; those of a server without a limit if g is nil.
func (g *Governor) Shares() Shares {
	if g == nil {
		return SharesOf(0)
	}
	return g.shares
}

// Track adds a part to the metrics. A share of 0 means that the part has none.
func (g *Governor) Track(name string, share int64, used func() int64) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.parts = append(g.parts, part{name, share, used})
}

// Evict adds a function that is called, from one goroutine, whenever the memory is tight: at most once after each collection.
func (g *Governor) Evict(name string, free func()) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.evicts = append(g.evicts, eviction{name, free})
	g.evictions.WithLabelValues(name)
}

// Names of parts that the Governor knows.
const (
	// Stored holds what is stored, and what is made of it. Its share bounds writes, and its bytes come on top of the working memory.
	Stored = "stored"
	// Made is the part of Stored that is only made of what is stored, such as compiled definitions. It bounds writes, too, but is in
	// the working memory: a store of small definitions must not make a large process.
	Made = "made"
)

// used returns the bytes of the parts of one name.
func (g *Governor) used(name string) (n int64) {
	g.mu.Lock()
	parts := g.parts
	g.mu.Unlock()
	for _, p := range parts {
		if p.name == name {
			n += p.used()
		}
	}
	return n
}

// ErrStored is the error of a write that Grow or GrowHalf refuses.
type ErrStored struct {
	Of          string // which objects, in the plural; "": all
	Used, Share int64
}

func (e *ErrStored) Error() string {
	what := "what is stored takes"
	if e.Of != "" {
		what = e.Of + " take"
	}
	return fmt.Sprintf("%s %d MiB of memory, want at most %d MiB; delete objects, or raise --memory-limit", what, e.Used>>20, e.Share>>20)
}

// Grow reports whether what is stored may grow by n bytes: nil, or *ErrStored. Privileged writers, which are administrators and the
// server itself, have a sixteenth more, so that they can still work in a server that users have filled.
func (g *Governor) Grow(n int64, privileged bool) error {
	if g == nil {
		return nil
	}
	share := g.shares.Stored
	if privileged {
		share += share / 16
	}
	used := g.used(Stored)
	if used+n <= share {
		if used < g.shares.Stored && g.full.CompareAndSwap(true, false) {
			g.logger.Info("writes are accepted again: there is memory for more objects")
		}
		return nil
	}
	err := &ErrStored{Used: used, Share: share}
	if !g.full.Swap(true) {
		g.logger.Error("writes that store more are refused", "error", err)
	}
	g.refusals.WithLabelValues(reasonStored).Inc()
	return err
}

// HasHalf reports whether so many bytes of what is stored are at most half of its share.
func (g *Governor) HasHalf(stored int64) bool { return g == nil || stored <= g.shares.Stored/2 }

// GrowHalf reports whether some objects, which take used bytes, may grow by n bytes within half of
// the share of what is stored: nil, or *ErrStored.
func (g *Governor) GrowHalf(of string, used, n int64) error {
	if g.HasHalf(used + n) {
		return nil
	}
	g.refusals.WithLabelValues(reasonStored).Inc()
	return &ErrStored{of, used, g.shares.Stored / 2}
}

// Tight reports whether the memory is tight.
func (g *Governor) Tight() bool { return g != nil && g.tight.Load() }

// Await waits until the memory is not tight, for those who are about to need much of it. It reports false if the context ended
// first; then the request is to be refused.
func (g *Governor) Await(ctx context.Context) bool {
	if !g.Tight() {
		return true
	}
	g.mu.Lock()
	calm := g.calm
	g.mu.Unlock()
	if calm == nil {
		return true
	}
	select {
	case <-calm:
		return true
	case <-ctx.Done():
		g.refusals.WithLabelValues(reasonTight).Inc()
		return false
	}
}

// measured is what the runtime and the kernel say of the process, in bytes.
type measured struct {
	live   int64  // heap at the end of the last collection
	beside int64  // what the runtime has beside the heap: stacks and tables
	files  int64  // resident pages of files: the program, and the database
	cycles uint64 // collections until now
}

var names = [...]string{"/gc/heap/live:bytes", "/memory/classes/total:bytes", "/memory/classes/heap/objects:bytes",
	"/memory/classes/heap/unused:bytes", "/memory/classes/heap/free:bytes", "/memory/classes/heap/released:bytes", "/gc/cycles/total:gc-cycles"}

// measure reads it, in some microseconds.
func measure() measured {
	var s [len(names)]metrics.Sample
	for i, n := range names {
		s[i].Name = n
	}
	metrics.Read(s[:])
	at := func(i int) int64 {
		if s[i].Value.Kind() != metrics.KindUint64 {
			return 0
		}
		return int64(min(s[i].Value.Uint64(), math.MaxInt64))
	}
	return measured{live: at(0), beside: at(1) - at(2) - at(3) - at(4) - at(5), files: residentFiles(), cycles: uint64(at(6))}
}

// Times of the measurement.
const (
	every      = 100 * time.Millisecond
	leastPause = 250 * time.Millisecond
	mostPause  = 30 * time.Second
)

// Run measures until the context ends, and holds Go's collector to the limit meanwhile. The environment variable GOMEMLIMIT takes
// precedence over it.
func (g *Governor) Run(ctx context.Context) {
	if g == nil {
		return
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		before := debug.SetMemoryLimit(-1)
		defer debug.SetMemoryLimit(before)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for ctx.Err() == nil {
		g.look(time.Now())
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	g.ease()
}

// goalStep is what the goal is a multiple of. To change it, the runtime stops all goroutines for a moment.
const goalStep = 8 << 20

// look measures once, and acts on it.
func (g *Governor) look(now time.Time) {
	m := g.read()
	goal := g.shares.heap(m.files, max(0, g.used(Stored)-g.used(Made))) &^ (goalStep - 1)
	if goal != g.goal.Swap(goal) && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(goal)
	}
	live := m.live + m.beside
	g.live.Store(live)
	collected := m.cycles != g.cycles
	g.cycles = m.cycles
	if live < g.goal.Load()/4*3 {
		g.ease()
		g.pause = leastPause
		return
	}
	g.tighten()
	if collected {
		g.evict()
	}
	// What was dropped counts until a collection, and a server that lets nobody in may not come to one by itself. If collections do
	// not help, there are ever fewer of them.
	if collected || now.Sub(g.forced) < g.pause {
		return
	}
	g.evict()
	runtime.GC()
	g.forced = time.Now()
	g.pause = min(mostPause, max(2*g.pause, 20*g.forced.Sub(now)))
}

func (g *Governor) tighten() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.calm == nil {
		g.calm = make(chan struct{})
	}
	g.tight.Store(true)
}

// ease lets everybody go on who waits.
func (g *Governor) ease() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tight.Store(false)
	if g.calm != nil {
		close(g.calm)
		g.calm = nil
	}
}

func (g *Governor) evict() {
	g.mu.Lock()
	evicts := slices.Clone(g.evicts)
	g.mu.Unlock()
	for _, e := range evicts {
		e.free()
		g.evictions.WithLabelValues(e.name).Inc()
	}
}
