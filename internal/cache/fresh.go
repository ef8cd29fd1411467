package cache

// This file implements waiting for a revision.

import (
	"context"
	"sync"
	"time"

	"github.com/keelson-io/keelson/internal/store"
)

// Fresh waits until everything is visible that the store acknowledged before the call.
func (r *Resource) Fresh(ctx context.Context) error {
	if err := r.Ready(ctx); err != nil {
		return err
	}
	rev, err := r.c.store.Revision(ctx)
	if err != nil {
		return err
	}
	if r.has(rev) {
		return nil
	}
	return r.c.wait(ctx, rev)
}

// has reports whether everything up to rev is visible in this resource.
func (r *Resource) has(rev int64) bool {
	if r.c.rev.Load() >= rev {
		return true
	}
	st := r.state.Load()
	return st != nil && st.rev >= rev
}

// WaitFor waits until the resource has everything up to rev. After Options.WaitMax it returns a
// *store.FutureError. It asks the store nothing if the resource is new enough, so that WaitFor(ctx,
// 0) equals Ready.
func (r *Resource) WaitFor(ctx context.Context, rev int64) error {
	if err := r.Ready(ctx); err != nil {
		return err
	}
	if r.has(rev) {
		return nil
	}
	short, cancel := context.WithTimeout(ctx, r.c.o.WaitMax)
	defer cancel()
	err := r.c.wait(short, rev)
	if err == nil || ctx.Err() != nil || short.Err() == nil {
		return err
	}
	now := r.c.rev.Load()
	if now >= rev { // it arrived when the time was up
		return nil
	}
	return &store.FutureError{Wanted: rev, Current: now}
}

// waiters are the calls that wait for the stream to reach a revision.
type waiters struct {
	mu   sync.Mutex
	all  []waiter
	kick chan struct{} // capacity 1: tells pushProgress that there is a waiter
	pool sync.Pool
}

// waiter is one such call.
type waiter struct {
	rev int64
	ch  chan struct{} // of capacity 1
}

// wait waits until the stream has reached rev.
func (c *Cache) wait(ctx context.Context, rev int64) error {
	w := &c.waiting
	ch, _ := w.pool.Get().(chan struct{})
	if ch == nil {
		ch = make(chan struct{}, 1)
	}
	w.mu.Lock()
	if c.rev.Load() >= rev { // it is raised before reached takes the lock
		w.mu.Unlock()
		w.pool.Put(ch)
		return nil
	}
	w.all = append(w.all, waiter{rev, ch})
	w.mu.Unlock()
	select {
	case w.kick <- struct{}{}:
	default:
	}
	var err error
	select {
	case <-ch:
		w.pool.Put(ch)
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-c.life.Done():
		err = ErrClosed
	}
	w.mu.Lock()
	for i := range w.all {
		if w.all[i].ch == ch {
			w.remove(i)
			break
		}
	}
	w.mu.Unlock()
	return err
}

// remove removes waiter i. The lock is held.
func (w *waiters) remove(i int) {
	last := len(w.all) - 1
	w.all[i] = w.all[last]
	w.all[last] = waiter{}
	w.all = w.all[:last]
}

// reached wakes the waiters for rev and earlier revisions.
func (w *waiters) reached(rev int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := len(w.all) - 1; i >= 0; i-- {
		if w.all[i].rev <= rev {
			w.all[i].ch <- struct{}{}
			w.remove(i)
		}
	}
}

// isWaiting reports whether there are waiters.
func (w *waiters) isWaiting() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.all) > 0
}

// A change for which someone waits usually arrives within a moment. If it does not, the revision
// may be that of a key outside of all resources. Then the store must confirm that nothing else
// happened: the first request is sent after progressFirst, and the pauses double up to
// progressLast.
const (
	progressFirst = 2 * time.Millisecond
	progressLast  = 50 * time.Millisecond
)

// pushProgress requests progress from the store while there are waiters.
func (c *Cache) pushProgress() {
	for {
		select {
		case <-c.waiting.kick:
		case <-c.life.Done():
			return
		}
		for pause := progressFirst; ; pause = min(2*pause, progressLast) {
			c.sleep(pause)
			if c.life.Err() != nil || !c.waiting.isWaiting() {
				break
			}
			if err := c.store.RequestProgress(c.life); err != nil && c.hasEnded(err) {
				return
			}
		}
	}
}
