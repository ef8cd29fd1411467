package flow

import (
	"math"
	"sync"
	"time"
)

// This file estimates the work of requests.

// Work is the estimate of a request's work: its seats while it executes, and the seats that it
// keeps for some time after its end for the work that it causes.
type Work struct {
	Initial, Final int
	Extra          time.Duration
}

const (
	mostListSeats  = 100
	mostWriteSeats = 10

	bytesPerSeat   = 100_000
	mostInMemory   = 1_000_000 // bytes that a list from the cache has in memory at a time
	unknownSize    = 1_500_000 // of an object
	watchesPerSeat = 10
	eventWork      = 5 * time.Millisecond // on each seat
)

// capped returns the most seats of a request: the level's bound, unless that is 0 or above most.
func capped(level int64, most int) int {
	if level == 0 || level > int64(most) {
		return most
	}
	return int(level)
}

// List describes a list, or a watch that begins with the state.
type List struct {
	Objects int64 // that are stored
	Size    int64 // of one of them, on average, in bytes
	Limit   int64 // of the page; 0: none
	Single  bool  // it names its only object
	Exact   bool  // an old state, which upstream's cache does not serve
	Selects bool  // it has selectors
}

// ListWork returns the work of a list by a request of this level.
func (t *Ticket) ListWork(l List) Work {
	most := capped(t.schema.level.maxSeats.Load(), mostListSeats)
	size := l.Size
	if size <= 0 && l.Objects != 0 {
		size = unknownSize
	}
	limited := l.Objects
	if l.Limit > 0 {
		limited = min(limited, l.Limit)
	}
	switch {
	case l.Single:
		limited = 1
	case l.Exact && l.Selects:
		limited = max(limited, l.Objects/2)
	}
	bytes := limited * size
	if !l.Exact {
		bytes = min(bytes, mostInMemory)
	}
	seats := int(min(math.Ceil(float64(bytes)/bytesPerSeat), mostListSeats))
	return Work{Initial: min(max(seats, 1), most)}
}

// MostSeats returns the bound that the level sets for the seats of one request; 0 if it sets none.
func (t *Ticket) MostSeats() int64 { return t.schema.level.maxSeats.Load() }

// MostListWork returns the work of a list whose options cannot be read.
func (t *Ticket) MostListWork() Work {
	return Work{Initial: capped(t.schema.level.maxSeats.Load(), mostListSeats)}
}

// WriteWork returns the work of a write of which some watchers are notified.
func (t *Ticket) WriteWork(watchers int) Work {
	t.schema.series.watches.observe(int64(watchers))
	w := Work{Initial: 1}
	if watchers < watchesPerSeat {
		return w
	}
	final := int(math.Ceil(float64(watchers) / watchesPerSeat))
	work := seatsTimes(float64(final), eventWork)
	w.Final = min(final, capped(t.schema.level.maxSeats.Load(), mostWriteSeats))
	w.Extra = perSeat(work, w.Final)
	return w
}

// watchers counts open watches by what they watch.
type watchers struct {
	mu    sync.RWMutex
	count map[watched]int
}

// watched is what a watch is for. Namespace and name are "" for all.
type watched struct{ group, resource, namespace, name string }

// Watch counts a watch until the function that it returns is called. indexed means that the watch is
// for the pods of a node: nearly all events are of other nodes.
func (c *Controller) Watch(r *Request, indexed bool) func() {
	if indexed {
		return func() {}
	}
	w, key := &c.watchers, watched{r.Group, r.Resource, r.Namespace, r.Name}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count[key]++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.count[key]--; w.count[key] == 0 {
			delete(w.count, key)
		}
	}
}

// Watchers returns how many watches may be notified of a request's change.
func (c *Controller) Watchers(r *Request) int {
	w := &c.watchers
	w.mu.RLock()
	defer w.mu.RUnlock()
	if len(w.count) == 0 {
		return 0
	}
	key := watched{group: r.Group, resource: r.Resource}
	n := w.count[key]
	if r.Namespace != "" {
		key.namespace = r.Namespace
		n += w.count[key]
	}
	if r.Name != "" {
		key.name = r.Name
		n += w.count[key]
	}
	return n
}
