package meta

import (
	"iter"
	"sync/atomic"
)

// This file defines views: objects as they are served.

// View is an object in one version, ready to be served. It never changes once others see it.
type View struct {
	JSON       []byte                   // compact, no newline, with resourceVersion
	Labels     Labels                   // metadata.labels
	Fields     func(path string) string // the value of a selectable field; nil if there is none
	KnownValid bool                     // the object passed all checks of the renderer's version, without ratcheting
	FieldKiB   uint16                   // memory that Fields holds on to, in KiB; at most 64 MiB are counted
	Spent      uint32                   // what its rules cost then at most, in units of CEL cost
}

// RendererID identifies a renderer of views in what an object remembers. A view does not keep its
// renderer alive, so that the versions of a replaced definition are freed although objects still
// have views by them. The zero value is ready to use; it must not be copied.
type RendererID struct{ p atomic.Pointer[byte] }

// Key returns a pointer that no other RendererID returns.
func (r *RendererID) Key() *byte {
	if p := r.p.Load(); p != nil {
		return p
	}
	r.p.CompareAndSwap(nil, new(byte))
	return r.p.Load()
}

// Labels are label pairs. They implement labels.Labels of apimachinery.
type Labels []Label

// Label is one key and value.
type Label struct{ Key, Value string }

// Has reports whether there is a label.
func (l Labels) Has(key string) bool { _, ok := l.Lookup(key); return ok }

// All iterates over the labels.
func (l Labels) All() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for i := range l {
			if !yield(l[i].Key, l[i].Value) {
				return
			}
		}
	}
}

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
