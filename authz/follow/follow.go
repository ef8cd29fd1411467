// Package follow keeps what authorizers decide by like the cache: an index of
// roles and bindings, the graph of what nodes need.
//
// A [Follower] shows a [Keeper] all objects of its [Source]s, and then every
// change, in order, as the cache learns of it. It asks for nothing in intervals.
//
// # Invariants
//
//   - After [Follower.Sync] the keeper has seen everything that was in the store
//     when it began.
//   - After [Follower.Wait] it has seen what was written at a revision, so that
//     whoever waits for it before he answers a writer makes decisions follow at
//     once from what has been acknowledged.
//   - An object that cannot be read is shown as one that is gone: it grants
//     nothing.
package follow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/keelson-io/keelson/cache"
)

// Source is where one kind's objects are.
type Source struct {
	Kind     string // such as "Role"
	Objects  *cache.Resource
	Renderer cache.Renderer // for objects that are not stored as JSON
}

// Object is what there is, or is no more, under a key.
type Object struct {
	Namespace string // "" for objects of the cluster
	Name      string
	JSON      []byte // nil if the object is gone
}

// Keeper is what is kept like the cache.
type Keeper interface {
	// Reset says that the objects of a kind are these and no others.
	Reset(kind string, objects []Object) error
	// Change says that some objects of a kind have changed, in order.
	Change(kind string, objects []Object) error
}

// Follower keeps a Keeper like the cache. An error of the keeper is logged and
// ends nothing.
type Follower struct {
	Keeper  Keeper
	Sources []Source // one for each kind
	Logger  *slog.Logger

	positions []int64 // up to where each source has been followed

	mu    sync.Mutex
	shown map[*cache.Resource]int64 // the same, of sources that are being followed
	moved chan struct{}             // closed when one of them moves; nil: nobody waits
}

const retry = 50 * time.Millisecond

// Sync shows what there is.
func (f *Follower) Sync(ctx context.Context) error {
	f.positions = make([]int64, len(f.Sources))
	errs := make([]error, len(f.Sources))
	var all sync.WaitGroup
	for i := range f.Sources {
		all.Go(func() { errs[i] = f.load(ctx, i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// load shows what a source has now.
func (f *Follower) load(ctx context.Context, i int) error {
	s := &f.Sources[i]
	if err := s.Objects.Ready(ctx); err != nil {
		return fmt.Errorf("reading %ss: %w", s.Kind, err)
	}
	snapshot := s.Objects.Snapshot()
	var objects []Object
	snapshot.Ascend("", func(o *cache.Object) bool {
		objects = append(objects, f.read(s, o, false))
		return true
	})
	f.told(s.Kind, f.Keeper.Reset(s.Kind, objects))
	f.positions[i] = snapshot.Rev()
	return nil
}

// Run follows changes until ctx ends. Sync comes first.
func (f *Follower) Run(ctx context.Context) {
	var all sync.WaitGroup
	for i := range f.Sources {
		all.Go(func() {
			for ctx.Err() == nil {
				err := f.follow(ctx, i)
				if ctx.Err() != nil {
					return
				}
				f.Logger.Debug("watch for authorization ended, starting another", "kind", f.Sources[i].Kind, "error", err)
				select {
				case <-ctx.Done():
				case <-time.After(retry):
				}
				if err := f.load(ctx, i); err != nil {
					f.Logger.Warn("objects that authorization depends on cannot be read", "error", err)
				}
			}
		})
	}
	all.Wait()
}

// follow shows changes of one source as they come.
func (f *Follower) follow(ctx context.Context, i int) error {
	s := &f.Sources[i]
	watch, err := s.Objects.Watch(f.positions[i], "")
	if err != nil {
		return err
	}
	defer watch.Close()
	defer f.at(s.Objects, math.MaxInt64) // nobody waits for what is not followed
	f.at(s.Objects, f.positions[i])
	for {
		events, rev, err := watch.Next(ctx)
		if err != nil {
			return err
		}
		objects := make([]Object, len(events))
		for i, e := range events {
			objects[i] = f.read(s, e.Object, e.Type == cache.Deleted)
		}
		f.told(s.Kind, f.Keeper.Change(s.Kind, objects))
		f.positions[i] = rev
		f.at(s.Objects, rev)
	}
}

// Follows reports whether objects are among the sources.
func (f *Follower) Follows(objects *cache.Resource) bool {
	return slices.ContainsFunc(f.Sources, func(s Source) bool { return s.Objects == objects })
}

// at notes up to where objects have been shown.
func (f *Follower) at(objects *cache.Resource, rev int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shown == nil {
		f.shown = map[*cache.Resource]int64{}
	}
	f.shown[objects] = rev
	if f.moved != nil {
		close(f.moved)
		f.moved = nil
	}
}

// Wait waits until the keeper has been shown what was written to objects at the
// revision rev, if these are followed now, or until ctx ends.
func (f *Follower) Wait(ctx context.Context, objects *cache.Resource, rev int64) {
	for {
		moved := f.behind(objects, rev)
		if moved == nil {
			return
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return
		}
	}
}

// CatchUp waits until the keeper has been shown everything that readers of the objects see now, or until ctx ends.
func (f *Follower) CatchUp(ctx context.Context) {
	for i := range f.Sources {
		f.Wait(ctx, f.Sources[i].Objects, f.Sources[i].Objects.Changed())
	}
}

// behind is closed when a source that has not been shown up to rev moves; nil if
// there is nothing to wait for.
func (f *Follower) behind(objects *cache.Resource, rev int64) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at, followed := f.shown[objects]; !followed || at >= rev {
		return nil
	}
	if f.moved == nil {
		f.moved = make(chan struct{})
	}
	return f.moved
}

func (f *Follower) told(kind string, err error) {
	if err != nil {
		f.Logger.Error("objects cannot be read: they grant nothing", "kind", kind, "error", err)
	}
}

func (f *Follower) read(s *Source, o *cache.Object, gone bool) Object {
	out, err := s.read(o)
	if err != nil {
		f.told(s.Kind, fmt.Errorf("%s: %w", o.Key, err))
	}
	if gone {
		out.JSON = nil
	}
	return out
}

// read is an object of the cache; with an error one that is as good as gone.
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
func (f *Follower) Get(ctx context.Context, kind, namespace, name string) (Object, bool, error) {
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
