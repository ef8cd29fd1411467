// Package namespace empties and removes namespaces that are being deleted.
//
// # Model
//
// Deleting a namespace only marks it: it gets a deletion timestamp and the
// phase Terminating, and nothing new may be created in it. The [Controller]
// then deletes what is in it, kind by kind, and waits until the finalizers of
// all these objects are done. At last it takes its own finalizer, kubernetes,
// off the namespace, and the namespace is gone unless somebody else's finalizer
// keeps it.
//
// # Invariants
//
//   - The finalizer is taken off only after a look at the store, not at a
//     cache, has found the namespace empty.
//   - A namespace that cannot be emptied yet is tried again, more and more
//     slowly; others do not wait for it.
//
// [Controller.Run] is the function to call.
package namespace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/store"
)

// Name is what kube-controller-manager calls this controller.
const Name = "namespace-controller"

// Finalizer is the finalizer in spec.finalizers that this controller takes off.
const Finalizer = "kubernetes"

const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 5 * time.Second
	pageSize   = 500
)

// Controller finishes the deletion of namespaces.
type Controller struct {
	Kinds  *kind.Registry
	Cache  *cache.Cache
	Store  store.Store
	Logger *slog.Logger

	// Delete deletes one object as a client would: one with finalizers is only
	// marked. An object that is gone already is no error.
	Delete func(ctx context.Context, k *kind.Kind, namespace, name string) error

	pending map[string]*attempt // by the namespace's key
}

// attempt is a namespace to be finished.
type attempt struct {
	name string
	next time.Time
	wait time.Duration // after the next failure
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) {
	c.pending = map[string]*attempt{}
	for ctx.Err() == nil {
		if err := c.follow(ctx); err != nil && ctx.Err() == nil {
			c.Logger.Debug("watch of namespaces ended, starting another", "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(firstRetry):
			}
		}
	}
}

// follow looks at all namespaces, and then at every one that changes.
func (c *Controller) follow(ctx context.Context) error {
	k := c.Kinds.Load().Lookup("", "namespaces")
	if k == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	res := c.Cache.Resource(k.StoragePrefix)
	if err := res.Ready(ctx); err != nil {
		return err
	}
	snap := res.Snapshot()
	watch, err := res.Watch(snap.Rev(), "")
	if err != nil {
		return err
	}
	defer watch.Close()
	snap.Ascend("", func(obj *cache.Object) bool {
		c.note(k, obj)
		return true
	})
	for {
		c.finishDue(ctx, k)
		wait, cancel := c.untilDue(ctx)
		events, _, err := watch.Next(wait)
		cancel()
		if err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
			return err
		}
		for _, e := range events {
			if e.Type == cache.Deleted {
				delete(c.pending, e.Object.Key)
				continue
			}
			c.note(k, e.Object)
		}
	}
}

// note remembers a namespace that is being deleted.
func (c *Controller) note(k *kind.Kind, obj *cache.Object) {
	d := doc.Get()
	defer d.Release()
	if err := k.Storage.Load(d, obj.Raw, obj.Rev); err != nil {
		c.Logger.Error("namespace cannot be read", "key", obj.Key, "error", err)
		return
	}
	if d.Root().At("metadata", "deletionTimestamp").Text() == "" {
		return
	}
	name := strings.TrimPrefix(obj.Key, k.StoragePrefix+"/")
	c.pending[obj.Key] = &attempt{name: name, wait: firstRetry}
}

// untilDue is a context that ends when the next namespace is to be tried.
func (c *Controller) untilDue(ctx context.Context) (context.Context, context.CancelFunc) {
	var next time.Time
	for _, a := range c.pending {
		if next.IsZero() || a.next.Before(next) {
			next = a.next
		}
	}
	if next.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, next)
}

// finishDue tries to finish every namespace whose time has come.
func (c *Controller) finishDue(ctx context.Context, k *kind.Kind) {
	now := time.Now()
	for key, a := range c.pending {
		if a.next.After(now) || ctx.Err() != nil {
			continue
		}
		done, err := c.finish(ctx, k, key, a.name)
		if err != nil {
			c.Logger.Warn("namespace is not empty yet", "namespace", a.name, "error", err)
		}
		if done {
			delete(c.pending, key)
			continue
		}
		a.next = now.Add(a.wait)
		a.wait = min(2*a.wait, lastRetry)
	}
}

// finish deletes what is in a namespace and, once that is nothing, the
// namespace.
func (c *Controller) finish(ctx context.Context, k *kind.Kind, key, name string) (done bool, err error) {
	empty := true
	var errs []error
	for each := range c.Kinds.Load().All() {
		if !each.Namespaced {
			continue
		}
		left, err := c.empty(ctx, each, name)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s.%s: %w", each.Plural, each.Group, err))
		}
		empty = empty && !left && err == nil
	}
	if !empty {
		return false, errors.Join(errs...)
	}
	return c.finalize(ctx, k, key)
}

// empty deletes the objects of one kind; left says that some are still there.
func (c *Controller) empty(ctx context.Context, k *kind.Kind, namespace string) (left bool, err error) {
	prefix := k.StoragePrefix + "/" + namespace + "/"
	from := ""
	for {
		page, err := c.Store.List(ctx, prefix, store.ListOptions{From: from, Limit: pageSize})
		if err != nil {
			return true, err
		}
		for _, item := range page.Items {
			if err := c.Delete(ctx, k, namespace, strings.TrimPrefix(item.Key, prefix)); err != nil {
				return true, err
			}
		}
		if !page.More {
			break
		}
		from = page.Items[len(page.Items)-1].Key + "\x00"
	}
	page, err := c.Store.List(ctx, prefix, store.ListOptions{Limit: 1})
	return len(page.Items) > 0, err
}

// finalize takes the controller's finalizer off a namespace, and removes the
// namespace if that was the last one.
func (c *Controller) finalize(ctx context.Context, k *kind.Kind, key string) (done bool, err error) {
	item, err := c.Store.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	d := doc.Get()
	defer d.Release()
	if err := k.Storage.Load(d, item.Value, item.Rev); err != nil {
		return false, err
	}
	root := d.Root()
	if root.At("metadata", "deletionTimestamp").Text() == "" {
		return true, nil // it is another namespace of the same name
	}
	var keep []string
	have := root.At("spec", "finalizers")
	for i := range have.Len() {
		if f := have.Item(i).Text(); f != Finalizer {
			keep = append(keep, strings.Clone(f))
		}
	}
	if len(keep) == 0 && root.At("metadata", "finalizers").Len() == 0 {
		_, err = c.Store.Delete(ctx, key, item.Rev)
	} else if len(keep) != have.Len() {
		err = c.keep(ctx, k, d, item, keep)
	}
	var changed *store.Changed
	if errors.As(err, &changed) {
		return changed.Gone, nil // tried again soon
	}
	return err == nil, err
}

// keep stores a namespace with the finalizers that are left; the last of their
// owners removes it.
func (c *Controller) keep(ctx context.Context, k *kind.Kind, d *doc.Doc, item store.Item, finalizers []string) error {
	if len(finalizers) == 0 {
		d.Remove("spec", "finalizers")
	} else {
		d.Set(d.NewStrings(finalizers), "spec", "finalizers")
	}
	encoded, err := k.Storage.Encode(d, nil)
	if err != nil {
		return err
	}
	_, err = c.Store.Update(ctx, item.Key, encoded, item.Rev)
	return err
}
