// Package cache keeps the contents of the store in memory, resource by resource, as far as they are
// used, and tells watchers about changes.
//
// One watch of the whole store, the stream, feeds everything. A Resource is the part of the store
// under one key prefix. It is listed when it is first used, and joined with the stream at the
// revision of the list. From then on it is a sequence of immutable states. The newest one is found
// with one atomic load, so that Get and Snapshot take no lock. Changes also go to a log that all
// watchers of the resource share. A Watch is only a position in the log, so that an idle watcher
// costs nothing.
//
// Keys are always whole store keys. A prefix consists of whole path segments.
//
// Invariants:
//   - A state at revision r has exactly what the store had at r under the prefix.
//   - The stream's revision (Cache.rev) is raised only after all states and logs have what happened
//     up to it. A state that is loaded after reading the stream's revision is therefore at least
//     that new, even if its own last change is older.
//   - A resource's log has every change after its tail, in order, without gaps. If the store cannot
//     say what happened, because its history was compacted while the stream was interrupted,
//     everything is listed again, and watches end with ErrExpired.
//
// The functions to call: New, Cache.Resource, and Get, Snapshot, Fresh and Watch of a Resource.
package cache

// This file defines the Cache: its resources, and its start and end.

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

	"github.com/keelson-io/keelson/internal/store"
)

// Options are the options of a Cache. The zero value works.
type Options struct {
	Logger *slog.Logger // nil means slog.Default()

	LogEvents   int           // changes in the log of a resource; 0 means 16,384
	LogBytes    int64         // bytes in the log of a resource; 0 means 16 MiB
	AllLogBytes int64         // bytes in the logs of all resources; 0 means 128 MiB
	LogFor      time.Duration // the least time that changes stay in the log, if there is room; the greatest is about twice that; 0 means 5 minutes
	Snapshots   int           // old states of a resource besides the log; 0 means 16
	KeepFor     time.Duration // how long unused old states are kept; 0 means 75 s
	WaitMax     time.Duration // the longest time that WaitFor waits for a future revision; 0 means 3 s
	ViewBytes   int64         // memory of all views that are much larger than the stored bytes; 0 means 256 MiB
	StateBytes  int64         // memory that only old states of all resources refer to; 0 means 256 MiB

	// Memory has functions for resources, by their prefixes without a slash at the end, whose objects
	// keep more than their stored bytes: the function returns how many bytes are kept for an object.
	Memory map[string]func(raw []byte) int64
	// Beside returns how many bytes are kept for an object of any resource beside what is stored, or nil.
	Beside func(raw []byte) int64
}

// setDefaults replaces zero values.
func (o *Options) setDefaults() {
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

// Errors that callers distinguish.
var (
	ErrExpired = errors.New("revision is too old")                // the log does not have the changes any more, and the store does not either
	ErrSlow    = errors.New("watcher is too slow")                // the watcher is behind the end of the log
	ErrClosed  = errors.New("resource was dropped, or is closed") // Drop was called, or Close of the cache or of the watch
)

// Cache keeps the contents of the store, resource by resource.
type Cache struct {
	store  store.Store
	sealer store.Sealer // nil if values are stored without encryption
	o      Options
	views  *Views

	life context.Context
	end  context.CancelFunc
	done sync.WaitGroup

	mu        sync.RWMutex
	resources map[string]*Resource // by prefix
	depth     int                  // the greatest number of slashes in a prefix
	closed    bool

	started    chan struct{} // closed when the stream has a start
	rev        atomic.Int64  // states and logs have everything up to it
	dispatched atomic.Int64  // the dispatcher has started with everything up to it
	jumped     atomic.Int64  // the stream has a gap before it

	logged    atomic.Int64 // bytes of all logs
	shrinking sync.Mutex   // held while logs are cut

	stored  atomic.Int64  // bytes of the objects of all resources
	states  atomic.Int64  // bytes that only old states refer to
	reading chan struct{} // capacity 1: held by the goroutine that reads an old state from the store
	shed    time.Time     // the last time when all views were dropped

	touched []*Resource // resources that the current batch changed

	taps    taps
	waiting waiters
}

// New starts a cache of s. Close does not close s.
func New(s store.Store, o Options) *Cache {
	o.setDefaults()
	sealer, _ := s.(store.Sealer)
	c := &Cache{store: s, sealer: sealer, o: o, views: newViews(o.ViewBytes), resources: map[string]*Resource{}, started: make(chan struct{}), reading: make(chan struct{}, 1)}
	c.life, c.end = context.WithCancel(context.Background())
	c.waiting.kick = make(chan struct{}, 1)
	c.done.Go(c.run)
	c.done.Go(c.pushProgress)
	c.done.Go(c.forget)
	return c
}

// Resource returns the resource whose keys start with prefix ("<group>/<plural>"; a trailing slash
// is optional).
func (c *Cache) Resource(prefix string) *Resource {
	var space [128]byte // so that the lookup of an existing resource allocates nothing
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
	r = &Resource{c: c, prefix: prefix, keeps: c.o.Memory[strings.TrimSuffix(prefix, "/")]}
	r.kept.held = &c.states
	if c.closed {
		r.phase = gone
		return r
	}
	c.resources[prefix] = r
	c.depth = max(c.depth, strings.Count(prefix, "/"))
	return r
}

// Drop closes the resource and ends its watches with ErrClosed. Existing snapshots stay valid.
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

// forget periodically drops old changes and unused states of resources that do not change often
// enough to drop them themselves.
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

// all returns all resources.
func (c *Cache) all() []*Resource {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Collect(maps.Values(c.resources))
}

// Close closes the cache and drops all resources.
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

// Views returns the budget for views that are much larger than the stored bytes.
func (c *Cache) Views() *Views { return c.views }

// Rev returns the revision up to which the cache has everything.
func (c *Cache) Rev() int64 { return c.rev.Load() }
