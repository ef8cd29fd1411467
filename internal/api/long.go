package api

import (
	"net/http"
	"time"

	"github.com/keelson-io/keelson/internal/api/stream"
	"github.com/keelson-io/keelson/internal/authn"
)

// This file admits long-running requests. They have no deadline.

// cutStalls makes w the writer of the request's answer, and ends the answer if the client does not
// read it.
func (q *request) cutStalls(w http.ResponseWriter) {
	q.cut = stream.NewCutter(w, stream.StallLimit(q.h.Timeout))
	q.w = q.cut
}

// admitLongRunning counts a long-running request against its user's quota, and removes its deadlines.
func admitLongRunning(q *request) error {
	if !q.long {
		return nil
	}
	if err := q.holds.DropBody(); err != nil {
		return err
	}
	q.holds.ShedHeaders()
	if err := q.holds.CountWatch(); err != nil {
		return err
	}
	c := http.NewResponseController(q.w)
	// The error of a writer without deadlines is not interesting.
	c.SetReadDeadline(time.Time{})
	c.SetWriteDeadline(time.Time{})
	if !authn.IsWebSocket(q.r) { // the handshake needs the connection, which the HTTP server checks for stalls
		q.cutStalls(q.w)
	}
	return nil
}
