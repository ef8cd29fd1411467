// Package loop runs the work of controllers: on all objects at first, then on those that change,
// and again on those whose work failed.
//
// # Model
//
// A [Loop] follows the objects below some prefixes of the store (package internal/cache/follow). It passes
// each listed object and each change to See, which schedules work by key ([Loop.Add], [Loop.At]).
// Work does the work of one key after another, in the order in which they become due. A key whose
// work failed is due again after a pause that doubles until the work succeeds; other keys do not
// wait for it. After a loss of changes, all objects are listed again. Nothing is polled.
//
// # Invariants
//
//   - Work reads a state, from the store or the cache, that is at least as new as the listed
//     objects and the changes that See got.
//   - The listed objects are the state of one revision. See gets every change after it once, in
//     order.
//   - See and Work are called by one goroutine, that of Run.
//
// Work gets only a key, so that it has to find out from the present state what it must do.
// Therefore any number of servers can run the same controller, and a restart loses nothing.
// [Loop.Run] is the function to call; [Load] reads an object in Work.
package loop

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/cache/follow"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// The pauses after failed work grow from the first to the last.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// Loop runs the work of one controller. Its fields are set before Run.
type Loop struct {
	Cache  *cache.Cache
	Store  store.Store
	Logger *slog.Logger
	Name   string // of the controller, for the log

	// List has the prefixes whose objects are listed and followed. Each ends with a slash.
	List []string
	// Wants selects the changes that See gets; nil: those below the prefixes of List. Another
	// goroutine calls it, for every change of the store.
	Wants func(*store.Event) bool
	// Begin is called before the objects are listed, the first time and again; it may be nil.
	Begin func()
	// See schedules the work for a listed object or a change.
	See func(*Change)
	// Work does the work of a key.
	Work func(ctx context.Context, key string) error

	Now func() time.Time // nil: time.Now

	due dues
}

// Change is what has happened to a key.
type Change struct {
	store.Event
	Listed bool // nothing has changed: the object was there when the objects were listed
}

// Add makes a key due at once.
func (l *Loop) Add(key string) { l.due.put(key, time.Time{}) }

// At makes a key due at a time, in place of the time before.
func (l *Loop) At(key string, when time.Time) { l.due.put(key, when) }

// By makes a key due at a time, or at the time before if that is earlier.
func (l *Loop) By(key string, when time.Time) {
	if e := l.due.at[key]; e == nil || when.Before(e.when) {
		l.due.put(key, when)
	}
}

// Drop cancels the work of a key.
func (l *Loop) Drop(key string) { l.due.drop(key) }

// Run works until ctx ends.
func (l *Loop) Run(ctx context.Context) {
	f := &follow.Follower[store.Event]{
		Source: follow.Keys(l.Cache, l.Store, l.List, l.Wants), Handler: shown{l}, Logger: l.Logger, Name: l.Name,
	}
	defer f.Close()
	for ctx.Err() == nil {
		if f.Step(ctx, l.untilDue()) != nil {
			return
		}
		l.work(ctx)
	}
}

// shown is a Loop in the form of a follow.Handler.
type shown struct{ *Loop }

// Reset implements follow.Handler.
func (l shown) Reset(_ context.Context, listed iter.Seq2[*store.Event, error]) error {
	if l.Begin != nil {
		l.Begin()
	}
	for e, err := range listed {
		if err != nil {
			return err
		}
		l.See(&Change{Event: *e, Listed: true})
	}
	return nil
}

// Change is a change of a key, or a listed object.
func (l shown) Change(_ context.Context, events []store.Event) {
	for i := range events {
		l.See(&Change{Event: events[i]})
	}
}

// now returns the current time.
func (l *Loop) now() time.Time {
	if l.Now != nil {
		return l.Now()
	}
	return time.Now()
}

// untilDue returns the time until the next key is due, negative if there is none.
func (l *Loop) untilDue() time.Duration {
	e := l.due.first()
	if e == nil {
		return -1
	}
	return max(0, e.when.Sub(l.now()))
}

// work does the work of the keys that are due, also of those that become due meanwhile. A key whose
// work fails is due again later.
func (l *Loop) work(ctx context.Context) {
	now := l.now()
	for e := l.due.first(); e != nil && !e.when.After(now) && ctx.Err() == nil; e = l.due.first() {
		l.due.remove(e)
		err := l.Work(ctx, e.key)
		if err == nil {
			continue
		}
		l.logError(ctx, "controller did not finish, trying again", err, "key", e.key)
		e.retry = longer(e.retry)
		l.due.again(e, l.now().Add(e.retry))
	}
}

// longer returns the pause after another failure.
func longer(retry time.Duration) time.Duration {
	return min(max(2*retry, firstRetry), lastRetry)
}

// logError logs an error. That another writer was faster is logged for debugging only.
func (l *Loop) logError(ctx context.Context, msg string, err error, args ...any) {
	if ctx.Err() != nil {
		return
	}
	level := slog.LevelWarn
	if Overtaken(err) {
		level = slog.LevelDebug
	}
	l.Logger.Log(ctx, level, msg, append([]any{"controller", l.Name, "error", err}, args...)...)
}

// Overtaken reports whether an error means that the object is gone or has changed meanwhile.
func Overtaken(err error) bool {
	var changed *store.Changed
	if err == nil || errors.As(err, &changed) || errors.Is(err, store.ErrNotFound) {
		return err != nil
	}
	switch status.From(err).Reason {
	case metav1.StatusReasonNotFound, metav1.StatusReasonConflict:
		return true
	}
	return false
}

// UnlessGone returns nil for the error that an object is gone, and other errors unchanged.
func UnlessGone(err error) error {
	if err != nil && status.From(err).Reason == metav1.StatusReasonNotFound {
		return nil
	}
	return err
}

// Load reads an object from the store. It returns nil if there is none. The caller releases the
// object's document.
func Load(ctx context.Context, s store.Store, k *kind.Kind, key string) (*meta.Object, error) {
	item, err := s.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	d := jsondoc.Get()
	if err := k.Storage.Load(d, item.Value, item.Rev); err != nil {
		d.Release()
		return nil, err
	}
	return &meta.Object{Doc: d}, nil
}

// Place returns the namespace and the name in a key of a namespaced kind, also in a key of
// something below such an object.
func Place(k *kind.Kind, key string) (namespace, name string) {
	namespace, name, _ = strings.Cut(strings.TrimPrefix(key, k.StoragePrefix+"/"), "/")
	return namespace, name
}
