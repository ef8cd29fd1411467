package follow

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/internal/store/mem"
)

// This file tests followers of a cache over a store in memory whose watch can be lost.

// fragile is a store whose watches can be ended.
type fragile struct {
	store.Store
	mu   sync.Mutex
	ends []context.CancelCauseFunc // of the open watches
	down atomic.Bool               // no watch can be opened
}

// Watch implements store.Store.
func (f *fragile) Watch(ctx context.Context, prefix string, after int64) (store.Watcher, error) {
	if f.down.Load() {
		return nil, store.ErrUnavailable
	}
	w, err := f.Store.Watch(ctx, prefix, after)
	if err != nil {
		return nil, err
	}
	life, end := context.WithCancelCause(context.Background())
	f.mu.Lock()
	f.ends = append(f.ends, end)
	f.mu.Unlock()
	return &fragileWatch{w, life}, nil
}

type fragileWatch struct {
	store.Watcher
	life context.Context
}

// Next implements store.Watcher.
func (w *fragileWatch) Next(ctx context.Context) (store.Batch, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(w.life, func() { cancel(store.ErrUnavailable) })()
	b, err := w.Watcher.Next(ctx)
	if err != nil && context.Cause(ctx) == store.ErrUnavailable {
		err = store.ErrUnavailable
	}
	return b, err
}

// lose ends all watches, and lets none be opened until the function that it returns is called.
func (f *fragile) lose() (restore func()) {
	f.down.Store(true)
	f.mu.Lock()
	for _, end := range f.ends {
		end(nil)
	}
	f.ends = nil
	f.mu.Unlock()
	synctest.Wait() // nobody reads from a watch any more
	return func() { f.down.Store(false) }
}

// mirror is a handler that keeps the revisions of keys, and checks the order of what it is shown.
type mirror[T any] struct {
	t     *testing.T
	read  func(*T) (key string, rev int64, deleted bool)
	slow  func() // called before a change; nil: nothing
	revs  map[string]int64
	last  int64 // revision of the last change since the last list
	lists int
	count int // changes
}

func (m *mirror[T]) Reset(_ context.Context, listed iter.Seq2[*T, error]) error {
	revs, last := map[string]int64{}, int64(0)
	for object, err := range listed {
		if err != nil {
			return err
		}
		key, rev, deleted := m.read(object)
		if _, doubled := revs[key]; doubled || deleted {
			m.t.Errorf("listed %s at %d: deleted %v, doubled %v", key, rev, deleted, doubled)
		}
		revs[key] = rev
		last = max(last, rev)
	}
	m.revs, m.last = revs, last
	m.lists++
	return nil
}

func (m *mirror[T]) Change(_ context.Context, changes []T) {
	if m.slow != nil {
		m.slow()
	}
	for i := range changes {
		key, rev, deleted := m.read(&changes[i])
		if rev <= m.last {
			m.t.Errorf("change of %s at %d comes after one at %d", key, rev, m.last)
		}
		m.last = rev
		m.count++
		if _, there := m.revs[key]; deleted && !there {
			m.t.Errorf("%s is deleted at %d and was not there", key, rev)
		}
		if deleted {
			delete(m.revs, key)
		} else {
			m.revs[key] = rev
		}
	}
}

func readEvent(e *store.Event) (string, int64, bool) { return e.Key, e.Rev, e.Deleted }

func readObject(e *cache.Event) (string, int64, bool) {
	return e.Object.Key, e.Rev, e.Type == cache.Deleted
}

// world is a store with a cache, and followers of both kinds of the keys below a/.
type world struct {
	*testing.T
	store   *fragile
	cache   *cache.Cache
	keys    *Follower[store.Event]
	objects *Follower[cache.Event]
	all     *mirror[store.Event]
	some    *mirror[cache.Event]
	random  *rand.Rand
	revs    map[string]int64 // below a/
	writes  int
}

// inWorld runs a test in a world, in a bubble of synctest.
func inWorld(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		s := &fragile{Store: mem.New(mem.Options{})}
		c := cache.New(s, cache.Options{Logger: slog.New(slog.DiscardHandler), LogEvents: 64})
		quiet := slog.New(slog.DiscardHandler)
		w := &world{T: t, store: s, cache: c, random: rand.New(rand.NewPCG(1, 2)), revs: map[string]int64{},
			all: &mirror[store.Event]{t: t, read: readEvent}, some: &mirror[cache.Event]{t: t, read: readObject}}
		w.keys = &Follower[store.Event]{Source: Keys(c, s, []string{"a/"}, nil), Handler: w.all, Logger: quiet, Name: "keys"}
		w.objects = &Follower[cache.Event]{Source: Objects(c.Resource("a")), Handler: w.some, Logger: quiet, Name: "objects"}
		w.write(10)
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { w.keys.Run(ctx) })
		group.Go(func() { w.objects.Run(ctx) })
		synctest.Wait()
		test(w)
		cancel()
		group.Wait()
		c.Close()
		s.Close()
	})
}

// write makes random changes, some of them of other keys.
func (w *world) write(n int) {
	w.Helper()
	ctx := w.Context()
	for range n {
		w.writes++
		key := fmt.Sprintf("a/%02d", w.random.IntN(20))
		rev, there := w.revs[key]
		var err error
		switch {
		case w.random.IntN(10) == 0:
			_, err = w.store.Create(ctx, fmt.Sprintf("b/%d", w.writes), []byte("x"))
		case !there:
			w.revs[key], err = w.store.Create(ctx, key, []byte("x"))
		case w.random.IntN(3) == 0:
			_, err = w.store.Delete(ctx, key, rev)
			delete(w.revs, key)
		default:
			w.revs[key], err = w.store.Update(ctx, key, []byte("y"), rev)
		}
		if err != nil {
			w.Fatal(err)
		}
	}
}

// check waits until both followers know everything, and compares what they know, and how often they
// listed.
func (w *world) check(keyLists, objectLists int) {
	w.Helper()
	// A change that both show comes last.
	rev, err := w.store.Create(w.Context(), fmt.Sprintf("a/last%d", w.writes), []byte("x"))
	if err != nil {
		w.Fatal(err)
	}
	w.revs[fmt.Sprintf("a/last%d", w.writes)] = rev
	if err := errors.Join(w.keys.CatchUp(w.Context()), w.objects.Wait(w.Context(), rev), w.objects.CatchUp(w.Context())); err != nil {
		w.Fatal(err)
	}
	synctest.Wait()
	if !maps.Equal(w.all.revs, w.revs) {
		w.Errorf("follower of keys knows %v, want %v", w.all.revs, w.revs)
	}
	if !maps.Equal(w.some.revs, w.revs) {
		w.Errorf("follower of objects knows %v, want %v", w.some.revs, w.revs)
	}
	if w.all.lists != keyLists || w.some.lists != objectLists {
		w.Errorf("keys were listed %d times and objects %d times, want %d and %d", w.all.lists, w.some.lists, keyLists, objectLists)
	}
}

func TestSourcesShowEveryChangeOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		for range 50 {
			w.write(w.random.IntN(20))
			if w.random.IntN(2) == 0 {
				synctest.Wait()
			}
		}
		w.check(1, 1)
	})
}

func TestSourcesGoOnAfterALostWatch(t *testing.T) {
	inWorld(t, func(w *world) {
		for range 5 {
			w.write(5)
			restore := w.store.lose()
			w.write(30)
			time.Sleep(time.Minute)
			restore()
			w.write(5)
			w.check(1, 1)
		}
	})
}

func TestSourcesListAgainAfterCompaction(t *testing.T) {
	inWorld(t, func(w *world) {
		for i := range 5 {
			w.write(5)
			restore := w.store.lose()
			w.write(30)
			rev, err := w.store.Revision(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := w.store.Compact(w.Context(), rev); err != nil {
				t.Fatal(err)
			}
			w.write(5)
			time.Sleep(time.Minute)
			restore()
			w.write(5)
			w.check(i+2, i+2)
		}
	})
}

// TestSlowHandlerResumesFromTheStore checks that a handler that is slower than the cache's log keeps
// changes is shown the rest out of the store's history.
func TestSlowHandlerResumesFromTheStore(t *testing.T) {
	inWorld(t, func(w *world) {
		gate := make(chan struct{})
		w.some.slow = sync.OnceFunc(func() { <-gate })
		w.write(5)
		synctest.Wait()
		w.write(50)
		time.Sleep(time.Hour) // the log forgets them
		close(gate)
		w.check(1, 1)
		if w.some.count != w.all.count {
			w.Errorf("saw %d changes, want %d", w.some.count, w.all.count)
		}
	})
}

// TestTooManyChangesAreListedAgain checks that a handler for which more is waiting than the cache's
// log has room for is shown a list.
func TestTooManyChangesAreListedAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		gate := make(chan struct{})
		w.some.slow = sync.OnceFunc(func() { <-gate })
		w.write(5)
		synctest.Wait()
		w.write(1000)
		synctest.Wait()
		close(gate)
		w.check(1, 2)
	})
}

// TestTooManyBytesAreListedAgain checks that a handler for which more is waiting than a tap keeps is
// shown a list.
func TestTooManyBytesAreListedAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		gate := make(chan struct{})
		w.all.slow = sync.OnceFunc(func() { <-gate })
		w.write(5)
		synctest.Wait()
		large := make([]byte, store.MaxValue)
		rev, err := w.store.Create(t.Context(), "a/large", large)
		for range 11 { // 84 MB, of which the tap keeps 64 MiB
			if err != nil {
				t.Fatal(err)
			}
			rev, err = w.store.Update(t.Context(), "a/large", large, rev)
			synctest.Wait()
		}
		w.revs["a/large"] = rev
		close(gate)
		w.check(2, 1)
	})
}

// TestKeysOfManyPrefixes checks that everything is listed as of one revision, and that wants says
// which changes are shown.
func TestKeysOfManyPrefixes(t *testing.T) {
	for _, test := range []struct {
		name     string
		prefixes []string
		wants    func(*store.Event) bool
		want     string
	}{
		{"some", []string{"a/", "c/"}, nil, "[a/1 c/1 | a/2 c/2]"},
		{"everything", []string{""}, nil, "[a/1 b/1 c/1 | a/2 b/2 c/2]"},
		{"others", []string{"a/"}, func(e *store.Event) bool { return e.Key == "b/2" }, "[a/1 | b/2]"},
		{"no list", nil, func(e *store.Event) bool { return true }, "[| a/2 b/2 c/2]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mem.New(mem.Options{})
				defer s.Close()
				c := cache.New(s, cache.Options{})
				defer c.Close()
				create := func(key string) {
					if _, err := s.Create(t.Context(), key, []byte("x")); err != nil {
						t.Fatal(err)
					}
				}
				for _, prefix := range []string{"a", "b", "c"} {
					create(prefix + "/1")
				}
				synctest.Wait() // the cache has seen them
				var seen []string
				f := &Follower[store.Event]{Source: Keys(c, s, test.prefixes, test.wants), Logger: slog.New(slog.DiscardHandler),
					Handler: Each[store.Event](func(_ context.Context, e *store.Event) { seen = append(seen, e.Key) })}
				if err := f.Sync(t.Context()); err != nil {
					t.Fatal(err)
				}
				seen = append(seen, "|")
				for _, prefix := range []string{"a", "b", "c"} {
					create(prefix + "/2")
				}
				ctx, cancel := context.WithCancel(t.Context())
				go f.Run(ctx)
				synctest.Wait()
				cancel()
				synctest.Wait()
				if got := fmt.Sprint(seen); got != test.want {
					t.Errorf("got %s, want %s", got, test.want)
				}
			})
		})
	}
}

// TestValueShowsTheNewest checks that a value is shown when it has another revision, and that a slow
// handler is not shown those between.
func TestValueShowsTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		now, changed := uint64(3), make(chan struct{})
		set := func(to uint64) {
			mu.Lock()
			defer mu.Unlock()
			now = to
			close(changed)
			changed = make(chan struct{})
		}
		closed := make(chan struct{})
		close(closed)
		source := Value(func() uint64 { mu.Lock(); defer mu.Unlock(); return now }, func(v uint64) uint64 { return v },
			func(rev uint64) <-chan struct{} {
				mu.Lock()
				defer mu.Unlock()
				if now != rev {
					return closed
				}
				return changed
			})
		var seen []uint64
		gate := make(chan struct{})
		f := &Follower[uint64]{Source: source, Logger: slog.New(slog.DiscardHandler), Handler: Each[uint64](func(_ context.Context, v *uint64) {
			if *v == 4 {
				<-gate
			}
			seen = append(seen, *v)
		})}
		ctx, cancel := context.WithCancel(t.Context())
		go f.Run(ctx)
		synctest.Wait()
		set(4)
		synctest.Wait()
		set(5)
		set(6)
		close(gate)
		if err := f.CatchUp(t.Context()); err != nil {
			t.Error(err)
		}
		cancel()
		synctest.Wait()
		if got := fmt.Sprint(seen); got != "[3 4 6]" {
			t.Errorf("got %s, want [3 4 6]", got)
		}
	})
}
