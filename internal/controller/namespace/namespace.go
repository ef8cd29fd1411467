// Package namespace empties and removes namespaces that are being deleted.
//
// # Model
//
// The deletion of a namespace only marks it: the namespace gets a deletion timestamp and the phase
// Terminating, and no new objects can be created in it. The [Controller] then deletes its objects,
// pods first and then kind by kind, lists the rest in the conditions of the namespace, and waits
// until the finalizers of all these objects are done: it tries again when an object in the
// namespace is gone. At last it removes its own finalizer, kubernetes. The namespace is gone then,
// unless another finalizer keeps it.
//
// # Invariants
//
//   - The finalizer is removed only if the store, not a cache, has no object in the namespace.
//   - A namespace that cannot be emptied yet is tried again after growing pauses; others do not
//     wait for it.
//
// [Controller.Run] is the function to call.
package namespace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/controller/loop"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// Name is kube-controller-manager's name of this controller.
const Name = "namespace-controller"

// Finalizer is the finalizer in spec.finalizers that this controller removes.
const Finalizer = "kubernetes"

// pause is the time between the deletion of an object in a namespace and the next attempt: more
// objects may go at the same time.
const pause = 20 * time.Millisecond

// API is the part of the API that the controller calls, as a client would.
type API interface {
	// DeleteAll deletes objects of a kind in a namespace: each calls its argument with their names. An object with
	// finalizers is only marked for deletion. It is not an error if an object no longer exists.
	DeleteAll(ctx context.Context, k *kind.Kind, namespace string, each func(func(name string) error) error) error
	// ModifyPart changes a subresource of an object. It returns the errors of fn unchanged.
	ModifyPart(ctx context.Context, k *kind.Kind, namespace, name, subresource string, fn func(meta.Object) error) error
}

// Controller finishes the deletion of namespaces. Its fields are set before Run.
type Controller struct {
	Kinds  *kind.Registry
	Cache  *cache.Cache
	Store  store.Store
	API    API
	Logger *slog.Logger

	loop   loop.Loop // due are namespaces
	spaces *kind.Kind
	going  map[string]string // names of the namespaces that are being deleted, by key
	some   atomic.Bool       // there are such namespaces
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) {
	if c.spaces = c.Kinds.Load().Lookup("", "namespaces"); c.spaces == nil {
		return
	}
	c.going = map[string]string{}
	c.loop = loop.Loop{Cache: c.Cache, Store: c.Store, Logger: c.Logger, Name: Name, List: []string{c.spaces.StoragePrefix + "/"},
		Wants: c.wants, See: c.see, Work: c.finish}
	c.loop.Run(ctx)
}

// wants reports whether a change is of a namespace, or a deletion of an object in a namespace that
// is being deleted.
func (c *Controller) wants(e *store.Event) bool {
	return e.Deleted && c.some.Load() || strings.HasPrefix(e.Key, c.spaces.StoragePrefix+"/")
}

// see schedules the namespaces that are being deleted.
func (c *Controller) see(e *loop.Change) {
	if name, ok := strings.CutPrefix(e.Key, c.spaces.StoragePrefix+"/"); ok {
		if !e.Deleted && c.terminating(&e.Event) {
			c.markGoing(e.Key, name)
			c.loop.Add(e.Key)
		}
		return
	}
	for key, name := range c.going {
		if strings.Contains(e.Key, "/"+name+"/") {
			c.loop.By(key, time.Now().Add(pause))
		}
	}
}

// terminating reports whether a namespace is being deleted.
func (c *Controller) terminating(e *store.Event) bool {
	d := jsondoc.Get()
	defer d.Release()
	if err := c.spaces.Storage.Load(d, e.Value, e.Rev); err != nil {
		c.Logger.Error("namespace cannot be read", "key", e.Key, "error", err)
		return false
	}
	return meta.Object{Doc: d}.DeletionTimestamp() != ""
}

// markGoing records a namespace that is being deleted.
func (c *Controller) markGoing(key, name string) {
	c.going[key] = name
	c.some.Store(true)
}

func (c *Controller) forget(key string) {
	delete(c.going, key)
	c.some.Store(len(c.going) > 0)
}

// finish deletes the objects of a namespace and then removes its finalizer. If it returns nil while
// objects are left, their finalizers belong to others.
func (c *Controller) finish(ctx context.Context, key string) error {
	space, err := loop.Load(ctx, c.Store, c.spaces, key)
	if err != nil {
		return err
	}
	if space == nil {
		c.forget(key)
		return nil
	}
	uid, deleting := strings.Clone(space.UID()), space.DeletionTimestamp() != ""
	space.Doc.Release()
	if !deleting { // another namespace of the same name
		c.forget(key)
		return nil
	}
	name := strings.TrimPrefix(key, c.spaces.StoragePrefix+"/")
	left := c.clear(ctx, name)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := c.report(ctx, name, uid, left); err != nil || !left.nothing() {
		return errors.Join(append(left.errs, err)...)
	}
	return loop.UnlessGone(c.API.ModifyPart(ctx, c.spaces, "", name, "finalize", func(o meta.Object) error {
		if o.UID() != uid {
			return errOther
		}
		var keep []string
		for _, f := range o.Doc.Root().At("spec", "finalizers").Items() {
			if f.Text() != Finalizer {
				keep = append(keep, strings.Clone(f.Text()))
			}
		}
		if len(keep) == 0 {
			o.Doc.Remove("spec", "finalizers")
		} else {
			o.Doc.Set(o.Doc.NewStrings(keep), "spec", "finalizers")
		}
		return nil
	}))
}

// errOther ends a change if the namespace was replaced by another one of the same name.
var errOther = status.NotFound(schema.GroupResource{Resource: "namespaces"}, "")

// remains counts the objects that are left in a namespace.
type remains struct {
	kinds      map[string]int // number of objects, by "<plural>.<group>"
	finalizers map[string]int // number of objects with each finalizer
	errs       []error
}

func (r *remains) nothing() bool { return len(r.kinds)+len(r.errs) == 0 }

// clear deletes the objects in a namespace, all others after the pods.
func (c *Controller) clear(ctx context.Context, namespace string) *remains {
	left := &remains{kinds: map[string]int{}, finalizers: map[string]int{}}
	kinds := c.Kinds.Load()
	pods := kinds.Lookup("", "pods")
	if pods != nil {
		c.clearKind(ctx, pods, namespace, left)
	}
	if !left.nothing() {
		return left
	}
	for k := range kinds.All() {
		if k.Namespaced && k.StoragePrefix != "" && k != pods && ctx.Err() == nil {
			c.clearKind(ctx, k, namespace, left)
		}
	}
	return left
}

// clearKind deletes the objects of one kind, and adds those that are still there.
func (c *Controller) clearKind(ctx context.Context, k *kind.Kind, namespace string, left *remains) {
	prefix := k.Key(namespace, "")
	some, err := c.Store.List(ctx, prefix, store.ListOptions{Limit: 1})
	if err == nil && len(some.Items) > 0 {
		err = c.API.DeleteAll(ctx, k, namespace, func(found func(name string) error) error {
			_, err := store.Each(ctx, c.Store, prefix, 0, func(it *store.Item) error { return found(strings.TrimPrefix(it.Key, prefix)) })
			return err
		})
	}
	if err == nil && len(some.Items) > 0 {
		_, err = store.Each(ctx, c.Store, prefix, 0, func(it *store.Item) error {
			left.kinds[k.Plural+"."+k.Group]++
			d := jsondoc.Get()
			defer d.Release()
			if err := k.Storage.Load(d, it.Value, it.Rev); err != nil {
				return fmt.Errorf("%s: %w", it.Key, err)
			}
			for f := range (meta.Object{Doc: d}).Finalizers() {
				left.finalizers[strings.Clone(f)]++
			}
			return nil
		})
	}
	if err != nil {
		left.errs = append(left.errs, err)
	}
}

// lines returns counts as sorted texts.
func lines(counts map[string]int, format string) string {
	var all []string
	for name, n := range counts {
		all = append(all, fmt.Sprintf(format, name, n))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
