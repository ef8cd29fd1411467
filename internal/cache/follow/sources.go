package follow

// This file holds the sources that a follower may have.

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/store"
)

// Objects returns the objects of a resource of the cache. A listed object is an event of the type
// Added. Newest returns the last change that readers of the cache see.
func Objects(r *cache.Resource) Source[cache.Event] { return &objects{resource: r} }

// objects implements Source.
type objects struct {
	resource *cache.Resource
	watch    *cache.Watch // nil: Next opens one
	rev      int64        // everything up to it was returned
}

// List implements Source.
func (o *objects) List(ctx context.Context, each func(*cache.Event) error) (int64, error) {
	o.Close()
	if err := o.resource.Fresh(ctx); err != nil {
		return 0, err
	}
	snapshot := o.resource.Snapshot()
	var err error
	snapshot.Ascend("", func(object *cache.Object) bool {
		err = each(&cache.Event{Type: cache.Added, Object: object, Rev: object.Rev})
		return err == nil
	})
	o.rev = snapshot.Rev()
	return o.rev, err
}

// Next implements Source. A reader that was too slow for the cache's log is given what the store's
// history has.
func (o *objects) Next(ctx context.Context) ([]cache.Event, int64, error) {
	for {
		if o.watch == nil {
			var err error
			if o.watch, err = o.resource.Watch(o.rev, ""); err != nil {
				return nil, o.rev, err
			}
		}
		events, rev, err := o.watch.Next(ctx)
		if err == nil {
			o.rev = rev
			return events, rev, nil
		}
		if ctx.Err() == nil {
			o.Close()
		}
		if !errors.Is(err, cache.ErrSlow) {
			return nil, o.rev, err
		}
	}
}

// Newest implements Source.
func (o *objects) Newest(context.Context) (int64, error) { return o.resource.Changed(), nil }

// Close implements Source.
func (o *objects) Close() {
	if o.watch != nil {
		o.watch.Close()
		o.watch = nil
	}
}

// Keys returns what the store holds below some prefixes, each of which ends with a slash or is
// empty, which is everything. It is read from the store page by page, so that the cache need not
// hold it. A listed key is an event that was not Created.
//
// The function wants says which changes are shown; nil: those below the prefixes. It is called for
// every change of the store, by a goroutine of the cache. When a change is shown, readers of the
// store and of the cache see it.
//
// Newest returns the last change of the whole store. If wants, or the prefixes, leave changes out,
// Wait may hear of such a revision only with the next change that is shown.
func Keys(c *cache.Cache, s store.Store, prefixes []string, wants func(*store.Event) bool) Source[store.Event] {
	if wants == nil && !slices.Contains(prefixes, "") {
		wants = func(e *store.Event) bool {
			return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(e.Key, p) })
		}
	}
	return &keys{cache: c, store: s, prefixes: prefixes, wants: wants}
}

// keys implements Source.
type keys struct {
	cache    *cache.Cache
	store    store.Store
	prefixes []string
	wants    func(*store.Event) bool
	tap      *cache.Tap // nil before List
	listed   int64      // changes up to it are in the list
}

// List implements Source.
func (k *keys) List(ctx context.Context, each func(*store.Event) error) (rev int64, err error) {
	if k.tap == nil {
		if k.tap, err = k.cache.Tap(ctx, k.wants); err != nil {
			return 0, err
		}
	}
	for _, prefix := range k.prefixes {
		rev, err = store.Each(ctx, k.store, prefix, rev, func(it *store.Item) error {
			return each(&store.Event{Key: it.Key, Value: it.Value, Rev: it.Rev})
		})
		if err != nil {
			return 0, err
		}
	}
	if err := k.cache.Reach(ctx, rev); err != nil {
		return 0, err
	}
	k.listed = rev
	return rev, nil
}

// Next implements Source.
func (k *keys) Next(ctx context.Context) ([]store.Event, int64, error) {
	events, rev, err := k.tap.Next(ctx)
	old := 0
	for old < len(events) && events[old].Rev <= k.listed {
		old++
	}
	return events[old:], rev, err
}

// Newest implements Source.
func (k *keys) Newest(ctx context.Context) (int64, error) {
	rev, err := k.store.Revision(ctx)
	if err != nil {
		return 0, err
	}
	return rev, k.cache.Reach(ctx, rev)
}

// Close implements Source.
func (k *keys) Close() {
	if k.tap != nil {
		k.tap.Close()
		k.tap = nil
	}
}

// Value returns a value that is replaced, as the only object of a source: load returns the newest
// one, rev its revision, and changed a channel that is closed when the newest one has another
// revision. Values between the last one that was shown and the newest one are left out.
func Value[T any](load func() T, rev func(T) uint64, changed func(rev uint64) <-chan struct{}) Source[T] {
	return &value[T]{load: load, rev: rev, changed: changed}
}

// value implements Source.
type value[T any] struct {
	load    func() T
	rev     func(T) uint64
	changed func(uint64) <-chan struct{}
	last    [1]T
}

// List implements Source.
func (v *value[T]) List(_ context.Context, each func(*T) error) (int64, error) {
	v.last[0] = v.load()
	return v.revision(v.last[0]), each(&v.last[0])
}

// Next implements Source.
func (v *value[T]) Next(ctx context.Context) ([]T, int64, error) {
	select {
	case <-v.changed(v.rev(v.last[0])):
	case <-ctx.Done():
		return nil, v.revision(v.last[0]), ctx.Err()
	}
	v.last[0] = v.load()
	return v.last[:], v.revision(v.last[0]), nil
}

// Newest implements Source.
func (v *value[T]) Newest(context.Context) (int64, error) { return v.revision(v.load()), nil }

// Close implements Source.
func (v *value[T]) Close() {}

// revision returns the revision of a value as followers count them.
func (v *value[T]) revision(of T) int64 { return int64(min(v.rev(of), math.MaxInt64)) }
