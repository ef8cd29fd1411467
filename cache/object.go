package cache

// This file holds objects and their views.

import "sync/atomic"

// Object is a stored object. It never changes.
type Object struct {
	Key string
	Rev int64
	Raw []byte // as stored

	memo atomic.Pointer[memo]
}

// memo is what was worked out for an object. It never changes; adding to it replaces it.
type memo struct {
	views [maxViews]rendered // newest first
	at    *Object
}

// maxViews is how many renderers an object remembers: the versions of one kind that are in use at a time.
const maxViews = 3

type rendered struct {
	by   Renderer
	view *View
}

// Renderer turns stored bytes into a View. Renderers are compared by identity: it must be a pointer.
type Renderer interface {
	Render(raw []byte, rev int64) (*View, error)
}

// View is an object in one version, ready to be served.
type View struct {
	JSON   []byte                   // compact, no newline, with resourceVersion
	Labels Labels                   // metadata.labels
	Fields func(path string) string // the value of a selectable field; nil if there is none
	Sound  bool                     // all checks of the renderer were made of this object, and found nothing
	Spent  uint32                   // what its rules cost then at most, in units of CEL cost
}

// View returns the object as r renders it, made once and remembered.
func (o *Object) View(r Renderer) (*View, error) {
	if view := o.Known(r); view != nil {
		return view, nil
	}
	return o.render(r)
}

// render makes a view and remembers it. An error is not remembered: it may be that of a webhook which is there again tomorrow.
func (o *Object) render(r Renderer) (*View, error) {
	view, err := r.Render(o.Raw, o.Rev)
	if err != nil {
		return nil, err
	}
	return o.Remember(r, view), nil
}

// Known is the object's view by r if it is remembered, and nil if not. It does not make one.
func (o *Object) Known(r Renderer) *View {
	if m := o.memo.Load(); m != nil {
		for i := range m.views {
			if m.views[i].by == r {
				return m.views[i].view
			}
		}
	}
	return nil
}

// Remember gives the object its view by r, for those who make the views of many objects at once. If there is one already, that one
// stays and is returned.
func (o *Object) Remember(r Renderer, view *View) *View {
	for {
		old := o.memo.Load()
		m := new(memo)
		m.views[0] = rendered{r, view}
		if old != nil {
			for i := range old.views {
				if old.views[i].by == r {
					return old.views[i].view
				}
			}
			m.at = old.at
			copy(m.views[1:], old.views[:])
		}
		if o.memo.CompareAndSwap(old, m) {
			return view
		}
	}
}

// At returns the object's content at a later revision: what a watcher is told when an object stops matching its selector. The
// last one is remembered, so that all watchers share it.
func (o *Object) At(rev int64) *Object {
	for {
		old := o.memo.Load()
		if old != nil && old.at != nil && old.at.Rev == rev {
			return old.at
		}
		m := new(memo)
		if old != nil {
			m.views = old.views
		}
		m.at = &Object{Key: o.Key, Rev: rev, Raw: o.Raw}
		if o.memo.CompareAndSwap(old, m) {
			return m.at
		}
	}
}

// Labels are label pairs. They implement labels.Labels of apimachinery.
type Labels []Label

// Label is one key and value.
type Label struct{ Key, Value string }

// Has reports whether there is a label.
func (l Labels) Has(key string) bool { _, ok := l.Lookup(key); return ok }

// Get returns a label's value, or "".
func (l Labels) Get(key string) string { v, _ := l.Lookup(key); return v }

// Lookup returns a label's value and whether it is there.
func (l Labels) Lookup(key string) (string, bool) {
	for i := range l {
		if l[i].Key == key {
			return l[i].Value, true
		}
	}
	return "", false
}
