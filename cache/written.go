package cache

// This file holds what writers hand over: a write is known to whoever made it a moment before the store's watch tells of it.

import (
	"strings"

	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/store"
)

// written are the objects that were written and have not arrived by the stream yet; one without bytes was deleted. It is guarded by the
// resource's lock.
type written struct {
	byKey map[string]*Object
}

// maxWritten is how many objects are remembered; they arrive within a moment, or the watch of the store is lost.
const maxWritten = 4096

func (w *written) reset() { w.byKey = nil }

// arrived takes the object of an event, if it was handed over. An older one for the key is of no use any more.
func (w *written) arrived(e *store.Event) *Object {
	o := w.byKey[e.Key]
	if o == nil || o.Rev > e.Rev {
		return nil
	}
	delete(w.byKey, e.Key)
	if o.Rev < e.Rev || e.Deleted {
		return nil
	}
	return o
}

// Wrote tells the resource what the caller has just stored: raw at a key, which got the revision rev. The object is not seen by
// readers before the store's watch tells of it, but Newest returns it from now on, and the view, made by the renderer by (or nil),
// is there when it arrives.
func (r *Resource) Wrote(key string, rev int64, raw []byte, by Renderer, view *meta.View) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.phase != open {
		return
	}
	if rev <= r.nextRev { // it has arrived already
		if have := r.next.get(key); have != nil && have.Rev == rev && view != nil {
			have.Remember(by, view)
		}
		return
	}
	o := &Object{Key: key, Rev: rev, Raw: raw, home: r.c.views}
	if r.c.sealer != nil {
		o.Sealed = r.c.sealer.WritesAs(key)
	}
	if view != nil {
		o.Remember(by, view)
	}
	r.handOver(o)
}

// Erased tells the resource that the caller has just deleted what was at a key, at the revision rev. Readers see the object until the
// store's watch tells of it, but Newest knows it no more.
func (r *Resource) Erased(key string, rev int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.phase == open && rev > r.nextRev {
		r.handOver(&Object{Key: key, Rev: rev, home: r.c.views})
	}
}

// handOver remembers an object, or that it is gone, until it arrives by the stream. The lock is held.
func (r *Resource) handOver(o *Object) {
	if have := r.written.byKey[o.Key]; have != nil && have.Rev > o.Rev || len(r.written.byKey) >= maxWritten {
		return
	}
	if r.written.byKey == nil {
		r.written.byKey = map[string]*Object{}
	}
	if have := r.next.get(o.Key); have != nil {
		o.Key = have.Key // one string for all states of an object
	} else {
		o.Key = strings.Clone(o.Key)
	}
	r.written.byKey[o.Key] = o
}

// Newest returns the newest object known at a key, which may not have arrived by the stream yet: what a change starts from that
// the store checks by revision, and what a decision is made by that is to follow from what was written here before it. It may have been
// replaced or deleted since by somebody else, as Get's may.
func (r *Resource) Newest(key string) (*Object, bool) {
	if r.state.Load() == nil {
		return r.Get(key)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.next.get(key) // which may be newer than the state already
	if w := r.written.byKey[key]; w != nil && (o == nil || w.Rev > o.Rev) {
		if w.Raw == nil {
			return nil, false
		}
		o = w
	}
	return o, o != nil
}
