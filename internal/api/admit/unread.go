package admit

import (
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// This file bounds what answers hold together that clients leave unread over HTTP/2. For each of them net/http keeps a goroutine and a
// buffer until the client takes the rest, also if the handler has returned, and one connection has room for 1,000. They hold no slot.
// Long-running requests are counted in long.go.
//
// Only a handler that flushes its answer learns whether the client takes it, and a flush costs one more frame. So it is done for few
// answers, which are drawn by lot, and for all answers to a user of whose answers one was found unread. Those are counted.

const (
	// unreadAnswer is the number of bytes that an answer holds until it is sent, besides its text: stack, stream and buffer.
	unreadAnswer = 32 << 10
	// unreadDraw is the number of answers of which one is drawn.
	unreadDraw = 64
	// unreadAfter is how long a client leaves an answer unread until it is found to be so.
	unreadAfter = 20 * time.Millisecond
)

// unread counts the answers that clients may not take.
type unread struct {
	quota              // in bytes
	found atomic.Int64 // answers that were found unread, of all users

	mu sync.Mutex
	of map[string]int // the same by user
}

// lingers reports whether a user has answers that were found unread.
func (u *unread) lingers(user string) bool {
	if u.found.Load() == 0 {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.of[user] > 0
}

// count adds n to the answers of a user that were found unread. The lock is held.
func (u *unread) count(user string, n int) {
	if u.of == nil {
		u.of = map[string]int{}
	}
	u.found.Add(int64(n))
	if u.of[user] += n; u.of[user] == 0 {
		delete(u.of, user)
	}
}

// CountUnread decides whether the answer that w sends is counted, and returns its writer.
func (h *Holding) CountUnread(w http.ResponseWriter) http.ResponseWriter {
	if h.r.ProtoMajor == 2 && (h.limits.unread.lingers(h.payer) || rand.Uint32()%unreadDraw == 0) {
		h.taker = h.newTaker(w)
		return h.taker
	}
	return w
}

// Taker returns the writer of an answer that is counted; nil if it is not.
func (h *Holding) Taker() *Taker { return h.taker }

// newTaker returns a writer for an answer that its client may not read. If the user has too many of these, the stream is reset: the client would
// not read a refusal either.
func (h *Holding) newTaker(w http.ResponseWriter) *Taker {
	t := &Taker{ResponseWriter: w, unread: &h.limits.unread, user: h.payer, exempt: h.exempt}
	if !t.unread.acquire(t.user, unreadAnswer, t.exempt) {
		h.limits.Logger.Warn("stream was reset: its user leaves too many answers unread", "user", t.user)
		panic(http.ErrAbortHandler)
	}
	return t
}

// LateTaker returns a writer for the rest of an answer whose handler has ended, if answers of the user were found unread meanwhile; otherwise
// it returns nil.
func (h *Holding) LateTaker(w http.ResponseWriter) *Taker {
	if h.r.ProtoMajor != 2 || !h.limits.unread.lingers(h.payer) {
		return nil
	}
	return h.newTaker(w)
}

// Taker is the writer of an answer that is counted.
type Taker struct {
	http.ResponseWriter
	unread *unread
	user   string
	exempt bool
}

// Write counts what is written until the client has taken it, or net/http has copied it. Longer texts have room elsewhere, or all readers
// share them.
func (t *Taker) Write(b []byte) (n int, err error) {
	size := int64(min(len(b), BuildFree))
	if !t.unread.acquire(t.user, size, t.exempt) {
		panic(http.ErrAbortHandler)
	}
	defer t.unread.release(t.user, size)
	t.watch(func() { n, err = t.ResponseWriter.Write(b) })
	return n, err
}

// Unwrap is for http.ResponseController.
func (t *Taker) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// End sends the rest of the answer. Nothing may be written afterwards.
func (t *Taker) End() {
	t.watch(func() { _ = http.NewResponseController(t.ResponseWriter).Flush() }) // a client that has gone takes nothing
	t.Drop()
}

// Drop counts the answer no longer.
func (t *Taker) Drop() { t.unread.release(t.user, unreadAnswer) }

// watch calls send, which waits for the client, and counts the answer as unread while that takes long.
func (t *Taker) watch(send func()) {
	u, over, late := t.unread, false, false
	timer := time.AfterFunc(unreadAfter, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if !over {
			late = true
			u.count(t.user, 1)
		}
	})
	defer func() {
		if timer.Stop() {
			return
		}
		u.mu.Lock()
		defer u.mu.Unlock()
		over = true
		if late {
			u.count(t.user, -1)
		}
	}()
	send()
}
