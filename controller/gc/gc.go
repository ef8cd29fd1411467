// Package gc deletes objects whose owners are gone.
//
// # Terms
//
// An object is a dependent of those that its metadata.ownerReferences name, its owners. An owner that is deleted in the foreground
// (finalizer foregroundDeletion) stays until the dependents that block it (blockOwnerDeletion) are gone; one whose dependents are to
// be orphaned (finalizer orphan) stays until their references to it are taken out; any other owner goes at once, and its dependents
// after it. A reference is solid while its owner exists, waiting while the owner waits for its dependents, and else dangling.
//
// # Model
//
// The [Controller] reads every change of the store from a tap of the cache. What it remembers is the dependents, and the owners that
// wait (graph.go); whatever has neither references nor such a finalizer costs a glance at its bytes. What a change concerns is
// queued by key, and workers look at it (work.go): they read the object as the store has it now, ask the store for its owners, and
// act as a client would, on the condition that the object is still the one they have seen. Nothing is polled.
//
// # Invariants
//
//   - An object is deleted only after the store, not a cache, has said that its owner is gone or is another object.
//   - A finalizer is taken off only when everything that was acknowledged before has been read from the tap.
//   - Objects whose owner's kind is not known are left alone until it is.
//
// [Controller.Run] is the function to call.
package gc

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/store"
)

// Name is what kube-controller-manager calls this controller.
const Name = "garbage-collector-controller"

const (
	workers    = 4
	firstRetry = 10 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// API is what the controller asks of the API, as a client would.
type API interface {
	// Remove deletes an object.
	Remove(ctx context.Context, k *kind.Kind, namespace, name string, o *meta.DeleteOptions) error
	// Modify changes an object; the errors of fn are its own.
	Modify(ctx context.Context, k *kind.Kind, namespace, name string, fn func(meta.Object) error) error
	// Create creates an object of a body.
	Create(ctx context.Context, k *kind.Kind, namespace, name string, body []byte) error
}

// Controller deletes what has lost its owners. Its fields are set before Run.
type Controller struct {
	Kinds  *kind.Registry
	Cache  *cache.Cache
	Store  store.Store
	API    API
	Logger *slog.Logger

	queue workqueue.TypedRateLimitingInterface[string] // of keys

	mu    sync.Mutex
	graph *graph
	rev   int64         // the graph is as of this revision
	moved chan struct{} // closed when rev rises
	fixed map[string]*kind.Kind
	// searched are uids of absent owners that are in no other namespace either.
	searched map[string]bool
	told     *record.EventCorrelator // of the events that were sent
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) {
	c.queue = workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry))
	c.graph, c.moved, c.fixed, c.searched = newGraph(), make(chan struct{}), map[string]*kind.Kind{}, map[string]bool{}
	c.told = record.NewEventCorrelator(wall{})
	for k := range c.Kinds.Load().All() {
		if k.Builtin != nil {
			c.fixed[k.StoragePrefix] = k
		}
	}
	var group sync.WaitGroup
	for range workers {
		group.Go(func() { c.work(ctx) })
	}
	group.Go(func() { c.followKinds(ctx) })
	group.Go(func() {
		<-ctx.Done()
		c.queue.ShutDown()
	})
	c.follow(ctx)
	group.Wait()
}

// follow reads the tap until ctx ends.
func (c *Controller) follow(ctx context.Context) {
	tap, err := c.Cache.Tap(ctx, nil)
	if err != nil {
		return
	}
	defer tap.Close()
	for stale := true; ctx.Err() == nil; {
		if stale {
			if err := c.list(ctx); err != nil {
				c.Logger.Warn("garbage collector cannot list objects, trying again", "error", err)
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
				}
				continue
			}
			stale = false
		}
		events, rev, err := tap.Next(ctx)
		switch {
		case errors.Is(err, cache.ErrExpired):
			stale = true
			continue
		case err != nil:
			return
		}
		c.mu.Lock()
		for i := range events {
			c.see(&events[i])
		}
		c.advance(rev)
		c.mu.Unlock()
	}
}

// advance says that the graph is as of rev. The lock is held.
func (c *Controller) advance(rev int64) {
	if rev > c.rev {
		c.rev = rev
		close(c.moved)
		c.moved = make(chan struct{})
	}
}

// caughtUp waits until the graph has everything that was acknowledged before.
func (c *Controller) caughtUp(ctx context.Context) error {
	rev, err := c.Store.Revision(ctx)
	if err != nil {
		return err
	}
	if err := c.Cache.Reach(ctx, rev); err != nil {
		return err
	}
	for {
		c.mu.Lock()
		have, moved := c.rev, c.moved
		c.mu.Unlock()
		if have >= rev {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// list makes the graph anew of everything that there is.
func (c *Controller) list(ctx context.Context) error {
	g := newGraph()
	upTo, err := store.Each(ctx, c.Store, "", 0, func(it *store.Item) error {
		if n := c.parse(it.Key, it.Value, it.Rev); n != nil {
			g.put(n)
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.graph = g
	for key := range g.nodes {
		c.queue.Add(key)
	}
	c.advance(upTo)
	return nil
}

// followKinds looks again at what has to do with kinds that were not known.
func (c *Controller) followKinds(ctx context.Context) {
	for {
		rev := c.Kinds.Load().Rev
		c.mu.Lock()
		for key := range c.graph.unknown {
			c.queue.Add(key)
		}
		c.graph.unknown = map[string]bool{}
		c.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-c.Kinds.Changed(rev):
		}
	}
}

// kindOf is the kind of the object at a key, and where it is; nil if nobody knows it, or leaves it alone.
func (c *Controller) kindOf(key string) (k *kind.Kind, namespace, name string) {
	first, rest, ok := strings.Cut(key, "/")
	if !ok {
		return nil, "", ""
	}
	if k = c.fixed[first]; k == nil {
		second, more, ok := strings.Cut(rest, "/")
		if !ok {
			return nil, "", ""
		}
		if k = c.fixed[first+"/"+second]; k == nil {
			k = c.Kinds.Load().Lookup(first, second)
		}
		rest = more
	}
	switch {
	case k == nil || k.StoragePrefix == "" || !strings.HasPrefix(key, k.StoragePrefix+"/"):
		return nil, "", ""
	case k.Namespaced:
		namespace, name, _ = strings.Cut(rest, "/")
		return k, namespace, name
	}
	return k, "", rest
}

// ownerKey is the key of an owner that an object in a namespace refers to; known is false if nobody knows the kind, and the key is ""
// if there can be no such owner.
func (c *Controller) ownerKey(r *reference, namespace string) (key string, known bool) {
	k := c.ownerKind(r)
	switch {
	case k == nil:
		return "", false
	case !k.Namespaced:
		return k.Key("", r.name), true
	case namespace == "":
		return "", true // no object is in all namespaces
	}
	return k.Key(namespace, r.name), true
}

// ownerKind is the kind of an owner, nil if nobody knows it.
func (c *Controller) ownerKind(r *reference) *kind.Kind {
	group, _, ok := strings.Cut(r.apiVersion, "/")
	if !ok {
		group = ""
	}
	for k := range c.Kinds.Load().InGroup(group) {
		if k.Name == r.kind && (k.Builtin == nil || !k.Builtin.Virtual && k.Builtin.Listed == nil) {
			return k
		}
	}
	return nil
}
