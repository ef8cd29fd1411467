package admit

import (
	"context"
	"net/http"

	"github.com/keelson-io/keelson/internal/status"
)

// This file has what one request holds.

// Holding is what a request holds of a server. It belongs to the goroutine that serves the request, which calls [Limits.Begin] first
// and [Holding.Release] last.
type Holding struct {
	limits *Limits
	r      *http.Request
	payer  string // the user whose shares it uses; "" while the user is not known
	exempt bool   // of limits on requests

	slots      *inFlight // the limit that the request counts against; nil if there is none
	seats      seats     // in place of slots
	inSlot     bool      // the request holds a slot or seats now …
	slotShared bool      // … and the slot counts in its user's share

	body         int64  // bytes charged for its body
	sent         int64  // bytes of its body …
	value        int64  // … and of the Go value that it becomes, if that is much larger
	charged      int64  // bytes charged for what it works on
	headers      int64  // bytes charged for its large header …
	headersPayer string // … and the name charged for them; "" while the user is not known
	sending      bool   // it sends a long answer …
	sendShared   bool   // … which counts in its user's share
	watching     bool   // it counts as a watch
	turn         *turn  // nil until its work is long
	taker        *Taker // of an answer that counts as unread; nil if it does not
}

// Begin makes h the holding of a request that holds nothing yet.
func (l *Limits) Begin(h *Holding, r *http.Request) { *h = Holding{limits: l, r: r} }

// SetCaller sets the user whose shares the request uses from now on. The number of exempt requests is not limited.
func (h *Holding) SetCaller(payer string, exempt bool) { h.payer, h.exempt = payer, exempt }

// Release gives back all that the request holds.
func (h *Holding) Release() {
	h.Leave()
	if h.body > 0 {
		h.limits.bodies.release(h.payer, h.body)
	}
	if h.seats.unwatch != nil {
		h.seats.unwatch()
	}
	h.endWork()
	h.endTurn()
	if h.sending {
		h.limits.sending.leave(h.payer, h.sendShared)
	}
	if h.watching {
		h.limits.watches.release(h.payer, 1)
	}
	if h.headers > 0 {
		h.releaseHeaders()
	}
}

// TooMany is the error for a request that exceeds a limit of the server at the moment. It is answered with 429 and upstream's text.
// The client should retry after After seconds.
type TooMany struct{ After int64 } // in seconds

// Error implements error.
func (TooMany) Error() string { return "Too many requests, please try again later." }

// UseSlots makes the request count as a read or a write.
func (h *Holding) UseSlots(write bool) {
	h.slots = &h.limits.reads
	if write {
		h.slots = &h.limits.writes
	}
	if h.slots.most == 0 {
		h.slots = nil
	}
}

// Enter acquires the request's slot or seats. If none is free, the error is TooMany.
func (h *Holding) Enter(ctx context.Context) error {
	switch {
	case h.inSlot:
		return nil
	case h.seats.ticket.Classified():
		return h.enterSeats(ctx)
	case h.slots == nil:
		return nil
	}
	if h.inSlot, h.slotShared = h.slots.enter(h.payer, h.exempt); !h.inSlot {
		return TooMany{1}
	}
	return nil
}

// Leave gives the request's slot or seats back, if it holds any. A request holds none while its body arrives or its answer leaves,
// because a slow client decides how long that lasts.
func (h *Holding) Leave() {
	switch {
	case !h.inSlot:
		return
	case h.seats.ticket.Classified():
		h.seats.ticket.Leave()
	default:
		h.slots.leave(h.payer, h.slotShared)
	}
	h.inSlot = false
}

// Wait runs f, which waits for others, without the request's slot, and takes the slot again. If f fails, the request has its error
// and no slot. All waiting is done here: a request that waits with its slot keeps others out.
func (h *Holding) Wait(ctx context.Context, f func() error) error {
	held := h.inSlot
	h.Leave()
	if err := f(); err != nil || !held {
		return err
	}
	return h.Enter(ctx)
}

// acquire waits until patience for n bytes of a budget. got is what it has of them, also if there is an error.
func (h *Holding) acquire(ctx, patience context.Context, b *budget, n int64) (got int64, err error) {
	asked := b.ask(h.payer, n)
	if !asked.isReady() {
		err = h.Wait(ctx, func() error { return asked.wait(patience) })
	}
	if asked.isReady() {
		got = asked.n
	}
	return got, err
}

// claimBody reserves n bytes of memory for the body; they replace an earlier reservation. If the memory for bodies is used up, the
// error is TooMany.
func (h *Holding) claimBody(n int64) error {
	if n <= h.body {
		return nil
	}
	if !h.limits.bodies.acquire(h.payer, n-h.body, h.exempt) {
		return TooMany{1}
	}
	h.body = n
	return nil
}

// CountWatch counts the request as a long-running one until its end. If there are too many, the error is TooMany.
func (h *Holding) CountWatch() error {
	if !h.limits.watches.acquire(h.payer, 1, h.exempt) {
		return TooMany{1}
	}
	h.watching = true
	return nil
}

// longAnswer is about how many bytes an answer holds that is sent in pieces, however slowly its client
// reads: a piece, the chunks of a compressor, the buffers of a connection.
const longAnswer = 128 << 10

// Sends admits an answer that is sent in pieces. If there are too many of them, the error is TooMany.
// While they are few, that needs no lock.
func (h *Holding) Sends() error {
	if h.sending || h.limits.sending.most == 0 {
		return nil
	}
	if h.sending, h.sendShared = h.limits.sending.enter(h.payer, false); !h.sending {
		return TooMany{1}
	}
	return nil
}

// errLate is the error of a request whose time ended while it waited.
func errLate() error {
	return status.Timeout("request did not complete within the allotted timeout", 0)
}
