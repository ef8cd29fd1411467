package api

import (
	"context"
	"errors"
)

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

// send writes and flushes bytes. A client that does not read them in time is cut off.
func (w *watcher) send(b []byte) error {
	w.cut.wait()
	defer w.cut.done()
	if w.corker == nil {
		_, err := w.q.w.Write(b)
		w.flush()
		return err
	}
	w.corker.Cork()
	_, err := w.q.w.Write(b)
	w.flush()
	return errors.Join(err, w.corker.Uncork())
}
