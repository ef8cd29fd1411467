package api

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/keelson-io/keelson/internal/api/admit"
	"github.com/keelson-io/keelson/internal/authn"
)

// This file finds the user whose shares a request uses, and counts the request against the limits of package admit.

// The default limits of requests in flight.
const (
	DefaultReads  = admit.DefaultReads
	DefaultWrites = admit.DefaultWrites
)

// admitConnection asks the HTTP server whether the connection may stay, now that its user is known.
func admitConnection(q *request) error {
	c := admit.ConnectionOf(q.ctx)
	if c == nil {
		return nil
	}
	caller := admit.Caller{
		User:          q.payer(),
		Anonymous:     q.user.Name == authn.AnonymousUser || q.user.InGroup(authn.Unauthenticated),
		Administrator: q.isAdministrators(),
		Probe:         q.isProbe(),
	}
	switch c.Admit(caller) {
	case admit.Closes:
		q.w.Header().Set("Connection", "close")
	case admit.Refused:
		q.w.Header().Set("Connection", "close")
		return admit.TooMany{After: 1}
	}
	return nil
}

// countHeaders admits a request if its headers fit beside those of all others.
func countHeaders(q *request) error {
	err := q.holds.CountHeaders()
	if err != nil {
		q.closeAfter()
	}
	return err
}

// countUsersHeaders admits a request if its headers fit into its user's share.
func countUsersHeaders(q *request) error { return q.holds.CountUsersHeaders() }

// countUnread decides whether the answer is counted until the client has read it. Long-running requests are counted in another way.
func countUnread(q *request) error {
	if !q.long {
		q.w = q.holds.CountUnread(q.w)
	}
	return nil
}

// lateAnswer returns the writer for the rest of an answer that was not counted; nil if it need not be.
func (q *request) lateAnswer() *admit.Taker {
	if q.long || q.stranger || q.user == nil {
		return nil
	}
	return q.holds.LateTaker(q.w)
}

// limit lets a request in, or refuses it because the client has to come back.
func limit(q *request) error {
	if q.classify() {
		return q.holds.Enter(q.ctx)
	}
	if q.long || q.isProbe() {
		return nil
	}
	switch q.r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		q.holds.UseSlots(false)
	default:
		q.holds.UseSlots(true)
	}
	return q.holds.Enter(q.ctx)
}

// answers releases what the request no longer needs once its answer is built and only has to be
// sent: the slot, the unread body and the header.
func (q *request) answers() {
	q.holds.Leave()
	q.holds.ShedHeaders()
	if q.r.ProtoMajor == 2 && q.r.Body != nil {
		q.r.Body.Close() // drops what has arrived; on HTTP/1.1 nothing has, and Close would read on
	}
}

// setUser says whose request it is.
func (q *request) setUser(u *authn.User) {
	q.user = u
	q.holds.SetCaller(q.payer(), q.isAdministrators())
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

// Work implements objects.Client: it waits until there is memory for the work on a live object of so
// many bytes, and on the body.
func (q *request) Work(bytes int) error { return q.holds.WorkOnObject(q.ctx, bytes) }

// largeList is the number of objects from which a list is expensive: a view is made of each.
const largeList = 250

// spareList waits until the memory is not tight, before a list or a watch of a resource that has many objects.
func (q *request) spareList(limit int64) error {
	if !q.holds.Tight() || limit > 0 && limit <= largeList || q.res.Snapshot().Len() <= largeList {
		return nil
	}
	return q.holds.Spare(q.ctx)
}

// room returns an empty room for an answer. Waiting for bytes ends with ctx.
func (q *request) room(ctx context.Context) *admit.Room {
	r := q.holds.Room(ctx)
	r.Long, r.Refusable = q.long, !q.long && (q.r.Method == http.MethodGet || q.r.Method == http.MethodHead)
	return r
}

// TrackMemory registers what requests hold with the server's memory governor, and the documents that it may drop.
func (h *Handler) TrackMemory() {
	h.limits.Track()
	h.Memory.Track("openapi", 0, h.openapi.Bytes)
	h.Memory.Evict("openapi", h.openapi.Shed)
}
