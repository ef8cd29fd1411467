// Package feed shows authorizers the objects by which they decide: roles and bindings for an index
// of rules, pods and volumes for the graph of what nodes need.
//
// A [Feed] shows a [Keeper] all objects of its [Source]s, and then every change, in order. Each
// source has a follower of its own (package internal/cache/follow).
//
// # Invariants
//
//   - After [Feed.Sync] the keeper has seen everything that was in the store when Sync began.
//   - After [Feed.Wait] it has seen what was written at a revision. A server that waits before it
//     answers a writer decides at once by what it has acknowledged.
//   - An object that cannot be read is shown as one that is gone: it grants nothing.
package feed

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync"

	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/cache/follow"
	"github.com/keelson-io/keelson/kind"
)

// Source is where one kind's objects are.
type Source struct {
	Kind     string // such as "Role"
	Objects  *cache.Resource
	Renderer cache.Renderer // for objects that are not stored as JSON
}

// SourcesOf returns where the objects of some resources are, each of which is a group and a plural: "/pods",
// "rbac.authorization.k8s.io/roles".
func SourcesOf(kinds *kind.Snapshot, cached *cache.Cache, resources ...string) ([]Source, error) {
	var sources []Source
	for _, r := range resources {
		group, plural, _ := strings.Cut(r, "/")
		k := kinds.Lookup(group, plural)
		if k == nil {
			return nil, fmt.Errorf("authorization: %s are not served", plural)
		}
		sources = append(sources, Source{Kind: k.Name, Objects: cached.Resource(k.StoragePrefix), Renderer: k.Storage})
	}
	return sources, nil
}

// Object is the state of a key: an object, or its absence after a deletion.
type Object struct {
	Namespace string // "" for objects of the cluster
	Name      string
	JSON      []byte // nil if the object is gone
}

// Keeper is what is kept like the cache.
type Keeper interface {
	// Reset sets all objects of a kind: there are no others.
	Reset(kind string, objects []Object) error
	// Change reports changes of some objects of a kind, in order.
	Change(kind string, objects []Object) error
}

// Feed keeps a Keeper like the cache. An error of the keeper is logged and ends nothing.
type Feed struct {
	Keeper  Keeper
	Sources []Source // one for each kind
	Logger  *slog.Logger

	making    sync.Once
	followers []*follow.Follower[cache.Event] // of the sources, in their order
}

// all returns the followers of the sources.
func (f *Feed) all() []*follow.Follower[cache.Event] {
	f.making.Do(func() {
		for i := range f.Sources {
			s := &f.Sources[i]
			f.followers = append(f.followers, &follow.Follower[cache.Event]{
				Source: follow.Objects(s.Objects), Handler: handler{f, s}, Logger: f.Logger, Name: "authorization, " + s.Kind,
			})
		}
	})
	return f.followers
}

// Sync shows what there is.
func (f *Feed) Sync(ctx context.Context) error {
	all := f.all()
	errs := make([]error, len(all))
	var group sync.WaitGroup
	for i := range all {
		group.Go(func() {
			if err := all[i].Sync(ctx); err != nil {
				errs[i] = fmt.Errorf("reading %ss: %w", f.Sources[i].Kind, err)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// Run follows changes until ctx ends. Sync comes first.
func (f *Feed) Run(ctx context.Context) {
	var group sync.WaitGroup
	for i, one := range f.all() {
		group.Go(func() {
			if err := one.Run(ctx); err != nil {
				f.Logger.Error("objects that authorization depends on are not followed any more", "kind", f.Sources[i].Kind, "error", err)
			}
		})
	}
	group.Wait()
}

// handler shows the keeper one source. It implements follow.Handler.
type handler struct {
	*Feed
	source *Source
}

// Reset implements follow.Handler.
func (h handler) Reset(_ context.Context, listed iter.Seq2[*cache.Event, error]) error {
	var objects []Object
	for e, err := range listed {
		if err != nil {
			return err
		}
		objects = append(objects, h.read(h.source, e.Object, false))
	}
	h.logError(h.source.Kind, h.Keeper.Reset(h.source.Kind, objects))
	return nil
}

// Change implements follow.Handler.
func (h handler) Change(_ context.Context, events []cache.Event) {
	objects := make([]Object, len(events))
	for i := range events {
		e := &events[i]
		objects[i] = h.read(h.source, e.Object, e.Type == cache.Deleted)
	}
	h.logError(h.source.Kind, h.Keeper.Change(h.source.Kind, objects))
}

// Follows reports whether objects are among the sources.
func (f *Feed) Follows(objects *cache.Resource) bool { return f.follower(objects) != nil }

// follower returns the follower of a source, nil if objects are not among the sources.
func (f *Feed) follower(objects *cache.Resource) *follow.Follower[cache.Event] {
	for i := range f.Sources {
		if f.Sources[i].Objects == objects {
			return f.all()[i]
		}
	}
	return nil
}

// Wait waits until the keeper has been shown what was written to objects at the revision rev, or
// until ctx ends. It does not wait for objects that are not followed now.
func (f *Feed) Wait(ctx context.Context, objects *cache.Resource, rev int64) {
	if one := f.follower(objects); one != nil {
		_ = one.Wait(ctx, rev) // the waiting request goes on in any case
	}
}

// CatchUp waits until the keeper has been shown everything that readers of the objects see now, or until ctx ends.
func (f *Feed) CatchUp(ctx context.Context) {
	for _, one := range f.all() {
		_ = one.CatchUp(ctx) // the waiting request goes on in any case
	}
}

// logError logs an error of the target.
func (f *Feed) logError(kind string, err error) {
	if err != nil {
		f.Logger.Error("objects cannot be read: they grant nothing", "kind", kind, "error", err)
	}
}

// read decodes an object for the target.
func (f *Feed) read(s *Source, o *cache.Object, gone bool) Object {
	out, err := s.read(o)
	if err != nil {
		f.logError(s.Kind, fmt.Errorf("%s: %w", o.Key, err))
	}
	if gone {
		out.JSON = nil
	}
	return out
}

// read returns an object of the cache; with an error one that is as good as gone.
func (s *Source) read(o *cache.Object) (Object, error) {
	var out Object
	var found bool
	if out.Namespace, out.Name, found = strings.Cut(strings.TrimPrefix(o.Key, s.Objects.Prefix()), "/"); !found {
		out.Namespace, out.Name = "", out.Namespace
	}
	out.JSON = o.Raw
	if len(o.Raw) == 0 || o.Raw[0] != '{' {
		view, err := s.Renderer.Render(o.Raw, o.Rev)
		if err != nil {
			out.JSON = nil
			return out, err
		}
		out.JSON = view.JSON
	}
	return out, nil
}

// Get is one object of a kind, as new as every write acknowledged before; false
// if there is none.
func (f *Feed) Get(ctx context.Context, kind, namespace, name string) (Object, bool, error) {
	for i := range f.Sources {
		s := &f.Sources[i]
		if s.Kind != kind {
			continue
		}
		if err := s.Objects.Fresh(ctx); err != nil {
			return Object{}, false, err
		}
		id := name
		if namespace != "" {
			id = namespace + "/" + name
		}
		o, ok := s.Objects.Get(s.Objects.Prefix() + id)
		if !ok {
			return Object{}, false, nil
		}
		out, err := s.read(o)
		return out, err == nil, err
	}
	return Object{}, false, nil
}
