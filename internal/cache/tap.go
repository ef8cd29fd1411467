package cache

// This file defines taps. A tap sees all changes of the whole store, even those of resources that
// are not open, for readers that keep little of them.

import (
	"context"
	"sync"

	"github.com/keelson-io/keelson/internal/store"
)

// maxTapped and maxTappedBytes bound the changes that wait for the reader of a tap. If there are
// more, they are dropped, and the reader learns that changes were lost.
const (
	maxTapped      = 1 << 16
	maxTappedBytes = 64 << 20
)

// Tap reads all changes of the store, or those that it wants. One goroutine uses it.
type Tap struct {
	c    *Cache
	from int64
	want func(*store.Event) bool // nil: all changes
	told int64                   // the revision that Next returned last

	mu      sync.Mutex
	pending []store.Event
	bytes   int   // bytes that pending keeps alive
	rev     int64 // everything up to it is in pending or was read
	lost    bool
	wake    chan struct{} // of capacity 1
}

// Tap opens a tap of the changes after [Tap.From]: of those for which want returns true, or of all
// if it is nil. want is called for every change, so that it must be fast. When the tap returns a
// change, readers of the cache see it already.
func (c *Cache) Tap(ctx context.Context, want func(*store.Event) bool) (*Tap, error) {
	select {
	case <-c.started:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.life.Done():
		return nil, ErrClosed
	}
	t := &Tap{c: c, want: want, wake: make(chan struct{}, 1)}
	c.taps.mu.Lock()
	defer c.taps.mu.Unlock()
	t.from = c.rev.Load()
	t.rev, t.told = t.from, t.from
	c.taps.all = append(c.taps.all, t)
	return t, nil
}

// From returns the revision after which the tap has everything.
func (t *Tap) From() int64 { return t.from }

// Next waits for changes. It returns them, and the revision up to which nothing is missing.
// ErrExpired means that changes were lost; the tap continues after the returned revision. Other
// errors are ErrClosed and the context's.
func (t *Tap) Next(ctx context.Context) ([]store.Event, int64, error) {
	for {
		t.mu.Lock()
		events, rev, lost := t.pending, t.rev, t.lost
		t.pending, t.lost, t.bytes = nil, false, 0
		t.mu.Unlock()
		more := rev > t.told
		t.told = rev
		switch {
		case lost:
			return nil, rev, ErrExpired
		case len(events) > 0 || more:
			return events, rev, nil
		}
		select {
		case <-t.wake:
		case <-ctx.Done():
			return nil, rev, ctx.Err()
		case <-t.c.life.Done():
			return nil, rev, ErrClosed
		}
	}
}

// Reach waits until readers see everything up to a revision, and taps have it.
func (c *Cache) Reach(ctx context.Context, rev int64) error { return c.wait(ctx, rev) }

// Close ends the tap.
func (t *Tap) Close() {
	taps := &t.c.taps
	taps.mu.Lock()
	defer taps.mu.Unlock()
	for i, other := range taps.all {
		if other == t {
			taps.all = append(taps.all[:i:i], taps.all[i+1:]...)
			return
		}
	}
}

// taps are the open taps.
type taps struct {
	mu  sync.Mutex
	all []*Tap
}

// raise raises the stream's revision, and passes the changes up to it to all taps. lost says that
// the changes are not known.
func (c *Cache) raise(events []store.Event, rev int64, lost bool) {
	c.taps.mu.Lock()
	defer c.taps.mu.Unlock()
	c.rev.Store(rev)
	for _, t := range c.taps.all {
		t.put(events, rev, lost)
	}
}

// put adds changes to those that wait for the reader.
func (t *Tap) put(events []store.Event, rev int64, lost bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rev = rev
	t.lost = t.lost || lost
	before := len(t.pending)
	switch {
	case t.lost:
		t.pending = nil
	case t.want == nil:
		t.pending = append(t.pending, events...)
	default:
		for i := range events {
			if t.want(&events[i]) {
				t.pending = append(t.pending, events[i])
			}
		}
		if len(t.pending) == before {
			return
		}
	}
	for _, e := range t.pending[min(before, len(t.pending)):] {
		t.bytes += len(e.Value) + len(e.Prev)
	}
	if len(t.pending) > maxTapped || t.bytes > maxTappedBytes && before > 0 {
		t.pending, t.lost, t.bytes = nil, true, 0
	}
	select {
	case t.wake <- struct{}{}:
	default:
	}
}
