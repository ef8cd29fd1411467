package cache

// This file holds what a log learns of the time before its resource was listed.
//
// A log begins when its resource is listed, which for most of them is a moment after the server was started. Clients whose watches ended
// with the server before it, or with another server on the same store, go on where they were: what happened since then is in the store's
// history. It is read when it is first asked for, and put before what the log has. So a restart does not make every client list
// everything at the same moment.

import (
	"context"
	"time"

	"github.com/keelson-io/keelson/store"
)

const (
	// recallTimeout bounds how long a watch waits for the store's history.
	recallTimeout = 5 * time.Second
	// recallProgress is how often the store is asked whether it has told everything.
	recallProgress = 20 * time.Millisecond
)

// recall puts the changes after a revision before what the log has. ErrExpired if the store does not know them any more, or if they
// are more than the log has room for.
func (r *Resource) recall(after int64) error {
	r.recalling.Lock()
	defer r.recalling.Unlock()
	main, lost, room := r.log.begins()
	switch {
	case after >= lost:
		return nil // somebody else was faster
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
		after = events[n-1].Rev // who asks for a little less does not have all of it read again
	}
	if ctx.Err() == nil {
		r.forgotten.Store(after)
	}
	return ErrExpired
}

// history reads at most so many changes after one revision, up to another, from the store, and at most as many bytes as a log has.
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

// askProgress makes the store say how far it is, also when nothing happens.
func (c *Cache) askProgress(ctx context.Context) {
	for {
		_ = c.store.RequestProgress(ctx) // a store that does not answer is found out by who waits for the changes
		select {
		case <-time.After(recallProgress):
		case <-ctx.Done():
			return
		}
	}
}

// recalled is a change as the store tells it. It is false if the store no longer knows what was replaced.
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

// begins returns the log's main queue, the revision after which it has everything, and for how many more changes there is room.
func (l *log) begins() (*group, int64, int) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	o := &l.r.c.o
	if l.main.err != nil || l.bytes >= o.LogBytes {
		return l.main, l.lost, 0
	}
	return l.main, l.lost, max(0, o.LogEvents-l.main.size())
}

// prepend puts the changes after one revision, and up to where the log begins, before what it has. It reports false if there is no
// room, or the log does not begin there any more.
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

func (g *group) prepend(events []Event) {
	g.events = append(events[:len(events):len(events)], g.events[g.head:]...)
	g.head = 0
	g.first -= uint64(len(events))
}
