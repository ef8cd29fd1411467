package cache

// This file holds the budget of views that are larger than what is stored.
//
// A view is about as large as its object's stored bytes, and is kept as long as the object: what
// views take is then bounded by what the store holds. A view can also be many times larger, because
// default values are filled in when the object is read, or because a webhook converts it. Such
// views are charged to a budget, and the ones that were not read lately are dropped when it is
// spent. Reading a view takes no lock: it sets a mark, and the search for something to drop spares
// what is marked, once (the clock algorithm).

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/keelson-io/keelson/meta"
)

const (
	// freeFactor and freeBytes say which views are not charged: those of at most freeBytes, and
	// freeFactor times as many bytes as are stored.
	freeFactor = 2
	freeBytes  = 1024
)

// Views is the budget of all objects of a Cache.
type Views struct {
	limit int64
	slots chan struct{} // one for each object that may be rendered at the same time

	mu    sync.Mutex
	bytes int64
	count int
	hand  *charge // the next charge to look at, in a ring; nil: there are none

	flying  sync.Mutex
	flights map[flight]*landing
}

// charge is a view that is charged to the budget. It holds neither the object nor the view, so that
// both are freed when nothing else refers to the object.
type charge struct {
	object  weak.Pointer[Object]
	size    int64
	read    atomic.Bool // since the hand passed
	cleanup runtime.Cleanup

	prev, next *charge // in the ring; nil: it is not, or no longer, in it
	dropped    bool
}

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

// touch marks the charge as read. It writes only if that is new: many read at the same time.
func (c *charge) touch() {
	if !c.read.Load() {
		c.read.Store(true)
	}
}

// add charges a view of o to the budget, and drops others until there is room for it.
func (v *Views) add(o *Object, c *charge) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if c.dropped { // another view took its place already
		return
	}
	v.makeRoom(c.size)
	c.cleanup = runtime.AddCleanup(o, v.release, c)
	if v.hand == nil {
		c.prev, c.next, v.hand = c, c, c
	} else { // before the hand, so that it is looked at last
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

// release takes a view that no longer exists out of the budget.
func (v *Views) release(c *charge) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.remove(c)
}

// remove takes a charge out of the ring. The lock is held.
func (v *Views) remove(c *charge) {
	c.dropped = true
	if c.next == nil {
		return
	}
	if v.hand == c {
		v.hand = c.next
	}
	if v.hand == c { // it was the last one
		v.hand = nil
	}
	c.prev.next, c.next.prev = c.next, c.prev
	c.prev, c.next = nil, nil
	c.cleanup.Stop()
	v.bytes -= c.size
	v.count--
}

// flight is a view that is being made, for all concurrent callers.
type flight struct {
	object *Object
	by     *byte
}

type landing struct {
	done chan struct{}
	view *meta.View
	err  error
}

// render makes a view. Concurrent callers for the same view share it. The number of views that are
// being made is limited: meanwhile a view takes several times its own size.
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
