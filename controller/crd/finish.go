package crd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/store"
)

// This file ends the life of definitions: their instances go first.

// errSuperseded ends the finishing of a definition that is not there any more,
// or is not being deleted any more.
var errSuperseded = errors.New("definition is gone")

// finish lets a goroutine finish a definition that is being deleted, once Run
// runs. The lock is held.
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

// end deletes the instances of a definition and lets it go.
func (c *Controller) end(ctx context.Context, name, uid string) error {
	established := false
	err := c.update(ctx, name, uid, func(crd *apiextv1.CustomResourceDefinition) {
		established = kind.HasCondition(crd, apiextv1.Established)
		setTerminating(crd, apiextv1.ConditionTrue, "InstanceDeletionInProgress", "CustomResource deletion is in progress")
	})
	if err != nil {
		return err
	}
	reason, message := "NeverEstablished", "resource was never established"
	if established {
		reason, message = "InstanceDeletionCompleted", "removed all instances"
		if why, err := c.deleteInstances(ctx, name, uid); err != nil {
			if ctx.Err() != nil {
				return err
			}
			stored := c.update(ctx, name, uid, func(crd *apiextv1.CustomResourceDefinition) {
				setTerminating(crd, apiextv1.ConditionTrue, why, err.Error())
			})
			return errors.Join(err, stored)
		}
	}
	return c.update(ctx, name, uid, func(crd *apiextv1.CustomResourceDefinition) {
		setTerminating(crd, apiextv1.ConditionFalse, reason, message)
		crd.Finalizers = slices.DeleteFunc(crd.Finalizers, func(f string) bool { return f == kind.Cleanup })
	})
}

func setTerminating(crd *apiextv1.CustomResourceDefinition, status apiextv1.ConditionStatus, reason, message string) {
	kind.SetCondition(crd, apiextv1.CustomResourceDefinitionCondition{
		Type: apiextv1.Terminating, Status: status, Reason: reason, Message: message,
	}, time.Now())
}

// update changes the stored definition, however often others change it
// meanwhile. One without finalizers is removed.
func (c *Controller) update(ctx context.Context, name, uid string, change func(*apiextv1.CustomResourceDefinition)) error {
	for {
		item, err := c.Store.Get(ctx, key(name))
		if errors.Is(err, store.ErrNotFound) {
			return errSuperseded
		}
		if err != nil {
			return err
		}
		crd, err := kind.ParseDefinition(item.Value)
		if err != nil {
			return err
		}
		if string(crd.UID) != uid || crd.DeletionTimestamp.IsZero() || !slices.Contains(crd.Finalizers, kind.Cleanup) {
			return errSuperseded
		}
		change(crd)
		if len(crd.Finalizers) == 0 {
			_, err = c.Store.Delete(ctx, key(name), item.Rev)
		} else {
			var value []byte
			if value, err = kind.UpdateDefinition(item.Value, crd, c.Note); err != nil {
				return err
			}
			_, err = c.Store.Update(ctx, key(name), value, item.Rev)
		}
		if !isGone(err) {
			return err
		}
	}
}

// deleteInstances deletes every instance and returns when the last one is
// gone. With an error comes the reason for the condition.
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
			// It was on its way when the kind began to refuse new instances.
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
	return c.Delete(ctx, k, namespace, name)
}
