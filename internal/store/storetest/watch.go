package storetest

// This file has the tests of watches.

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/keelson-io/keelson/internal/store"
)

// read reads batches until all changes up to rev have been delivered, and checks the invariants of
// each batch.
func (s *suite) read(w store.Watcher, rev int64) []store.Event {
	s.Helper()
	var events []store.Event
	last := int64(0)
	for {
		b, err := w.Next(s.ctx)
		s.must(err)
		for _, e := range b.Events {
			if e.Rev <= last {
				s.Fatalf("event %s at %d comes after %d was delivered", e.Key, e.Rev, last)
			}
			last = e.Rev
		}
		if b.Rev < last {
			s.Fatalf("revision of the batch: got %d, want at least that of its last event, %d", b.Rev, last)
		}
		last = b.Rev
		events = append(events, b.Events...)
		if last >= rev {
			return events
		}
	}
}

// describe returns an event as a line of text, for comparisons.
func describe(e store.Event) string {
	what := "modified"
	if e.Created {
		what = "created"
	}
	if e.Deleted {
		what = "deleted"
	}
	return fmt.Sprintf("%s %s=%s@%d was %s@%d", what, e.Key, e.Value, e.Rev, e.Prev, e.PrevRev)
}

// testWatch checks that a watcher delivers creates, updates and deletes of its prefix, and nothing
// else.
func testWatch(s *suite) {
	r0 := s.create("g/p/a", "1")
	live := s.watch("g/p/", r0)
	r1 := s.update("g/p/a", "2", r0)
	r2 := s.create("g/q/x", "1")
	r3 := s.delete("g/p/a", r1)
	r4 := s.create("g/p/b", "5")
	want := []string{
		fmt.Sprintf("modified g/p/a=2@%d was 1@%d", r1, r0),
		fmt.Sprintf("deleted g/p/a=@%d was 2@%d", r3, r1),
		fmt.Sprintf("created g/p/b=5@%d was @0", r4),
	}
	for name, w := range map[string]store.Watcher{"live": live, "late": s.watch("g/p/", r0)} {
		got := s.read(w, r4)
		for i := 0; i < len(got) && i < len(want); i++ {
			if d := describe(got[i]); d != want[i] {
				s.Errorf("%s, event %d: got %s, want %s", name, i, d, want[i])
			}
		}
		if len(got) != len(want) {
			s.Errorf("%s: got %d events, want %d", name, len(got), len(want))
		}
	}
	if got := s.read(s.watch("g/p/", r3), r4); len(got) != 1 || got[0].Rev != r4 {
		s.Errorf("after %d: got %v", r3, got)
	}
	if got := s.read(s.watch("", r1), r4); len(got) != 3 || got[0].Rev != r2 {
		s.Errorf("everything after %d: got %v", r1, got)
	}
}

// testWatchThenRead reads a key as soon as a watcher has delivered its change.
func testWatchThenRead(s *suite) {
	w := s.watch("g/p/", s.create("g/p/a", "1"))
	const n = 300
	wrote := make(chan error, 1)
	go func() {
		for i := range n {
			if _, err := s.Create(s.ctx, fmt.Sprintf("g/p/b%03d", i), nil); err != nil {
				wrote <- err
				return
			}
		}
		wrote <- nil
	}()
	for seen := 0; seen < n; {
		b, err := w.Next(s.ctx)
		s.must(err)
		for _, e := range b.Events {
			seen++
			if _, err := s.Get(s.ctx, e.Key); err != nil {
				s.Errorf("%s, which was created at %d: %v", e.Key, e.Rev, err)
			}
		}
	}
	s.must(<-wrote)
}

// testWatchLean watches without replaced values, if the store supports that.
func testWatchLean(s *suite) {
	lean, ok := s.Store.(store.LeanWatcher)
	if !ok {
		s.Skip("not offered")
	}
	r1 := s.create("g/p/a", "1")
	w, err := lean.WatchLean(s.ctx, "g/p/", r1)
	s.must(err)
	defer w.Close()
	r2 := s.update("g/p/a", "2", r1)
	r3 := s.delete("g/p/a", r2)
	want := []string{fmt.Sprintf("modified g/p/a=2@%d was @0", r2), fmt.Sprintf("deleted g/p/a=@%d was @0", r3)}
	got := s.read(w, r3)
	if len(got) != 2 || describe(got[0]) != want[0] || describe(got[1]) != want[1] {
		s.Errorf("got %v, want %v", got, want)
	}
}

// testWatchFuture watches from a revision that has not been reached.
func testWatchFuture(s *suite) {
	rev := s.create("g/p/a", "1")
	w := s.watch("", rev+2)
	for i := range 3 {
		s.create(fmt.Sprintf("g/p/b%d", i), "1")
	}
	if got := s.read(w, rev+3); len(got) != 1 || got[0].Rev != rev+3 {
		s.Errorf("got %v, want the event at %d", got, rev+3)
	}
}

// testWatchCompacted watches from a revision that has been compacted.
func testWatchCompacted(s *suite) {
	r1 := s.create("g/p/a", "1")
	r2 := s.update("g/p/a", "2", r1)
	r3 := s.update("g/p/a", "3", r2)
	s.must(s.Compact(s.ctx, r3))
	w, err := s.Watch(s.ctx, "", r1)
	if err == nil {
		_, err = w.Next(s.ctx)
		w.Close()
	}
	s.want(err, store.ErrCompacted)
	r4 := s.update("g/p/a", "4", r3)
	if got := s.read(s.watch("", r3), r4); len(got) != 1 {
		s.Errorf("watch after the compacted revision: got %v", got)
	}
}

// testWatchConcurrent runs several writers and watchers that start at different times; all watchers
// must see the same.
func testWatchConcurrent(s *suite) {
	const writers, writes = 8, 50
	start, err := s.Revision(s.ctx)
	s.must(err)
	results := make(chan []store.Event, writers)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			w := s.watch("g/", start)
			if i%2 == 1 {
				time.Sleep(time.Duration(i) * time.Millisecond)
			}
			var events []store.Event
			for len(events) < writers*writes {
				b, err := w.Next(s.ctx)
				if err != nil {
					s.Error(err)
					break
				}
				events = append(events, b.Events...)
			}
			results <- events
		})
		wg.Go(func() {
			key := fmt.Sprintf("g/p/%d", i)
			rev, err := s.Create(s.ctx, key, []byte("0"))
			for n := 1; n < writes && err == nil; n++ {
				if n%10 == 9 {
					rev, err = s.Delete(s.ctx, key, rev)
				} else if n%10 == 0 {
					rev, err = s.Create(s.ctx, key, fmt.Append(nil, n))
				} else {
					rev, err = s.Update(s.ctx, key, fmt.Append(nil, n), rev)
				}
			}
			if err != nil {
				s.Error(err)
			}
		})
	}
	wg.Wait()
	first := <-results
	for i, e := range first {
		if e.Rev != start+1+int64(i) {
			s.Fatalf("event %d: got revision %d, want %d", i, e.Rev, start+1+int64(i))
		}
	}
	for range writers - 1 {
		other := <-results
		for i := range min(len(first), len(other)) {
			if describe(first[i]) != describe(other[i]) {
				s.Fatalf("event %d: one watcher got %s, another %s", i, describe(first[i]), describe(other[i]))
			}
		}
	}
}

// testProgress checks that an idle watcher learns the current revision on request.
func testProgress(s *suite) {
	rev := s.create("g/p/a", "1")
	w := s.watch("g/q/", rev)
	for i := range 3 {
		rev = s.create(fmt.Sprintf("g/p/b%d", i), "1")
	}
	ctx, cancel := context.WithCancel(s.ctx)
	done := make(chan struct{})
	go func() { // the request may precede the opening of a watch
		defer close(done)
		for ctx.Err() == nil {
			if err := s.RequestProgress(ctx); err != nil && !errors.Is(err, context.Canceled) {
				s.Error(err)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	if got := s.read(w, rev); len(got) != 0 {
		s.Errorf("got %v, want no events", got)
	}
	cancel()
	<-done
}
