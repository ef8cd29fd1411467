package kind

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tidwall/btree"
)

// This file defines the registry of kinds, which readers use without locks.
//
// It has two tables. The first holds the built-in kinds: NewRegistry fills it, and no method
// changes it. The second holds the kinds of definitions, which Put and Remove change. Readers look
// into the second table only if the first has no entry, so that no definition can replace or remove
// a built-in kind.

// Registry holds the current Snapshot. The zero value has no kinds and is ready;
// NewRegistry makes one with built-in kinds.
type Registry struct {
	mu      sync.Mutex // held by Put and Remove, so that one change does not undo another
	current atomic.Pointer[Snapshot]
	changed chan struct{} // closed at the next change; nil if nobody waits
}

// NewRegistry returns a registry with built-in kinds, which cannot be removed.
func NewRegistry(builtins ...*Kind) *Registry {
	f := &fixed{groups: map[string]bool{}}
	for _, k := range builtins {
		f.groups[k.Group] = true
		if k.StoragePrefix != "" {
			f.prefixes = append(f.prefixes, k.StoragePrefix)
		}
	}
	f.sorted = slices.Clone(builtins)
	slices.SortFunc(f.sorted, func(a, b *Kind) int { return strings.Compare(sortKey(a.Group, a.Plural), sortKey(b.Group, b.Plural)) })
	r := new(Registry)
	r.current.Store(newSnapshot(1, f, new(btree.Map[string, *Kind])))
	return r
}

// fixed is the table of built-in kinds. It never changes.
type fixed struct {
	sorted   []*Kind // by sortKey
	groups   map[string]bool
	prefixes []string // StoragePrefix of each stored kind
}

// Changed returns a channel that is closed as soon as the registry's snapshot is not the one with
// that Rev.
func (r *Registry) Changed(rev uint64) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	if r.Load().Rev != rev {
		now := make(chan struct{})
		close(now)
		return now
	}
	return r.changed
}

// Snapshot is the set of kinds at one moment. It never changes.
type Snapshot struct {
	// Rev changes with every change of the registry.
	Rev uint64

	fixed  *fixed                    // the built-in kinds
	sorted *btree.Map[string, *Kind] // the kinds of definitions, by sortKey

	groups func() []string // computes Groups at the first call
}

// sep separates the parts of a sort key. It is less than any byte of a group, so that the kinds of
// group "a" sort before those of "a.b".
const sep = "\x00"

// sortKey returns the key by which kinds are sorted: by group, then by plural.
func sortKey(group, plural string) string { return group + sep + plural }

// emptySnapshot returns the snapshot of a Registry without kinds.
var emptySnapshot = sync.OnceValue(func() *Snapshot { return newSnapshot(0, new(fixed), new(btree.Map[string, *Kind])) })

// newSnapshot returns a snapshot of the two tables, which must not change any more.
func newSnapshot(rev uint64, f *fixed, sorted *btree.Map[string, *Kind]) *Snapshot {
	s := &Snapshot{Rev: rev, fixed: f, sorted: sorted}
	s.groups = sync.OnceValue(s.listGroups)
	return s
}

// Load returns the current snapshot.
func (r *Registry) Load() *Snapshot {
	if s := r.current.Load(); s != nil {
		return s
	}
	return emptySnapshot()
}

// Put adds the kind of a definition, or replaces the one with the same group and plural. It returns
// an error if definitions must not have that group and plural (see Refuses).
func (r *Registry) Put(k *Kind) error {
	if refusal := r.Refuses(k.Plural+"."+k.Group, k.Group, k.Plural); refusal != nil {
		return errors.New(refusal.Message)
	}
	r.change(k.Group, k.Plural, func(*Kind) *Kind { return k })
	return nil
}

// Remove removes the kind of a definition. It does nothing if the kind of a newer definition, with
// another UID, has replaced it.
func (r *Registry) Remove(k *Kind) {
	r.change(k.Group, k.Plural, func(have *Kind) *Kind {
		if have != nil && have.UID != k.UID {
			return have
		}
		return nil
	})
}

// change replaces one entry in the table of definitions by next(present entry). nil means no entry.
// Copies of a btree share their nodes, so the cost does not depend on the size of the table.
func (r *Registry) change(group, plural string, next func(*Kind) *Kind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.Load()

	key, sorted := sortKey(group, plural), old.sorted.Copy()
	have, _ := sorted.Get(key)
	if k := next(have); k != nil {
		sorted.Set(key, k)
	} else {
		sorted.Delete(key)
	}
	r.current.Store(newSnapshot(old.Rev+1, old.fixed, sorted))
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// Lookup returns the kind with that group and plural, nil if there is none.
func (s *Snapshot) Lookup(group, plural string) *Kind {
	if !s.fixed.groups[group] {
		k, _ := s.sorted.Get(sortKey(group, plural))
		return k
	}
	i, found := slices.BinarySearchFunc(s.fixed.sorted, group, func(k *Kind, group string) int {
		return cmp.Or(strings.Compare(k.Group, group), strings.Compare(k.Plural, plural))
	})
	if !found {
		return nil
	}
	return s.fixed.sorted[i]
}

// Len returns the number of kinds.
func (s *Snapshot) Len() int { return len(s.fixed.sorted) + s.sorted.Len() }

// All ranges over the kinds, sorted by group and plural: a merge of the two tables.
func (s *Snapshot) All() func(yield func(*Kind) bool) {
	return func(yield func(*Kind) bool) {
		builtins := s.fixed.sorted
		ended := false
		s.sorted.Scan(func(key string, k *Kind) bool {
			for len(builtins) > 0 && sortKey(builtins[0].Group, builtins[0].Plural) < key {
				if ended = !yield(builtins[0]); ended {
					return false
				}
				builtins = builtins[1:]
			}
			ended = !yield(k)
			return !ended
		})
		for i := 0; i < len(builtins) && !ended; i++ {
			ended = !yield(builtins[i])
		}
	}
}

// InGroup ranges over the kinds of a group, sorted by plural. A group has
// built-in kinds or kinds of definitions, never both.
func (s *Snapshot) InGroup(group string) func(yield func(*Kind) bool) {
	return func(yield func(*Kind) bool) {
		if s.fixed.groups[group] {
			at, _ := slices.BinarySearchFunc(s.fixed.sorted, group, func(k *Kind, group string) int { return strings.Compare(k.Group, group) })
			for _, k := range s.fixed.sorted[at:] {
				if k.Group != group || !yield(k) {
					return
				}
			}
			return
		}
		s.sorted.Ascend(group+sep, func(_ string, k *Kind) bool {
			return k.Group == group && yield(k)
		})
	}
}

// Groups returns the sorted names of the groups.
func (s *Snapshot) Groups() []string { return s.groups() }

func (s *Snapshot) listGroups() []string {
	var out []string
	for k := range s.All() {
		if n := len(out); n == 0 || out[n-1] != k.Group {
			out = append(out, k.Group)
		}
	}
	return out
}
