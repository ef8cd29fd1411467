// Package cache keeps what the store holds in memory, resource by resource, as far as it is used, and tells watchers of changes.
//
// One watch of the whole store, the stream, feeds everything. A Resource is the part under one key prefix. It is listed when it
// is first used, joined with the stream at the revision of the list, and from then on it is a sequence of immutable states, the
// newest of which is found with one atomic load: Get and Snapshot take no lock. Changes also go to a log that all watchers of the
// resource share. A Watch is no more than a position in it, so a watcher costs nothing while nothing happens to it.
//
// Keys are whole store keys everywhere; a prefix is that of whole path segments.
//
// Invariants:
//   - A state at revision r holds exactly what the store held at r under the prefix.
//   - The stream's revision (Cache.rev) is raised only after every state and log has what happened up to it. So a state that is
//     loaded after reading the stream's revision is at least that new, also if its own last change is older.
//   - A resource's log holds every change after its tail, in order, without gaps. If the store cannot tell what happened
//     (its history was compacted while the stream was away), everything is listed anew and watchers end with ErrExpired.
//
// The functions to call: New, Cache.Resource, and Get, Snapshot, Fresh and Watch of a Resource.
package cache

// This file holds the Cache: its resources and its life.

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keelson-io/keelson/store"
)

// Options of a Cache; the zero value works.
type Options struct {
	Logger *slog.Logger // nil means slog.Default()

	LogEvents   int           // changes kept per resource for watchers; 0 means 16,384
	LogBytes    int64         // bytes of them per resource; 0 means 16 MiB
	AllLogBytes int64         // bytes of the changes kept for all resources together; 0 means 128 MiB
	LogFor      time.Duration // how long they are kept at least, if there is room, and at most about twice; 0 means 5 minutes
	Snapshots   int           // old states kept per resource besides the log; 0 means 16
	KeepFor     time.Duration // how long they are kept; 0 means 75 s
	WaitMax     time.Duration // how long WaitFor waits for a future revision; 0 means 3 s
	ViewBytes   int64         // bytes of views much larger than what is stored, of all resources; 0 means 256 MiB
	StateBytes  int64         // bytes that old states of all resources hold and nothing else does; 0 means 256 MiB
}

func (o *Options) fill() {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.LogEvents == 0 {
		o.LogEvents = 16384
	}
	if o.LogBytes == 0 {
		o.LogBytes = 16 << 20
	}
	if o.AllLogBytes == 0 {
		o.AllLogBytes = 128 << 20
	}
	if o.LogFor == 0 {
		o.LogFor = 5 * time.Minute
	}
	if o.Snapshots == 0 {
		o.Snapshots = 16
	}
	if o.KeepFor == 0 {
		o.KeepFor = 75 * time.Second
	}
	if o.WaitMax == 0 {
		o.WaitMax = 3 * time.Second
	}
	if o.ViewBytes == 0 {
		o.ViewBytes = 256 << 20
	}
	if o.StateBytes == 0 {
		o.StateBytes = 256 << 20
	}
	o.LogBytes = min(o.LogBytes, o.AllLogBytes/2)
}

// Errors that callers tell apart.
var (
	ErrExpired = errors.New("revision is too old")                // no longer in the log, nor in the store
	ErrSlow    = errors.New("watcher is too slow")                // it fell off the log
	ErrClosed  = errors.New("resource was dropped, or is closed") // Drop, or Close of the cache or of the watch
)

// Cache holds what the store holds, resource by resource, as far as it is used.
type Cache struct {
	store  store.Store
	sealer store.Sealer // nil: values are stored as they are
	o      Options
	views  *Views

	life context.Context
	end  context.CancelFunc
	done sync.WaitGroup

	mu        sync.RWMutex
	resources map[string]*Resource // by prefix
	depth     int                  // most slashes in a prefix
	closed    bool

	started    chan struct{} // closed when the stream has a start
	rev        atomic.Int64  // everything up to it is in states and logs
	dispatched atomic.Int64  // the dispatcher has begun with everything up to it
	jumped     atomic.Int64  // the stream has a gap before it

	logged    atomic.Int64 // bytes of all logs
	shrinking sync.Mutex   // held while the logs are cut

	stored  atomic.Int64  // bytes of the objects of all resources
	states  atomic.Int64  // bytes that old states hold
	reading chan struct{} // capacity 1: the goroutine that reads an old state from the store holds it
	shed    time.Time     // when all views were dropped last

	touched []*Resource // by the batch being dispatched

	taps    taps
	waiting waiters
}

// New starts a cache over s, which it does not close.
func New(s store.Store, o Options) *Cache {
	o.fill()
	sealer, _ := s.(store.Sealer)
	c := &Cache{store: s, sealer: sealer, o: o, views: newViews(o.ViewBytes), resources: map[string]*Resource{}, started: make(chan struct{}), reading: make(chan struct{}, 1)}
	c.life, c.end = context.WithCancel(context.Background())
	c.waiting.kick = make(chan struct{}, 1)
	c.done.Go(c.run)
	c.done.Go(c.pushProgress)
	c.done.Go(c.forget)
	return c
}

// Resource returns the resource whose keys start with prefix ("<group>/<plural>", a trailing slash may be left out).
func (c *Cache) Resource(prefix string) *Resource {
	var space [128]byte // so that the lookup of a resource that exists allocates nothing
	key := append(space[:0], prefix...)
	if !strings.HasSuffix(prefix, "/") {
		key = append(key, '/')
	}
	c.mu.RLock()
	r := c.resources[string(key)]
	c.mu.RUnlock()
	if r != nil {
		return r
	}
	prefix = string(key)
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.resources[prefix]; r != nil {
		return r
	}
	r = &Resource{c: c, prefix: prefix}
	r.kept.held = &c.states
	if c.closed {
		r.phase = gone
		return r
	}
	c.resources[prefix] = r
	c.depth = max(c.depth, strings.Count(prefix, "/"))
	return r
}

// Drop closes the resource and ends its watches with ErrClosed. Snapshots that were taken stay good.
func (c *Cache) Drop(prefix string) {
	if !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	c.mu.Lock()
	r := c.resources[prefix]
	delete(c.resources, prefix)
	c.mu.Unlock()
	if r != nil {
		r.close()
	}
}

// forget drops old changes and states that nobody asked for in a while, of resources that are not busy enough to do so themselves.
func (c *Cache) forget() {
	tick := time.NewTicker(c.o.LogFor)
	defer tick.Stop()
	states := time.NewTicker(c.o.KeepFor)
	defer states.Stop()
	for before := int64(0); ; {
		select {
		case <-c.life.Done():
			return
		case <-states.C:
			for _, r := range c.all() {
				r.kept.forget(c.o.KeepFor, r.log.tail())
			}
		case <-tick.C:
			now := c.rev.Load()
			for _, r := range c.all() {
				r.log.forget(before)
			}
			before = now
		}
	}
}

// all returns the resources there are.
func (c *Cache) all() []*Resource {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Collect(maps.Values(c.resources))
}

// Close ends the cache: all resources are dropped.
func (c *Cache) Close() {
	c.mu.Lock()
	c.closed = true
	all := c.resources
	c.resources = map[string]*Resource{}
	c.mu.Unlock()
	c.end()
	for _, r := range all {
		r.close()
	}
	c.done.Wait()
}

// Views returns the budget of views that are much larger than what is stored.
func (c *Cache) Views() *Views { return c.views }

// Rev returns the revision up to which the cache knows everything.
func (c *Cache) Rev() int64 { return c.rev.Load() }
