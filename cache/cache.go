package cache

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/keelson-io/keelson/store"
)

// Options of a Cache; the zero value works.
type Options struct {
	Logger *slog.Logger // nil means slog.Default()

	LogEvents int           // changes kept per resource for watchers; 0 means 10,000
	LogBytes  int64         // bytes of them per resource; 0 means 16 MiB
	Snapshots int           // old snapshots kept per resource; 0 means 256
	KeepFor   time.Duration // how long snapshots are kept; 0 means 75 s
	WaitMax   time.Duration // how long WaitFor waits for a future revision; 0 means 3 s
}

// Errors that callers tell apart.
var (
	ErrExpired = errors.New("revision is too old")                // no longer in the log, or its snapshot is gone
	ErrSlow    = errors.New("watcher is too slow")                // it fell off the log
	ErrClosed  = errors.New("resource was dropped, or is closed") // Drop, Close of the cache or of the watch
)

// Cache holds what the store holds, resource by resource, as far as it is used.
type Cache struct{}

// New starts a cache over s, which it does not close.
func New(s store.Store, o Options) *Cache { panic("BUG: not built yet") }

// Resource returns the resource whose keys start with prefix ("<group>/<plural>", a trailing slash may be left out).
func (c *Cache) Resource(prefix string) *Resource { panic("BUG: not built yet") }

// Drop closes the resource and ends its watches with ErrClosed.
func (c *Cache) Drop(prefix string) {}

// Close ends the cache: all resources are dropped.
func (c *Cache) Close() {}

// Resource is the cached part of the store under one prefix.
type Resource struct{}

// Ready waits until the resource has been listed. All other methods do that by themselves.
func (r *Resource) Ready(ctx context.Context) error { panic("BUG: not built yet") }

// Get returns the object at a (whole) store key.
func (r *Resource) Get(key string) (*Object, bool) { panic("BUG: not built yet") }

// Snapshot returns the newest state.
func (r *Resource) Snapshot() Snapshot { panic("BUG: not built yet") }

// SnapshotAt returns the state at exactly rev; ErrExpired, or *store.FutureError if rev was not reached yet.
func (r *Resource) SnapshotAt(rev int64) (Snapshot, error) { panic("BUG: not built yet") }

// Fresh returns once everything acknowledged before the call is visible.
func (r *Resource) Fresh(ctx context.Context) error { panic("BUG: not built yet") }

// WaitFor returns once the resource is not older than rev; *store.FutureError after Options.WaitMax.
func (r *Resource) WaitFor(ctx context.Context, rev int64) error { panic("BUG: not built yet") }

// Watch opens a watch of the changes after a revision to keys that start with filter ("" means all of the resource).
func (r *Resource) Watch(after int64, filter string) (*Watch, error) { panic("BUG: not built yet") }

// Snapshot is one immutable state of a resource.
type Snapshot struct{}

// Rev returns the revision of the state.
func (s Snapshot) Rev() int64 { panic("BUG: not built yet") }

// Len returns the number of objects.
func (s Snapshot) Len() int { panic("BUG: not built yet") }

// Get returns the object at a key.
func (s Snapshot) Get(key string) (*Object, bool) { panic("BUG: not built yet") }

// Ascend calls fn for each object from a key on, in order, until fn returns false.
func (s Snapshot) Ascend(from string, fn func(*Object) bool) { panic("BUG: not built yet") }

// Count returns how many keys start with prefix.
func (s Snapshot) Count(prefix string) int { panic("BUG: not built yet") }

// CountFrom returns how many keys that start with prefix are not before from.
func (s Snapshot) CountFrom(prefix, from string) int { panic("BUG: not built yet") }

// Watch reads the changes of a resource from its shared log.
type Watch struct{}

// Next waits for changes and returns all that are pending, and the revision up to which nothing is missing any more. The slice
// is valid until the next call. ErrSlow, ErrExpired, ErrClosed or the context's error.
func (w *Watch) Next(ctx context.Context) ([]Event, int64, error) { panic("BUG: not built yet") }

// Progress returns the revision up to which everything has been delivered by Next: what a bookmark may say.
func (w *Watch) Progress() int64 { panic("BUG: not built yet") }

// Close ends the watch.
func (w *Watch) Close() {}

// EventType says what happened to an object.
type EventType uint8

// The event types.
const (
	Added EventType = iota + 1
	Modified
	Deleted
)

// Event is a change of one object.
type Event struct {
	Type   EventType
	Object *Object // if Deleted: the last state, at the revision of the removal
	Prev   *Object // nil if Added
	Rev    int64
}

// Object is a stored object. It never changes.
type Object struct {
	Key string
	Rev int64
	Raw []byte // as stored
}

// View returns the object as r renders it, made once and remembered.
func (o *Object) View(r Renderer) (*View, error) { panic("BUG: not built yet") }

// At returns the object's content at a later revision: what a watcher is told when an object stops matching its selector.
func (o *Object) At(rev int64) *Object { panic("BUG: not built yet") }

// Renderer turns stored bytes into a View. Renderers are compared by identity: it must be a pointer.
type Renderer interface {
	Render(raw []byte, rev int64) (*View, error)
}

// View is an object in one version, ready to be served.
type View struct {
	JSON   []byte                   // compact, no newline, with resourceVersion
	Labels Labels                   // metadata.labels
	Fields func(path string) string // the value of a selectable field; nil if there is none
	Stale  bool                     // the stored bytes are not the normalised bytes of the storage version
}

// Labels are label pairs, sorted by key. They implement labels.Labels of apimachinery.
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
