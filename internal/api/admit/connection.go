package admit

import "context"

// This file is how the HTTP server learns whose connections it has.

// Connection is the HTTP server's record of the connection that a request arrived on.
type Connection interface {
	// Admit records the caller of a request, and returns whether the connection may stay.
	Admit(Caller) Standing
}

// Caller identifies the sender of a request.
type Caller struct {
	User          string
	Anonymous     bool
	Administrator bool // a member of system:masters
	Probe         bool // the request is for a health endpoint
}

// Standing decides whether a connection is kept, closed or refused.
type Standing uint8

// The standings of connections.
const (
	Stays   Standing = iota // it is served
	Closes                  // this request is answered, and the connection is closed
	Refused                 // there are too many: the request is refused, and the connection is closed
)

// connectionKey is the key of the Connection in a request's context.
type connectionKey struct{}

// WithConnection returns the context for the requests on a connection.
func WithConnection(ctx context.Context, c Connection) context.Context {
	return context.WithValue(ctx, connectionKey{}, c)
}

// ConnectionOf returns the connection in a request's context, nil if there is none.
func ConnectionOf(ctx context.Context) Connection {
	c, _ := ctx.Value(connectionKey{}).(Connection)
	return c
}
