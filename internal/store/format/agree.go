package format

// This file has the record in a store, which servers of several releases may share.

import (
	"context"
	"errors"

	"github.com/keelson-io/keelson/internal/store"
)

// Key is where a store has its record.
const Key = "keelson/format"

// Agree checks the record of a store, and writes own there if the store has an older record or
// none. Servers of two releases share a store during an upgrade: own.Minimum must be a format that
// the release before knows. A record is never lowered.
func Agree(ctx context.Context, st store.Store, what string, own Record) error {
	for {
		item, err := st.Get(ctx, Key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if err != nil { // a store without a record has the first format
			_, err = st.Create(ctx, Key, own.bytes())
			if errors.Is(err, store.ErrExists) {
				continue
			}
			return err
		}
		r, err := Parse(item.Value)
		if err != nil {
			return err
		}
		if err := r.Check(what, own.Format); err != nil {
			return err
		}
		if r.Format >= own.Format && r.minimum() >= own.minimum() {
			return nil
		}
		_, err = st.Update(ctx, Key, own.bytes(), item.Rev)
		var changed *store.Changed
		if !errors.As(err, &changed) {
			return err
		}
	}
}

// Follow returns when another server has raised the record beyond what this release may use, with
// the *NewerError, or when ctx ends, with nil. Errors of the store are not reported here: watching
// is tried again when the caller calls Follow again.
func Follow(ctx context.Context, st store.Store, what string, own Record) error {
	for ctx.Err() == nil {
		item, err := st.Get(ctx, Key)
		after := item.Rev
		switch {
		case err == nil:
			if r, err := Parse(item.Value); err == nil {
				if err := r.Check(what, own.Format); err != nil {
					return err
				}
			}
		case errors.Is(err, store.ErrNotFound):
			if after, err = st.Revision(ctx); err != nil {
				return nil
			}
		default:
			return nil
		}
		if !awaitChange(ctx, st, after) {
			return nil
		}
	}
	return nil
}

// awaitChange waits until the record changes after a revision, or that revision has been compacted.
// It reports whether the record is to be read again.
func awaitChange(ctx context.Context, st store.Store, after int64) bool {
	w, err := st.Watch(ctx, Key, after)
	if err != nil {
		return errors.Is(err, store.ErrCompacted)
	}
	defer w.Close()
	for {
		b, err := w.Next(ctx)
		if err != nil {
			return errors.Is(err, store.ErrCompacted)
		}
		if len(b.Events) > 0 {
			return true
		}
	}
}
