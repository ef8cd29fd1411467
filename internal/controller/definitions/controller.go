// Package definitions runs the life of CustomResourceDefinitions: it grants their names, serves and
// establishes them, and removes their instances before they are removed themselves.
//
// # Model
//
// A [Controller] follows the definitions in the cache. It reconciles each definition that has
// changed at once: it computes the conditions from the definition and the names of its group,
// compiles the Kind and puts it into the registry, and only then writes the status with the
// conditions. Nothing is polled.
//
// A goroutine of its own finishes a definition that is being deleted: it deletes the instances,
// waits until the last one is gone, and removes the finalizer.
//
// # Invariants
//
//   - A kind is in the registry before its definition has the condition Established.
//   - Writes are compare-and-swap, so any number of controllers may run: if another one is faster,
//     its change is an event, after which the definition is reconciled again.
//   - The kind of a definition in Kinds was compiled from a state that was stored.
//   - A definition that would replace built-in kinds ([kind.Refusal]) is never compiled and gets no
//     names; objects of built-in kinds are not its instances.
//
// # Use
//
// Fill in a Controller, call [Controller.Sync] and [Controller.Begin] before the server is ready
// and [Controller.Run] for as long as it works.
package definitions

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/cache/follow"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file follows the definitions; settle.go reconciles one of them and finish.go ends its life.

// Controller runs the life of definitions. Its fields are set before the first
// call and not changed afterwards.
type Controller struct {
	Kinds *kind.Registry
	// Compiler reads and compiles the definitions. It may be nil.
	Compiler *crd.Compiler
	Cache    *cache.Cache
	Store    store.Store
	Logger   *slog.Logger // nil means slog.Default()

	// Converter makes the converter of a definition whose versions a webhook converts. Without it,
	// objects in other versions than the stored one cannot be read.
	Converter func(name string, c *apiextv1.WebhookConversion) (kind.Converter, error)

	// Note records in managedFields that the controller made the definition next from live; nil: it
	// is not recorded.
	Note func(live, next *jsondoc.Doc) error

	// Delete deletes an instance as a client would: it respects finalizers. It is no error if the
	// instance is gone already.
	Delete func(ctx context.Context, k *kind.Kind, namespace, name string) error

	making   sync.Once
	follower *follow.Follower[cache.Event] // see definitions

	mu   sync.Mutex
	defs map[string]*definition // by name
	used map[string]crd.Names   // the names granted in a group, as far as they were needed

	run      context.Context // nil before Begin
	finisher sync.WaitGroup
}

// definition has the state of a definition besides its Kind.
type definition struct {
	name, group, uid string
	rev              int64
	asked, granted   apiextv1.CustomResourceDefinitionNames
	refusal          *kind.Refusal // why it is never served; nil if it can be
	kind             *kind.Kind    // nil if it is not served
	leaving          bool          // being deleted, and the controller has to finish it
	finishing        bool          // a goroutine finishes it
	retries          int           // failed writes in a row
}

// Sync reconciles every stored definition: afterwards all that are served are in the registry. It
// must not be called while Run runs.
func (c *Controller) Sync(ctx context.Context) error { return c.definitions().Sync(ctx) }

// definitions returns the follower of the definitions.
func (c *Controller) definitions() *follow.Follower[cache.Event] {
	c.making.Do(func() {
		c.follower = &follow.Follower[cache.Event]{Source: follow.Objects(c.Cache.Resource(crd.Prefix)),
			Handler: handler{c}, Logger: c.logger(), Name: "definitions"}
	})
	return c.follower
}

// handler is the Controller as a follow.Handler.
type handler struct{ *Controller }

// Reset implements follow.Handler: it reconciles all definitions, and forgets those that are gone.
func (c handler) Reset(ctx context.Context, listed iter.Seq2[*cache.Event, error]) error {
	var objects []*cache.Object
	for e, err := range listed {
		if err != nil {
			return err
		}
		objects = append(objects, e.Object)
	}
	parsed := c.parseAll(objects)

	c.mu.Lock()
	defer c.mu.Unlock()
	if c.defs == nil {
		c.defs = map[string]*definition{}
	}
	present := map[string]bool{}
	for i, stored := range parsed {
		if stored == nil {
			continue
		}
		present[stored.Definition.Name] = true
		c.track(stored.Definition, objects[i].Rev)
	}
	for _, name := range slices.Sorted(maps.Keys(c.defs)) {
		if !present[name] {
			c.gone(ctx, name)
		}
	}
	for i, stored := range parsed {
		if stored == nil {
			continue
		}
		// A definition that waited for the names of another one has been reconciled together with
		// it. The parsed state is outdated then.
		if d := c.defs[stored.Definition.Name]; d != nil && d.rev == objects[i].Rev {
			c.reconcile(ctx, stored, objects[i].Raw)
		}
	}
	return ctx.Err()
}

// Change implements follow.Handler.
func (c handler) Change(ctx context.Context, events []cache.Event) {
	for i := range events {
		c.handle(ctx, &events[i])
	}
}

// Wait waits until a definition is served as it was at a revision, and its conditions are stored,
// or until ctx ends. It does not wait before Begin.
func (c *Controller) Wait(ctx context.Context, rev int64) {
	_ = c.definitions().Wait(ctx, rev) // the waiting request goes on in any case
}

// parseAll parses stored definitions, some at a time. The result has nil for definitions that must
// not be read.
func (c *Controller) parseAll(objects []*cache.Object) []*crd.Stored {
	parsed := make([]*crd.Stored, len(objects))
	var group sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, o := range objects {
		slots <- struct{}{}
		group.Go(func() {
			parsed[i] = c.parse(o)
			<-slots
		})
	}
	group.Wait()
	return parsed
}

func (c *Controller) parse(o *cache.Object) *crd.Stored {
	stored, err := c.Compiler.ParseStored(o.Raw)
	if err != nil {
		c.logger().Error("definition cannot be read", "key", o.Key, "error", err)
		return nil
	}
	if name := stored.Definition.Name; o.Key != key(name) {
		c.logger().Error("definition has the name of another one", "key", o.Key, "name", name)
		return nil
	}
	return stored
}

// Begin continues with definitions that were being deleted. From now on Wait waits. Run must be
// called next, with the same context.
func (c *Controller) Begin(ctx context.Context) {
	c.definitions().Begin(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.run = ctx
	for _, d := range c.defs {
		c.finish(d)
	}
}

// Run follows the definitions until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	defer c.finisher.Wait()
	return c.definitions().Run(ctx)
}

func (c *Controller) handle(ctx context.Context, e *cache.Event) {
	if e.Type == cache.Deleted {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.gone(ctx, strings.TrimPrefix(e.Object.Key, crd.Prefix+"/"))
		return
	}
	c.mu.Lock()
	d := c.defs[strings.TrimPrefix(e.Object.Key, crd.Prefix+"/")]
	known := d != nil && d.rev >= e.Object.Rev
	c.mu.Unlock()
	if known {
		c.rebase(d, e.Object)
		return // our own write
	}
	stored := c.parse(e.Object)
	if stored == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.track(stored.Definition, e.Object.Rev)
	c.reconcile(ctx, stored, e.Object.Raw)
}

// rebase makes a kind read its schemas from the text in the cache, which is there anyway, if that
// text is the controller's own write.
func (c *Controller) rebase(d *definition, o *cache.Object) {
	stored := c.parse(o)
	c.mu.Lock()
	defer c.mu.Unlock()
	if stored != nil && d.kind != nil && d.uid == string(stored.Definition.UID) && d.kind.Generation == stored.Definition.Generation {
		crd.Rebase(d.kind, stored)
	}
}

func (c *Controller) logger() *slog.Logger {
	if c.Logger == nil {
		return slog.Default()
	}
	return c.Logger
}

// isGone reports whether a compare-and-swap failed because of another writer. Its change will be,
// or has been, an event.
func isGone(err error) bool {
	var changed *store.Changed
	return errors.As(err, &changed) || errors.Is(err, store.ErrNotFound)
}

// key is the store key of a definition.
func key(name string) string { return crd.Prefix + "/" + name }

// retryAfter returns the pause before the next attempt after n failures.
func retryAfter(n int) time.Duration {
	return min(10*time.Millisecond<<min(n, 12), 30*time.Second)
}
