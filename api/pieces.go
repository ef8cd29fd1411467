package api

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/keelson-io/keelson/objects"
	"github.com/keelson-io/keelson/status"
)

// This file gathers the bytes of long answers into pieces, so that what is built for a reader
// stays small, however long the answer is and however slowly it is read.

// pieceSize is the number of bytes that are gathered before they are sent. A piece is still in the
// processor's cache when it is encrypted.
const pieceSize = 32 << 10

var pieceBuffers = sync.Pool{New: func() any {
	b := make([]byte, 0, pieceSize+pieceSize/4)
	return &b
}}

// pieces gathers bytes and sends them in pieces. Its user appends bytes built for this reader to b,
// and passes bytes that other readers share to share.
type pieces struct {
	b      []byte
	pooled *[]byte            // where b comes from; nil before begin
	most   int                // b is sent when it is longer
	whole  bool               // b is sent only between steps
	send   func([]byte) error // does not keep the bytes
	room   *room              // for more than buildFree; nil if it is counted elsewhere
}

// begin gets an empty buffer.
func (p *pieces) begin() {
	if p.pooled == nil {
		p.pooled = pieceBuffers.Get().(*[]byte)
		p.b = (*p.pooled)[:0]
	}
}

// end releases the buffer. Bytes that were not flushed are dropped.
func (p *pieces) end() {
	p.room.leave()
	if p.pooled != nil {
		pieceBuffers.Put(p.pooled)
		p.pooled, p.b = nil, nil
	}
}

// flush sends what was gathered.
func (p *pieces) flush() error {
	if len(p.b) == 0 {
		return nil
	}
	err := p.send(p.b)
	p.b = (*p.pooled)[:0] // drops a buffer that grew once
	return err
}

// step ends a part of an answer. If the gathered bytes are long enough or hold room, it sends them
// and releases the room.
func (p *pieces) step() error {
	if len(p.b) < p.most && !p.room.isHeld() {
		return nil
	}
	err := p.flush()
	p.room.leave()
	return err
}

// share adds bytes that other readers share. Few bytes are copied; many are sent without a copy.
func (p *pieces) share(b []byte) error {
	if !p.whole && len(p.b)+len(b) > p.most {
		if err := p.flush(); err != nil {
			return err
		}
		if len(b) >= p.most {
			return p.send(b)
		}
	}
	p.b = append(p.b, b...)
	return nil
}

// build acquires room for about n bytes that will be built for this reader, or waits for it. It
// first sends what was gathered before.
func (p *pieces) build(n int) error {
	if n <= buildFree || p.room == nil {
		return nil
	}
	if err := p.flush(); err != nil {
		return err
	}
	p.room.leave()
	return p.room.enter(int64(n))
}

// room is one reader's part of the budget.
type room struct {
	q      *request
	budget *budget
	ctx    context.Context // ends the waiting
	user   string
	has    int64

	refusable bool // the request can still be refused
}

// roomWait is how long a reader waits for room while it can still be refused.
const roomWait = 10 * time.Second

// enter waits for room for n bytes. A request that waits holds no slot.
func (r *room) enter(n int64) error {
	ctx := r.ctx
	if r.refusable {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, roomWait)
		defer cancel()
	}
	if !r.refusable {
		r.q.leave() // what was written is answered without a slot
	}
	got, err := r.q.acquire(ctx, r.budget, n)
	r.has += got
	switch {
	case err == nil || got > 0:
		return err
	case !r.refusable && !r.q.long:
		return objects.StoreError(err) // it has been written: the client must not think that it was refused
	}
	return status.TooManyRequests("Too many large answers are being sent, please try again later.", 1)
}

// wait is enter for a request that can no longer be refused.
func (r *room) wait(n int64) {
	got, _ := r.budget.acquire(context.Background(), r.user, n) // the context does not end
	r.has += got
}

// shrink gives back all but n bytes.
func (r *room) shrink(n int) {
	if r == nil {
		return
	}
	if more := r.has - int64(n); more > 0 {
		r.budget.release(r.user, more)
		r.has -= more
	}
}

// leave gives all bytes back. A nil room holds none.
func (r *room) leave() {
	if r.isHeld() {
		r.shrink(0)
	}
}

// isHeld reports whether the answer holds room.
func (r *room) isHeld() bool { return r != nil && r.has > 0 }

// room returns an empty room for the request's user. Waiting for bytes ends with ctx.
func (q *request) room(ctx context.Context) *room {
	r := &room{q: q, budget: q.h.building, ctx: ctx, user: q.payer()}
	r.refusable = !q.long && (q.r.Method == http.MethodGet || q.r.Method == http.MethodHead)
	return r
}
