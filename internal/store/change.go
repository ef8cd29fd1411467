package store

// This file changes single values.

import (
	"context"
	"errors"
)

// Change makes the value at a key what fn makes of it, whatever other writers do meanwhile, and returns what is
// stored then. fn gets the zero Item if the key does not exist. If it returns nil, nothing is written. It is called
// again after another writer was faster.
//
// known is what the caller knows of the key, nil if nothing. It may be outdated, so that an error that fn returns
// for it counts only if it is the state of the store. That fn itself found a change is not an error: it may delete the
// key, and return the value of the one to create.
//
// Change returns the errors of fn and of the store. After one of the store, the write may have happened.
func Change(ctx context.Context, s Store, key string, known *Item, fn func(now Item) ([]byte, error)) (Item, error) {
	// now is the state that fn is to change. fresh reports that the store had it when Change was called, or later.
	var now Item
	var err error
	fresh := known == nil
	if fresh {
		now, err = current(ctx, s, key)
	} else {
		now = *known
	}
	for err == nil {
		value, failed := fn(now)
		conflict := (*Changed)(nil)
		switch {
		// fn has tried a write of its own, which found another state.
		case errors.As(failed, &conflict):
			now, fresh = conflict.Current, true
			continue
		// The state is outdated, which may be the reason.
		case failed != nil && !fresh:
			fresh = true
			now, err = current(ctx, s, key)
			continue
		case failed != nil || value == nil:
			return now, failed
		}
		// The revision of now is that of the value that may be replaced.
		var rev int64
		if now.Rev == 0 {
			rev, err = s.Create(ctx, key, value)
		} else {
			rev, err = s.Update(ctx, key, value, now.Rev)
		}
		switch {
		case err == nil:
			return Item{Key: key, Value: value, Rev: rev}, nil
		// Another writer was faster. The conflict has what it wrote; a value that is gone is created.
		case errors.As(err, &conflict):
			now, err, fresh = conflict.Current, nil, true
		// It has created the value. This error does not say with what.
		case errors.Is(err, ErrExists):
			fresh = true
			now, err = current(ctx, s, key)
		}
	}
	return Item{}, err
}

// current returns the item at a key, zero if there is none.
func current(ctx context.Context, s Store, key string) (Item, error) {
	item, err := s.Get(ctx, key)
	if errors.Is(err, ErrNotFound) {
		return Item{}, nil
	}
	return item, err
}
