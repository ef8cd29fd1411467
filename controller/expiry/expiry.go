// Package expiry deletes objects whose time is up: those of kinds that live for a while after they were written last, as events do.
//
// The [Controller] reads every change of the store from a tap of the cache, remembers when each such object is to go, and sleeps
// until the first of them is. What was there before it began goes by the times that it carries.
//
// # Invariants
//
//   - An object is deleted only in the state in which its time was up: whoever writes it again in time keeps it.
//   - Several servers may do this at once.
//
// [Controller.Run] is the function to call.
package expiry

import (
	"container/heap"
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/store"
)

const pageSize = 1000

// Controller deletes objects whose time is up.
type Controller struct {
	Kinds  *kind.Registry
	Cache  *cache.Cache
	Store  store.Store
	Logger *slog.Logger
	Now    func() time.Time // nil: time.Now

	ttl map[string]time.Duration // by storage prefix, with a slash at the end
	due dues
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) {
	if c.Now == nil {
		c.Now = time.Now
	}
	c.ttl, c.due = map[string]time.Duration{}, dues{at: map[string]*entry{}}
	for k := range c.Kinds.Load().All() {
		if k.Builtin != nil && k.Builtin.TTL > 0 && k.Storage.Kind == k {
			c.ttl[k.StoragePrefix+"/"] = k.Builtin.TTL
		}
	}
	if len(c.ttl) == 0 {
		return
	}
	tap, err := c.Cache.Tap(ctx)
	if err != nil {
		return
	}
	defer tap.Close()
	for stale := true; ctx.Err() == nil; {
		if stale {
			stale = c.list(ctx) != nil
		}
		wait, cancel := c.untilDue(ctx)
		events, _, err := tap.Next(wait)
		cancel()
		switch {
		case errors.Is(err, cache.ErrExpired):
			stale = true
		case err != nil && wait.Err() == nil:
			return
		}
		now := c.Now()
		for i := range events {
			c.see(&events[i], now)
		}
		c.expire(ctx, now)
	}
}

// untilDue is a context that ends when the next object's time is up.
func (c *Controller) untilDue(ctx context.Context) (context.Context, context.CancelFunc) {
	if len(c.due.heap) == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, max(0, c.due.heap[0].when.Sub(c.Now())))
}

// lifetime is how long the object at a key lives, 0: for ever.
func (c *Controller) lifetime(key string) time.Duration {
	for prefix, d := range c.ttl {
		if strings.HasPrefix(key, prefix) {
			return d
		}
	}
	return 0
}

// see takes over a change.
func (c *Controller) see(e *store.Event, now time.Time) {
	switch d := c.lifetime(e.Key); {
	case d == 0:
	case e.Deleted:
		c.due.drop(e.Key)
	default:
		c.due.put(e.Key, e.Rev, now.Add(d))
	}
}

// list finds what is there already.
func (c *Controller) list(ctx context.Context) error {
	for prefix, d := range c.ttl {
		o := store.ListOptions{Limit: pageSize}
		for {
			page, err := c.Store.List(ctx, prefix, o)
			if err != nil {
				return err
			}
			for _, it := range page.Items {
				if have := c.due.at[it.Key]; have == nil || have.rev < it.Rev {
					c.due.put(it.Key, it.Rev, lastWritten(it.Value, c.Now()).Add(d))
				}
			}
			if !page.More {
				break
			}
			o.From = page.Items[len(page.Items)-1].Key + "\x00"
		}
	}
	return nil
}

// lastWritten is when an object says that it was written last; now if it does not say.
func lastWritten(raw []byte, now time.Time) time.Time {
	d := doc.Get()
	defer d.Release()
	if len(raw) == 0 || raw[0] != '{' || doc.Parse(d, raw) != nil {
		return now
	}
	root := d.Root()
	var last time.Time
	for _, path := range [][]string{{"lastTimestamp"}, {"eventTime"}, {"series", "lastObservedTime"}, {"metadata", "creationTimestamp"}} {
		if t, err := time.Parse(time.RFC3339, root.At(path...).Text()); err == nil && t.After(last) {
			last = t
		}
	}
	if last.IsZero() || last.After(now) {
		return now
	}
	return last
}

// expire deletes what is due.
func (c *Controller) expire(ctx context.Context, now time.Time) {
	for len(c.due.heap) > 0 && !c.due.heap[0].when.After(now) && ctx.Err() == nil {
		e := c.due.heap[0]
		_, err := c.Store.Delete(ctx, e.key, e.rev)
		var changed *store.Changed
		switch {
		case err == nil, errors.As(err, &changed), errors.Is(err, store.ErrNotFound):
			c.due.drop(e.key) // what it was changed to comes by the tap
		default:
			c.Logger.Warn("object whose time is up was not deleted, trying again", "key", e.key, "error", err)
			c.due.put(e.key, e.rev, now.Add(time.Second))
		}
	}
}

// dues are objects by when they are to go.
type dues struct {
	at   map[string]*entry
	heap entries
}

type entry struct {
	key  string
	rev  int64
	when time.Time
	i    int // in the heap
}

func (d *dues) put(key string, rev int64, when time.Time) {
	if e := d.at[key]; e != nil {
		e.rev, e.when = rev, when
		heap.Fix(&d.heap, e.i)
		return
	}
	e := &entry{key: key, rev: rev, when: when}
	d.at[key] = e
	heap.Push(&d.heap, e)
}

func (d *dues) drop(key string) {
	if e := d.at[key]; e != nil {
		heap.Remove(&d.heap, e.i)
		delete(d.at, key)
	}
}

// entries implement heap.Interface.
type entries []*entry

// Len implements heap.Interface.
func (h entries) Len() int { return len(h) }

// Less implements heap.Interface.
func (h entries) Less(i, j int) bool { return h[i].when.Before(h[j].when) }

// Swap implements heap.Interface.
func (h entries) Swap(i, j int) { h[i], h[j] = h[j], h[i]; h[i].i, h[j].i = i, j }

// Push implements heap.Interface.
func (h *entries) Push(x any) {
	e := x.(*entry)
	e.i = len(*h)
	*h = append(*h, e)
}

// Pop implements heap.Interface.
func (h *entries) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	*h = (*h)[:last]
	return e
}
