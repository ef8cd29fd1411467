package cache

// This file lets writers pass on what they wrote: they know it a moment before the store's watch
// delivers it.

import (
	"strings"

	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/store"
)

// written has the objects that this process wrote and that have not arrived by the stream yet. An
// object without bytes was deleted. The resource's lock guards it.
type written struct {
	byKey map[string]*Object
}

// maxWritten is the number of objects that are remembered. They usually arrive within a moment.
const maxWritten = 4096

// reset drops all objects.
func (w *written) reset() { w.byKey = nil }

// arrived removes and returns the object of an event, if a writer passed it on. An older object for
// the key is dropped.
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

// Wrote tells the resource that the caller has just stored raw at a key, with the revision rev.
// Readers do not see the object before the store's watch delivers it, but Newest returns it at
// once. view is the view by the renderer by, or nil; the object has it when it arrives.
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

// Erased tells the resource that the caller has just deleted the object at a key, at the revision
// rev. Readers see the object until the store's watch delivers the deletion, but Newest does not
// return it any more.
func (r *Resource) Erased(key string, rev int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.phase == open && rev > r.nextRev {
		r.handOver(&Object{Key: key, Rev: rev, home: r.c.views})
	}
}

// handOver remembers an object, or a deletion, until it arrives by the stream. The lock is held.
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

// Newest returns the newest known object at a key, even if it has not arrived by the stream yet. It
// is the basis for changes whose revision the store checks, and for decisions that must follow from
// what this process wrote before. Another writer may have replaced or deleted the object in the
// meantime, as for Get.
func (r *Resource) Newest(key string) (*Object, bool) {
	if r.state.Load() == nil {
		return r.Get(key)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.next.get(key) // may be newer than the state
	if w := r.written.byKey[key]; w != nil && (o == nil || w.Rev > o.Rev) {
		if w.Raw == nil {
			return nil, false
		}
		o = w
	}
	return o, o != nil
}
