package cache

// This file holds tests of resources, and what all tests share.

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/internal/store/etcd"
	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/internal/testkit"
)

// rig is a cache over a store in memory.
type rig struct {
	*testing.T
	ctx   context.Context
	store store.Store
	cache *Cache
}

func newRig(t *testing.T, o Options, mo mem.Options) *rig {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	r := &rig{t, ctx, mem.New(mo), nil}
	r.cache = New(r.store, o)
	t.Cleanup(func() {
		r.cache.Close()
		r.store.Close()
		cancel()
	})
	return r
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) want(err, want error) {
	r.Helper()
	if !errors.Is(err, want) {
		r.Fatalf("error: got %v, want %v", err, want)
	}
}

func (r *rig) create(key, value string) int64 {
	r.Helper()
	rev, err := r.store.Create(r.ctx, key, []byte(value))
	r.must(err)
	return rev
}

func (r *rig) update(key, value string, at int64) int64 {
	r.Helper()
	rev, err := r.store.Update(r.ctx, key, []byte(value), at)
	r.must(err)
	return rev
}

func (r *rig) delete(key string, at int64) int64 {
	r.Helper()
	rev, err := r.store.Delete(r.ctx, key, at)
	r.must(err)
	return rev
}

func (r *rig) fresh(res *Resource) {
	r.Helper()
	r.must(res.Fresh(r.ctx))
}

func text(s Snapshot) string {
	var b strings.Builder
	s.Ascend("", func(o *Object) bool {
		fmt.Fprintf(&b, "%s=%s@%d ", o.Key, o.Raw, o.Rev)
		return true
	})
	return strings.TrimSpace(b.String())
}

func TestResource(t *testing.T) {
	r := newRig(t, Options{}, mem.Options{})
	rev := r.create("g/p/ns/a", "1")
	r.create("g/p.x/ns/a", "1")
	res := r.cache.Resource("g/p")
	if r.cache.Resource("g/p/") != res {
		t.Error("a slash at the end makes another resource")
	}
	if o, ok := res.Get("g/p/ns/a"); !ok || o.Rev != rev || string(o.Raw) != "1" {
		t.Errorf("got %v, %v", o, ok)
	}
	if _, ok := res.Get("g/p.x/ns/a"); ok {
		t.Error("got an object of another resource")
	}
	old := res.Snapshot()
	rev2 := r.update("g/p/ns/a", "2", rev)
	r.fresh(res)
	if got, want := text(res.Snapshot()), fmt.Sprintf("g/p/ns/a=2@%d", rev2); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := text(old), fmt.Sprintf("g/p/ns/a=1@%d", rev); got != want {
		t.Errorf("old snapshot: got %s, want %s", got, want)
	}
	rev3 := r.delete("g/p/ns/a", rev2)
	r.fresh(res)
	if s := res.Snapshot(); s.Len() != 0 || s.Rev() < rev3 {
		t.Errorf("got %d objects at %d", s.Len(), s.Rev())
	}
	last := r.create("other/x", "1") // moves the revision without a change
	r.fresh(res)
	if got := res.Snapshot().Rev(); got != last {
		t.Errorf("revision after a change elsewhere: got %d, want %d", got, last)
	}
}

func TestNested(t *testing.T) {
	r := newRig(t, Options{}, mem.Options{})
	one, two := r.cache.Resource("namespaces"), r.cache.Resource("namespaces/b")
	r.fresh(one)
	r.fresh(two)
	r.create("namespaces/a", "1")
	r.create("namespaces/b/c", "1")
	r.fresh(one)
	if a, b := one.Snapshot().Len(), two.Snapshot().Len(); a != 2 || b != 1 {
		t.Errorf("got %d and %d objects, want 2 and 1", a, b)
	}
}

func TestWaitFor(t *testing.T) {
	r := newRig(t, Options{WaitMax: 50 * time.Millisecond}, mem.Options{})
	res := r.cache.Resource("g/p")
	rev := r.create("g/p/a", "1")
	r.must(res.WaitFor(r.ctx, rev))
	var future *store.FutureError
	if err := res.WaitFor(r.ctx, rev+5); !errors.As(err, &future) || future.Wanted != rev+5 || future.Current != rev {
		t.Errorf("got %v, want FutureError{%d, %d}", err, rev+5, rev)
	}
	_, err := res.SnapshotAt(rev+5, "g/p/")
	r.want(err, store.ErrFuture)
	done := make(chan error)
	go func() { done <- res.WaitFor(r.ctx, rev+1) }()
	testkit.Eventually(t, "a waiter for the next revision", r.cache.waiting.isWaiting)
	r.create("elsewhere/a", "1")
	r.must(<-done)
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	r.want(res.WaitFor(ctx, rev+9), context.Canceled)
}

func TestSnapshotAt(t *testing.T) {
	r := newRig(t, Options{LogEvents: 1000}, mem.Options{})
	res := r.cache.Resource("g/p")
	r.fresh(res)
	rnd := rand.New(rand.NewPCG(1, 2))
	at, revs, want := map[string]int64{}, []int64{}, map[int64]string{}
	for n := range 3000 {
		key := fmt.Sprintf("g/p/%d", rnd.IntN(50))
		if rev, ok := at[key]; !ok {
			at[key] = r.create(key, fmt.Sprint(n))
		} else if rnd.IntN(3) == 0 {
			delete(at, key)
			at["last"] = r.delete(key, rev)
		} else {
			at[key] = r.update(key, fmt.Sprint(n), rev)
		}
		if n%97 == 0 {
			r.fresh(res)
			s := res.Snapshot()
			revs, want[s.Rev()] = append(revs, s.Rev()), text(s)
		}
	}
	for range 2 {
		for _, rev := range revs {
			s, err := res.SnapshotAt(rev, "g/p/")
			r.must(err)
			if text(s) != want[rev] || s.Rev() != rev || !s.root.check() {
				t.Errorf("at %d: got %s, want %s", rev, text(s), want[rev])
			}
		}
	}
	r.must(r.store.Compact(r.ctx, revs[len(revs)-1]))
	_, err := res.SnapshotAt(revs[0]+1, "g/p/")
	r.want(err, ErrExpired)
}

func TestDropAndClose(t *testing.T) {
	r := newRig(t, Options{}, mem.Options{})
	res := r.cache.Resource("g/p")
	r.create("g/p/a", "1")
	r.fresh(res)
	s := res.Snapshot()
	w, err := res.Watch(s.Rev(), "")
	r.must(err)
	errs := make(chan error)
	go func() { _, _, err := w.Next(r.ctx); errs <- err }()
	testkit.Eventually(t, "a watch that waits", func() bool { return w.g.waiting.Load() > 0 })
	r.cache.Drop("g/p")
	r.want(<-errs, ErrClosed)
	r.want(res.Ready(r.ctx), ErrClosed)
	if _, ok := res.Get("g/p/a"); ok {
		t.Error("a dropped resource still has objects")
	}
	if s.Len() != 1 {
		t.Error("a snapshot lost its objects when the resource was dropped")
	}
	again := r.cache.Resource("g/p")
	if _, ok := again.Get("g/p/a"); !ok || again == res {
		t.Error("a resource opened again does not have its objects")
	}
	go func() { errs <- again.WaitFor(r.ctx, 1000) }()
	testkit.Eventually(t, "a waiter for a far revision", r.cache.waiting.isWaiting)
	r.cache.Close()
	r.want(<-errs, ErrClosed)
	r.want(r.cache.Resource("g/p").Ready(r.ctx), ErrClosed)
}

// TestStoreIsClosedFromTheStart holds that nobody waits for a cache whose store was closed before the stream began.
func TestStoreIsClosedFromTheStart(t *testing.T) {
	closed := mem.New(mem.Options{})
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	c := New(closed, Options{})
	defer c.Close()
	if err := c.Resource("g/p").Ready(t.Context()); !errors.Is(err, store.ErrClosed) {
		t.Errorf("got %v, want %v", err, store.ErrClosed)
	}
}

func TestStoreGoesAway(t *testing.T) {
	r := newRig(t, Options{}, mem.Options{})
	res := r.cache.Resource("g/p")
	r.create("g/p/a", "1")
	r.fresh(res)
	r.must(r.store.Close())
	r.want(res.Fresh(r.ctx), store.ErrClosed)
	if _, ok := res.Get("g/p/a"); !ok {
		t.Error("what was cached cannot be read without the store")
	}
	if err := r.cache.Resource("g/q").Ready(r.ctx); err == nil {
		t.Error("a resource was opened without the store")
	}
}

// lossy is a store whose watch loses changes when it is told to.
type lossy struct {
	store.Store
	mu   sync.Mutex
	lose bool
	cut  context.CancelFunc
}

type lossyWatcher struct {
	store.Watcher
	life context.Context
	s    *lossy
}

func (s *lossy) Watch(ctx context.Context, prefix string, after int64) (store.Watcher, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lose {
		s.lose = false
		return nil, store.ErrCompacted
	}
	w, err := s.Store.Watch(ctx, prefix, after)
	life, cut := context.WithCancel(ctx)
	s.cut = cut
	return &lossyWatcher{w, life, s}, err
}

func (w *lossyWatcher) Next(context.Context) (store.Batch, error) {
	b, err := w.Watcher.Next(w.life)
	if err != nil || w.life.Err() != nil { // what comes after the cut is not delivered, however fast it is
		return store.Batch{}, store.ErrUnavailable
	}
	return b, nil
}

// break_ ends the watch; with lose, it cannot be resumed.
func (s *lossy) break_(lose bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lose = lose
	if s.cut != nil {
		s.cut()
	}
}

func TestLostWatch(t *testing.T) {
	for _, lose := range []bool{false, true} {
		t.Run(fmt.Sprintf("lose=%v", lose), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			s := &lossy{Store: mem.New(mem.Options{})}
			c := New(s, Options{})
			defer c.Close()
			r := &rig{t, ctx, s, c}
			res := c.Resource("g/p")
			rev := r.create("g/p/a", "1")
			gone := r.create("g/p/b", "1")
			r.fresh(res)
			before := res.Snapshot()
			w, err := res.Watch(before.Rev(), "")
			r.must(err)
			s.break_(lose)
			r.update("g/p/a", "2", rev)
			r.delete("g/p/b", gone)
			r.create("g/p/c", "1")
			r.fresh(res)
			if got := text(res.Snapshot()); !strings.HasPrefix(got, "g/p/a=2") || !strings.Contains(got, "g/p/c=1") || res.Snapshot().Len() != 2 {
				t.Errorf("got %s", got)
			}
			events, _, err := w.Next(ctx)
			if lose {
				r.want(err, ErrExpired) // but the store still knows what the watch missed
				w, err = res.Watch(before.Rev(), "")
				r.must(err)
				events, _, err = w.Next(ctx)
			}
			if err != nil || len(events) == 0 || string(events[0].Object.Raw) != "2" {
				t.Errorf("got %v, %v", events, err)
			}
			now := res.Snapshot()
			w, err = res.Watch(now.Rev(), "")
			r.must(err)
			r.create("g/p/d", "1")
			if events, _, err = w.Next(ctx); err != nil || len(events) != 1 || events[0].Object.Key != "g/p/d" {
				t.Errorf("after the loss: got %v, %v", events, err)
			}
		})
	}
}

// TestOpenUnderLoad opens resources and loses the watch while writers write.
func TestOpenUnderLoad(t *testing.T) {
	t.Run("mem", func(t *testing.T) { testOpenUnderLoad(t, mem.New(mem.Options{})) })
	t.Run("etcd", func(t *testing.T) {
		s, err := etcd.Open(context.Background(), etcd.Config{DataDir: t.TempDir(), Fast: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		testOpenUnderLoad(t, s)
	})
}

func testOpenUnderLoad(t *testing.T, under store.Store) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s := &lossy{Store: under}
	c := New(s, Options{})
	defer c.Close()
	r := &rig{t, ctx, s, c}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			at := map[string]int64{}
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if n%10 == 0 { // etcd tells a watch that was opened again of 10,000 changes a second only
					time.Sleep(time.Millisecond)
				}
				key := fmt.Sprintf("g/p%d/%d-%d", n%8, i, n%40)
				var err error
				if at[key] == 0 {
					at[key], err = s.Create(ctx, key, fmt.Append(nil, n))
				} else if n%5 == 0 {
					_, err = s.Delete(ctx, key, at[key])
					at[key] = 0
				} else {
					at[key], err = s.Update(ctx, key, fmt.Append(nil, n), at[key])
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for n := range 60 {
		time.Sleep(time.Millisecond)
		res := c.Resource(fmt.Sprintf("g/p%d", n%8))
		if n%7 == 3 {
			c.Drop(res.Prefix())
			res = c.Resource(res.Prefix())
		}
		if n%10 == 9 {
			s.break_(n%20 == 9)
		}
		r.fresh(res)
		snap := res.Snapshot()
		p, err := s.List(ctx, res.Prefix(), store.ListOptions{Rev: snap.Rev()})
		r.must(err)
		var b strings.Builder
		for _, it := range p.Items {
			fmt.Fprintf(&b, "%s=%s@%d ", it.Key, it.Value, it.Rev)
		}
		if got, want := text(snap), strings.TrimSpace(b.String()); got != want {
			t.Fatalf("round %d, %s at %d:\ngot  %s\nwant %s", n, res.Prefix(), snap.Rev(), got, want)
		}
	}
	close(stop)
	wg.Wait()
}
