package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/keelson-io/keelson/authn"
)

// This file limits how many requests are served at a time. A request holds a slot while the server
// works on it. It holds none while its body arrives or its answer leaves, because a slow client
// decides how long that lasts. Administrators and health endpoints enter when everybody else has to
// wait. Watches have a limit of their own, see long.go.

// The default limits of requests in flight.
const (
	DefaultReads  = 400
	DefaultWrites = 200
)

// inFlight counts the requests of one sort that are being served. One user has at most three
// quarters of the slots, so that others are served however slow that user's requests are. While
// fewer than a quarter of the slots are in use, users are not counted.
type inFlight struct {
	most   int64 // 0: no limit
	now    atomic.Int64
	shared quota // requests that came when a quarter of the slots was in use
}

// setMost sets how many requests are served at a time.
func (c *inFlight) setMost(n int64) {
	c.most, c.shared.most, c.shared.share = n, n-n/4, max(1, n/2)
}

// enter acquires a slot for a user. It reports whether there was one, and whether it counts against
// the user's share. Exempt requests always get one.
func (c *inFlight) enter(user string, exempt bool) (ok, shared bool) {
	n := c.now.Add(1)
	switch {
	case exempt, n <= c.most/4:
		return true, false
	case n <= c.most && c.shared.acquire(user, 1, false):
		return true, true
	}
	c.now.Add(-1)
	return false, false
}

// leave releases a slot.
func (c *inFlight) leave(user string, shared bool) {
	if shared {
		c.shared.release(user, 1)
	}
	c.now.Add(-1)
}

// limitOf returns a configured limit: 0 means the default, a negative one none.
func limitOf(n, standard int) int64 {
	switch {
	case n == 0:
		return int64(standard)
	case n < 0:
		return 0
	}
	return int64(n)
}

// limit lets a request in, or answers that the client has to come back.
func limit(q *request) error {
	if q.classify() {
		return q.enter()
	}
	if q.long || q.isProbe() {
		return nil
	}
	q.slots = &q.h.writes
	switch q.r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		q.slots = &q.h.reads
	}
	if q.slots.most == 0 {
		q.slots = nil
	}
	return q.enter()
}

// enter acquires the request's slot. If there is none, the error is tooMany.
func (q *request) enter() error {
	if q.flow.ticket.Classified() {
		return q.enterFlow()
	}
	if q.slots == nil || q.inSlot {
		return nil
	}
	if q.inSlot, q.slotShared = q.slots.enter(q.payer(), q.isAdministrators()); !q.inSlot {
		return tooMany{1}
	}
	return nil
}

// leave gives the request's slot back, if it holds one.
func (q *request) leave() {
	switch {
	case !q.inSlot:
		return
	case q.flow.ticket.Classified():
		q.flow.ticket.Leave()
	default:
		q.slots.leave(q.payer(), q.slotShared)
	}
	q.inSlot = false
}

// wait runs f, which waits for others, without the request's slot, and takes the slot again. If f fails, the request has its error
// and no slot. All waiting is done here: a request that waits with its slot keeps others out.
func (q *request) wait(f func() error) error {
	held := q.inSlot
	q.leave()
	if err := f(); err != nil || !held {
		return err
	}
	return q.enter()
}

// acquire waits for n bytes of a budget. got is what it has of them, also if there is an error.
func (q *request) acquire(ctx context.Context, b *budget, n int64) (got int64, err error) {
	asked := b.ask(q.payer(), n)
	if !asked.isReady() {
		err = q.wait(func() error { return asked.wait(ctx) })
	}
	if asked.isReady() {
		got = asked.n
	}
	return got, err
}

// answers releases what the request no longer needs once its answer is built and only has to be
// sent: the slot, the unread body and the header.
func (q *request) answers() {
	q.leave()
	q.shedHeaders()
	if q.r.ProtoMajor == 2 && q.r.Body != nil {
		q.r.Body.Close() // drops what has arrived; on HTTP/1.1 nothing has, and Close would read on
	}
}

// payer returns the name that is charged for the request's share of the server's bounds, "" while
// the user is not known.
func (q *request) payer() string {
	if q.user == nil {
		return ""
	}
	return authn.Payer(q.user.Name)
}

// isAdministrators reports whether the request's user is exempt from limits on requests.
func (q *request) isAdministrators() bool { return slices.Contains(q.user.Groups, authn.Masters) }

// isProbe reports whether a request asks a health endpoint. Its checks run once for all requests
// that ask at the same time, so that many of them cost no more than one.
func (q *request) isProbe() bool {
	if q.resource {
		return false
	}
	switch first, _, _ := strings.Cut(strings.Trim(q.path, "/"), "/"); first {
	case "healthz", "livez", "readyz":
		return true
	}
	return false
}

// tooMany refuses a request for which there is no room now. The answer is 429 in upstream's words, as plain text: the client has to
// come back later.
type tooMany struct{ after int64 } // in seconds

// Error implements error.
func (tooMany) Error() string { return "Too many requests, please try again later." }
