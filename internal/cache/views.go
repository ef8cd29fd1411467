package cache

// This file implements the budget for views that are larger than the stored bytes.
//
// A view is usually about as large as the stored bytes, and is kept as long as its object: the
// store's size bounds the memory of such views. A view may also be many times larger, because
// default values are filled in when the object is read, or because a webhook converts it. Such
// views are charged to a budget. When it is exceeded, views that were not read lately are dropped.
// Reading a view takes no lock: it sets a mark. The search for a view to drop skips marked views
// once, and removes the mark (the clock algorithm).

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/keelson-io/keelson/internal/meta"
)

const (
	// freeFactor and freeBytes define the views that are not charged: those of at most freeBytes
	// plus freeFactor times the stored bytes.
	freeFactor = 2
	freeBytes  = 1024
)

// Views is the budget for all objects of a Cache.
type Views struct {
	limit int64
	slots chan struct{} // one for each object that may be rendered at the same time

	mu    sync.Mutex
	bytes int64
	count int
	hand  *charge // the next charge to examine, in a ring; nil if there are none

	flying  sync.Mutex
	flights map[flight]*landing
}

// charge is a view that is charged to the budget. It refers neither to the object nor to the view,
// so that both are freed when nothing else refers to the object.
type charge struct {
	object  weak.Pointer[Object]
	size    int64
	read    atomic.Bool // since the hand passed
	cleanup runtime.Cleanup

	prev, next *charge // neighbours in the ring; nil if it is not in the ring
	dropped    bool
}

// newViews returns a budget of limit bytes.
func newViews(limit int64) *Views {
	return &Views{
		limit:   limit,
		slots:   make(chan struct{}, max(4, 2*runtime.GOMAXPROCS(0))),
		flights: map[flight]*landing{},
	}
}

// Bytes returns how many bytes are charged to the budget.
func (v *Views) Bytes() int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.bytes
}

// touch marks the charge as read. It writes only if the mark is new, because many goroutines may
// read at the same time.
func (c *charge) touch() {
	if !c.read.Load() {
		c.read.Store(true)
	}
}

// add charges a view of o to the budget, and drops others to make room.
func (v *Views) add(o *Object, c *charge) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if c.dropped { // another view has replaced it
		return
	}
	v.makeRoom(c.size)
	c.cleanup = runtime.AddCleanup(o, v.release, c)
	if v.hand == nil {
		c.prev, c.next, v.hand = c, c, c
	} else { // before the hand, so that it is examined last
		c.prev, c.next = v.hand.prev, v.hand
		c.prev.next, c.next.prev = c, c
	}
	v.bytes += c.size
	v.count++
}

// makeRoom drops views until size bytes fit into the budget. The lock is held.
func (v *Views) makeRoom(size int64) {
	for spared := 0; v.hand != nil && v.bytes+size > v.limit; {
		c := v.hand
		if c.read.Swap(false) && spared < v.count {
			spared++
			v.hand = c.next
			continue
		}
		v.remove(c)
		if o := c.object.Value(); o != nil {
			o.forget(c)
		}
	}
}

// release removes a view that no longer exists from the budget.
func (v *Views) release(c *charge) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.remove(c)
}

// remove removes a charge from the ring. The lock is held.
func (v *Views) remove(c *charge) {
	c.dropped = true
	if c.next == nil {
		return
	}
	if v.hand == c {
		v.hand = c.next
	}
	if v.hand == c { // it was the only one
		v.hand = nil
	}
	c.prev.next, c.next.prev = c.next, c.prev
	c.prev, c.next = nil, nil
	c.cleanup.Stop()
	v.bytes -= c.size
	v.count--
}

// flight identifies a view that is being rendered.
type flight struct {
	object *Object
	by     *byte
}

// landing is the result of a flight. view and err may be read after done is closed.
type landing struct {
	done chan struct{}
	view *meta.View
	err  error
}

// render renders a view. Concurrent callers for the same view share the result. The number of views
// that are rendered at the same time is limited, because rendering takes several times the memory
// of the view.
func (v *Views) render(o *Object, r Renderer) (*meta.View, error) {
	key := flight{o, r.Identity().Key()}
	v.flying.Lock()
	if l := v.flights[key]; l != nil {
		v.flying.Unlock()
		<-l.done
		return l.view, l.err
	}
	if view := o.Known(r); view != nil {
		v.flying.Unlock()
		return view, nil
	}
	l := &landing{done: make(chan struct{}), err: errors.New("rendering panicked")}
	v.flights[key] = l
	v.flying.Unlock()
	defer func() {
		v.flying.Lock()
		delete(v.flights, key)
		v.flying.Unlock()
		close(l.done)
	}()
	if w, ok := r.(Waiter); !ok || !w.Waits() {
		v.slots <- struct{}{}
		defer func() { <-v.slots }()
	}
	view, err := r.Render(o.Raw, o.Rev)
	if err == nil {
		view = o.Remember(r, view)
	}
	l.view, l.err = view, err
	return view, err
}
