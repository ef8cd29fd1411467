package cache

// This file defines the Resource: how it is opened, changed and read.

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keelson-io/keelson/internal/store"
)

// Resource is the cached part of the store under one prefix. Its methods list it first if
// necessary.
type Resource struct {
	c      *Cache
	prefix string                 // ends with a slash
	keeps  func(raw []byte) int64 // from Options.Memory, or nil

	state  atomic.Pointer[state] // nil until it is open
	stored atomic.Int64          // bytes of the objects of the newest state, with what is made of them; changed with the lock held
	made   atomic.Int64          // the part that is made of them; changed with the lock held

	mu      sync.Mutex // guards the following fields; held by the dispatcher and while opening
	phase   phase
	opening *attempt
	pending []store.Event // events that arrived while it was being listed
	next    *node         // the state on which the dispatcher is working
	nextRev int64
	bytes   int64   // stored bytes of the objects of next
	changes []Event // the changes from state to next
	written written

	log  log
	kept keeper

	recalling sync.Mutex   // held while the store's history is read
	forgotten atomic.Int64 // the history up to this revision is useless: it was compacted, or is too long
}

// state is the content of the resource at a revision, and at all later ones up to the stream's.
type state struct {
	root  *node
	rev   int64
	bytes int64
}

// phase is the state of a resource's life.
type phase uint8

const (
	idle phase = iota
	listing
	open
	gone
)

// attempt is one attempt to open a resource. Several callers may wait for it.
type attempt struct {
	done chan struct{}
	err  error
}

// Prefix returns the prefix of the resource's keys. It ends with a slash.
func (r *Resource) Prefix() string { return r.prefix }

// Ready waits until the resource has been listed. All other methods do so, too. Those without a
// context wait as long as necessary, and find nothing if the store cannot be read.
func (r *Resource) Ready(ctx context.Context) error {
	if r.state.Load() != nil {
		return nil
	}
	r.mu.Lock()
	switch r.phase {
	case open:
		r.mu.Unlock()
		return nil
	case gone:
		r.mu.Unlock()
		return ErrClosed
	case idle:
		r.phase, r.pending = listing, nil
		r.opening = &attempt{done: make(chan struct{})}
		go r.open(r.opening)
	}
	a := r.opening
	r.mu.Unlock()
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// open lists the resource and joins it with the stream.
func (r *Resource) open(a *attempt) {
	select {
	case <-r.c.started:
	case <-r.c.life.Done():
	}
	for {
		// The store may deliver a change a moment before it can be read. The list must have
		// everything that was dispatched before this resource started to collect events.
		floor := r.c.dispatched.Load()
		root, rev, err := r.c.list(r.c.life, r.prefix, 0)
		if errors.Is(err, store.ErrCompacted) {
			continue // between two pages
		}
		r.mu.Lock()
		switch {
		case r.phase == gone:
			err = ErrClosed
		case err != nil:
			r.phase = idle
			if r.c.life.Err() != nil {
				err = ErrClosed
			}
		case rev < floor || rev < r.c.jumped.Load():
			r.mu.Unlock()
			continue
		default:
			r.join(root, rev)
		}
		r.opening, r.pending = nil, nil
		r.mu.Unlock()
		a.err = err
		close(a.done)
		return
	}
}

// join sets the state to a list plus the events that arrived since. The lock is held.
func (r *Resource) join(root *node, rev int64) {
	r.phase = open
	r.log.reset(r, rev)
	r.kept.reset()
	r.next, r.nextRev, r.bytes = root, rev, 0
	r.uncharge()
	root.ascend("", func(o *Object) bool {
		r.bytes += int64(len(o.Raw))
		r.charge(o, 1)
		return true
	})
	r.changes = nil
	r.written.reset()
	for i := range r.pending {
		r.change(&r.pending[i])
	}
	r.publishLocked()
}

// relist replaces the state of an open resource, and ends its watches, because changes were lost.
func (r *Resource) relist() error {
	if r.state.Load() == nil {
		return nil // not open; if it is being opened, open notices the gap
	}
	root, rev, err := r.c.list(r.c.life, r.prefix, 0)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.phase == open {
		r.join(root, rev)
	}
	return nil
}

// close closes the resource for good.
func (r *Resource) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phase = gone
	r.state.Store(nil)
	r.next, r.changes = nil, nil
	r.uncharge()
	r.written.reset()
	r.log.end(ErrClosed)
	r.kept.reset()
}

// apply adds an event of the stream. It reports whether the resource needs to be published because
// of it.
func (r *Resource) apply(e *store.Event) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch r.phase {
	case listing:
		r.pending = append(r.pending, *e)
	case open:
		first := len(r.changes) == 0
		r.change(e)
		return first && len(r.changes) > 0
	}
	return false
}

// change applies an event to next. Events that the list already has are ignored.
func (r *Resource) change(e *store.Event) {
	if e.Rev <= r.nextRev {
		return
	}
	r.nextRev = e.Rev
	var ch Event
	handed := r.written.arrived(e)
	if e.Deleted {
		var old *Object
		if r.next, old = r.next.remove(e.Key); old == nil {
			return
		}
		r.bytes -= int64(len(old.Raw))
		r.charge(old, -1)
		ch = Event{Type: Deleted, Object: &Object{Key: old.Key, Rev: e.Rev, Raw: old.Raw, home: r.c.views}, Prev: old, Rev: e.Rev}
	} else {
		o := handed
		if o == nil {
			o = &Object{Key: e.Key, Rev: e.Rev, Raw: e.Value, Sealed: e.Sealed, home: r.c.views}
		}
		var old *Object
		r.next, old = r.next.insert(o)
		r.bytes += int64(len(o.Raw))
		ch = Event{Type: Added, Object: o, Prev: old, Rev: e.Rev}
		r.charge(o, 1)
		if old != nil {
			r.bytes -= int64(len(old.Raw))
			r.charge(old, -1)
			ch.Type = Modified
			if handed == nil { // otherwise other goroutines may read it already
				o.Key = old.Key // one string for all states of an object
			}
		}
	}
	r.changes = append(r.changes, ch)
}

// publish makes next the state, and tells watchers.
func (r *Resource) publish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.phase == open {
		r.publishLocked()
	}
}

// publishLocked is publish for a caller that holds the lock.
func (r *Resource) publishLocked() {
	st := &state{r.next, r.nextRev, r.bytes}
	r.state.Store(st)
	if len(r.changes) > 0 {
		r.log.append(r.changes)
		r.c.shrinkLogs(r)
		r.kept.advance(st, r.changes, r.log.tail())
		clear(r.changes)
		r.changes = r.changes[:0]
	}
}

// current returns the newest state and the revision up to which it is valid. The state is nil if
// the resource cannot be read.
func (r *Resource) current() (*state, int64) {
	rev := r.c.rev.Load() // before the state, see the package's invariants
	st := r.state.Load()
	if st == nil {
		if r.Ready(r.c.life) != nil {
			return nil, 0
		}
		rev = r.c.rev.Load()
		if st = r.state.Load(); st == nil {
			return nil, 0
		}
	}
	return st, max(rev, st.rev)
}

// Changed returns the revision of the last visible change, 0 if the resource has not been listed.
func (r *Resource) Changed() int64 {
	st := r.state.Load()
	if st == nil {
		return 0
	}
	return st.rev
}

// Size returns the number of visible objects, and their stored bytes, 0 if the resource has not
// been listed.
func (r *Resource) Size() (objects int, bytes int64) {
	st := r.state.Load()
	if st == nil {
		return 0, 0
	}
	return st.root.len(), st.bytes
}

// Get returns the object at a store key.
func (r *Resource) Get(key string) (*Object, bool) {
	st := r.state.Load()
	if st == nil {
		if st, _ = r.current(); st == nil {
			return nil, false
		}
	}
	o := st.root.get(key)
	return o, o != nil
}

// Snapshot returns the newest state.
func (r *Resource) Snapshot() Snapshot {
	st, rev := r.current()
	if st == nil {
		return Snapshot{}
	}
	return Snapshot{st.root, rev}
}

// exactTimeout bounds how long SnapshotAt reads from the store.
const exactTimeout = 20 * time.Second

// SnapshotAt returns the keys that start with prefix, at exactly rev. prefix must start with the
// resource's prefix. The snapshot may have some other keys, too. If neither the log nor a kept
// state reaches back to rev, the keys are read from the store. It returns ErrExpired if the store
// does not have them any more, and a *store.FutureError if rev has not been reached yet.
func (r *Resource) SnapshotAt(rev int64, prefix string) (Snapshot, error) {
	st, now := r.current()
	switch {
	case st == nil:
		return Snapshot{}, ErrClosed
	case rev > now:
		return Snapshot{}, &store.FutureError{Wanted: rev, Current: now}
	case rev >= st.rev:
		return Snapshot{st.root, rev}, nil
	}
	if root, ok := r.kept.find(rev, prefix, r.c.o.KeepFor); ok {
		return Snapshot{root, rev}, nil
	}
	if root, bytes, ok := r.undo(st, rev); ok {
		r.keep(wantedState{state: state{root: root, rev: rev}, prefix: r.prefix, bytes: bytes})
		return Snapshot{root, rev}, nil
	}
	root, err := r.readAt(rev, prefix)
	if err != nil {
		return Snapshot{}, err
	}
	return Snapshot{root, rev}, nil
}

// readAt reads an old state from the store. Only one call reads at a time, because a state may take
// much memory.
func (r *Resource) readAt(rev int64, prefix string) (*node, error) {
	ctx, cancel := context.WithTimeout(r.c.life, exactTimeout)
	defer cancel()
	select {
	case r.c.reading <- struct{}{}:
		defer func() { <-r.c.reading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if root, ok := r.kept.find(rev, prefix, r.c.o.KeepFor); ok { // read by the previous caller
		return root, nil
	}
	root, _, err := r.c.list(ctx, prefix, rev)
	if errors.Is(err, store.ErrCompacted) {
		return nil, ErrExpired
	} else if err != nil {
		return nil, err
	}
	bytes := int64(0)
	root.ascend("", func(o *Object) bool { bytes += o.memory(); return true })
	r.keep(wantedState{state: state{root: root, rev: rev}, prefix: prefix, bytes: bytes})
	return root, nil
}

// keep keeps an old state for later requests.
func (r *Resource) keep(w wantedState) {
	r.c.roomForState(w.bytes)
	r.kept.keep(w, r.c.o.Snapshots, r.c.o.KeepFor)
	if r.state.Load() == nil { // closed in the meantime
		r.kept.shed()
	}
}

// undo computes an old state from a newer one and the changes between them, if the log has these.
// It also returns approximately how many bytes only the old state refers to.
func (r *Resource) undo(st *state, rev int64) (root *node, bytes int64, ok bool) {
	from := r.kept.after(rev, st)
	events, ok := r.log.between(rev, from.rev)
	if !ok {
		return nil, 0, false
	}
	root = from.root
	for i := len(events) - 1; i >= 0; i-- {
		e := &events[i]
		bytes += cost(e)
		if e.Prev == nil {
			root, _ = root.remove(e.Object.Key)
		} else {
			root, _ = root.insert(e.Prev)
		}
	}
	return root, bytes, true
}
