package migration

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	migrationv1 "k8s.io/api/storagemigration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/controller/loop"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/kind"
)

// This file rewrites the objects of a resource.

const (
	// atATime is the number of objects that are rewritten before another migration may work.
	atATime = 512
	// writers is the number of objects that are rewritten at once, so that writes share a sync of
	// the disk.
	writers = 8
)

// run is the state of a migration in this process.
type run struct {
	kind  *kind.Kind
	keys  []string // of the objects that are left
	total int      // the number of objects of the resource at the start
}

// migrate rewrites some objects of a resource.
func (c *Controller) migrate(ctx context.Context, key string, m *migrationv1.StorageVersionMigration) error {
	k := c.Kinds.Load().Lookup(m.Spec.Resource.Group, m.Spec.Resource.Resource)
	r := c.runs[key]
	if k == nil || r == nil || r.kind != k {
		if err := c.checkServed(ctx, m, k); err != nil {
			return err
		}
	}
	if k == nil { // its definition is gone, and its objects are
		return c.fail(ctx, m, "migration encountered unhandled error: unable to obtain GVR from discovery")
	}
	if r == nil || r.kind != k { // a changed definition is another kind
		var err error
		if r, err = c.start(ctx, k, m.Status.ResourceVersion); err != nil {
			return err
		}
		c.runs[key] = r
	}
	for len(r.keys) > 0 {
		some := r.keys[:min(atATime, len(r.keys))]
		left, err := c.rewrite(ctx, k, some)
		r.keys = append(left, r.keys[len(some):]...)
		switch {
		case err != nil && ctx.Err() != nil:
			return ctx.Err()
		case err != nil && isRetriable(err):
			if e := c.progress(ctx, m, r, err); e != nil {
				return e
			}
			return err
		case err != nil:
			delete(c.runs, key)
			return c.fail(ctx, m, fmt.Sprintf("%d/%d not yet migrated. migration encountered unhandled error: %s", len(r.keys), r.total, status.From(err).Message))
		}
		if len(r.keys) > 0 {
			c.loop.At(key, c.Now())
			return nil
		}
	}
	delete(c.runs, key)
	return c.setStatus(ctx, m, func(s *migrationv1.StorageVersionMigrationStatus) {
		setCondition(s, migrationv1.MigrationRunning, metav1.ConditionTrue, running, r.message(nil))
		setCondition(s, migrationv1.MigrationSucceeded, metav1.ConditionTrue, succeeded, "Migration completed")
	})
}

// start finds the objects of a kind that were last written at or before a resource version.
func (c *Controller) start(ctx context.Context, k *kind.Kind, version string) (*run, error) {
	upTo, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("resource version of a migration: %w", err)
	}
	objects := c.Cache.Resource(k.StoragePrefix)
	if err := objects.WaitFor(ctx, upTo); err != nil {
		return nil, err
	}
	r := &run{kind: k}
	objects.Snapshot().Ascend("", func(o *cache.Object) bool {
		r.total++
		if o.Rev <= upTo {
			r.keys = append(r.keys, o.Key)
		}
		return true
	})
	return r, nil
}

// rewrite writes objects again. It returns the keys that are left, and the first error, which is
// not retriable if any is not.
func (c *Controller) rewrite(ctx context.Context, k *kind.Kind, keys []string) (left []string, failure error) {
	var mu sync.Mutex
	var workers sync.WaitGroup
	next := make(chan string)
	for range min(writers, len(keys)) {
		workers.Go(func() {
			for key := range next {
				err := c.rewriteOne(ctx, k, key)
				if err == nil {
					continue
				}
				mu.Lock()
				left = append(left, key)
				if failure == nil || isRetriable(failure) && !isRetriable(err) {
					failure = err
				}
				mu.Unlock()
			}
		})
	}
	for i, key := range keys {
		mu.Lock()
		stop := failure != nil
		mu.Unlock()
		if stop {
			mu.Lock()
			left = append(left, keys[i:]...)
			mu.Unlock()
			break
		}
		next <- key
	}
	close(next)
	workers.Wait()
	return left, failure
}

// rewriteOne writes an object again. An object that is gone, or that another writer changed, needs
// nothing.
func (c *Controller) rewriteOne(ctx context.Context, k *kind.Kind, key string) error {
	namespace, name := "", strings.TrimPrefix(key, k.StoragePrefix+"/")
	if k.Namespaced {
		namespace, name = loop.Place(k, key)
	}
	err := c.Objects.Modify(ctx, k, namespace, name, func(meta.Object) error { return nil })
	if err != nil && loop.Overtaken(err) {
		return nil
	}
	return err
}

// isRetriable reports whether an error may be gone when the write is tried again.
func isRetriable(err error) bool {
	switch status.From(err).Code {
	case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// message describes the progress of a migration. err is why it does not go on at the moment, or nil.
func (r *run) message(err error) string {
	text := "The migration is running"
	switch left := len(r.keys); {
	case r.total == 0:
	case left > 0:
		text += fmt.Sprintf(", %d/%d objects not yet migrated", left, r.total)
	default:
		text += fmt.Sprintf(", %d objects verified migrated", r.total)
	}
	if err != nil {
		text += "; transient error: " + status.From(err).Message
	}
	return text
}

// progress writes how far a migration is.
func (c *Controller) progress(ctx context.Context, m *migrationv1.StorageVersionMigration, r *run, why error) error {
	return c.setStatus(ctx, m, func(s *migrationv1.StorageVersionMigrationStatus) {
		setCondition(s, migrationv1.MigrationRunning, metav1.ConditionTrue, running, r.message(why))
	})
}

// fail ends a migration with a reason.
func (c *Controller) fail(ctx context.Context, m *migrationv1.StorageVersionMigration, message string) error {
	return c.setStatus(ctx, m, func(s *migrationv1.StorageVersionMigrationStatus) {
		setCondition(s, migrationv1.MigrationFailed, metav1.ConditionTrue, failed, message)
	})
}
