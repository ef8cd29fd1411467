package cel

import (
	"hash/maphash"
	"maps"
	"runtime"
	"slices"
	"sync"
	"weak"
)

// This file lets equal rules over equal types share one program. The versions of a kind, repeated
// structures within a version, and kinds with a common structure compile and store it once. Entries
// that neither a TypeSet nor a program uses are freed.

// shared is the table that the TypeSets of an Env share.
type shared struct {
	seed maphash.Seed

	mu       sync.Mutex
	types    map[uint64]weak.Pointer[Type]    // by hash, one for each
	programs map[uint64]weak.Pointer[Program] // by hash; of two programs with the same hash one is not shared
	sweep    int                              // the number of programs at which freed ones are removed
}

func newShared() *shared {
	return &shared{
		seed:     maphash.MakeSeed(),
		types:    map[uint64]weak.Pointer[Type]{},
		programs: map[uint64]weak.Pointer[Program]{},
	}
}

// typeOf returns the shared type equal to t, possibly t itself.
func (s *shared) typeOf(t *Type, hash uint64) *Type {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.types[hash].Value()
	if known != nil {
		if new(sameness).types(known, t) {
			return known
		}
		return t
	}
	p := weak.Make(t)
	s.types[hash] = p
	runtime.AddCleanup(t, func(hash uint64) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.types[hash] == p {
			delete(s.types, hash)
		}
	}, hash)
	return t
}

// key returns the hash of what a program depends on, besides its Env.
func (s *shared) key(text string, self *Type, o CompileOptions) uint64 {
	return (maphash.String(s.seed, text)*31+maphash.Comparable(s.seed, self))*31 + maphash.Comparable(s.seed, o)
}

// program returns the shared program of an expression over self, nil if there is none.
func (s *shared) program(key uint64, text string, self *Type, o CompileOptions) *Program {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known(key, text, self, o)
}

// known is program for a caller that holds the lock.
func (s *shared) known(key uint64, text string, self *Type, o CompileOptions) *Program {
	if p := s.programs[key].Value(); p != nil && p.source == text && p.code.Self == self && p.code.Optional == o.OptionalOldSelf && p.want == o.Want {
		return p
	}
	return nil
}

// put adds a program. If there is an equal one, it returns that.
func (s *shared) put(k uint64, p *Program) *Program {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.known(k, p.source, p.code.Self, CompileOptions{OptionalOldSelf: p.code.Optional, Want: p.want}); known != nil {
		return known
	}
	s.programs[k] = weak.Make(p)
	if len(s.programs) > s.sweep {
		maps.DeleteFunc(s.programs, func(_ uint64, w weak.Pointer[Program]) bool { return w.Value() == nil })
		s.sweep = 2*len(s.programs) + 64
	}
	return p
}

// hasher computes hashes of types. Equal types have equal hashes.
type hasher struct {
	seed  maphash.Seed
	known map[*Type]uint64
}

// scalars are the parts of a type that are not types.
type scalars struct {
	kind                            TypeKind
	elements, size                  uint64
	date                            bool
	nullable, intOrString, preserve bool
}

func scalarsOf(t *Type) scalars {
	return scalars{t.Kind, t.MaxElements, t.MinSize, t.Date, t.Nullable, t.IntOrString, t.Preserve}
}

// of returns the hash of t.
func (h *hasher) of(t *Type) uint64 {
	if t == nil {
		return 0
	}
	if sum, ok := h.known[t]; ok {
		return sum
	}
	sum := maphash.Comparable(h.seed, scalarsOf(t))*31 + h.of(t.Elem)
	for i := range t.Fields {
		f := &t.Fields[i]
		sum = (sum*31+maphash.String(h.seed, f.Name))*31 + h.of(f.Type) + uint64(f.Slot)
	}
	h.known[t] = sum
	return sum
}

// sameListTypes reports whether two list types are equal.
func sameListTypes(a, b *ListType) bool {
	return a == b || a != nil && b != nil && a.Map == b.Map && slices.Equal(a.Keys, b.Keys)
}

// sameness compares types. CEL distinguishes object types by identity, so that equal trees must
// have the same object types at the same places. pairs has the objects that were found at the same
// place.
type sameness struct{ pairs map[*Type]*Type }

func (s *sameness) types(a, b *Type) bool {
	if a == b {
		return true
	}
	if a == nil || b == nil || scalarsOf(a) != scalarsOf(b) || len(a.Fields) != len(b.Fields) || !sameListTypes(a.ListType, b.ListType) {
		return false
	}
	if a.Kind == Object {
		if s.pairs == nil {
			s.pairs = map[*Type]*Type{}
		}
		x, ok := s.pairs[a]
		y, ko := s.pairs[b]
		switch {
		case ok != ko, ok && (x != b || y != a):
			return false
		case ok:
			return true
		}
		s.pairs[a], s.pairs[b] = b, a
	}
	for i := range a.Fields {
		f, g := &a.Fields[i], &b.Fields[i]
		if f.Name != g.Name || f.Slot != g.Slot || f.Required != g.Required || f.HasDefault != g.HasDefault || !s.types(f.Type, g.Type) {
			return false
		}
	}
	return s.types(a.Elem, b.Elem)
}
