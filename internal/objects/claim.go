package objects

import (
	"context"
	"errors"

	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file is about what only one object may have, such as the addresses of services. It is claimed
// before an object is validated. It is given back if the object was not stored, or when the object
// is gone.

// Claimer gives objects of a kind what only one of them may have.
type Claimer interface {
	// Claim completes an object that is to be created, or to replace old. The caller calls confirm with
	// whether the object was stored, unless that is not known; confirm may be nil.
	Claim(ctx context.Context, next, old *jsondoc.Doc, dryRun bool) (confirm func(stored bool), err error)
	// Release gives back what a deleted object had.
	Release(gone *jsondoc.Doc)
}

// claim is what an object that is about to be stored was given. The zero value is nothing.
type claim struct{ confirm func(stored bool) }

// end confirms the claim of a write that returned err. Later calls do nothing.
func (c *claim) end(err error) {
	confirm := c.confirm
	if confirm == nil {
		return
	}
	c.confirm = nil
	if err == nil || notWritten(err) {
		confirm(err == nil)
	}
}

// claims reports whether objects of the kind are given something.
func (w *write) claims() bool {
	return w.ref.behavior().Allocates && w.Claimer != nil
}

// claim gives an object what it needs; old is nil for a new one. c is ended in any case.
func (w *write) claim(c *claim, next, old *jsondoc.Doc, dryRun bool) error {
	if !w.claims() {
		return nil
	}
	confirm, err := w.Claimer.Claim(w.ctx, next, old, dryRun)
	c.confirm = confirm
	return StoreError(err)
}

// release gives back what a deleted object had.
func (w *write) release(gone *jsondoc.Doc) {
	if w.claims() {
		w.Claimer.Release(gone)
	}
}

// notWritten reports whether an error of a write means that nothing was written, and nothing will
// be.
func notWritten(err error) bool {
	_, unknown := errors.AsType[*unknownOutcome](err)
	return !unknown && !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrClosed) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}
