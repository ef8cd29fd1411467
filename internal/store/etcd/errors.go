package etcd

// This file converts etcd's errors to those of the store.

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	etcderrors "go.etcd.io/etcd/server/v3/etcdserver/errors"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/keelson-io/keelson/internal/store"
)

// errCompare means that the comparison of a transaction failed. It never leaves the package.
var errCompare = errors.New("comparison failed")

// explain converts the error of an etcd call made under ctx.
func (c *client) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	// Errors arrive from the network as texts, which rpctypes converts to values.
	var remote rpctypes.EtcdError
	if !errors.As(err, &remote) {
		errors.As(rpctypes.Error(err), &remote)
	}
	is := func(local, wire error) bool {
		return errors.Is(err, local) || remote != (rpctypes.EtcdError{}) && errors.Is(remote, rpctypes.Error(wire))
	}
	switch {
	case is(mvcc.ErrCompacted, rpctypes.ErrGRPCCompacted):
		return store.ErrCompacted
	case is(mvcc.ErrFutureRev, rpctypes.ErrGRPCFutureRev):
		return store.ErrFuture
	case is(etcderrors.ErrNoSpace, rpctypes.ErrGRPCNoSpace):
		return store.ErrNoSpace
	case is(etcderrors.ErrRequestTooLarge, rpctypes.ErrGRPCRequestTooLarge):
		return store.ErrTooLarge
	case status.Code(err) == codes.ResourceExhausted && !is(etcderrors.ErrTooManyRequests, rpctypes.ErrGRPCRequestTooManyRequests):
		return store.ErrTooLarge // the message exceeded gRPC's limit
	}
	select {
	case <-c.closed:
		return store.ErrClosed
	case <-c.failed():
		return c.failure()
	default:
		return unavailable("%w", plain(err))
	}
}

// plainError is a gRPC error with a shorter text.
type plainError struct {
	text string
	err  error
}

// Error returns the text without the text of the wrapped error.
func (e *plainError) Error() string { return e.text }

// Unwrap returns the cause, for errors.Is and errors.As.
func (e *plainError) Unwrap() error { return e.err }

// connectionError matches gRPC's description of a failed connection.
var connectionError = regexp.MustCompile(`^connection error: desc = "(?:transport: )?(?:Error while dialing: )?(.*)"$`)

// plain removes gRPC's framing from the text of an error, and the local end of the connection.
func plain(err error) error {
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	text := s.Message()
	if m := connectionError.FindStringSubmatch(text); m != nil {
		text = m[1]
	}
	// Only the text tells that the server accepted the connection and then sent no HTTP/2 settings.
	// In google.golang.org/grpc v1.83.2, readServerPreface returns an error with a type, but
	// pickerWrapper.pick makes a status of its text, with the code Unavailable and without a cause
	// or details, as for any failed connection.
	if strings.HasPrefix(text, "error reading server preface: ") {
		text = "etcd does not answer"
	}
	return &plainError{text, err}
}
