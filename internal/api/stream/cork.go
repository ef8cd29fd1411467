package stream

import "context"

// This file is how a watch's bytes leave: as few pieces as can be.

// Corker is a connection that holds back what is written to it from Cork to
// Uncork, so that it leaves at once.
type Corker interface {
	Cork()
	Uncork() error
}

// corkerKey is what a request's context has its connection's Corker under.
type corkerKey struct{}

// WithCorker returns the context for the requests on a connection.
func WithCorker(ctx context.Context, c Corker) context.Context {
	return context.WithValue(ctx, corkerKey{}, c)
}

// CorkerOf returns the Corker of a request's context; nil if it has none.
func CorkerOf(ctx context.Context) Corker {
	c, _ := ctx.Value(corkerKey{}).(Corker)
	return c
}
