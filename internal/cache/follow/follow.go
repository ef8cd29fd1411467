// Package follow shows a handler everything that a source holds, and then every change of it.
//
// # Model
//
// A [Follower] lists its [Source] and reads the changes after that list. It shows both to a
// [Handler], which keeps whatever it needs of them. There are three sources: [Objects] of one
// resource of the cache, [Keys] of the store below some prefixes, and a [Value] that is replaced,
// such as the snapshot of all kinds.
//
// When the source cannot be listed, the follower tries again after a pause that doubles. When a
// watch is lost, it resumes where the watch ended. When changes were lost, it lists everything
// again. It polls nothing.
//
// # Invariants
//
//   - A list is the state of one revision. The handler is shown every change after that revision
//     once, in order, until the next list.
//   - One goroutine calls the handler: that of Sync, Step or Run, which are not called at the same
//     time.
//   - [Follower.Shown] is raised after the handler has returned. So after [Follower.Wait] the
//     handler has seen everything up to that revision.
//
// [Follower.Sync] and [Follower.Run] are the functions to call.
package follow

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/keelson-io/keelson/internal/cache"
)

// Source is a state that changes from revision to revision. One follower uses it.
type Source[T any] interface {
	// List calls each with everything that there is, as of the revision that it returns. It ends
	// with the first error of each. Next goes on after that revision.
	List(ctx context.Context, each func(*T) error) (rev int64, err error)
	// Next waits for changes after those that List and Next have returned. It returns them in
	// order, and the revision up to which nothing is missing. The slice is valid until the next
	// call. cache.ErrExpired means that changes were lost and List comes next; cache.ErrClosed that
	// there will be no more. After any other error Next may be called again.
	Next(ctx context.Context) ([]T, int64, error)
	// Newest returns the revision of the newest change that readers of the source can see. Any
	// goroutine may call it.
	Newest(ctx context.Context) (int64, error)
	// Close frees what the source holds. List may open it again.
	Close()
}

// Handler is shown what a follower reads.
type Handler[T any] interface {
	// Reset replaces what the handler knows by the listed objects. It reads the whole sequence. If
	// that yields an error, it is the last element; Reset returns it, and is called again later.
	Reset(ctx context.Context, listed iter.Seq2[*T, error]) error
	// Change shows some changes, in order. The slice is valid until Change returns.
	Change(ctx context.Context, changes []T)
}

// Follower shows a Handler a Source. Its exported fields are set before the first call.
type Follower[T any] struct {
	Source  Source[T]
	Handler Handler[T]
	Logger  *slog.Logger
	Name    string // of the follower, for the log

	listed bool          // the handler knows a list and the changes since then
	retry  time.Duration // the last pause after a failure; 0 after success
	resume time.Time     // nothing is tried before then

	mu    sync.Mutex
	run   context.Context // that of Begin; nil before
	shown int64           // the handler knows everything up to this revision
	moved chan struct{}   // closed when shown is raised; nil: nobody waits
}

// The pauses after failures grow from the first to the last.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
)

// ErrStopped means that nothing more will be shown: the follower has stopped, or has not begun.
var ErrStopped = errors.New("changes are not followed")

// Sync lists the source once and shows the list. It does not try again.
func (f *Follower[T]) Sync(ctx context.Context) error {
	f.listed = false
	return f.list(ctx)
}

// Begin makes Wait wait from now on, until ctx ends. Run, or Step, comes next with the same
// context. Run calls Begin if nobody has.
func (f *Follower[T]) Begin(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.run = ctx
}

// Run shows everything until ctx ends. It begins with a list if Sync has not made one. The error is
// cache.ErrClosed if the source has ended before ctx.
func (f *Follower[T]) Run(ctx context.Context) error {
	f.mu.Lock()
	if f.run == nil {
		f.run = ctx
	}
	f.mu.Unlock()
	defer f.Close()
	for ctx.Err() == nil {
		if err := f.Step(ctx, -1); err != nil {
			return err
		}
	}
	return nil
}

// Close stops the follower. A caller of Step calls it at the end.
func (f *Follower[T]) Close() {
	f.Source.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.run, f.listed = nil, false
	f.wake()
}

// Step shows a list, if there has to be one, or waits for the next changes and shows them. It
// returns after that, after wait (if that is not negative), or when ctx ends. The error is
// cache.ErrClosed if the source has ended.
func (f *Follower[T]) Step(ctx context.Context, wait time.Duration) error {
	bounded, cancel := ctx, func() {}
	if wait >= 0 {
		bounded, cancel = context.WithTimeout(ctx, wait)
	}
	defer cancel()
	if !f.paused(bounded) {
		return nil
	}
	if !f.listed {
		if err := f.list(ctx); err != nil && ctx.Err() == nil {
			f.failed(ctx, "objects cannot be listed, trying again", err)
		}
		return nil
	}
	changes, rev, err := f.Source.Next(bounded)
	switch {
	case err == nil:
		f.retry = 0
		if len(changes) > 0 {
			f.Handler.Change(ctx, changes)
		}
		f.reach(rev)
	case errors.Is(err, cache.ErrExpired):
		f.listed = false
		f.log(ctx, slog.LevelInfo, "changes were lost, listing everything again", err)
	case bounded.Err() != nil:
	case errors.Is(err, cache.ErrClosed):
		return err
	default:
		f.failed(ctx, "watch was lost, resuming it", err)
	}
	return nil
}

// paused waits until something may be tried again. It returns false if ctx ends before.
func (f *Follower[T]) paused(ctx context.Context) bool {
	if f.retry == 0 {
		return true
	}
	pause := time.NewTimer(time.Until(f.resume))
	defer pause.Stop()
	select {
	case <-pause.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// failed logs an error and sets the pause after it.
func (f *Follower[T]) failed(ctx context.Context, msg string, err error) {
	f.retry = min(max(2*f.retry, firstPause), lastPause)
	f.resume = time.Now().Add(f.retry)
	f.log(ctx, slog.LevelWarn, msg, err)
}

func (f *Follower[T]) log(ctx context.Context, level slog.Level, msg string, err error) {
	f.Logger.Log(ctx, level, msg, "follower", f.Name, "error", err)
}

// errUnread means that a handler did not read the whole list.
var errUnread = errors.New("the list was not read to its end")

// list shows everything that there is.
func (f *Follower[T]) list(ctx context.Context) error {
	rev, unread := int64(0), errUnread
	listed := func(yield func(*T, error) bool) {
		rev, unread = f.Source.List(ctx, func(object *T) error {
			if !yield(object, nil) {
				return errUnread
			}
			return nil
		})
		if unread != nil && !errors.Is(unread, errUnread) {
			yield(nil, unread)
		}
	}
	if err := f.Handler.Reset(ctx, listed); err != nil {
		return err
	}
	if unread != nil {
		return unread
	}
	f.listed, f.retry = true, 0
	f.reach(rev)
	return nil
}

// reach records that the handler knows everything up to a revision.
func (f *Follower[T]) reach(rev int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if rev > f.shown {
		f.shown = rev
		f.wake()
	}
}

// wake wakes the callers of Wait. The lock is held.
func (f *Follower[T]) wake() {
	if f.moved != nil {
		close(f.moved)
		f.moved = nil
	}
}

// Shown returns the revision up to which the handler knows everything.
func (f *Follower[T]) Shown() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.shown
}

// Wait waits until the handler knows everything up to rev, which is the revision of a change that
// the source shows. The error is ErrStopped if the follower does not run, or the context's.
func (f *Follower[T]) Wait(ctx context.Context, rev int64) error {
	for {
		f.mu.Lock()
		switch {
		case f.shown >= rev:
			f.mu.Unlock()
			return nil
		case f.run == nil || f.run.Err() != nil:
			f.mu.Unlock()
			return ErrStopped
		}
		if f.moved == nil {
			f.moved = make(chan struct{})
		}
		moved, stopped := f.moved, f.run.Done()
		f.mu.Unlock()
		select {
		case <-moved:
		case <-stopped:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// CatchUp waits until the handler knows everything that readers of the source could see when it was
// called. The errors are those of Wait and of the source.
func (f *Follower[T]) CatchUp(ctx context.Context) error {
	rev, err := f.Source.Newest(ctx)
	if err != nil {
		return err
	}
	return f.Wait(ctx, rev)
}
