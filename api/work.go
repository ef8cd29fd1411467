package api

import (
	"context"

	"github.com/keelson-io/keelson/objects"
	"github.com/keelson-io/keelson/status"
)

// This file bounds the memory for work on large bodies and objects. A body becomes a document, sets
// of fields, patches and texts, which together need many times its size.

const (
	// workFree is the number of bytes of a body or live object that are worked on without asking.
	workFree = 64 << 10

	// workFactor is the number of bytes that the work on one byte needs at the same time. Measured
	// with bodies of the greatest length: 10, and up to 40 for a server-side apply of many small
	// members.
	workFactor = 24
)

// Work implements objects.Client: it waits until there is memory for the work on a live object of so
// many bytes, and on the body.
func (q *request) Work(bytes int) error { return q.workOn(q.sent, int64(bytes)) }

// workOnBody waits until there is memory for the work on the body.
func (q *request) workOnBody(bytes int) error {
	q.sent = int64(bytes)
	return q.workOn(q.sent, 0)
}

// workOn charges the request for the work on its body and on a live object, in place of an earlier
// charge. A request that waits holds no slot, nor what it was charged before: others may wait for
// that.
func (q *request) workOn(body, live int64) error {
	need := min((body+live)*workFactor, q.h.working.share)
	if max(body, live) <= workFree || need <= q.charged {
		return nil
	}
	if err := q.spare(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(q.ctx, roomWait)
	defer cancel()
	q.endWork()
	var err error
	q.charged, err = q.acquire(ctx, q.h.working, need)
	switch {
	case q.charged > 0:
		return err
	case q.ctx.Err() != nil:
		return objects.StoreError(err)
	}
	return status.TooManyRequests("Too many large objects are being worked on, please try again later.", 1)
}

// endWork gives back the memory for work.
func (q *request) endWork() {
	if q.charged > 0 {
		q.h.working.release(q.payer(), q.charged)
		q.charged = 0
	}
}

// spare waits until the server's memory is not tight, before a request that needs much of it. A
// request that waits holds no slot.
func (q *request) spare() error {
	if !q.h.Memory.Tight() {
		return nil
	}
	ctx, cancel := context.WithTimeout(q.ctx, roomWait)
	defer cancel()
	return q.wait(func() error {
		switch calm := q.h.Memory.Await(ctx); {
		case q.ctx.Err() != nil:
			return objects.StoreError(q.ctx.Err())
		case !calm:
			return status.TooManyRequests("The server's memory is nearly full, please try again later.", 1)
		}
		return nil
	})
}

// longAnswer is about how many bytes an answer holds that is sent in pieces, however slowly its client
// reads: a piece, the chunks of a compressor, the buffers of a connection.
const longAnswer = 128 << 10

// sends admits an answer that is sent in pieces. If there are too many of them, the error is tooMany.
// While they are few, that needs no lock.
func (q *request) sends() error {
	if q.sending || q.h.sending.most == 0 {
		return nil
	}
	if q.sending, q.sendShared = q.h.sending.enter(q.payer(), false); !q.sending {
		return tooMany{1}
	}
	return nil
}

// largeList is the number of objects from which a list is expensive: a view is made of each.
const largeList = 250

// spareList is spare for a list or a watch of a resource, unless that has few objects.
func (q *request) spareList(limit int64) error {
	if !q.h.Memory.Tight() || limit > 0 && limit <= largeList || q.res.Snapshot().Len() <= largeList {
		return nil
	}
	return q.spare()
}

// TrackMemory registers what requests hold with the server's memory governor, and the documents that it may drop.
func (h *Handler) TrackMemory() {
	g, shares := h.Memory, h.Memory.Shares()
	g.Track("work", shares.Work, h.working.held)
	g.Track("bodies", shares.Bodies, h.bodies.held)
	g.Track("answers", shares.Answers, h.building.held)
	g.Track("unread", shares.Answers, h.unread.held)
	g.Track("headers", shares.Headers, h.largeHeaders.held)
	g.Track("openapi", 0, h.openapi.Bytes)
	g.Evict("openapi", h.openapi.Shed)
}

// held returns the number of bytes that are in use.
func (b *budget) held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// held returns the amount that is in use.
func (u *quota) held() int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.used
}
