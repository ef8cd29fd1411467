package admit

import (
	"context"
	"time"

	"github.com/keelson-io/keelson/internal/status"
)

// This file bounds the memory for work on large bodies and objects. A body becomes a document, sets
// of fields, patches and texts, which together need many times its size.

const (
	// WorkFree is the number of bytes of a body or live object that are worked on without asking.
	WorkFree = 64 << 10

	// workFactor is the number of bytes that the work on one byte needs at the same time. Measured
	// with bodies of the greatest length: 10, and up to 40 for a server-side apply of many small
	// members.
	workFactor = 24

	// valueFactor is the number of bytes that the work on one byte of a Go value needs: the value and
	// an older copy of its lists while it is decoded, or the same again while it is checked.
	valueFactor = 3
)

// patience is how long a request waits for room while it can still be refused.
const patience = 10 * time.Second

// workOnBody waits until there is memory for the work on the body.
func (h *Holding) workOnBody(ctx context.Context, bytes int) error {
	h.sent = int64(bytes)
	return h.workOn(ctx, 0)
}

// WorkOnValue waits until there is memory for the work on the Go value of so many bytes that the body
// becomes.
func (h *Holding) WorkOnValue(ctx context.Context, bytes int) error {
	h.value = int64(bytes)
	return h.workOn(ctx, 0)
}

// WorkOnObject waits until there is memory for the work on a live object of so many bytes, and on the body.
func (h *Holding) WorkOnObject(ctx context.Context, bytes int) error {
	return h.workOn(ctx, int64(bytes))
}

// workOn charges the request for the work on its body, on the Go value of the body, and on a live
// object, in place of an earlier charge. A request that waits holds no slot, nor what it was charged before: others may wait for
// that.
func (h *Holding) workOn(ctx context.Context, live int64) error {
	value := h.value * valueFactor
	need := min((h.sent+live)*workFactor+value, h.limits.working.share)
	if max(h.sent, live) <= WorkFree && value <= WorkFree*workFactor || need <= h.charged {
		return nil
	}
	if err := h.Spare(ctx); err != nil {
		return err
	}
	until, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	h.endWork()
	var err error
	h.charged, err = h.acquire(ctx, until, h.limits.working, need)
	switch {
	case h.charged > 0:
		return err
	case ctx.Err() != nil:
		return errLate()
	}
	return status.TooManyRequests("Too many large objects are being worked on, please try again later.", 1)
}

// endWork gives back the memory for work.
func (h *Holding) endWork() {
	if h.charged > 0 {
		h.limits.working.release(h.payer, h.charged)
		h.charged = 0
	}
}

// Spare waits until the server's memory is not tight, before a request that needs much of it.
func (h *Holding) Spare(ctx context.Context) error {
	if !h.limits.Memory.Tight() {
		return nil
	}
	until, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return h.Wait(ctx, func() error {
		switch calm := h.limits.Memory.Await(until); {
		case ctx.Err() != nil:
			return errLate()
		case !calm:
			return status.TooManyRequests("The server's memory is nearly full, please try again later.", 1)
		}
		return nil
	})
}

// Tight reports whether the server's memory is tight.
func (h *Holding) Tight() bool { return h.limits.Memory.Tight() }
