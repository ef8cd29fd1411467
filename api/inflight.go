package api

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
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
func limit(q *request) (bool, error) {
	if q.classify() {
		return !q.enter(), nil
	}
	if q.long || q.isProbe() {
		return false, nil
	}
	q.slots = &q.h.writes
	switch q.r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		q.slots = &q.h.reads
	}
	if q.slots.most == 0 {
		q.slots = nil
	}
	return !q.enter(), nil
}

// enter acquires the request's slot. If there is none, it answers 429 and reports false.
func (q *request) enter() bool {
	if q.flow.ticket.Classified() {
		return q.inSlot || q.enterFlow()
	}
	if q.slots == nil || q.inSlot {
		return true
	}
	if q.inSlot, q.slotShared = q.slots.enter(q.payer(), q.isAdministrators()); !q.inSlot {
		q.tooMany()
	}
	return q.inSlot
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

// errAnswered ends a request that has its answer already.
var errAnswered = errors.New("the request has been answered")

// tooMany answers 429 in upstream's words: the client has to come back later.
func (q *request) tooMany() { q.tooManyFor(1) }

// tooManyFor is tooMany for a client that shall wait some seconds.
func (q *request) tooManyFor(seconds int64) {
	q.w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
	q.plain(http.StatusTooManyRequests, "Too many requests, please try again later.\n")
}
