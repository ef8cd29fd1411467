// Package expiry deletes objects whose time is up: those of kinds that live for a while after they were written last, as events do.
//
// The [Controller] reads every change of the store from a tap of the cache, remembers when each such object is to go, and sleeps
// until the first of them is. What was there before it began goes by the times that it carries.
//
// # Invariants
//
//   - An object is deleted only in the state in which its time was up: whoever writes it again in time keeps it.
//   - Several servers may do this at once.
//
// [Controller.Run] is the function to call.
package expiry

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/controller/loop"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/store"
)

// Name is what the log calls this controller; kube-apiserver leaves its work to etcd.
const Name = "expiry"

// Controller deletes objects whose time is up.
type Controller struct {
	Kinds  *kind.Registry
	Cache  *cache.Cache
	Store  store.Store
	Logger *slog.Logger
	Now    func() time.Time // nil: time.Now

	loop loop.Loop                // due are objects whose time is up
	ttl  map[string]time.Duration // by storage prefix, with a slash at the end
	revs map[string]int64         // of the objects that will be due
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) {
	if c.Now == nil {
		c.Now = time.Now
	}
	c.ttl, c.revs = map[string]time.Duration{}, map[string]int64{}
	for k := range c.Kinds.Load().All() {
		if k.Behavior.TTL > 0 && k.Storage.Kind == k {
			c.ttl[k.StoragePrefix+"/"] = k.Behavior.TTL
		}
	}
	if len(c.ttl) == 0 {
		return
	}
	c.loop = loop.Loop{Cache: c.Cache, Store: c.Store, Logger: c.Logger, Name: Name, List: slices.Sorted(maps.Keys(c.ttl)),
		See: c.see, Work: c.expire, Now: c.Now}
	c.loop.Run(ctx)
}

// lifetime is how long the object at a key lives, 0: for ever.
func (c *Controller) lifetime(key string) time.Duration {
	for prefix, d := range c.ttl {
		if strings.HasPrefix(key, prefix) {
			return d
		}
	}
	return 0
}

// see notes when an object is to go.
func (c *Controller) see(e *loop.Change) {
	if e.Deleted {
		delete(c.revs, e.Key)
		c.loop.Drop(e.Key)
		return
	}
	written := c.Now()
	if e.Listed {
		if c.revs[e.Key] == e.Rev {
			return // known from when it was written
		}
		written = lastWritten(e.Value, written)
	}
	c.revs[e.Key] = e.Rev
	c.loop.At(e.Key, written.Add(c.lifetime(e.Key)))
}

// lastWritten is when an object says that it was written last; now if it does not say.
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

// expire deletes an object, in the state in which its time was up.
func (c *Controller) expire(ctx context.Context, key string) error {
	_, err := c.Store.Delete(ctx, key, c.revs[key])
	if err != nil && !loop.Overtaken(err) { // what it was changed to comes by the tap
		return err
	}
	delete(c.revs, key)
	return nil
}
