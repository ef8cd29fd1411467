package loop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/internal/testkit"
)

// This file runs loops over a store in memory.

// rig is a loop that writes down what it is shown and does.
type rig struct {
	*testing.T
	store store.Store
	loop  *Loop

	mu   sync.Mutex
	seen []string
	done []string
}

func newRig(t *testing.T, change func(*Loop)) *rig {
	s := mem.New(mem.Options{})
	c := cache.New(s, cache.Options{})
	r := &rig{T: t, store: s}
	r.loop = &Loop{Cache: c, Store: s, Logger: slog.New(slog.DiscardHandler), Name: "test", List: []string{"a/", "b/"}}
	r.loop.See = func(e *Change) {
		r.note(&r.seen, fmt.Sprintf("%s %d %v %v", e.Key, e.Rev, e.Listed, e.Deleted))
		r.loop.Add(e.Key)
	}
	r.loop.Work = func(_ context.Context, key string) error {
		r.note(&r.done, key)
		return nil
	}
	if change != nil {
		change(r.loop)
	}
	t.Cleanup(func() { c.Close(); s.Close() })
	return r
}

func (r *rig) note(list *[]string, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*list = append(*list, text)
}

// run starts the loop. It ends with the test.
func (r *rig) run() {
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() { r.loop.Run(ctx); close(over) }()
	r.Cleanup(func() { stop(); <-over })
}

// until waits until a list is as long as it should be, and compares it.
func (r *rig) until(list *[]string, want ...string) {
	r.Helper()
	testkit.EventuallySay(r, func() (string, bool) {
		r.mu.Lock()
		got := slices.Clone(*list)
		r.mu.Unlock()
		text := fmt.Sprintf("got %q, want %q", got, want)
		if len(got) > len(want) {
			r.Fatal(text)
		}
		return text, slices.Equal(got, want)
	})
}

func (r *rig) write(key string) int64 {
	r.Helper()
	rev, err := r.store.Create(context.Background(), key, []byte("x"))
	if err != nil {
		r.Fatal(err)
	}
	return rev
}

// TestLoop holds what is seen: what was there, and every change afterwards, each once; and that it is worked on.
func TestLoop(t *testing.T) {
	r := newRig(t, nil)
	r.write("b/1")
	rev := r.write("a/1")
	r.write("c/1")
	r.run()
	r.until(&r.done, "a/1", "b/1")
	r.write("c/2")
	r.write("a/2")
	r.until(&r.done, "a/1", "b/1", "a/2")
	if _, err := r.store.Delete(context.Background(), "a/1", rev); err != nil {
		t.Fatal(err)
	}
	r.until(&r.done, "a/1", "b/1", "a/2", "a/1")
	r.until(&r.seen, "a/1 3 true false", "b/1 2 true false", "a/2 6 false false", "a/1 7 false true")
}

// TestWants holds that changes of other keys are seen if they are wanted, and that everything else is not.
func TestWants(t *testing.T) {
	r := newRig(t, func(l *Loop) { l.Wants = func(e *store.Event) bool { return e.Key == "c/2" } })
	r.write("c/0")
	r.write("a/1")
	r.run()
	r.until(&r.done, "a/1")
	r.write("c/1")
	r.write("a/2")
	r.write("c/2")
	r.until(&r.done, "a/1", "c/2")
}

// TestRetry holds that what fails is tried again, more and more slowly, and that nobody waits for it.
func TestRetry(t *testing.T) {
	var times []time.Time
	r := newRig(t, nil)
	good := r.loop.Work
	r.loop.Work = func(ctx context.Context, key string) error {
		if key == "a/bad" {
			if times = append(times, time.Now()); len(times) < 4 {
				return errors.New("not yet")
			}
		}
		return good(ctx, key)
	}
	r.write("a/bad")
	r.write("b/good")
	r.run()
	r.until(&r.done, "b/good", "a/bad")
	for i := 1; i < len(times); i++ {
		if pause, want := times[i].Sub(times[i-1]), firstRetry<<(i-1); pause < want {
			t.Errorf("retry %d after %v, want at least %v", i, pause, want)
		}
	}
}

// TestFreshness holds that work for a change finds it in the cache.
func TestFreshness(t *testing.T) {
	r := newRig(t, nil)
	res := r.loop.Cache.Resource("a")
	if err := res.Ready(context.Background()); err != nil {
		t.Fatal(err)
	}
	r.loop.Work = func(_ context.Context, key string) error {
		o, ok := res.Get(key)
		if !ok {
			r.Errorf("%s is not in the cache: %v", key, o)
		}
		r.note(&r.done, key)
		return nil
	}
	r.run()
	var want []string
	for i := range 200 {
		key := fmt.Sprintf("a/%03d", i)
		r.write(key)
		want = append(want, key)
	}
	r.until(&r.done, want...)
}

// lossy is a store whose lists fail at first.
type lossy struct {
	store.Store
	fail int
}

// List implements store.Store.
func (l *lossy) List(ctx context.Context, prefix string, o store.ListOptions) (store.Page, error) {
	if l.fail > 0 {
		l.fail--
		return store.Page{}, store.ErrUnavailable
	}
	return l.Store.List(ctx, prefix, o)
}

// TestListFails holds that everything is listed in the end.
func TestListFails(t *testing.T) {
	r := newRig(t, nil)
	var begun []string
	r.loop.Begin = func() { r.note(&begun, "begin") }
	r.loop.Store = &lossy{Store: r.store, fail: 2}
	r.write("a/1")
	r.run()
	r.until(&begun, "begin", "begin", "begin")
}

// TestDues holds the order of keys, and what putting one again does.
func TestDues(t *testing.T) {
	l := new(Loop)
	start := time.Now()
	for _, key := range []string{"c", "a", "b", "d"} {
		l.At(key, start.Add(time.Duration(key[0])*time.Second))
	}
	l.At("a", start.Add(time.Hour)) // later
	l.By("a", start.Add(2*time.Hour))
	l.By("d", start)
	l.Drop("c")
	l.Drop("c")
	l.Add("y")
	l.Add("x")
	l.Add("y")
	var got []string
	for e := l.due.first(); e != nil; e = l.due.first() {
		got = append(got, e.key)
		l.due.remove(e)
	}
	if text := strings.Join(got, " "); text != "y x d b a" || len(l.due.at) != 0 {
		t.Errorf("got %s", text)
	}
}

// TestEach holds that a list of many pages is that of one revision.
func TestEach(t *testing.T) {
	s := mem.New(mem.Options{})
	defer s.Close()
	ctx := context.Background()
	for i := range 1200 {
		if _, err := s.Create(ctx, fmt.Sprintf("a/%04d", i), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	rev, err := store.Each(ctx, s, "a/", 0, func(it *store.Item) error {
		if n == 0 {
			if _, err := s.Create(ctx, "a/9999", []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		n++
		return nil
	})
	if n != 1200 || rev != 1201 || err != nil {
		t.Errorf("got %d items, revision %d, %v", n, rev, err)
	}
	enough := errors.New("enough")
	if _, err := store.Each(ctx, s, "a/", 0, func(*store.Item) error { return enough }); err != enough {
		t.Errorf("got %v", err)
	}
}
