package cache

// This file holds the tests of the budget of views.

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/store/mem"
)

// inflater renders objects many times larger than they are stored.
type inflater struct {
	mu    sync.Mutex
	made  int
	size  int
	gate  chan struct{} // if set, Render waits until it is closed
	began chan struct{} // if set, Render says when it begins

	identity meta.RendererID
}

func (r *inflater) Identity() *meta.RendererID { return &r.identity }

func (r *inflater) Render(raw []byte, rev int64) (*meta.View, error) {
	r.mu.Lock()
	r.made++
	r.mu.Unlock()
	if r.gate != nil {
		r.began <- struct{}{}
		<-r.gate
	}
	return &meta.View{JSON: bytes.Repeat([]byte{'x'}, r.size)}, nil
}

// filledBudget opens a resource of n small objects with a budget of views.
func filledBudget(t *testing.T, n int, budget int64) *Resource {
	t.Helper()
	s := mem.New(mem.Options{})
	for i := range n {
		if _, err := s.Create(context.Background(), fmt.Sprintf("g/p/%03d", i), []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	c := New(s, Options{ViewBytes: budget})
	t.Cleanup(func() { c.Close(); s.Close() })
	r := c.Resource("g/p")
	if err := r.Fresh(context.Background()); err != nil {
		t.Fatal(err)
	}
	return r
}

// checkBudget compares what is charged with what objects remember.
func checkBudget(t *testing.T, r *Resource) {
	t.Helper()
	v := r.c.views
	var have int64
	r.Snapshot().Ascend("", func(o *Object) bool {
		if m := o.memo.Load(); m != nil { // not by Known, which marks what it finds as read
			for i, x := range m.views {
				if x.view != nil && m.more != nil && m.more.charges[i] != nil {
					have += memoryOf(x.view)
				}
			}
		}
		return true
	})
	v.mu.Lock()
	defer v.mu.Unlock()
	if have != v.bytes || v.bytes > v.limit {
		t.Fatalf("objects remember %d bytes, %d are charged, of %d", have, v.bytes, v.limit)
	}
	n := 0
	for c := v.hand; c != nil; c = c.next {
		if n++; c.next == v.hand {
			break
		}
	}
	if n != v.count {
		t.Fatalf("%d charges in the ring, %d counted", n, v.count)
	}
}

// TestViewBudget holds that what views take is charged exactly and never more than the budget, that what is read stays, and that a
// view as small as what is stored costs nothing.
func TestViewBudget(t *testing.T) {
	const n, size, budget = 100, 10_000, 200_000
	r := filledBudget(t, n, budget)
	large, other, small := &inflater{size: size}, &inflater{size: 3 * size}, &inflater{size: 1000}
	get := func(i int) *Object { o, _ := r.Get(fmt.Sprintf("g/p/%03d", i)); return o }
	for i := range n {
		get(i).View(small)
	}
	if got := r.c.views.Bytes(); got != 0 {
		t.Errorf("%d bytes are charged for small views, want none", got)
	}
	for i := range n {
		get(0).View(large) // again and again
		get(i).View(large)
		checkBudget(t, r)
	}
	if large.made != n {
		t.Errorf("made %d views, want %d: what is read often stays", large.made, n)
	}
	for range 5000 {
		by := []Renderer{large, other, small, &inflater{size: size}}[rand.IntN(4)]
		o := get(rand.IntN(n))
		if view, err := o.View(by); err != nil || len(view.JSON) != by.(*inflater).size {
			t.Fatalf("got %d bytes, %v", len(view.JSON), err)
		}
		if v := r.c.views; v.Bytes() > budget {
			t.Fatalf("%d bytes are charged", v.Bytes())
		}
	}
	if o := get(7); o.At(99).Rev != 99 {
		t.Errorf("a later state of an object has revision %d", o.At(99).Rev)
	} else if a, b := o.At(99), o.At(99); a != b {
		t.Error("a later state of an object is not shared")
	}
	huge := &inflater{size: budget + 1}
	get(3).View(huge)
	if get(3).Known(huge) != nil {
		t.Error("a view larger than the budget is remembered")
	}
}

// TestViewsOfGoneObjects holds that objects that nobody has any more give back what they were charged.
func TestViewsOfGoneObjects(t *testing.T) {
	r := filledBudget(t, 10, 1<<20)
	by := &inflater{size: 10_000}
	r.Snapshot().Ascend("", func(o *Object) bool { o.View(by); return true })
	views := r.c.views
	if got := views.Bytes(); got < 100_000 {
		t.Fatalf("%d bytes are charged", got)
	}
	r.c.Drop("g/p")
	r = nil
	for range 1000 {
		runtime.GC()
		if views.Bytes() == 0 {
			return
		}
		runtime.Gosched()
	}
	t.Errorf("%d bytes are charged for objects that are gone", views.Bytes())
}

// TestViewsAreMadeOnce holds that all who want a view at the same time get the one that is being made.
func TestViewsAreMadeOnce(t *testing.T) {
	r := filledBudget(t, 1, 1) // nothing is remembered
	by := &inflater{size: 10_000, gate: make(chan struct{}), began: make(chan struct{}, 100)}
	o, _ := r.Get("g/p/000")
	var all sync.WaitGroup
	started := make(chan struct{}, 50)
	all.Go(func() { o.View(by) })
	<-by.began
	for range 50 {
		all.Go(func() {
			started <- struct{}{}
			o.View(by)
		})
	}
	for range 50 {
		<-started
	}
	for { // until they wait; whoever comes later makes another one
		buf := make([]byte, 1<<20)
		if bytes.Count(buf[:runtime.Stack(buf, true)], []byte("(*Views).render(")) >= 51 {
			break
		}
		runtime.Gosched()
	}
	close(by.gate)
	all.Wait()
	if by.made != 1 {
		t.Errorf("made %d views for 51 readers at once, want 1", by.made)
	}
}

// TestViewsInParallel reads, replaces and drops views in many goroutines, for the race detector.
func TestViewsInParallel(t *testing.T) {
	r := filledBudget(t, 20, 100_000)
	bys := []Renderer{&inflater{size: 10_000}, &inflater{size: 20_000}, &inflater{size: 5000}, &inflater{size: 100}}
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 500 {
				o, _ := r.Get(fmt.Sprintf("g/p/%03d", (i*7+g)%20))
				if view, err := o.View(bys[(i+g)%4]); err != nil || len(view.JSON) == 0 {
					t.Error("no view")
				}
				o.At(int64(1000 + i%3))
			}
		})
	}
	all.Wait()
	checkBudget(t, r)
}
