package mem

// This file has the watchers: positions in the log.

import (
	"context"
	"strings"
	"sync"

	"github.com/keelson-io/keelson/internal/store"
)

// watcher implements store.Watcher.
type watcher struct {
	s        *memory
	prefix   string
	after    int64
	progress uint64 // the progress count of s that was delivered last

	closing sync.Once
	closed  chan struct{}
}

// Watch implements store.Store.
func (s *memory) Watch(ctx context.Context, prefix string, after int64) (store.Watcher, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	if after+1 < s.compacted {
		return nil, store.ErrCompacted
	}
	return &watcher{s: s, prefix: prefix, after: after, progress: s.progress, closed: make(chan struct{})}, nil
}

// Close implements store.Watcher. It can be called more than once.
func (w *watcher) Close() { w.closing.Do(func() { close(w.closed) }) }

// Next implements store.Watcher.
func (w *watcher) Next(ctx context.Context) (store.Batch, error) {
	for {
		b, wake, err := w.pending()
		if err != nil || wake == nil {
			return b, err
		}
		select {
		case <-wake:
		case <-w.closed:
		case <-ctx.Done():
			return store.Batch{}, ctx.Err()
		}
	}
}

// pending returns the next batch, or the channel to wait on.
func (w *watcher) pending() (store.Batch, <-chan struct{}, error) {
	s := w.s
	s.mu.RLock()
	defer s.mu.RUnlock()
	select {
	case <-w.closed:
		return store.Batch{}, nil, store.ErrClosed
	default:
	}
	if s.closed {
		return store.Batch{}, nil, store.ErrClosed
	}
	if w.after+1 < s.compacted {
		return store.Batch{}, nil, store.ErrCompacted
	}
	var b store.Batch
	if w.after < s.rev {
		for _, e := range s.log[max(0, s.index(w.after+1)):] {
			if strings.HasPrefix(e.Key, w.prefix) {
				b.Events = append(b.Events, e)
			}
		}
		w.after = s.rev
	}
	b.Rev = s.rev
	if len(b.Events) == 0 && w.progress == s.progress {
		return b, s.wake, nil
	}
	w.progress = s.progress
	return b, nil, nil
}
