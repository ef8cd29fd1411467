package cache

// This file defines snapshots, and the old states that are kept for continued lists.

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Snapshot is an immutable state of a resource. The zero Snapshot is empty.
type Snapshot struct {
	root *node
	rev  int64
}

// Rev returns the revision of the state.
func (s Snapshot) Rev() int64 { return s.rev }

// Same reports whether two snapshots have the same objects. It compares identities, not contents.
func (s Snapshot) Same(o Snapshot) bool { return s.root == o.root }

// Len returns the number of objects.
func (s Snapshot) Len() int { return s.root.len() }

// Get returns the object at a key.
func (s Snapshot) Get(key string) (*Object, bool) {
	o := s.root.get(key)
	return o, o != nil
}

// Ascend calls fn for each object from a key on, in order, until fn returns false.
func (s Snapshot) Ascend(from string, fn func(*Object) bool) { s.root.ascend(from, fn) }

// Count returns how many keys start with prefix.
func (s Snapshot) Count(prefix string) int { return s.CountFrom(prefix, prefix) }

// CountFrom returns how many keys that start with prefix are at from or after it. Its time grows
// with the logarithm of Len.
func (s Snapshot) CountFrom(prefix, from string) int {
	end := s.root.len()
	if after, ok := prefixEnd(prefix); ok {
		end = s.root.rank(after)
	}
	return max(0, end-s.root.rank(max(prefix, from)))
}

// prefixEnd returns the first key after all keys with a prefix, if there is one.
func prefixEnd(prefix string) (string, bool) {
	b := []byte(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < 0xff {
			b[i]++
			return string(b[:i+1]), true
		}
	}
	return "", false
}

// keeper keeps old states. marks are checkpoints along the log: an old state is at most
// checkpointEvery changes away from one. wanted are states that were requested.
type keeper struct {
	mu     sync.Mutex
	marks  []state
	since  int // changes since the last mark
	wanted []wantedState
	kept   int64         // bytes that later changes have made the wanted states keep alive
	held   *atomic.Int64 // bytes of the wanted states of all resources
}

// wantedState is a state that was requested.
type wantedState struct {
	state
	prefix string // the common prefix of its keys
	bytes  int64  // the bytes that only this state referred to when it was made
	used   time.Time
}

// checkpointEvery is the number of changes between two marks.
const checkpointEvery = 512

// reset drops all states.
func (k *keeper) reset() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.marks, k.since = nil, 0
	k.drop(func(*wantedState) bool { return true })
}

// advance records a new state and the changes that led to it. tail is the revision before which the
// log has nothing.
func (k *keeper) advance(st *state, changes []Event, tail int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.wanted) > 0 {
		for i := range changes {
			k.charge(cost(&changes[i]))
		}
	}
	if k.since += len(changes); k.since < checkpointEvery {
		return
	}
	k.since = 0
	k.marks = append(k.marks, *st)
	k.unmark(tail)
}

// after returns the oldest known state that is not older than rev. newest is the newest one.
func (k *keeper) after(rev int64, newest *state) state {
	k.mu.Lock()
	defer k.mu.Unlock()
	best := *newest
	for _, s := range k.marks {
		if s.rev >= rev && s.rev < best.rev {
			best = s
		}
	}
	return best
}

// find returns a requested state that has all keys that start with prefix.
func (k *keeper) find(rev int64, prefix string, keepFor time.Duration) (*node, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.expire(keepFor)
	for i := range k.wanted {
		if w := &k.wanted[i]; w.rev == rev && strings.HasPrefix(prefix, w.prefix) {
			w.used = time.Now()
			return w.root, true
		}
	}
	return nil, false
}

// keep keeps a requested state. If there are too many, it drops the one that was not used for the
// longest time.
func (k *keeper) keep(w wantedState, most int, keepFor time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.expire(keepFor)
	if len(k.wanted) >= most {
		slices.SortFunc(k.wanted, func(a, b wantedState) int { return b.used.Compare(a.used) })
		oldest := k.wanted[most-1].used
		k.drop(func(s *wantedState) bool { return !s.used.After(oldest) })
	}
	w.used = time.Now()
	k.wanted = append(k.wanted, w)
	k.held.Add(w.bytes)
}

// forget drops unused states, and marks that the log does not reach any more.
func (k *keeper) forget(keepFor time.Duration, tail int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.expire(keepFor)
	k.unmark(tail)
}

// unmark drops marks before tail. The lock is held.
func (k *keeper) unmark(tail int64) {
	k.marks = slices.DeleteFunc(k.marks, func(s state) bool { return s.rev < tail })
}

// expire drops states that were not used for keepFor. The lock is held.
func (k *keeper) expire(keepFor time.Duration) {
	now := time.Now()
	k.drop(func(s *wantedState) bool { return now.Sub(s.used) > keepFor })
}

// shed drops all requested states.
func (k *keeper) shed() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.drop(func(*wantedState) bool { return true })
}

// times returns when each requested state was last used.
func (k *keeper) times() (used []time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.wanted {
		used = append(used, k.wanted[i].used)
	}
	return used
}

// dropBefore drops the states that were last used at that time or before.
func (k *keeper) dropBefore(used time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.drop(func(s *wantedState) bool { return !s.used.After(used) })
}

// drop drops the requested states for which gone returns true. The lock is held.
func (k *keeper) drop(gone func(*wantedState) bool) {
	k.wanted = slices.DeleteFunc(k.wanted, func(s wantedState) bool {
		if !gone(&s) {
			return false
		}
		k.held.Add(-s.bytes)
		return true
	})
	if len(k.wanted) == 0 {
		k.charge(-k.kept)
	}
}

// charge changes the number of bytes that changes have made the wanted states keep alive. The lock
// is held.
func (k *keeper) charge(n int64) {
	k.kept += n
	k.held.Add(n)
}
