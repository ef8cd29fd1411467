package cache

// This file tests the bounds on the bytes of logs.

import (
	"fmt"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/internal/testkit"
)

func (r *rig) compact(rev int64) {
	r.Helper()
	r.must(r.store.Compact(r.ctx, rev))
}

// published waits until a state and the log that goes with it are complete. Readers see the state, and watchers are told, a moment
// before the logs are cut.
func (r *rig) published(res *Resource) {
	r.Helper()
	res.mu.Lock()
	defer res.mu.Unlock()
	if len(res.changes) > 0 {
		r.Fatalf("%s: %d changes are not published", res.prefix, len(res.changes))
	}
}

// TestLogsShareMemory writes large objects of many resources again and again, and measures what is kept of them.
func TestLogsShareMemory(t *testing.T) {
	const all, kinds, size, rounds = 24 << 20, 30, 128 << 10, 40
	r := newRig(t, Options{AllLogBytes: all}, mem.Options{})
	before := testkit.Heap()
	quiet := r.cache.Resource("g/quiet")
	r.fresh(quiet)
	quietAt := r.update("g/quiet/a", "1", r.create("g/quiet/a", "0"))
	var at [kinds]int64
	for i := range kinds {
		r.fresh(r.cache.Resource(fmt.Sprintf("g/p%d", i)))
		at[i] = r.create(fmt.Sprintf("g/p%d/a", i), strings.Repeat("x", size))
	}
	var last int64
	for range rounds {
		for i := range kinds {
			at[i] = r.update(fmt.Sprintf("g/p%d/a", i), strings.Repeat("y", size), at[i])
			last = at[i]
		}
		for i := range kinds {
			res := r.cache.Resource(fmt.Sprintf("g/p%d", i))
			r.fresh(res)
			r.published(res)
		}
		r.compact(last) // the store keeps no old values either
		if got := r.cache.logged.Load(); got > all {
			t.Fatalf("got %d bytes in all logs, want %d at most", got, all)
		}
	}
	if got, want := testkit.Heap()-before, int64(all+3*kinds*size); got > want {
		t.Errorf("got %d bytes more on the heap, want %d at most; %d were written", got, want, kinds*size*rounds)
	}
	// All were written equally, and share equally; what is small is left alone.
	for i := range kinds {
		if n := r.cache.Resource(fmt.Sprintf("g/p%d", i)).log.main.size(); n < 2 || n > 4 {
			t.Errorf("resource %d: got %d changes, want about 3", i, n)
		}
	}
	if n := quiet.log.main.size(); n != 2 {
		t.Errorf("the small log: got %d changes, want 2", n)
	}
	w, err := quiet.Watch(quietAt-1, "")
	r.must(err)
	w.Close()
	// What ends is not counted any more.
	for i := range kinds {
		r.cache.Drop(fmt.Sprintf("g/p%d", i))
	}
	if got := r.cache.logged.Load(); got > 1000 {
		t.Errorf("dropped: got %d bytes in all logs, want those of the small one", got)
	}
}

// TestManyLargestChanges is about so many resources that the newest change of each is too much.
func TestManyLargestChanges(t *testing.T) {
	const all, kinds, size = 1 << 20, 40, 64 << 10
	r := newRig(t, Options{AllLogBytes: all}, mem.Options{})
	for i := range kinds {
		res := r.cache.Resource(fmt.Sprintf("g/p%d", i))
		r.fresh(res)
		w, err := res.Watch(res.Snapshot().Rev(), "")
		r.must(err)
		// The log that was written last has its newest change, for its watchers.
		at := int64(0)
		for _, value := range []string{"1", strings.Repeat("x", size), "2"} {
			if key := fmt.Sprintf("g/p%d/a", i); at == 0 {
				at = r.create(key, value)
			} else {
				at = r.update(key, value, at)
			}
			events, _, err := w.Next(r.ctx)
			r.must(err)
			if got := events[len(events)-1].Rev; got != at {
				t.Errorf("resource %d: got a change at %d, want %d", i, got, at)
			}
		}
		w.Close()
		r.published(res)
	}
	if got := r.cache.logged.Load(); got > all {
		t.Errorf("got %d bytes in all logs, want %d at most", got, all)
	}
	first := r.cache.Resource("g/p0")
	if n := first.log.main.size(); n != 0 {
		t.Errorf("the oldest log: got %d changes, want none", n)
	}
	// It goes on with the next change.
	w, err := first.Watch(first.Snapshot().Rev(), "")
	r.must(err)
	defer w.Close()
	o, _ := first.Get("g/p0/a")
	at := r.update("g/p0/a", "3", o.Rev)
	if got, want := r.readUntil(w, at), fmt.Sprintf("MODIFIED g/p0/a=3@%d<2@", at); !strings.HasPrefix(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
}
