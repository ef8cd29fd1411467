package cache

// This file holds tests of watches.

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/internal/testkit"
)

// readUntil reads events until one at rev or later, and writes them down.
func (r *rig) readUntil(w *Watch, rev int64) string {
	r.Helper()
	var b strings.Builder
	for {
		events, at, err := w.Next(r.ctx)
		r.must(err)
		for _, e := range events {
			prev := ""
			if e.Prev != nil {
				prev = fmt.Sprintf("<%s@%d", e.Prev.Raw, e.Prev.Rev)
			}
			fmt.Fprintf(&b, "%v %s=%s@%d%s ", e.Type, e.Object.Key, e.Object.Raw, e.Object.Rev, prev)
			if e.Rev != e.Object.Rev || e.Rev > at {
				r.Fatalf("event at %d: got object at %d, batch at %d", e.Rev, e.Object.Rev, at)
			}
		}
		if at >= rev {
			return strings.TrimSpace(b.String())
		}
	}
}

func TestWatch(t *testing.T) {
	r := newRig(t, Options{}, mem.Options{})
	res := r.cache.Resource("g/p")
	r.fresh(res)
	r0 := res.Snapshot().Rev()
	r1 := r.create("g/p/n1/a", "1")
	r2 := r.create("g/p/n2/a", "1")
	r3 := r.update("g/p/n1/a", "2", r1)
	r4 := r.delete("g/p/n2/a", r2)
	r5 := r.delete("g/p/n1/a", r3)
	r.fresh(res)
	a1 := fmt.Sprintf("ADDED g/p/n1/a=1@%d", r1)
	m1 := fmt.Sprintf("MODIFIED g/p/n1/a=2@%d<1@%d", r3, r1)
	d1 := fmt.Sprintf("DELETED g/p/n1/a=2@%d<2@%d", r5, r3)
	a2 := fmt.Sprintf("ADDED g/p/n2/a=1@%d", r2)
	d2 := fmt.Sprintf("DELETED g/p/n2/a=1@%d<1@%d", r4, r2)
	for _, test := range []struct {
		after  int64
		filter string
		want   []string
		until  int64
	}{
		{r0, "", []string{a1, a2, m1, d2, d1}, r5},
		{r0, "g/p/", []string{a1, a2, m1, d2, d1}, r5},
		{r2, "", []string{m1, d2, d1}, r5},
		{r0, "g/p/n1/", []string{a1, m1, d1}, r5},
		{r0, "g/p/n2/", []string{a2, d2}, r4},
		{r2, "g/p/n2/a", []string{d2}, r4},
		{r0, "g/p/n1/a", []string{a1, m1, d1}, r5},
	} {
		w, err := res.Watch(test.after, test.filter)
		r.must(err)
		if got, want := r.readUntil(w, test.until), strings.Join(test.want, " "); got != want {
			t.Errorf("after %d, filter %q:\ngot  %s\nwant %s", test.after, test.filter, got, want)
		}
		if got := w.Progress(); got != r5 {
			t.Errorf("after %d, filter %q: progress: got %d, want %d", test.after, test.filter, got, r5)
		}
		w.Close()
		w.Close()
	}
	if len(res.log.groups) != 0 {
		t.Errorf("groups without watchers: %v", res.log.groups)
	}
}

func TestWatchLimits(t *testing.T) {
	r := newRig(t, Options{LogEvents: 10}, mem.Options{})
	res := r.cache.Resource("g/p")
	r.fresh(res)
	start := res.Snapshot().Rev()
	slow, err := res.Watch(start, "")
	r.must(err)
	quiet, err := res.Watch(start, "g/p/quiet/")
	r.must(err)
	key, err := res.Watch(start, "g/p/quiet/a")
	r.must(err)
	for i := range 50 {
		r.create(fmt.Sprintf("g/p/loud/%d", i), "1")
	}
	r.fresh(res)
	_, _, err = slow.Next(r.ctx)
	r.want(err, ErrSlow)
	if n := slow.Pending(); n != 0 {
		t.Errorf("pending for who fell off: got %d, want 0", n)
	}
	_, err = res.Watch(start, "")
	r.want(err, ErrExpired)
	// Who was not concerned has missed nothing.
	rev := r.create("g/p/quiet/a", "1")
	r.create("g/p/quiet/ab", "1")
	r.fresh(res)
	if all, one := quiet.Pending(), key.Pending(); all != 2 || one != 1 {
		t.Errorf("pending: got %d and %d, want 2 and 1", all, one)
	}
	want := fmt.Sprintf("ADDED g/p/quiet/a=1@%d", rev)
	if got := r.readUntil(quiet, rev); !strings.HasPrefix(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := r.readUntil(key, rev); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if n := key.Pending(); n != 0 {
		t.Errorf("pending after all were read: got %d, want 0", n)
	}
	// A revision in the future: from then on.
	future, err := res.Watch(rev+3, "")
	r.must(err)
	var last int64
	for i := range 3 {
		last = r.create(fmt.Sprintf("g/p/f%d", i), "1")
	}
	if got, want := r.readUntil(future, last), fmt.Sprintf("ADDED g/p/f2=1@%d", last); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	big := newRig(t, Options{LogBytes: 1100}, mem.Options{})
	res = big.cache.Resource("g/p")
	big.fresh(res)
	at := big.create("g/p/a", strings.Repeat("x", 400))
	at = big.update("g/p/a", "1", at)
	big.update("g/p/a", "2", at)
	big.fresh(res)
	if n := res.log.main.size(); n != 2 {
		t.Errorf("events kept: got %d, want 2", n)
	}
}

// TestNextReturnsLittleAtOnce holds that a watcher does not hold on to many large changes at once, and that it can learn that the
// log has gone on without it.
func TestNextReturnsLittleAtOnce(t *testing.T) {
	r := newRig(t, Options{LogBytes: 4 << 20}, mem.Options{})
	res := r.cache.Resource("g/p")
	r.fresh(res)
	w, err := res.Watch(res.Snapshot().Rev(), "")
	r.must(err)
	defer w.Close()
	large := strings.Repeat("x", 100<<10)
	at := r.create("g/p/n/a", large)
	for range 7 {
		at = r.update("g/p/n/a", large, at)
	}
	r.fresh(res)
	if w.Overtaken() {
		t.Error("overtaken although the log has all changes")
	}
	for got := 0; got < 8; {
		events, _, err := w.Next(r.ctx)
		r.must(err)
		if len(events) == 0 || len(events) > 2 {
			t.Fatalf("got %d events of 100 KiB at once, want 1 or 2", len(events))
		}
		got += len(events)
	}
	for range 40 {
		at = r.update("g/p/n/a", large, at)
	}
	r.fresh(res)
	if !w.Overtaken() {
		t.Error("not overtaken after the log has dropped changes")
	}
	if _, _, err := w.Next(r.ctx); err != ErrSlow {
		t.Errorf("got %v, want ErrSlow", err)
	}
}

func TestForget(t *testing.T) {
	r := newRig(t, Options{LogFor: 10 * time.Millisecond, KeepFor: 10 * time.Millisecond}, mem.Options{})
	res := r.cache.Resource("g/p")
	r.fresh(res)
	start := res.Snapshot().Rev()
	for i := range 100 {
		r.create(fmt.Sprintf("g/p/%d", i), "1")
	}
	r.fresh(res)
	if _, err := res.SnapshotAt(start+50, "g/p/"); err != nil {
		t.Error(err)
	}
	testkit.Eventually(t, "an empty log", func() bool { return res.log.tail() >= start+100 })
	testkit.Eventually(t, "no old state that is kept", func() bool { return len(res.kept.times()) == 0 })
	if s, err := res.SnapshotAt(start+50, "g/p/"); err != nil || s.Len() != 50 { // from the store
		t.Errorf("got %d objects, %v", s.Len(), err)
	}
}

// TestWatchRandom lets writers write and watchers with all kinds of filters build their own copy, which must be the truth.
func TestWatchRandom(t *testing.T) {
	r := newRig(t, Options{LogEvents: 100000}, mem.Options{})
	res := r.cache.Resource("g/p")
	r.fresh(res)
	start := res.Snapshot().Rev()
	var writers, watchers sync.WaitGroup
	const sentinel = "g/p/z/end"
	copies := make(chan [2]string, 100)
	for i, filter := range []string{"", "g/p/", "g/p/n0/", "g/p/n1/", "g/p/n2/", "", "g/p/n3/"} {
		watchers.Go(func() {
			time.Sleep(time.Duration(i) * time.Millisecond)
			snap := res.Snapshot()
			after := start
			var tree *node
			if i%2 == 1 { // list, then watch
				after = snap.Rev()
				snap.Ascend("", func(o *Object) bool {
					if filter == "" || passes(o.Key, filter) {
						tree, _ = tree.insert(o)
					}
					return true
				})
			}
			w, err := res.Watch(after, filter)
			if err != nil {
				t.Error(err)
				return
			}
			defer w.Close()
			done := r.ctx
			for {
				ctx, cancel := context.WithTimeout(done, 300*time.Millisecond)
				events, _, err := w.Next(ctx)
				cancel()
				if err != nil {
					if _, ok := res.Get(sentinel); !ok && done.Err() == nil {
						continue
					}
					break
				}
				for _, e := range events {
					var old *Object
					if e.Type == Deleted {
						tree, old = tree.remove(e.Object.Key)
					} else {
						tree, old = tree.insert(e.Object)
					}
					if (old == nil) != (e.Type == Added) || old != e.Prev {
						t.Errorf("%v of %s: had %v, event says %v", e.Type, e.Object.Key, old, e.Prev)
					}
				}
			}
			copies <- [2]string{filter, text(Snapshot{tree, 0})}
		})
	}
	for i := range 4 {
		writers.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 1))
			at := map[string]int64{}
			for n := range 1500 {
				key := fmt.Sprintf("g/p/n%d/%d-%d", rnd.IntN(4), i, rnd.IntN(20))
				var err error
				switch {
				case at[key] == 0:
					at[key], err = r.store.Create(r.ctx, key, fmt.Append(nil, n))
				case rnd.IntN(4) == 0:
					_, err = r.store.Delete(r.ctx, key, at[key])
					at[key] = 0
				default:
					at[key], err = r.store.Update(r.ctx, key, fmt.Append(nil, n), at[key])
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	r.create(sentinel, "1")
	r.fresh(res)
	watchers.Wait()
	close(copies)
	for c := range copies {
		var want *node
		res.Snapshot().Ascend("", func(o *Object) bool {
			if c[0] == "" || passes(o.Key, c[0]) {
				want, _ = want.insert(o)
			}
			return true
		})
		if got, want := c[1], text(Snapshot{want, 0}); got != want {
			t.Errorf("filter %q: got\n%s\nwant\n%s", c[0], got, want)
		}
	}
}
