package api

import (
	"context"
	"log/slog"
	"sync"

	"github.com/keelson-io/keelson/cache/follow"
	"github.com/keelson-io/keelson/kind"
)

// This file ends the watches of a kind when its definition changes. The clients connect again and
// get the objects as the new definition describes them.

// kindWatch knows how long kinds are served as they are.
type kindWatch struct {
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

// served returns a context that ends when k is served no more as it is.
func (w *kindWatch) served(k *kind.Kind) context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e, ok := w.until[k]; ok {
		return e
	}
	ctx, cancel := context.WithCancel(context.Background())
	e := &ended{ctx, cancel}
	if w.until == nil {
		w.until = map[*kind.Kind]*ended{}
	}
	w.until[k] = e
	if have := w.load().Lookup(k.Group, k.Plural); have == nil || have != k && !sameService(have, k) {
		cancel() // k has been replaced already
		delete(w.until, k)
	}
	return e
}

// run follows the registry until ctx ends.
func (w *kindWatch) run(ctx context.Context, logger *slog.Logger) {
	f := follow.Follower[*kind.Snapshot]{
		Source:  follow.Value(w.load, func(s *kind.Snapshot) uint64 { return s.Rev }, w.changed),
		Handler: follow.Each[*kind.Snapshot](func(context.Context, **kind.Snapshot) { w.check() }), Logger: logger, Name: "watched kinds",
	}
	_ = f.Run(ctx) // a Value does not end
}

// check ends what has changed.
func (w *kindWatch) check() {
	now := w.load()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rev == now.Rev && now.Rev != 0 {
		return
	}
	w.rev = now.Rev
	for k, e := range w.until {
		if have := now.Lookup(k.Group, k.Plural); have == nil || have != k && !sameService(have, k) {
			e.end()
			delete(w.until, k)
		} else if have != k && w.until[have] == nil {
			// Only its conditions changed: it goes on under its new address.
			delete(w.until, k)
			w.until[have] = e
		}
	}
}

// sameService reports whether two states of a kind serve the same.
func sameService(a, b *kind.Kind) bool {
	return a.UID == b.UID && a.Generation == b.Generation && a.Established == b.Established
}
