// Package namespace empties and removes namespaces that are being deleted.
//
// # Model
//
// Deleting a namespace only marks it: it gets a deletion timestamp and the phase Terminating, and nothing new may be created in it. The
// [Controller] then deletes what is in it, pods first and then kind by kind, says in the namespace's conditions what is left, and
// waits until the finalizers of all these objects are done: it looks again when something in the namespace has gone. At last it takes
// its own finalizer, kubernetes, off the namespace, and the namespace is gone unless somebody else's finalizer keeps it.
//
// # Invariants
//
//   - The finalizer is taken off only after a look at the store, not at a cache, has found the namespace empty.
//   - A namespace that cannot be emptied yet is tried again, more and more slowly; others do not wait for it.
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

	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/controller/loop"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/status"
	"github.com/keelson-io/keelson/store"
)

// Name is what kube-controller-manager calls this controller.
const Name = "namespace-controller"

// Finalizer is the finalizer in spec.finalizers that this controller takes off.
const Finalizer = "kubernetes"

// pause is how long a namespace is not looked at again after something in it has gone: more may go at the same time.
const pause = 20 * time.Millisecond

// API is what the controller asks of the API, as a client would.
type API interface {
	// Delete deletes an object: one with finalizers is only marked. One that is gone already is no error.
	Delete(ctx context.Context, k *kind.Kind, namespace, name string) error
	// ModifyPart changes a subresource of an object; the errors of fn are its own.
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
	some   atomic.Bool       // there are such
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

// wants reports whether a change is of a namespace, or the end of what may be in one that is being deleted.
func (c *Controller) wants(e *store.Event) bool {
	return e.Deleted && c.some.Load() || strings.HasPrefix(e.Key, c.spaces.StoragePrefix+"/")
}

// see notes the namespaces that are being deleted.
func (c *Controller) see(e *loop.Change) {
	if name, ok := strings.CutPrefix(e.Key, c.spaces.StoragePrefix+"/"); ok {
		if !e.Deleted && c.terminating(&e.Event) {
			c.note(e.Key, name)
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

func (c *Controller) note(key, name string) {
	c.going[key] = name
	c.some.Store(true)
}

func (c *Controller) forget(key string) {
	delete(c.going, key)
	c.some.Store(len(c.going) > 0)
}

// finish deletes what is in a namespace and, once that is nothing, the namespace. What is left when it returns without an error is
// somebody else's to finish.
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
	if !deleting { // it is another one of the same name
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

// errOther ends a change of a namespace that is another one by now.
var errOther = status.NotFound(schema.GroupResource{Resource: "namespaces"}, "")

// remains is what is left in a namespace.
type remains struct {
	kinds      map[string]int // how many, by "<plural>.<group>"
	finalizers map[string]int // on how many
	errs       []error
}

func (r *remains) nothing() bool { return len(r.kinds)+len(r.errs) == 0 }

// clear deletes the objects in a namespace: the others when the pods are gone.
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
	found := false
	_, err := store.Each(ctx, c.Store, prefix, 0, func(it *store.Item) error {
		found = true
		return c.API.Delete(ctx, k, namespace, strings.TrimPrefix(it.Key, prefix))
	})
	if err == nil && found {
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

// lines are the texts of counts, sorted.
func lines(counts map[string]int, format string) string {
	var all []string
	for name, n := range counts {
		all = append(all, fmt.Sprintf(format, name, n))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
