// Package served ends the watches of a kind when its definition changes. The clients connect again and get the objects as the new
// definition describes them.
package served

import (
	"context"
	"log/slog"
	"sync"

	"github.com/keelson-io/keelson/internal/cache/follow"
	"github.com/keelson-io/keelson/kind"
)

// Kinds knows how long kinds are served as they are.
type Kinds struct {
	load    func() *kind.Snapshot
	changed func(rev uint64) <-chan struct{}

	mu    sync.Mutex // of opening watches only; events need no lock
	until map[*kind.Kind]*ended
	rev   uint64
}

// ended is a context that ends with its kind.
type ended struct {
	context.Context
	end context.CancelFunc
}

// New returns the kinds of a registry. load returns its state, and changed a channel that is closed when its revision is not rev any more.
func New(load func() *kind.Snapshot, changed func(rev uint64) <-chan struct{}) *Kinds {
	return &Kinds{load: load, changed: changed, until: map[*kind.Kind]*ended{}}
}

// Context returns a context that ends when k is served no more as it is.
func (s *Kinds) Context(k *kind.Kind) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.until[k]; ok {
		return e
	}
	ctx, cancel := context.WithCancel(context.Background())
	e := &ended{ctx, cancel}
	s.until[k] = e
	if have := s.load().Lookup(k.Group, k.Plural); have == nil || have != k && !sameService(have, k) {
		cancel() // k has been replaced already
		delete(s.until, k)
	}
	return e
}

// Run follows the registry until ctx ends.
func (s *Kinds) Run(ctx context.Context, logger *slog.Logger) {
	f := follow.Follower[*kind.Snapshot]{
		Source:  follow.Value(s.load, func(k *kind.Snapshot) uint64 { return k.Rev }, s.changed),
		Handler: follow.Each[*kind.Snapshot](func(context.Context, **kind.Snapshot) { s.check() }), Logger: logger, Name: "watched kinds",
	}
	_ = f.Run(ctx) // a Value does not end
}

// check ends what has changed.
func (s *Kinds) check() {
	now := s.load()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rev == now.Rev && now.Rev != 0 {
		return
	}
	s.rev = now.Rev
	for k, e := range s.until {
		if have := now.Lookup(k.Group, k.Plural); have == nil || have != k && !sameService(have, k) {
			e.end()
			delete(s.until, k)
		} else if have != k && s.until[have] == nil {
			// Only its conditions changed: it goes on under its new address.
			delete(s.until, k)
			s.until[have] = e
		}
	}
}

// sameService reports whether two states of a kind serve the same.
func sameService(a, b *kind.Kind) bool {
	return a.UID == b.UID && a.Generation == b.Generation && a.Established == b.Established
}
