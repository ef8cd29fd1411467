// Package mem is a store.Store in memory, for tests and for servers that need not keep their data.
//
// The newest state is an ordered map. A log has the last changes, one for each revision without
// gaps, each with the value that it replaced. A Watcher is a position in the log. To read an old
// state, the newest one is copied, and the changes since then are undone.
//
// Invariant: the log has every change with a revision of at least s.compacted, so that a list at
// s.compacted and a watch from there are possible, as in etcd.
//
// The function to call: New.
package mem

// This file has the state, and reads and writes it.

import (
	"context"
	"sort"
	"strings"
	"sync"

	"github.com/tidwall/btree"

	"github.com/keelson-io/keelson/internal/store"
)

// Options of a store in memory; the zero value works.
type Options struct {
	History int // number of changes kept for Watch and for lists at old revisions; 0 means 100,000
}

const defaultHistory = 100_000

// memory implements store.Store.
type memory struct {
	history int

	mu        sync.RWMutex
	items     btree.Map[string, store.Item]
	rev       int64
	compacted int64
	log       []store.Event // revisions rev-len(log)+1 … rev
	progress  uint64        // counts RequestProgress
	wake      chan struct{} // closed and replaced when there is something for watchers
	closed    bool
}

// New returns an empty store in memory.
func New(o Options) store.Store {
	if o.History <= 0 {
		o.History = defaultHistory
	}
	// An empty etcd is at revision 1 as well: 0 means "none" everywhere.
	return &memory{history: o.History, rev: 1, compacted: 1, wake: make(chan struct{})}
}

// Get implements store.Store.
func (s *memory) Get(ctx context.Context, key string) (store.Item, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return store.Item{}, err
	}
	if it, ok := s.items.Get(key); ok {
		return it, nil
	}
	return store.Item{}, store.ErrNotFound
}

// List implements store.Store. An old state is built outside the lock, from a copy.
func (s *memory) List(ctx context.Context, prefix string, o store.ListOptions) (store.Page, error) {
	s.mu.RLock()
	if err := s.usable(ctx); err != nil {
		s.mu.RUnlock()
		return store.Page{}, err
	}
	if o.Rev == 0 || o.Rev == s.rev {
		defer s.mu.RUnlock()
		return page(&s.items, prefix, o, s.rev), nil
	}
	s.mu.RUnlock()
	// Copying makes both maps copy on write, and so changes this one.
	s.mu.Lock()
	past, log, err := s.past(o.Rev)
	s.mu.Unlock()
	if err != nil {
		return store.Page{}, err
	}
	for i := len(log) - 1; i >= 0; i-- {
		if e := log[i]; e.Created {
			past.Delete(e.Key)
		} else {
			past.Set(e.Key, store.Item{Key: e.Key, Value: e.Prev, Rev: e.PrevRev})
		}
	}
	return page(past, prefix, o, o.Rev), nil
}

// past returns a copy of the newest state, and the changes to undo in it for the state at rev. The
// caller holds the lock.
func (s *memory) past(rev int64) (*btree.Map[string, store.Item], []store.Event, error) {
	switch {
	case rev > s.rev:
		return nil, nil, &store.FutureError{Wanted: rev, Current: s.rev}
	case rev < s.compacted:
		return nil, nil, store.ErrCompacted
	}
	return s.items.Copy(), s.log[s.index(rev+1):], nil
}

// index returns the position of a revision's change, which must still be in the log. The caller
// holds the lock.
func (s *memory) index(rev int64) int { return len(s.log) - int(s.rev-rev) - 1 }

// page collects one page.
func page(items *btree.Map[string, store.Item], prefix string, o store.ListOptions, rev int64) store.Page {
	p := store.Page{Rev: rev}
	items.Ascend(max(prefix, o.From), func(key string, it store.Item) bool {
		if !strings.HasPrefix(key, prefix) {
			return false
		}
		if o.Limit > 0 && int64(len(p.Items)) == o.Limit {
			p.More = true
			return false
		}
		p.Items = append(p.Items, it)
		return true
	})
	return p
}

// Create implements store.Store.
func (s *memory) Create(ctx context.Context, key string, value []byte) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.writable(ctx, value); err != nil {
		return 0, err
	}
	if _, ok := s.items.Get(key); ok {
		return 0, store.ErrExists
	}
	return s.put(store.Event{Key: key, Value: value, Created: true}), nil
}

// Update implements store.Store.
func (s *memory) Update(ctx context.Context, key string, value []byte, rev int64) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.writable(ctx, value); err != nil {
		return 0, err
	}
	old, err := s.at(key, rev)
	if err != nil {
		return 0, err
	}
	return s.put(store.Event{Key: key, Value: value, Prev: old.Value, PrevRev: old.Rev}), nil
}

// Delete implements store.Store.
func (s *memory) Delete(ctx context.Context, key string, rev int64) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return 0, err
	}
	old, err := s.at(key, rev)
	if err != nil {
		return 0, err
	}
	return s.put(store.Event{Key: key, Prev: old.Value, PrevRev: old.Rev, Deleted: true}), nil
}

// at returns the item if its last write was at rev. The caller holds the lock.
func (s *memory) at(key string, rev int64) (store.Item, error) {
	old, ok := s.items.Get(key)
	if !ok {
		return old, &store.Changed{Gone: true}
	}
	if old.Rev != rev {
		return old, &store.Changed{Current: old}
	}
	return old, nil
}

// put applies a change under the next revision. The caller holds the lock.
func (s *memory) put(e store.Event) int64 {
	s.rev++
	e.Rev = s.rev
	if e.Deleted {
		s.items.Delete(e.Key)
	} else {
		s.items.Set(e.Key, store.Item{Key: e.Key, Value: e.Value, Rev: e.Rev})
	}
	s.log = append(s.log, e)
	if len(s.log) >= 2*s.history {
		s.compact(s.log[len(s.log)-s.history].Rev)
	}
	s.broadcast()
	return e.Rev
}

// broadcast wakes all watchers. The caller holds the lock.
func (s *memory) broadcast() {
	close(s.wake)
	s.wake = make(chan struct{})
}

// Revision implements store.Store.
func (s *memory) Revision(ctx context.Context) (int64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.rev, s.usable(ctx)
}

// RequestProgress implements store.Store: every open watch reports the current revision.
func (s *memory) RequestProgress(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return err
	}
	s.progress++
	s.broadcast()
	return nil
}

// Compact implements store.Store.
func (s *memory) Compact(ctx context.Context, rev int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return err
	}
	switch {
	case rev > s.rev:
		return &store.FutureError{Wanted: rev, Current: s.rev}
	case rev <= s.compacted:
		return store.ErrCompacted
	}
	s.compact(rev)
	return nil
}

// compact drops the changes before rev. The caller holds the lock.
func (s *memory) compact(rev int64) {
	// A new slice, because lists of old states read the current one without the lock.
	i := sort.Search(len(s.log), func(i int) bool { return s.log[i].Rev >= rev })
	s.log = append([]store.Event(nil), s.log[i:]...)
	s.compacted = rev
	s.broadcast()
}

// Ping implements store.Store. A memory always answers until it is closed.
func (s *memory) Ping(ctx context.Context) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.usable(ctx)
}

// Close implements store.Store. Open watches end.
func (s *memory) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		s.broadcast()
	}
	return nil
}

// usable returns the check with which every method starts. The caller holds the lock.
func (s *memory) usable(ctx context.Context) error {
	if s.closed {
		return store.ErrClosed
	}
	return ctx.Err()
}

// writable is usable for writes of a value. The caller holds the lock.
func (s *memory) writable(ctx context.Context, value []byte) error {
	if len(value) > store.MaxValue {
		return store.ErrTooLarge
	}
	return s.usable(ctx)
}
