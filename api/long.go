package api

import (
	"math"
	"net/http"
	"time"

	"github.com/keelson-io/keelson/authn"
)

// This file bounds what long-running requests hold. They have no deadline.

// maxUserWatches is how many long-running requests one user may have. Kubernetes bounds them by
// connection only.
const maxUserWatches = 16_384

// watchBytes is what a watch holds whose client does not read: a piece, what its connection holds
// back, and the connection.
const watchBytes = 128 << 10

// watchesWithin returns how many long-running requests all users, and one user, may have in so many
// bytes. Without a limit, only the watches of one user are bounded.
func watchesWithin(bytes int64) (most, share int64) {
	if bytes == math.MaxInt64 {
		return bytes, maxUserWatches
	}
	most = bytes / watchBytes
	return most, min(maxUserWatches, most/2)
}

// cutStalls makes w the writer of the request's answer, and ends the answer if the client does not
// read it.
func (q *request) cutStalls(w http.ResponseWriter) {
	q.cut = newCutter(w, StallLimit(q.h.Timeout))
	q.w = q.cut
}

// admitLongRunning counts a long-running request against its user's quota, and removes its deadlines.
func admitLongRunning(q *request) error {
	if !q.long {
		return nil
	}
	if err := q.dropBody(); err != nil {
		return err
	}
	q.shedHeaders()
	if !q.h.watches.acquire(q.payer(), 1, q.isAdministrators()) {
		return tooMany{1}
	}
	q.watching = true
	c := http.NewResponseController(q.w)
	// The error of a writer without deadlines is not interesting.
	c.SetReadDeadline(time.Time{})
	c.SetWriteDeadline(time.Time{})
	if !authn.IsWebSocket(q.r) { // the handshake needs the connection, which the HTTP server checks for stalls
		q.cutStalls(q.w)
	}
	return nil
}
