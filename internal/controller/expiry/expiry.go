// Package expiry deletes expired objects: those of kinds whose objects live for a fixed time after
// their last write, such as events.
//
// The [Controller] reads every change of the store from a tap of the cache, computes when each such
// object expires, and sleeps until the first one does. For objects from before its start it uses
// the times in the objects.
//
// # Invariants
//
//   - An object is deleted only in the state that has expired: a write just before the end keeps
//     it.
//   - Several servers may do this at the same time.
//
// [Controller.Run] is the function to call.
package expiry

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/controller/loop"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// Name is the name of this controller in the log. kube-apiserver leaves its work to etcd.
const Name = "expiry"

// Controller deletes expired objects.
type Controller struct {
	Kinds  *kind.Registry
	Cache  *cache.Cache
	Store  store.Store
	Logger *slog.Logger
	// TTL replaces the lifetime of all kinds that have one. 0 means that of each kind, a negative
	// number that nothing expires.
	TTL time.Duration
	Now func() time.Time // nil: time.Now

	loop loop.Loop                // due are expired objects
	ttl  map[string]time.Duration // by storage prefix, with a slash at the end
	revs map[string]int64         // of the objects that will expire
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) {
	if c.Now == nil {
		c.Now = time.Now
	}
	c.ttl, c.revs = map[string]time.Duration{}, map[string]int64{}
	for k := range c.Kinds.Load().All() {
		if k.Behavior.TTL > 0 && k.Storage.Kind == k {
			c.ttl[k.StoragePrefix+"/"] = cmp.Or(c.TTL, k.Behavior.TTL)
		}
	}
	if c.TTL < 0 || len(c.ttl) == 0 {
		return
	}
	c.loop = loop.Loop{Cache: c.Cache, Store: c.Store, Logger: c.Logger, Name: Name, List: slices.Sorted(maps.Keys(c.ttl)),
		See: c.see, Work: c.expire, Now: c.Now}
	c.loop.Run(ctx)
}

// lifetime returns how long the object at a key lives, 0 for no limit.
func (c *Controller) lifetime(key string) time.Duration {
	for prefix, d := range c.ttl {
		if strings.HasPrefix(key, prefix) {
			return d
		}
	}
	return 0
}

// see schedules the end of an object.
func (c *Controller) see(e *loop.Change) {
	if e.Deleted {
		delete(c.revs, e.Key)
		c.loop.Drop(e.Key)
		return
	}
	written := c.Now()
	if e.Listed {
		if c.revs[e.Key] == e.Rev {
			return // the time of its write is known
		}
		written = lastWritten(e.Value, written)
	}
	c.revs[e.Key] = e.Rev
	c.loop.At(e.Key, written.Add(c.lifetime(e.Key)))
}

// lastWritten returns the time of the last write in an object, now if it has none.
func lastWritten(raw []byte, now time.Time) time.Time {
	d := jsondoc.Get()
	defer d.Release()
	if len(raw) == 0 || raw[0] != '{' || jsondoc.Parse(d, raw) != nil {
		return now
	}
	root := d.Root()
	var last time.Time
	for _, path := range [][]string{{"lastTimestamp"}, {"eventTime"}, {"series", "lastObservedTime"}, {"metadata", "creationTimestamp"}} {
		if t, err := time.Parse(time.RFC3339, root.At(path...).Text()); err == nil && t.After(last) {
			last = t
		}
	}
	if last.IsZero() || last.After(now) {
		return now
	}
	return last
}

// expire deletes an object, if it is still in the state that has expired.
func (c *Controller) expire(ctx context.Context, key string) error {
	_, err := c.Store.Delete(ctx, key, c.revs[key])
	if err != nil && !loop.Overtaken(err) { // the other writer's change comes by the tap
		return err
	}
	delete(c.revs, key)
	return nil
}
