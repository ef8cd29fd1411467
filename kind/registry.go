package kind

import (
	"sync"
	"sync/atomic"

	"github.com/tidwall/btree"
)

// This file is the registry: which kinds there are, without locks for readers.

// Registry holds the current Snapshot. The zero value is empty and ready.
type Registry struct {
	mu      sync.Mutex // serialises writers
	current atomic.Pointer[Snapshot]
	changed chan struct{} // closed by the next change; nil while nobody waits
}

// Changed is a channel that is closed when the registry is not, or no more, at
// the snapshot of that Rev.
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

	table  *table
	sorted *btree.Map[string, *Kind] // by group, sep, plural

	groups func() []string
}

// The table is a hash trie of fixed depth: two levels of 64, then a short list.
// A change copies one path, so it costs the same whatever the number of kinds.
type (
	table  [fanout]*branch
	branch [fanout][]*Kind
)

const fanout = 64

// sep is less than any byte of a group, so that groups sort as they should.
const sep = "\x00"

// hash is FNV-1a over group, a slash and plural.
func hash(group, plural string) uint32 {
	h := uint32(2166136261)
	for i := 0; i < len(group); i++ {
		h = (h ^ uint32(group[i])) * 16777619
	}
	h = (h ^ '/') * 16777619
	for i := 0; i < len(plural); i++ {
		h = (h ^ uint32(plural[i])) * 16777619
	}
	return h ^ h>>15
}

var emptySnapshot = newSnapshot(0, new(table), new(btree.Map[string, *Kind]))

func newSnapshot(rev uint64, t *table, sorted *btree.Map[string, *Kind]) *Snapshot {
	s := &Snapshot{Rev: rev, table: t, sorted: sorted}
	s.groups = sync.OnceValue(s.listGroups)
	return s
}

// Load is the current snapshot.
func (r *Registry) Load() *Snapshot {
	if s := r.current.Load(); s != nil {
		return s
	}
	return emptySnapshot
}

// Put adds k, or replaces the kind of the same group and plural.
func (r *Registry) Put(k *Kind) {
	r.change(k.Group, k.Plural, func([]*Kind) *Kind { return k })
}

// Remove removes k. A kind that has replaced it in the meantime stays.
func (r *Registry) Remove(k *Kind) {
	r.change(k.Group, k.Plural, func(have []*Kind) *Kind {
		for _, h := range have {
			if h.Group == k.Group && h.Plural == k.Plural && h.UID != k.UID {
				return h
			}
		}
		return nil
	})
}

// change replaces the entry of one resource by what next returns, nil to
// remove it; next sees the bucket that holds the present entry, if any.
func (r *Registry) change(group, plural string, next func([]*Kind) *Kind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.Load()

	h := hash(group, plural)
	t := *old.table
	var b branch
	if have := t[h%fanout]; have != nil {
		b = *have
	}
	bucket := b[h/fanout%fanout]
	k := next(bucket)
	var changed []*Kind
	for _, have := range bucket {
		if have.Group != group || have.Plural != plural {
			changed = append(changed, have)
		}
	}
	sorted := old.sorted.Copy()
	if k != nil {
		changed = append(changed, k)
		sorted.Set(group+sep+plural, k)
	} else {
		sorted.Delete(group + sep + plural)
	}
	b[h/fanout%fanout] = changed
	t[h%fanout] = &b
	r.current.Store(newSnapshot(old.Rev+1, &t, sorted))
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// Lookup is the kind of that group and plural, nil if there is none.
func (s *Snapshot) Lookup(group, plural string) *Kind {
	h := hash(group, plural)
	b := s.table[h%fanout]
	if b == nil {
		return nil
	}
	for _, k := range b[h/fanout%fanout] {
		if k.Plural == plural && k.Group == group {
			return k
		}
	}
	return nil
}

// Len is the number of kinds.
func (s *Snapshot) Len() int { return s.sorted.Len() }

// All ranges over the kinds, sorted by group and plural.
func (s *Snapshot) All() func(yield func(*Kind) bool) {
	return func(yield func(*Kind) bool) {
		s.sorted.Scan(func(_ string, k *Kind) bool { return yield(k) })
	}
}

// InGroup ranges over the kinds of a group, sorted by plural.
func (s *Snapshot) InGroup(group string) func(yield func(*Kind) bool) {
	return func(yield func(*Kind) bool) {
		s.sorted.Ascend(group+sep, func(_ string, k *Kind) bool {
			return k.Group == group && yield(k)
		})
	}
}

// Groups are the names of the groups, sorted.
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
