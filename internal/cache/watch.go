package cache

// This file defines watches.

import (
	"context"
	"errors"
)

// EventType is the kind of a change.
type EventType uint8

// The event types.
const (
	Added EventType = iota + 1
	Modified
	Deleted
)

func (t EventType) String() string { return [...]string{"", "ADDED", "MODIFIED", "DELETED"}[t] }

// Event is a change of one object.
type Event struct {
	Type   EventType
	Object *Object // if Deleted: the last content, at the revision of the removal
	Prev   *Object // nil if Added
	Rev    int64
}

// Watch reads the changes of a resource from its shared log. One goroutine uses it.
type Watch struct {
	r      *Resource
	g      *group
	pos    uint64 // the number of the group's next event
	rev    int64  // everything up to it was returned, or was not requested
	buf    []Event
	closed bool
}

// Watch opens a watch of the changes after a revision. A filter that ends with a slash is a prefix
// of keys, any other filter is one key, and "" means the whole resource. It returns ErrExpired if
// neither the log nor the store has all changes after that revision. A revision in the future means
// from then on.
func (r *Resource) Watch(after int64, filter string) (*Watch, error) {
	if st, _ := r.current(); st == nil {
		return nil, ErrClosed
	}
	g, pos, err := r.log.join(filter, after)
	if errors.Is(err, ErrExpired) && r.recall(after) == nil {
		g, pos, err = r.log.join(filter, after)
	}
	if err != nil {
		return nil, err
	}
	return &Watch{r: r, g: g, pos: pos, rev: after}, nil
}

// Bounds of the result of Next, which a slow watcher keeps in memory after the log has dropped it.
const (
	maxEvents     = 1024
	maxEventBytes = 256 << 10 // as cost counts them; a single event may exceed it
)

// Next waits for changes. It returns those that are pending, and the revision up to which nothing
// is missing. The slice is valid until the next call. Errors are ErrSlow, ErrExpired, ErrClosed and
// the context's.
func (w *Watch) Next(ctx context.Context) ([]Event, int64, error) {
	for {
		wake, err := w.copyPending()
		switch {
		case err != nil:
			return nil, w.rev, err
		case len(w.buf) > 0:
			return w.buf, w.rev, nil
		case wake == nil:
			continue
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return nil, w.rev, ctx.Err()
		}
	}
}

// copyPending copies pending events to buf. If there are none, it returns the channel on which to
// wait.
func (w *Watch) copyPending() (<-chan struct{}, error) {
	l, g := &w.r.log, w.g
	clear(w.buf)
	w.buf = w.buf[:0]
	l.mu.RLock()
	defer l.mu.RUnlock()
	switch {
	case w.closed:
		return nil, ErrClosed
	case g.err != nil:
		return nil, g.err
	case w.pos < g.first:
		return nil, ErrSlow
	}
	events := g.events[g.head+int(w.pos-g.first):]
	if len(events) == 0 {
		g.waiting.Add(1)
		return g.wake, nil
	}
	events = events[:min(len(events), maxEvents)]
	bytes := int64(0)
	for i := range events {
		if bytes += cost(&events[i]) + int64(len(events[i].Object.Raw)); bytes > maxEventBytes && i > 0 {
			events = events[:i]
			break
		}
	}
	w.pos += uint64(len(events))
	for i := range events {
		if events[i].Rev > w.rev { // otherwise it was not requested
			w.buf = append(w.buf, events[i])
		}
	}
	w.rev = max(w.rev, events[len(events)-1].Rev)
	return nil, nil
}

// Sharing returns how many watches have the same filter, and share their events.
func (w *Watch) Sharing() int {
	l := &w.r.log
	l.mu.RLock()
	defer l.mu.RUnlock()
	return w.g.watchers
}

// Pending returns how many changes Next could return now, 0 if it would fail.
func (w *Watch) Pending() int {
	l, g := &w.r.log, w.g
	l.mu.RLock()
	defer l.mu.RUnlock()
	if g.err != nil || w.pos < g.first {
		return 0
	}
	return g.size() - int(w.pos-g.first)
}

// Overtaken reports whether the log has dropped changes that Next did not return: Next will fail.
func (w *Watch) Overtaken() bool {
	l, g := &w.r.log, w.g
	l.mu.RLock()
	defer l.mu.RUnlock()
	return g.err != nil || w.pos < g.first
}

// Progress returns the revision up to which Next has returned everything: the revision of a
// bookmark.
func (w *Watch) Progress() int64 {
	rev := w.r.c.rev.Load() // before the log, see the package's invariants
	l, g := &w.r.log, w.g
	l.mu.RLock()
	defer l.mu.RUnlock()
	if g.err == nil && w.pos == g.first+uint64(g.size()) {
		w.rev = max(w.rev, rev)
	}
	return w.rev
}

// Close ends the watch. It must not be called while Next runs: end Next's context first.
func (w *Watch) Close() {
	if !w.closed {
		w.closed = true
		w.buf = nil
		w.r.log.leave(w.g)
	}
}
