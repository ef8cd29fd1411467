package cache

// This file defines objects and their views.

import (
	"slices"
	"sync/atomic"
	"weak"

	"github.com/keelson-io/keelson/internal/meta"
)

// Object is a stored object. It does not change, except for its remembered views.
type Object struct {
	Key string
	Rev int64
	Raw []byte // as stored
	// Sealed names the encryption of Raw at rest, see store.Item.
	Sealed string

	home *Views // the budget for large views; nil: views are not remembered
	memo atomic.Pointer[memo]
	kept atomic.Int64 // 1 more than what is kept beside Raw, see Resource.beside; 0: not known yet
}

// memo has what was computed from an object. It is immutable: additions replace it.
type memo struct {
	views [maxViews]rendered // newest first
	more  *extras            // nil if all are zero
}

// extras are the parts of a memo that few objects have. They are immutable.
type extras struct {
	// at is the same content at another revision, see At.
	at      *Object
	charges [maxViews]*charge // of the view with the same index, nil if it is free
}

// maxViews is the number of views that an object remembers: the versions of its kind that are in
// use at the same time.
const maxViews = 3

// rendered is a view with the identity of its renderer.
type rendered struct {
	by   *byte
	view *meta.View
}

// Renderer makes the View of stored bytes.
type Renderer interface {
	Render(raw []byte, rev int64) (*meta.View, error)
	// Identity distinguishes renderers. It always returns the same value.
	Identity() *meta.RendererID
}

// Waiter is a Renderer that may wait for something other than a processor, such as a webhook.
type Waiter interface {
	Waits() bool
}

// memoryOf returns how many bytes a view takes.
func memoryOf(v *meta.View) int64 {
	n := int64(cap(v.JSON)) + int64(v.FieldKiB)<<10
	for i := range v.Labels {
		n += int64(len(v.Labels[i].Key)+len(v.Labels[i].Value)) + 32
	}
	return n
}

// View returns the view of the object by r. It is rendered once, and remembered if there is room.
func (o *Object) View(r Renderer) (*meta.View, error) {
	if view := o.Known(r); view != nil {
		return view, nil
	}
	return o.render(r)
}

// render renders a view and remembers it. Errors are not remembered: a webhook may work again
// later.
func (o *Object) render(r Renderer) (*meta.View, error) {
	if o.home != nil {
		return o.home.render(o, r)
	}
	view, err := r.Render(o.Raw, o.Rev)
	if err != nil {
		return nil, err
	}
	return o.Remember(r, view), nil
}

// Known returns the remembered view by r, nil if there is none.
func (o *Object) Known(r Renderer) *meta.View {
	m := o.memo.Load()
	if m == nil {
		return nil
	}
	by := r.Identity().Key()
	for i := range m.views {
		if m.views[i].by == by {
			if m.more != nil && m.more.charges[i] != nil {
				m.more.charges[i].touch()
			}
			return m.views[i].view
		}
	}
	return nil
}

// Expansion returns by how many bytes a view is larger than the stored bytes, 0 if it is not much
// larger.
func (o *Object) Expansion(view *meta.View) int64 {
	if n := int64(len(view.JSON)); n > freeFactor*int64(len(o.Raw))+freeBytes {
		return n - int64(len(o.Raw))
	}
	return 0
}

// charge returns the charge for a view, nil if the view is free. ok is false if the
// budget has no room for it.
func (o *Object) charge(view *meta.View) (c *charge, ok bool) {
	size := memoryOf(view)
	if size <= freeFactor*int64(len(o.Raw))+freeBytes {
		return nil, true
	}
	if o.home == nil || size > o.home.limit {
		return nil, false
	}
	return &charge{object: weak.Make(o), size: size}, true
}

// Remember adds a view by r, for callers that render many objects at once. If there is one already,
// Remember returns that. If the budget has no room for the view, it is returned but not remembered.
func (o *Object) Remember(r Renderer, view *meta.View) *meta.View {
	c, ok := o.charge(view)
	if !ok {
		return view
	}
	by := r.Identity().Key()
	for {
		old := o.memo.Load()
		m := &memo{}
		m.views[0] = rendered{by, view}
		var last *charge
		if old != nil {
			for i := range old.views {
				if old.views[i].by == by {
					return old.views[i].view
				}
			}
			copy(m.views[1:], old.views[:])
			m.more = old.more
		}
		if c != nil || m.more != nil {
			more := &extras{}
			more.charges[0] = c
			if m.more != nil {
				more.at, last = m.more.at, m.more.charges[maxViews-1]
				copy(more.charges[1:], m.more.charges[:])
			}
			m.more = more
		}
		if !o.memo.CompareAndSwap(old, m) {
			continue
		}
		if last != nil {
			o.home.release(last)
		}
		if c != nil {
			o.home.add(o, c)
		}
		return view
	}
}

// forget drops a view that is charged.
func (o *Object) forget(c *charge) {
	for {
		old := o.memo.Load()
		if old == nil || old.more == nil {
			return
		}
		i := slices.Index(old.more.charges[:], c)
		if i < 0 {
			return
		}
		m, more := &memo{}, &extras{at: old.more.at}
		copy(m.views[:], slices.Concat(old.views[:i], old.views[i+1:]))
		copy(more.charges[:], slices.Concat(old.more.charges[:i], old.more.charges[i+1:]))
		m.more = more
		if o.memo.CompareAndSwap(old, m) {
			return
		}
	}
}

// At returns the object's content at a later revision, for watchers when an object stops matching
// their selector. The last result is remembered, so that watchers share it.
func (o *Object) At(rev int64) *Object {
	for {
		old := o.memo.Load()
		if old != nil && old.more != nil && old.more.at != nil && old.more.at.Rev == rev {
			return old.more.at
		}
		m, more := &memo{}, &extras{}
		if old != nil {
			m.views = old.views
			if old.more != nil {
				more.charges = old.more.charges
			}
		}
		more.at = &Object{Key: o.Key, Rev: rev, Raw: o.Raw, home: o.home}
		m.more = more
		if o.memo.CompareAndSwap(old, m) {
			return more.at
		}
	}
}
