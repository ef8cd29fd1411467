// Package migration rewrites the stored objects of a resource when a StorageVersionMigration asks
// for it, so that each is stored in the present version, form and encryption.
//
// # Model
//
// The [Controller] follows the migrations. For each resource, one migration at a time is running,
// the oldest first. It goes through these steps, each of which ends with a write of its status:
//
//  1. It becomes Running. If a definition has the resource, the definition gets the condition
//     StorageMigrating.
//  2. Its resource version is set, to the store's present revision. It fails if nothing has the
//     resource, or if objects of the resource cannot be changed.
//  3. Every object that was last written at or before this revision is written again, by an update
//     that changes nothing. Later writes have stored their objects in the present version already.
//  4. It becomes Succeeded or Failed, and is no longer Running. After a success, the definition's
//     storedVersions has the storage version alone, unless the definition changed meanwhile.
//
// # Invariants
//
//   - An object passes admission and validation, like an object of a client. An object that they
//     refuse makes the migration fail.
//   - An object that is in the present form already is not written.
//   - A server rewrites objects only while it serves the stored state of their definition.
//   - A migration does some objects at a time, so that those of other resources go on.
//   - Any number of servers may do this at once; a restart continues.
//
// [Controller.Run] is the function to call.
package migration

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	migrationv1 "k8s.io/api/storagemigration/v1"
	metaconditions "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/controller/loop"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/kind"
)

// This file has the steps of a migration; objects.go rewrites objects, definition.go marks
// definitions.

// Name is kube-controller-manager's name of this controller.
const Name = "storage-version-migrator-controller"

// Runner is the field manager of a definition's conditions and stored versions, as upstream's.
const Runner = "migration-runner-controller"

const (
	// appears is how long after its creation a migration waits for its resource to be served.
	appears = time.Minute
	// lookAgain is the time between two looks for a resource that is not served yet.
	lookAgain = time.Second
)

// API is the part of the API that the controller calls, as a client would.
type API interface {
	// Modify changes an object. It returns the errors of fn unchanged.
	Modify(ctx context.Context, k *kind.Kind, namespace, name string, fn func(meta.Object) error) error
	// ModifyPart changes a subresource of an object. It returns the errors of fn unchanged.
	ModifyPart(ctx context.Context, k *kind.Kind, namespace, name, part string, fn func(meta.Object) error) error
	// Apply applies a configuration to a subresource of an object.
	Apply(ctx context.Context, k *kind.Kind, namespace, name, subresource string, body []byte) error
}

// Controller migrates. Its fields are set before Run.
type Controller struct {
	Kinds  *kind.Registry
	Cache  *cache.Cache
	Store  store.Store
	Logger *slog.Logger

	// Objects writes the objects, under the name [Name]. Definitions writes the status of
	// definitions, under the name [Runner]. Status writes that of migrations.
	Objects, Definitions, Status API

	Now func() time.Time // nil: time.Now

	loop        loop.Loop // due are migrations
	migrations  *kind.Kind
	definitions *kind.Kind
	known       map[string]*migrationv1.StorageVersionMigration                          // by key, as See saw them last
	of          map[metav1.GroupResource]map[string]*migrationv1.StorageVersionMigration // the same, by resource
	runs        map[string]*run                                                          // by the key of the migration
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) {
	if c.Now == nil {
		c.Now = time.Now
	}
	now := c.Kinds.Load()
	c.migrations, c.definitions = now.Lookup(migrationv1.GroupName, "storageversionmigrations"), now.Lookup("apiextensions.k8s.io", "customresourcedefinitions")
	if c.migrations == nil || c.definitions == nil {
		return
	}
	c.loop = loop.Loop{Cache: c.Cache, Store: c.Store, Logger: c.Logger, Name: Name, List: []string{c.migrations.StoragePrefix + "/"}, Now: c.Now,
		Begin: func() {
			c.known, c.runs = map[string]*migrationv1.StorageVersionMigration{}, map[string]*run{}
			c.of = map[metav1.GroupResource]map[string]*migrationv1.StorageVersionMigration{}
		}, See: c.see, Work: c.work}
	c.loop.Run(ctx)
}

// see schedules a migration that changed. If one is gone or has ended, the next one of its resource
// may begin. With many migrations, each change costs a comparison with the others, not a look at all.
func (c *Controller) see(e *loop.Change) {
	if before := c.known[e.Key]; before != nil {
		delete(c.known, e.Key)
		delete(c.of[before.Spec.Resource], e.Key)
		defer func() {
			if now := c.known[e.Key]; now == nil || ended(now) {
				c.wake(before.Spec.Resource)
			}
			if len(c.of[before.Spec.Resource]) == 0 {
				delete(c.of, before.Spec.Resource)
			}
		}()
	}
	if e.Deleted {
		delete(c.runs, e.Key)
		c.loop.Drop(e.Key)
		return
	}
	c.loop.Add(e.Key) // which says why it cannot be read, if it cannot
	view, err := c.migrations.Storage.Render(e.Value, e.Rev)
	m := new(migrationv1.StorageVersionMigration)
	if err != nil || json.Unmarshal(view.JSON, m) != nil {
		return
	}
	m.ManagedFields = nil
	c.known[e.Key] = m
	if c.of[m.Spec.Resource] == nil {
		c.of[m.Spec.Resource] = map[string]*migrationv1.StorageVersionMigration{}
	}
	c.of[m.Spec.Resource][e.Key] = m
}

// wake schedules the next migration of a resource.
func (c *Controller) wake(resource metav1.GroupResource) {
	next := ""
	for key, m := range c.of[resource] {
		if !ended(m) && (next == "" || before(m, c.known[next])) {
			next = key
		}
	}
	if next != "" {
		c.loop.Add(next)
	}
}

// work does the next step of a migration.
func (c *Controller) work(ctx context.Context, key string) error {
	o, err := loop.Load(ctx, c.Store, c.migrations, key)
	if o == nil || err != nil {
		return err
	}
	m, err := read(*o)
	o.Doc.Release()
	if err != nil {
		return err
	}
	switch running := is(m, migrationv1.MigrationRunning); {
	case ended(m) && running:
		return c.finish(ctx, m)
	case ended(m):
		delete(c.runs, key)
		return nil
	case !running:
		return c.begin(ctx, key, m)
	case m.Status.ResourceVersion == "":
		return c.setVersion(ctx, key, m)
	}
	return c.migrate(ctx, key, m)
}

// read decodes a migration.
func read(o meta.Object) (*migrationv1.StorageVersionMigration, error) {
	m := new(migrationv1.StorageVersionMigration)
	if err := json.Unmarshal(o.Doc.AppendJSON(nil, o.Doc.Root().Node), m); err != nil {
		return nil, fmt.Errorf("migration %s: %w", o.Name(), err)
	}
	return m, nil
}

// is reports whether a migration has a condition that is true.
func is(m *migrationv1.StorageVersionMigration, t migrationv1.MigrationConditionType) bool {
	return metaconditions.IsStatusConditionTrue(m.Status.Conditions, string(t))
}

// ended reports whether a migration has succeeded or failed.
func ended(m *migrationv1.StorageVersionMigration) bool {
	return is(m, migrationv1.MigrationSucceeded) || is(m, migrationv1.MigrationFailed)
}

// begin makes a migration running if it is the next one of its resource.
func (c *Controller) begin(ctx context.Context, key string, m *migrationv1.StorageVersionMigration) error {
	for otherKey, other := range c.of[m.Spec.Resource] {
		if otherKey != key && !ended(other) && (is(other, migrationv1.MigrationRunning) || before(other, m)) {
			return nil // the end of the other one wakes the next
		}
	}
	if err := c.markDefinition(ctx, m); err != nil {
		return err
	}
	return c.setStatus(ctx, m, func(s *migrationv1.StorageVersionMigrationStatus) {
		setCondition(s, migrationv1.MigrationRunning, metav1.ConditionTrue, running, "The migration is running")
	})
}

// before reports whether a migration was created before another one.
func before(a, b *migrationv1.StorageVersionMigration) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.Name < b.Name
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}

// setVersion sets the resource version up to which objects are rewritten.
func (c *Controller) setVersion(ctx context.Context, key string, m *migrationv1.StorageVersionMigration) error {
	k := c.Kinds.Load().Lookup(m.Spec.Resource.Group, m.Spec.Resource.Resource)
	switch {
	case k == nil && c.Now().Before(m.CreationTimestamp.Add(appears)):
		c.loop.At(key, c.Now().Add(lookAgain))
		return nil
	case k == nil:
		return c.setStatus(ctx, m, func(s *migrationv1.StorageVersionMigrationStatus) {
			setCondition(s, migrationv1.MigrationFailed, metav1.ConditionTrue, failed, "resource does not exist in discovery")
		})
	case !k.Behavior.IsStored():
		return c.setStatus(ctx, m, func(s *migrationv1.StorageVersionMigrationStatus) {
			setCondition(s, migrationv1.MigrationFailed, metav1.ConditionTrue, failed,
				fmt.Sprintf("resource %q does not support discovery operations: [update patch list]", k.Storage.GVR().String()))
		})
	}
	rev, err := c.Store.Revision(ctx)
	if err != nil {
		return err
	}
	return c.setStatus(ctx, m, func(s *migrationv1.StorageVersionMigrationStatus) { s.ResourceVersion = strconv.FormatInt(rev, 10) })
}

// finish ends a migration that has succeeded or failed.
func (c *Controller) finish(ctx context.Context, m *migrationv1.StorageVersionMigration) error {
	if err := c.releaseDefinition(ctx, m); err != nil {
		return err
	}
	return c.setStatus(ctx, m, func(s *migrationv1.StorageVersionMigrationStatus) {
		setCondition(s, migrationv1.MigrationRunning, metav1.ConditionFalse, "MigrationCompleted", "Migration completed")
	})
}

// The reasons of conditions.
const (
	running   = "MigrationRunning"
	succeeded = "StorageVersionMigrationSucceeded"
	failed    = "StorageVersionMigrationFailed"
)

// setCondition sets a condition of a migration.
func setCondition(s *migrationv1.StorageVersionMigrationStatus, t migrationv1.MigrationConditionType, value metav1.ConditionStatus, reason, message string) {
	const most = 32 << 10 // bytes of a condition's message
	if len(message) > most {
		message = strings.ToValidUTF8(message[:most], "")
	}
	metaconditions.SetStatusCondition(&s.Conditions, metav1.Condition{Type: string(t), Status: value, Reason: reason, Message: message})
}

// setStatus changes the status of a migration, unless it is another one than m by now or has ended
// while m had not. It is not an error if the migration was deleted.
func (c *Controller) setStatus(ctx context.Context, m *migrationv1.StorageVersionMigration, change func(*migrationv1.StorageVersionMigrationStatus)) error {
	return loop.UnlessGone(c.Status.ModifyPart(ctx, c.migrations, "", m.Name, "status", func(o meta.Object) error {
		now, err := read(o)
		if err != nil || now.UID != m.UID || ended(now) != ended(m) {
			return err
		}
		change(&now.Status)
		return o.SetTyped(now.Status, "status")
	}))
}
