package api

import (
	"context"

	"github.com/keelson-io/keelson/api/admit"
	"github.com/keelson-io/keelson/authn"
)

// This file maps each connection to its user, for the HTTP server.

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

// admitConnection asks the HTTP server whether the connection may stay, now that its user is known.
func admitConnection(q *request) error {
	c := ConnectionOf(q.ctx)
	if c == nil {
		return nil
	}
	caller := Caller{
		User:          q.payer(),
		Anonymous:     q.user.Name == authn.AnonymousUser || q.user.InGroup(authn.Unauthenticated),
		Administrator: q.isAdministrators(),
		Probe:         q.isProbe(),
	}
	switch c.Admit(caller) {
	case Closes:
		q.w.Header().Set("Connection", "close")
	case Refused:
		q.w.Header().Set("Connection", "close")
		return admit.TooMany{After: 1}
	}
	return nil
}
