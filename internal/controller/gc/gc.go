// Package gc deletes objects whose owners are gone.
//
// # Terms
//
// An object is a dependent of its owners, which its metadata.ownerReferences name. An owner that is
// deleted in the foreground (finalizer foregroundDeletion) stays until the dependents that block it
// (blockOwnerDeletion) are gone. An owner whose dependents are to be orphaned (finalizer orphan)
// stays until their references to it are removed. Any other owner is deleted at once, and its
// dependents after it. A reference names an owner by group, kind, name and uid. The owner is in the
// namespace of the dependent, or cluster-scoped: an object with an owner's uid in another reference
// is not its dependent. A reference is solid while its owner exists, waiting while the owner waits
// for its dependents, and otherwise dangling.
//
// # Model
//
// The [Controller] follows every change of the store (package internal/cache/follow). It remembers the
// dependents, and the owners that wait (graph.go). For an object without references and such
// finalizers it only searches the bytes for a few words. A change queues keys, and workers process
// them (work.go): they read the object and its owners from the store, and act as a client would, on
// the condition that the object has not been replaced meanwhile. Nothing is polled.
//
// # Invariants
//
//   - An object is deleted only if its owner is gone, or was replaced, in the store and not only in
//     a cache.
//   - A finalizer is removed only when the graph has everything that was acknowledged before.
//   - An object with a reference to an owner that cannot be found out about is not changed: the owner's kind is unknown, its version is
//     not served, or the owner is in a namespace and the object is not. But an owner that was seen to go in a served version is gone,
//     even if its kind goes later.
//
// [Controller.Run] is the function to call.
package gc

import (
	"context"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/cache/follow"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/kind"
)

// Name is kube-controller-manager's name of this controller.
const Name = "garbage-collector-controller"

// Account is the service account that the controller is in a cluster.
const Account = "generic-garbage-collector"

const (
	workers    = 4
	firstRetry = 10 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// API is the part of the API that the controller calls, as a client would.
type API interface {
	// Remove deletes an object, if it fulfils the preconditions.
	Remove(ctx context.Context, k *kind.Kind, namespace, name string, o *meta.DeleteOptions) error
	// Modify changes an object. It returns the errors of fn unchanged.
	Modify(ctx context.Context, k *kind.Kind, namespace, name string, fn func(meta.Object) error) error
	// Create creates an object from its JSON.
	Create(ctx context.Context, k *kind.Kind, namespace, name string, body []byte) (uid string, err error)
}

// Controller deletes objects that have lost their owners. Its fields are set before Run.
type Controller struct {
	Kinds  *kind.Registry
	Cache  *cache.Cache
	Store  store.Store
	API    API
	Logger *slog.Logger

	queue   workqueue.TypedRateLimitingInterface[string] // of keys
	objects *follow.Follower[store.Event]                // of the whole store; it keeps the graph

	mu    sync.Mutex
	graph *graph
	fixed map[string]*kind.Kind
	crds  *kind.Kind // CustomResourceDefinition
	// searched has the uids of absent owners that are in no other namespace either.
	searched map[string]bool
	told     *record.EventCorrelator // of the events that were sent
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) {
	c.queue = workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry))
	c.graph, c.fixed, c.searched = newGraph(), map[string]*kind.Kind{}, map[string]bool{}
	c.told = record.NewEventCorrelator(wall{})
	for k := range c.Kinds.Load().All() {
		if k.Behavior.IsBuiltin {
			c.fixed[k.StoragePrefix] = k
		}
	}
	c.crds = c.Kinds.Load().Lookup("apiextensions.k8s.io", "customresourcedefinitions")
	c.objects = &follow.Follower[store.Event]{Source: follow.Keys(c.Cache, c.Store, []string{""}, nil), Handler: c, Logger: c.Logger, Name: Name}
	c.objects.Begin(ctx)
	kinds := &follow.Follower[*kind.Snapshot]{
		Source:  follow.Value(c.Kinds.Load, func(s *kind.Snapshot) uint64 { return s.Rev }, c.Kinds.Changed),
		Handler: follow.Each[*kind.Snapshot](c.retryUnknown), Logger: c.Logger, Name: Name + ", kinds",
	}
	var group sync.WaitGroup
	for range workers {
		group.Go(func() { c.work(ctx) })
	}
	group.Go(func() { _ = kinds.Run(ctx) }) // a Value does not end
	group.Go(func() {
		<-ctx.Done()
		c.queue.ShutDown()
	})
	_ = c.objects.Run(ctx) // it ends with the cache at the latest
	group.Wait()
}

// Reset implements follow.Handler: it builds the graph of all objects.
func (c *Controller) Reset(_ context.Context, listed iter.Seq2[*store.Event, error]) error {
	g := newGraph()
	var nodes []*node
	for e, err := range listed {
		if err != nil {
			return err
		}
		if c.isCRD(e.Key) {
			c.define(g.defined, e)
		}
		if n := c.parse(e.Key, e.Value, e.Rev); n != nil {
			nodes = append(nodes, n)
		}
	}
	for _, n := range nodes { // when all CRDs are known
		c.locate(g, n)
		g.put(n)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, n := range g.nodes {
		if old := c.graph.nodes[key]; old != nil {
			n.inherit(old)
		}
	}
	c.graph = g
	for key := range g.nodes {
		c.queue.Add(key)
	}
	return nil
}

// Change implements follow.Handler.
func (c *Controller) Change(_ context.Context, events []store.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range events {
		c.see(&events[i])
	}
}

// retryUnknown queues the nodes with kinds that were unknown: a new snapshot of the kinds may have
// them.
func (c *Controller) retryUnknown(context.Context, **kind.Snapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	unknown := c.graph.unknown
	c.graph.unknown = map[string]bool{}
	for key := range unknown {
		if n := c.graph.drop(key); n != nil {
			c.locate(c.graph, n)
			c.graph.put(n)
		}
		c.queue.Add(key)
	}
}

// lostOwners returns the uids of the owners of an object that were seen to go.
func (c *Controller) lostOwners(key string) map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.graph.nodes[key]; n != nil {
		return n.lost()
	}
	return nil
}

// remember notes that an object, or one of its owners, is of a kind that is not known in a snapshot of the kinds.
func (c *Controller) remember(key string, s *kind.Snapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.graph.nodes[key] == nil {
		return
	}
	c.graph.unknown[key] = true
	if c.Kinds.Load() != s { // retryUnknown may have been there before
		c.queue.Add(key)
	}
}

// kindOf returns the kind of the object at a key, and its namespace and name. The kind is nil if it
// is unknown, or one that the controller does not touch.
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

// ownerKey returns the key of an owner to which an object in a namespace refers. known is false if
// the kind is unknown. The key is "" for an owner in a namespace of an object that is in none.
func (c *Controller) ownerKey(r *reference, namespace string) (key string, known bool) {
	k := c.ownerKind(r)
	if k == nil {
		return "", false
	}
	return ownerKey(k, r, namespace), true
}

// ownerKey is Controller.ownerKey for an owner of a known kind.
func ownerKey(k *kind.Kind, r *reference, namespace string) string {
	switch {
	case !k.Namespaced:
		return k.Key("", r.name)
	case namespace == "":
		return ""
	}
	return k.Key(namespace, r.name)
}

// ownerKind returns the kind of an owner, nil if it is unknown.
func (c *Controller) ownerKind(r *reference) *kind.Kind {
	group, _ := r.groupVersion()
	for k := range c.Kinds.Load().InGroup(group) {
		if k.Name == r.of.Value().kind && k.Behavior.IsStored() {
			return k
		}
	}
	return nil
}

// readable reports whether a reference's version of its owner is served, or was served when the change was made that is looked at. It
// reports true if the kind is unknown: then the kind has gone before its objects.
func (c *Controller) readable(r *reference) bool {
	if served, known := c.graph.defined.serves(r); known {
		return served
	}
	k := c.ownerKind(r)
	return k == nil || r.isServed(k)
}

// isServed reports whether a kind is served in the version of a reference.
func (r *reference) isServed(k *kind.Kind) bool {
	_, version := r.groupVersion()
	return slices.ContainsFunc(k.Versions, func(v *kind.Version) bool { return v.Name == version })
}

// groupVersion returns the group and the version of an owner.
func (r *reference) groupVersion() (group, version string) {
	group, version, ok := strings.Cut(r.of.Value().apiVersion, "/")
	if !ok {
		return "", group
	}
	return group, version
}
