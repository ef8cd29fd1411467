package api

import (
	"context"
	"errors"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/store"
)

// This file is about what objects are given that only one of them may have, such as the addresses of services: it is taken before an object
// is validated, and given back if the object was not stored, or when it is gone.

// Claimer gives objects of a kind what only one of them may have.
type Claimer interface {
	// Claim completes an object that is to be created, or to replace old. Who stores it then says whether it was stored, unless that is
	// not known; settle may be nil.
	Claim(ctx context.Context, next, old *doc.Doc, dryRun bool) (settle func(stored bool), err error)
	// Release gives back what an object had that is gone.
	Release(gone *doc.Doc)
}

// claims reports whether objects of the request's kind are given something.
func (q *request) claims() bool {
	return q.kind.Builtin != nil && q.kind.Builtin.Claims && q.h.Claimer != nil
}

// claim gives an object what it needs; old is nil for a new one.
func (q *request) claim(next, old *doc.Doc, dryRun bool) error {
	if !q.claims() {
		return nil
	}
	settle, err := q.h.Claimer.Claim(q.ctx, next, old, dryRun)
	q.claimed = settle
	return storeError(err)
}

// settled says what became of an object that something was claimed for.
func (q *request) settled(err error) {
	settle := q.claimed
	if settle == nil {
		return
	}
	q.claimed = nil
	if err == nil || notWritten(err) {
		settle(err == nil)
	}
}

// released gives back what an object had that is gone.
func (q *request) released(gone *doc.Doc) {
	if q.claims() {
		q.h.Claimer.Release(gone)
	}
}

// notWritten reports whether an error of a write says that nothing was written, nor will be.
func notWritten(err error) bool {
	open := (*unsettled)(nil)
	return !errors.As(err, &open) && !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrClosed) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}
