package cache

// This file holds tests of what writers hand over.

import (
	"fmt"
	"sync"
	"testing"

	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/store/mem"
)

// countingRenderer counts what it renders.
type countingRenderer struct {
	mu sync.Mutex
	n  int

	identity meta.RendererID
}

func (r *countingRenderer) Identity() *meta.RendererID { return &r.identity }

func (r *countingRenderer) Render(raw []byte, rev int64) (*meta.View, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	return &meta.View{JSON: fmt.Appendf(nil, "%s@%d", raw, rev)}, nil
}

func TestWrote(t *testing.T) {
	r := newRig(t, Options{}, mem.Options{})
	res := r.cache.Resource("g/p")
	r.fresh(res)
	by := new(countingRenderer)
	check := func(what string, rev int64, rendered int) {
		t.Helper()
		r.fresh(res)
		o, ok := res.Get("g/p/a")
		if !ok || o.Rev != rev {
			t.Fatalf("%s: got %v, want revision %d", what, o, rev)
		}
		v, err := o.View(by)
		r.must(err)
		if want := fmt.Sprintf("%s@%d", o.Raw, rev); string(v.JSON) != want || by.n != rendered {
			t.Errorf("%s: got view %s, rendered %d times, want %s, %d times", what, v.JSON, by.n, want, rendered)
		}
		if len(res.written.byKey) != 0 {
			t.Errorf("%s: left over: %v", what, res.written.byKey)
		}
	}
	wrote := func(rev int64, raw string) {
		res.Wrote("g/p/a", rev, []byte(raw), by, &meta.View{JSON: fmt.Appendf(nil, "%s@%d", raw, rev)})
	}

	rev := r.create("g/p/a", "1")
	wrote(rev, "1")
	check("handed over before or after it arrives", rev, 0)

	rev = r.update("g/p/a", "2", rev)
	r.fresh(res)
	wrote(rev, "2")
	check("handed over after it arrived", rev, 0)

	mine := r.update("g/p/a", "3", rev)
	rev = r.update("g/p/a", "4", mine)
	r.fresh(res)
	wrote(mine, "3")
	check("replaced before it was handed over", rev, 1)

	// What is known of the future is the newest, but nothing that readers see.
	wrote(rev+1, "5")
	if o, _ := res.Newest("g/p/a"); o.Rev != rev+1 {
		t.Errorf("newest: got revision %d, want %d", o.Rev, rev+1)
	}
	if o, _ := res.Get("g/p/a"); o.Rev != rev {
		t.Errorf("get: got revision %d, want %d", o.Rev, rev)
	}
	r.delete("g/p/a", rev) // somebody else was faster
	r.fresh(res)
	if o, ok := res.Newest("g/p/a"); ok {
		t.Errorf("newest after a removal: got %v", o)
	}
}

// TestErased holds that what was deleted is not the newest from when the writer says so, before the stream tells of it and after.
func TestErased(t *testing.T) {
	r := newRig(t, Options{}, mem.Options{})
	res := r.cache.Resource("g/p")
	rev := r.create("g/p/a", "1")
	r.fresh(res)
	newest := func(what string, want int64) {
		t.Helper()
		o, ok := res.Newest("g/p/a")
		if ok != (want > 0) || ok && o.Rev != want {
			t.Errorf("%s: newest is %v, want revision %d", what, o, want)
		}
	}
	// The store's watch will tell of nothing before these are in it.
	res.Erased("g/p/a", rev+1)
	newest("deleted", 0)
	if o, ok := res.Get("g/p/a"); !ok || o.Rev != rev {
		t.Errorf("readers see %v, want revision %d", o, rev)
	}
	res.Wrote("g/p/a", rev+2, []byte("2"), nil, nil)
	newest("made anew", rev+2)
	res.Erased("g/p/a", rev+1)
	newest("an older deletion that is told later", rev+2)
	res.Erased("g/p/a", rev+3)
	newest("deleted again", 0)
	r.delete("g/p/a", rev)
	rev = r.create("g/p/a", "2")
	r.delete("g/p/a", rev)
	rev = r.create("g/p/a", "3")
	r.fresh(res)
	newest("made anew by somebody else", rev)
	res.Erased("g/p/a", rev-1)
	newest("a deletion that has arrived already", rev)
	if len(res.written.byKey) != 0 {
		t.Errorf("left over: %v", res.written.byKey)
	}
}

// TestWroteUnderLoad hands over from several goroutines while the stream tells of the same writes.
func TestWroteUnderLoad(t *testing.T) {
	r := newRig(t, Options{}, mem.Options{})
	res := r.cache.Resource("g/p")
	r.fresh(res)
	by := new(countingRenderer)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			key := fmt.Sprintf("g/p/%d", i)
			rev := int64(0)
			for n := range 500 {
				raw := fmt.Append(nil, n)
				var err error
				if rev == 0 {
					rev, err = r.store.Create(r.ctx, key, raw)
				} else {
					rev, err = r.store.Update(r.ctx, key, raw, rev)
				}
				if err != nil {
					t.Error(err)
					return
				}
				res.Wrote(key, rev, raw, by, &meta.View{JSON: fmt.Appendf(nil, "%s@%d", raw, rev)})
				if o, ok := res.Newest(key); !ok || o.Rev != rev {
					t.Errorf("own write at %d: newest is %v", rev, o)
					return
				}
			}
		})
	}
	wg.Wait()
	r.fresh(res)
	res.Snapshot().Ascend("", func(o *Object) bool {
		if v, err := o.View(by); err != nil || string(v.JSON) != fmt.Sprintf("%s@%d", o.Raw, o.Rev) {
			t.Errorf("%s: got view %s, %v", o.Key, v.JSON, err)
		}
		return true
	})
	if by.n != 0 || len(res.written.byKey) != 0 {
		t.Errorf("got %d renderings and %d left over, want none", by.n, len(res.written.byKey))
	}
}
