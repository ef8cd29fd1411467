package cache

// This file implements the stream: the watch of the whole store, and its recovery.

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/keelson-io/keelson/internal/store"
)

// retryAfter is the pause after a failure of the store.
const retryAfter = 100 * time.Millisecond

// run keeps the stream going until the cache is closed.
func (c *Cache) run() {
	reached := c.retry("reading the store's revision", c.start)
	close(c.started) // also for resources that wait for it: the closed store tells them
	if !reached {
		return
	}
	for {
		err := c.stream()
		if c.hasEnded(err) {
			return
		}
		if errors.Is(err, store.ErrCompacted) {
			c.o.Logger.Warn("cache lost changes of the store, listing everything anew", "after", c.rev.Load())
			if !c.retry("listing the store anew", c.relist) {
				return
			}
			continue
		}
		c.o.Logger.Warn("cache lost the watch of the store, opening it again", "err", err)
		c.sleep(retryAfter)
	}
}

// hasEnded reports whether the cache or the store is closed.
func (c *Cache) hasEnded(err error) bool {
	return c.life.Err() != nil || errors.Is(err, store.ErrClosed)
}

// retry repeats attempt until it succeeds. It returns false if the cache or the store is closed.
// doing names the attempt for the log.
func (c *Cache) retry(doing string, attempt func() error) bool {
	for {
		err := attempt()
		switch {
		case err == nil:
			return true
		case c.hasEnded(err):
			return false
		}
		c.o.Logger.Warn("cache cannot go on yet", "doing", doing, "err", err)
		c.sleep(retryAfter)
	}
}

// sleep waits for d, or until the cache is closed.
func (c *Cache) sleep(d time.Duration) {
	select {
	case <-time.After(d):
	case <-c.life.Done():
	}
}

// start sets the revision at which the stream starts.
func (c *Cache) start() error {
	rev, err := c.store.Revision(c.life)
	if err != nil {
		return err
	}
	c.jump(rev)
	return nil
}

// jump moves the stream to rev without the changes before it.
func (c *Cache) jump(rev int64) {
	c.jumped.Store(rev)
	c.dispatched.Store(rev)
	c.rev.Store(rev)
}

// stream dispatches the changes from a watch of the store, until the watch fails.
func (c *Cache) stream() error {
	watch := c.store.Watch
	if lean, ok := c.store.(store.LeanWatcher); ok {
		watch = lean.WatchLean // the states have the replaced objects
	}
	w, err := watch(c.life, "", c.rev.Load())
	if err != nil {
		return err
	}
	defer w.Close()
	for {
		b, err := w.Next(c.life)
		if err != nil {
			return err
		}
		c.dispatch(b)
	}
}

// dispatch applies a batch to the resources, and then makes it visible to all readers.
func (c *Cache) dispatch(b store.Batch) {
	if b.Rev <= c.rev.Load() {
		return
	}
	c.dispatched.Store(b.Rev)
	if len(b.Events) > 0 {
		c.mu.RLock()
		for i := range b.Events {
			c.route(&b.Events[i])
		}
		c.mu.RUnlock()
		for i, r := range c.touched {
			r.publish()
			c.touched[i] = nil
		}
		c.touched = c.touched[:0]
	}
	c.raise(b.Events, b.Rev, false)
	c.waiting.reached(b.Rev)
}

// route applies an event to the resources to which it belongs. Their prefixes consist of the first
// segments of its key.
func (c *Cache) route(e *store.Event) {
	end := 0
	for range c.depth {
		i := strings.IndexByte(e.Key[end:], '/')
		if i < 0 {
			return
		}
		end += i + 1
		if r := c.resources[e.Key[:end]]; r != nil && r.apply(e) {
			c.touched = append(c.touched, r)
		}
	}
}

// relist lists every open resource again after the stream has lost changes.
func (c *Cache) relist() error {
	rev, err := c.store.Revision(c.life)
	if err != nil {
		return err
	}
	c.jumped.Store(rev)
	c.dispatched.Store(rev)
	for _, r := range c.all() {
		if err := r.relist(); err != nil {
			return err
		}
	}
	c.raise(nil, rev, true)
	c.waiting.reached(rev)
	return nil
}

// pageSize is the number of items in one page of a list.
const pageSize = 10_000

// list reads all keys under a prefix at one revision; 0 means the newest.
func (c *Cache) list(ctx context.Context, prefix string, rev int64) (*node, int64, error) {
	var b builder
	o := store.ListOptions{Limit: pageSize, Rev: rev}
	for {
		p, err := c.store.List(ctx, prefix, o)
		if err != nil {
			return nil, 0, err
		}
		for _, it := range p.Items {
			b.add(&Object{Key: it.Key, Rev: it.Rev, Raw: it.Value, Sealed: it.Sealed, home: c.views})
		}
		if !p.More {
			return b.tree(), p.Rev, nil
		}
		o.From, o.Rev = p.Items[len(p.Items)-1].Key+"\x00", p.Rev
	}
}
