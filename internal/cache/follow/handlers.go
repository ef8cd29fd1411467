package follow

import (
	"context"
	"iter"
)

// Each is a Handler that treats listed objects and changes alike: it is called with each of them.
type Each[T any] func(ctx context.Context, object *T)

// Reset implements Handler.
func (fn Each[T]) Reset(ctx context.Context, listed iter.Seq2[*T, error]) error {
	for object, err := range listed {
		if err != nil {
			return err
		}
		fn(ctx, object)
	}
	return nil
}

// Change implements Handler.
func (fn Each[T]) Change(ctx context.Context, changes []T) {
	for i := range changes {
		fn(ctx, &changes[i])
	}
}
