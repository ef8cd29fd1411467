package cache

// This file extends a log to the time before its resource was listed.
//
// The log of a resource starts when the resource is listed, which for most is soon after the start
// of the server. Clients whose watches ended with an earlier server, or with another server on the
// same store, continue where they were. The store's history has what happened since. It is read at
// the first such request, and put before the log. A restart therefore does not make all clients
// list everything at the same moment.

import (
	"context"
	"time"

	"github.com/keelson-io/keelson/internal/store"
)

const (
	// recallTimeout bounds how long a watch waits for the store's history.
	recallTimeout = 5 * time.Second
	// recallProgress is the interval at which the store is asked how far it has sent the history.
	recallProgress = 20 * time.Millisecond
)

// recall puts the changes after a revision before those in the log. It returns ErrExpired if the
// store does not have them any more, or if the log has no room for them.
func (r *Resource) recall(after int64) error {
	r.recalling.Lock()
	defer r.recalling.Unlock()
	main, lost, room := r.log.begins()
	switch {
	case after >= lost:
		return nil // another caller was faster
	case after <= r.forgotten.Load() || room == 0:
		return ErrExpired
	}
	ctx, cancel := context.WithTimeout(r.c.life, recallTimeout)
	defer cancel()
	events, err := r.history(ctx, after, lost, room)
	if err == nil && r.log.prepend(main, lost, after, events) {
		return nil
	}
	if n := len(events); n > 0 && n == room {
		after = events[n-1].Rev // so that a request for a slightly smaller part does not read all of it again
	}
	if ctx.Err() == nil {
		r.forgotten.Store(after)
	}
	return ErrExpired
}

// history reads the changes after one revision up to another from the store: at most that many, and
// at most as many bytes as a log may have.
func (r *Resource) history(ctx context.Context, after, upTo int64, most int) ([]Event, error) {
	w, err := r.c.store.Watch(ctx, r.prefix, after)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	asking, asked := context.WithCancel(ctx)
	defer asked()
	go r.c.askProgress(asking)
	var events []Event
	var bytes int64
	for {
		b, err := w.Next(ctx)
		if err != nil {
			return nil, err
		}
		for i := range b.Events {
			e := &b.Events[i]
			if e.Rev > upTo {
				return events, nil
			}
			ev, ok := r.recalled(e)
			if bytes += cost(&ev); !ok || len(events) == most || bytes > r.c.o.LogBytes {
				return events, ErrExpired
			}
			events = append(events, ev)
		}
		if b.Rev >= upTo {
			return events, nil
		}
	}
}

// askProgress requests progress periodically, so that the store confirms a revision even if nothing
// happens.
func (c *Cache) askProgress(ctx context.Context) {
	for {
		_ = c.store.RequestProgress(ctx) // if the store does not answer, the reader of the changes finds out
		select {
		case <-time.After(recallProgress):
		case <-ctx.Done():
			return
		}
	}
}

// recalled converts a change of the store's history. It returns false if the store does not have
// the replaced object any more.
func (r *Resource) recalled(e *store.Event) (Event, bool) {
	if e.Created && !e.Deleted {
		return Event{Type: Added, Object: &Object{Key: e.Key, Rev: e.Rev, Raw: e.Value, home: r.c.views}, Rev: e.Rev}, true
	}
	if e.Prev == nil {
		return Event{}, false
	}
	old := &Object{Key: e.Key, Rev: e.PrevRev, Raw: e.Prev, home: r.c.views}
	if e.Deleted {
		return Event{Type: Deleted, Object: &Object{Key: e.Key, Rev: e.Rev, Raw: e.Prev, home: r.c.views}, Prev: old, Rev: e.Rev}, true
	}
	return Event{Type: Modified, Object: &Object{Key: e.Key, Rev: e.Rev, Raw: e.Value, home: r.c.views}, Prev: old, Rev: e.Rev}, true
}

// begins returns the main queue of the log, the revision after which it has everything, and the
// number of changes for which it has room.
func (l *log) begins() (*group, int64, int) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	o := &l.r.c.o
	if l.main.err != nil || l.bytes >= o.LogBytes {
		return l.main, l.lost, 0
	}
	return l.main, l.lost, max(0, o.LogEvents-l.main.size())
}

// prepend puts the changes from after one revision up to the start of the log before those in the
// log. It returns false if the log has no room, or if its start has changed.
func (l *log) prepend(main *group, lost, after int64, events []Event) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.main != main || l.lost != lost || main.err != nil {
		return false
	}
	bytes := int64(0)
	for i := range events {
		bytes += cost(&events[i])
	}
	o := &l.r.c.o
	if l.bytes+bytes > o.LogBytes || l.r.c.logged.Load()+bytes > o.AllLogBytes || len(events)+main.size() > o.LogEvents {
		return false
	}
	l.charge(bytes)
	l.lost = after
	main.prepend(events)
	for _, g := range l.groups {
		var own []Event
		for _, e := range events {
			if passes(e.Object.Key, g.filter) {
				own = append(own, e)
			}
		}
		g.prepend(own)
	}
	return true
}

// prepend puts events before those of the group.
func (g *group) prepend(events []Event) {
	g.events = append(events[:len(events):len(events)], g.events[g.head:]...)
	g.head = 0
	g.first -= uint64(len(events))
}
