// Package loop is how controllers work: they look at everything there is, then at whatever changes, and try again what failed.
//
// # Model
//
// A [Loop] follows the objects below some prefixes of the store (package cache/follow). Each object that is listed, and each change,
// is shown to See, which says by key what there is to be done ([Loop.Add], [Loop.At]). Work does that, one key after
// another, in the order in which they became due. A key whose work failed is due again after a pause that doubles until it succeeds;
// other keys do not wait for it. When changes were lost, everything is listed again. Nothing is looked at in intervals.
//
// # Invariants
//
//   - Work reads a state at least as new as what was listed, or has changed, from the store and from the cache alike.
//   - What is listed is the state of one revision, and See is shown every change after it, in order, each once.
//   - See and Work are called by one goroutine, that of Run.
//
// What is due belongs to keys, so a controller has to find out from the state there is what is to be done: any number of servers may
// run the same one, and nothing is lost by starting anew. [Loop.Run] is the function to call; [Load] reads an object in Work.
package loop

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/cache/follow"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/status"
	"github.com/keelson-io/keelson/store"
)

// The pauses before what failed is tried again grow from the first to the last.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// Loop is the work of one controller. Its fields are set before Run.
type Loop struct {
	Cache  *cache.Cache
	Store  store.Store
	Logger *slog.Logger
	Name   string // of the controller, for the log

	// List are the prefixes below which everything is listed. Each ends with a slash.
	List []string
	// Wants says which changes are to be seen; nil: those below the prefixes of List. It is called for every change of the store, by
	// another goroutine.
	Wants func(*store.Event) bool
	// Begin is called before everything is listed, the first time or again; nil if nothing is to be done then.
	Begin func()
	// See notes what an object, or a change, asks for.
	See func(*Change)
	// Work does what is due for a key.
	Work func(ctx context.Context, key string) error

	Now func() time.Time // nil: time.Now

	due dues
}

// Change is what has happened to a key.
type Change struct {
	store.Event
	Listed bool // nothing has: the object was there when everything was listed
}

// Add says that there is something to be done for a key, at once.
func (l *Loop) Add(key string) { l.due.put(key, time.Time{}) }

// At says that there is something to be done for a key at a time, in place of when it was due.
func (l *Loop) At(key string, when time.Time) { l.due.put(key, when) }

// By says that there is something to be done for a key at a time, or when it is due if that is before.
func (l *Loop) By(key string, when time.Time) {
	if e := l.due.at[key]; e == nil || when.Before(e.when) {
		l.due.put(key, when)
	}
}

// Drop says that there is nothing to be done for a key.
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

// shown is the Loop as a follow.Handler.
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

// Change implements follow.Handler.
func (l shown) Change(_ context.Context, events []store.Event) {
	for i := range events {
		l.See(&Change{Event: events[i]})
	}
}

// now is the time.
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

// work does what is due by now. What is added meanwhile is done, too; what fails is due later.
func (l *Loop) work(ctx context.Context) {
	now := l.now()
	for e := l.due.first(); e != nil && !e.when.After(now) && ctx.Err() == nil; e = l.due.first() {
		l.due.take(e)
		err := l.Work(ctx, e.key)
		if err == nil {
			continue
		}
		l.tell(ctx, "controller did not finish, trying again", err, "key", e.key)
		e.retry = longer(e.retry)
		l.due.again(e, l.now().Add(e.retry))
	}
}

func longer(retry time.Duration) time.Duration {
	return min(max(2*retry, firstRetry), lastRetry)
}

// tell logs an error: only for who wants to know it if somebody else was faster.
func (l *Loop) tell(ctx context.Context, msg string, err error, args ...any) {
	if ctx.Err() != nil {
		return
	}
	level := slog.LevelWarn
	if Overtaken(err) {
		level = slog.LevelDebug
	}
	l.Logger.Log(ctx, level, msg, append([]any{"controller", l.Name, "error", err}, args...)...)
}

// Overtaken reports whether an error says that the object has gone or changed in the meantime.
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

// UnlessGone forgives that an object is not there any more.
func UnlessGone(err error) error {
	if err != nil && status.From(err).Reason == metav1.StatusReasonNotFound {
		return nil
	}
	return err
}

// Load reads an object from the store, nil if it is not there. Who called releases its document.
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

// Place is the namespace and name in a key of a namespaced kind, or of what is below a namespace of it.
func Place(k *kind.Kind, key string) (namespace, name string) {
	namespace, name, _ = strings.Cut(strings.TrimPrefix(key, k.StoragePrefix+"/"), "/")
	return namespace, name
}
