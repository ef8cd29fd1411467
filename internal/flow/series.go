package flow

import (
	"sync/atomic"
	"time"
)

// This file counts the requests of one FlowSchema in one priority level. Requests change these numbers
// without a lock; metrics.go shows them.

// Reasons of rejections, as indexes and labels.
const (
	rejectedLimit = iota
	rejectedFull
	rejectedTime
)

var rejections = [...]string{rejectedLimit: "concurrency-limit", rejectedFull: "queue-full", rejectedTime: "time-out"}

// series are the numbers of one FlowSchema in one priority level.
type series struct {
	level, schema string

	dispatched     atomic.Uint64
	rejected       [len(rejections)]atomic.Uint64
	unaccommodated atomic.Uint64

	inside                atomic.Int64 // requests that execute, and their seats: see insideOne
	waiting, seatsWaiting atomic.Int64

	mutating, waitingMutating atomic.Int64 // of them, those that write

	lengths      histogram    // of queues, with the new request
	waits        [2]histogram // seconds until rejected, until executed
	executions   [2]histogram // seconds, of requests and of the start of watches
	watches      histogram    // who watch what a request changes
	workEstimate histogram    // seats
}

var (
	lengthBounds   = []int64{0, 10, 25, 50, 100, 250, 500, 1000}
	durationBounds = []int64{0, 5e6, 20e6, 50e6, 100e6, 200e6, 500e6, 1e9, 2e9, 5e9, 10e9, 15e9, 30e9}
	watchBounds    = []int64{0, 1, 10, 100, 1000, 10_000}
	seatBounds     = []int64{1, 2, 4, 8, 16, 32, 64, 100}
)

// newSeries returns the metrics of a level and a schema.
func newSeries(level, schema string) *series {
	s := &series{level: level, schema: schema}
	s.lengths.bounds, s.watches.bounds, s.workEstimate.bounds = lengthBounds, watchBounds, seatBounds
	for i := range 2 {
		s.waits[i].bounds, s.executions[i].bounds = durationBounds, durationBounds
	}
	return s
}

// insideOne is one request in series.inside; a seat is 1. Seats may be held longer than a request
// executes.
const insideOne = 1 << 32

// enter counts a request with its seats.
func (s *series) enter(t *Ticket) {
	s.inside.Add(insideOne + int64(t.seats))
	if t.mutates {
		s.mutating.Add(1)
	}
}

// countWaiting adds n requests like t to those that wait, with their seats.
func (s *series) countWaiting(t *Ticket, n int64) {
	s.waiting.Add(n)
	s.seatsWaiting.Add(n * int64(t.seats))
	if t.mutates {
		s.waitingMutating.Add(n)
	}
}

// current returns the requests that execute, and the seats in use.
func (s *series) current() (requests, seats int64) {
	n := s.inside.Load()
	return n / insideOne, n % insideOne
}

// executed counts the end of a request. The seats that it gives back are negative; 0 if it keeps them
// for some time.
func (s *series) executed(t *Ticket, took time.Duration, seats int) {
	s.inside.Add(int64(seats) - insideOne)
	if t.mutates {
		s.mutating.Add(-1)
	}
	watch := 0
	if t.watch {
		watch = 1
	}
	s.executions[watch].observe(int64(took))
}

// histogram counts values by bounds, which are in the unit of the values.
type histogram struct {
	bounds []int64
	counts [16]atomic.Uint64 // of values up to a bound, above the one before; after the last bound: of those above
	sum    atomic.Int64
}

// observe counts a value.
func (h *histogram) observe(v int64) {
	i := 0
	for i < len(h.bounds) && v > h.bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	if v != 0 {
		h.sum.Add(v)
	}
}

// read returns the histogram as Prometheus shows it. unit is how many of the values' units are one.
func (h *histogram) read(unit float64) (count uint64, sum float64, buckets map[float64]uint64) {
	buckets = make(map[float64]uint64, len(h.bounds))
	for i, b := range h.bounds {
		count += h.counts[i].Load()
		buckets[float64(b)/unit] = count
	}
	return count + h.counts[len(h.bounds)].Load(), float64(h.sum.Load()) / unit, buckets
}

// timing measures for how long a ratio was within bounds, in nanoseconds. A lock guards it.
type timing struct {
	bounds []float64
	of     float64 // what values are shares of; 0: 1
	value  float64
	counts [16]uint64
	sum    float64
}

// add counts some nanoseconds at the present ratio.
func (t *timing) add(nanoseconds int64) {
	ratio := t.value
	if t.of > 0 {
		ratio /= t.of
	}
	i := 0
	for i < len(t.bounds) && ratio > t.bounds[i] {
		i++
	}
	t.counts[i] += uint64(nanoseconds)
	t.sum += ratio * float64(nanoseconds)
}

// set sets the value that counts from now on.
func (t *timing) set(n int) { t.value = float64(n) }

// read returns the timing as Prometheus shows it.
func (t *timing) read() (count uint64, sum float64, buckets map[float64]uint64) {
	buckets = make(map[float64]uint64, len(t.bounds))
	for i, b := range t.bounds {
		count += t.counts[i]
		buckets[b] = count
	}
	return count + t.counts[len(t.bounds)], t.sum, buckets
}
