package admit

import (
	"runtime"
	"sync/atomic"
	"time"
)

// This file lets long work take turns, so that short requests do not wait behind it.
//
// Go's scheduler runs a goroutine for up to 10 ms before another one gets its processor, and looks
// for new requests only when a processor has nothing else to run. Sixteen lists would delay every
// other request by the time of sixteen slices. So a list gives way after every piece and every 64
// objects, and fewer lists run at once than Go has processors: one is always free to take requests.

// turnLimit is the longest duration of a turn. A piece needs a tenth of it. If a turn lasts longer,
// the request waits for something, such as a client that does not read, and other requests
// continue.
const turnLimit = 500 * time.Microsecond

// turns are the turns of one server: as many requests have one at a time as slots has room for.
type turns struct{ slots chan struct{} }

// newTurns returns turns for all of Go's processors but one.
func newTurns() *turns {
	return &turns{slots: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1))}
}

// turn is one request's part in turns.
type turn struct {
	turns *turns
	held  atomic.Bool
	limit *time.Timer // ends the turn after turnLimit
}

// GiveWay ends the turn of a request with long work, if it has one, and waits for the next one.
func (h *Holding) GiveWay() {
	if h.turn == nil {
		t := &turn{turns: h.limits.turns}
		t.limit = time.AfterFunc(turnLimit, t.end)
		t.limit.Stop()
		h.turn = t
	}
	h.turn.end()
	h.turn.begin()
}

// endTurn ends the turn of a request that has one.
func (h *Holding) endTurn() {
	if h.turn != nil {
		h.turn.limit.Stop()
		h.turn.end()
	}
}

// begin waits for a turn.
func (t *turn) begin() {
	t.turns.slots <- struct{}{} // every holder leaves within turnLimit
	// Lists that wake each other up would share one slice of 10 ms after another, and a goroutine that
	// comes back from the disk would wait for seconds. So the new holder lines up behind all others.
	runtime.Gosched()
	t.held.Store(true)
	t.limit.Reset(turnLimit)
}

// end may be called by the request and by the timer, in any order. A timer of an earlier turn that is
// late ends the current one: then one more request runs for a moment.
func (t *turn) end() {
	if t.held.CompareAndSwap(true, false) {
		<-t.turns.slots
	}
}
