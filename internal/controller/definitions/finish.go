package definitions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file ends the life of definitions: their instances are deleted first.

// errSuperseded ends the work on a definition that is gone, or is not being deleted any more.
var errSuperseded = errors.New("definition is gone")

// finish starts a goroutine that finishes a definition that is being deleted, if Run runs. The lock
// is held.
func (c *Controller) finish(d *definition) {
	if !d.leaving || d.finishing || c.run == nil {
		return
	}
	d.finishing = true
	name, uid, ctx := d.name, d.uid, c.run
	c.finisher.Go(func() {
		for n := 1; ; n++ {
			err := c.end(ctx, name, uid)
			if err == nil || errors.Is(err, errSuperseded) || ctx.Err() != nil {
				break
			}
			c.logger().Warn("instances of a definition are not all deleted, trying again", "name", name, "error", err)
			select {
			case <-time.After(retryAfter(n)):
			case <-ctx.Done():
			}
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if d := c.defs[name]; d != nil && d.uid == uid {
			d.finishing = false
		}
	})
}

// end deletes the instances of a definition, and then removes its finalizer.
func (c *Controller) end(ctx context.Context, name, uid string) error {
	established := false
	err := c.update(ctx, name, uid, func(def *apiextv1.CustomResourceDefinition) {
		established = crd.HasCondition(def, apiextv1.Established)
		setTerminating(def, apiextv1.ConditionTrue, "InstanceDeletionInProgress", "CustomResource deletion is in progress")
	})
	if err != nil {
		return err
	}
	refusal, err := c.refusalOf(name, uid)
	if err != nil {
		return err
	}
	reason, message := "NeverEstablished", "resource was never established"
	switch {
	case refusal != nil:
		n, err := c.deleteLeft(ctx, refusal)
		if err != nil {
			return err
		}
		if n > 0 {
			reason, message = "InstanceDeletionCompleted", "removed all instances"
		}
	case established:
		reason, message = "InstanceDeletionCompleted", "removed all instances"
		if why, err := c.deleteInstances(ctx, name, uid); err != nil {
			if ctx.Err() != nil {
				return err
			}
			stored := c.update(ctx, name, uid, func(def *apiextv1.CustomResourceDefinition) {
				setTerminating(def, apiextv1.ConditionTrue, why, err.Error())
			})
			return errors.Join(err, stored)
		}
	}
	return c.update(ctx, name, uid, func(def *apiextv1.CustomResourceDefinition) {
		setTerminating(def, apiextv1.ConditionFalse, reason, message)
		def.Finalizers = slices.DeleteFunc(def.Finalizers, func(f string) bool { return f == crd.Cleanup })
	})
}

// refusalOf returns why a definition is never served, nil if it can be.
func (c *Controller) refusalOf(name, uid string) (*kind.Refusal, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.defs[name]
	if d == nil || d.uid != uid {
		return nil, errSuperseded
	}
	return d.refusal, nil
}

// deleteLeft deletes the objects that earlier releases stored for a definition that is refused now,
// and returns their number. No request reaches these objects, so that nobody could remove their
// finalizers: they are deleted in spite of them.
func (c *Controller) deleteLeft(ctx context.Context, refusal *kind.Refusal) (n int, err error) {
	if refusal.Left == "" {
		return 0, nil
	}
	_, err = store.Each(ctx, c.Store, refusal.Left, 0, func(it *store.Item) error {
		if _, err := c.Store.Delete(ctx, it.Key, it.Rev); err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		n++
		return nil
	})
	return n, err
}

func setTerminating(def *apiextv1.CustomResourceDefinition, status apiextv1.ConditionStatus, reason, message string) {
	crd.SetCondition(def, apiextv1.CustomResourceDefinitionCondition{
		Type: apiextv1.Terminating, Status: status, Reason: reason, Message: message,
	}, time.Now())
}

// update changes the stored definition. It tries again after every change by another writer. A
// definition without finalizers is removed.
func (c *Controller) update(ctx context.Context, name, uid string, change func(*apiextv1.CustomResourceDefinition)) error {
	for {
		item, err := c.Store.Get(ctx, key(name))
		if errors.Is(err, store.ErrNotFound) {
			return errSuperseded
		}
		if err != nil {
			return err
		}
		def, err := crd.Parse(item.Value)
		if err != nil {
			return err
		}
		if string(def.UID) != uid || def.DeletionTimestamp.IsZero() || !slices.Contains(def.Finalizers, crd.Cleanup) {
			return errSuperseded
		}
		change(def)
		if len(def.Finalizers) == 0 {
			_, err = c.Store.Delete(ctx, key(name), item.Rev)
		} else {
			var value []byte
			if value, err = crd.Update(item.Value, def, c.Note); err != nil {
				return err
			}
			_, err = c.Store.Update(ctx, key(name), value, item.Rev)
		}
		if !isGone(err) {
			return err
		}
	}
}

// deleteInstances deletes every instance and returns when the last one is gone. An error comes with
// the reason for the condition.
func (c *Controller) deleteInstances(ctx context.Context, name, uid string) (reason string, err error) {
	const failed = "InstanceDeletionFailed"
	c.mu.Lock()
	var k *kind.Kind
	if d := c.defs[name]; d != nil && d.uid == uid {
		k = d.kind
	}
	c.mu.Unlock()
	if k == nil {
		return failed, fmt.Errorf("could not list instances: %s is not served", name)
	}
	r := c.Cache.Resource(k.StoragePrefix)
	if err := r.Fresh(ctx); err != nil {
		return failed, fmt.Errorf("could not list instances: %w", err)
	}
	snapshot := r.Snapshot()
	w, err := r.Watch(snapshot.Rev(), "")
	if err != nil {
		return failed, fmt.Errorf("could not list instances: %w", err)
	}
	defer w.Close()
	var errs []error
	snapshot.Ascend("", func(o *cache.Object) bool {
		if err := c.deleteInstance(ctx, k, o.Key); err != nil {
			errs = append(errs, err)
		}
		return ctx.Err() == nil
	})
	if err := utilerrors.NewAggregate(errs); err != nil {
		return failed, fmt.Errorf("could not issue all deletes: %w", err)
	}
	for r.Snapshot().Len() > 0 {
		events, _, err := w.Next(ctx)
		if err != nil {
			return "InstanceDeletionCheck", fmt.Errorf("could not confirm zero CustomResources remaining: %w", err)
		}
		for i := range events {
			if events[i].Type != cache.Added {
				continue
			}
			// The instance was on its way when the kind began to refuse new ones.
			if err := c.deleteInstance(ctx, k, events[i].Object.Key); err != nil {
				return failed, fmt.Errorf("could not issue all deletes: %w", err)
			}
		}
	}
	return "", nil
}

func (c *Controller) deleteInstance(ctx context.Context, k *kind.Kind, key string) error {
	namespace, name, ok := strings.Cut(strings.TrimPrefix(key, k.StoragePrefix+"/"), "/")
	if !ok {
		namespace, name = "", namespace
	}
	err := c.Delete(ctx, k, namespace, name)
	if kind.IsMissingVersion(err) {
		return c.deleteUnreadable(ctx, k, key)
	}
	return err
}

// deleteUnreadable deletes an instance that is stored in a version that the definition lacks. No
// request can read it, so that nobody could remove its finalizers: it is deleted in spite of them.
func (c *Controller) deleteUnreadable(ctx context.Context, k *kind.Kind, key string) error {
	item, err := c.Store.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	d := jsondoc.Get()
	defer d.Release()
	why := k.Storage.LoadToRemove(d, item.Value, item.Rev)
	if !kind.IsMissingVersion(why) {
		return fmt.Errorf("%s changed while it was being deleted", key)
	}
	if _, err := c.Store.Delete(ctx, key, item.Rev); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	c.logger().Warn("deleted an instance that could not be read, without regard to its finalizers", "key", key, "error", why)
	return nil
}
