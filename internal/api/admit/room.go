package admit

import (
	"context"

	"github.com/keelson-io/keelson/internal/status"
)

// This file bounds the memory of the answers that are being built.

// BuildFree is the number of bytes that may be built for a reader without asking for room.
const BuildFree = 256 << 10

// Room is one reader's part of the memory for answers. A nil Room holds none.
type Room struct {
	h   *Holding
	has int64
	ctx context.Context // ends the waiting

	Refusable bool // the request can still be refused
	Long      bool // it is a long-running request
}

// Room returns an empty room. Waiting for bytes ends with ctx.
func (h *Holding) Room(ctx context.Context) *Room { return &Room{h: h, ctx: ctx} }

// Enter waits for room for n bytes. A request that waits holds no slot.
func (r *Room) Enter(n int64) error {
	ctx := r.ctx
	if r.Refusable {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	} else {
		r.h.Leave() // what was written is answered without a slot
	}
	got, err := r.h.acquire(r.ctx, ctx, r.h.limits.building, n)
	r.has += got
	switch {
	case err == nil || got > 0:
		return err
	case !r.Refusable && !r.Long:
		return errLate() // it has been written: the client must not think that it was refused
	}
	return status.TooManyRequests("Too many large answers are being sent, please try again later.", 1)
}

// Wait is Enter for a request that can no longer be refused.
func (r *Room) Wait(n int64) {
	got, _ := r.h.limits.building.acquire(context.Background(), r.h.payer, n) // the context does not end
	r.has += got
}

// Shrink gives back all but n bytes.
func (r *Room) Shrink(n int) {
	if r == nil {
		return
	}
	if more := r.has - int64(n); more > 0 {
		r.h.limits.building.release(r.h.payer, more)
		r.has -= more
	}
}

// Leave gives all bytes back.
func (r *Room) Leave() {
	if r.IsHeld() {
		r.Shrink(0)
	}
}

// IsHeld reports whether the answer holds room.
func (r *Room) IsHeld() bool { return r != nil && r.has > 0 }
