package stream

import (
	"errors"
	"net/http"
	"sync"
	"time"
)

// This file ends long-running answers whose clients do not read them. Other answers have to be sent
// before the deadline of their request, but a watch or a snapshot has none. So each piece of it has
// to be sent within a time.

const (
	// maxStall is how long a client may leave a piece of an answer unread.
	maxStall = 30 * time.Second

	// lastWait is how long a client may leave it unread after the end of a watch.
	lastWait = time.Second

	// writePiece is the number of bytes that are written at once: a client that reads so many in
	// each period of maxStall makes progress.
	writePiece = 64 << 10
)

// StallLimit returns how long a client may leave a piece of an answer unread. timeout is the
// longest duration of a request.
func StallLimit(timeout time.Duration) time.Duration { return min(maxStall, timeout) }

// Cutter is the writer of a long-running answer. It makes a write fail that the client keeps
// waiting for longer than the limit, or until lastWait after the end of a watch. HTTP/2 resets the
// stream then, HTTP/1.1 closes the connection.
type Cutter struct {
	http.ResponseWriter
	limit  time.Duration
	unread *time.Timer // runs during a write
	over   *time.Timer // fires lastWait after the end of the watch; nil for other answers

	mu    sync.Mutex
	ended bool // the last deadline has been set: the handler may have returned
}

// NewCutter returns a Cutter of the answer that w writes. The caller must call End.
func NewCutter(w http.ResponseWriter, limit time.Duration) *Cutter {
	c := &Cutter{ResponseWriter: w, limit: limit}
	c.unread = time.AfterFunc(limit, c.cut)
	c.unread.Stop()
	return c
}

// EndBy sets the time at which the answer is to end. It must be called once before EndNow.
func (c *Cutter) EndBy(t time.Time) { c.over = time.AfterFunc(time.Until(t)+lastWait, c.cut) }

// EndNow replaces the time of EndBy by the current time.
func (c *Cutter) EndNow() { c.over.Reset(lastWait) }

// Write writes b in pieces, each of which has the time of the limit.
func (c *Cutter) Write(b []byte) (int, error) {
	defer c.unread.Stop()
	return c.write(b)
}

// write is Write, but leaves the timer running.
func (c *Cutter) write(b []byte) (int, error) {
	n := 0
	for {
		c.unread.Reset(c.limit)
		m, err := c.ResponseWriter.Write(b[n:min(len(b), n+writePiece)])
		if n += m; err != nil || n == len(b) {
			return n, err
		}
	}
}

// FlushError writes the buffered bytes. It is for http.ResponseController.
func (c *Cutter) FlushError() error {
	defer c.unread.Stop()
	return c.flush()
}

// flush is FlushError, but leaves the timer running. A writer that cannot flush has no buffer.
func (c *Cutter) flush() error {
	c.unread.Reset(c.limit)
	err := http.NewResponseController(c.ResponseWriter).Flush()
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}

// Flush implements http.Flusher.
func (c *Cutter) Flush() { c.FlushError() }

// Send writes and flushes b, in one piece if the connection can be corked (corker is nil if it
// cannot).
func (c *Cutter) Send(b []byte, corker Corker) error {
	defer c.unread.Stop()
	if corker == nil {
		_, err := c.write(b)
		return errors.Join(err, c.flush())
	}
	corker.Cork()
	_, err := c.write(b)
	err = errors.Join(err, c.flush())
	return errors.Join(err, corker.Uncork())
}

// Unwrap is for http.ResponseController.
func (c *Cutter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// cut makes the write in progress and all later ones fail.
func (c *Cutter) cut() { c.lastDeadline(time.Unix(1, 0)) }

// End is called before the handler returns. The bytes that net/http still has to write get as long
// as any other piece.
func (c *Cutter) End() {
	c.unread.Stop()
	if c.over != nil {
		c.over.Stop()
	}
	c.lastDeadline(time.Now().Add(c.limit))
}

// lastDeadline sets the deadline of all further writes, once. Afterwards nothing uses the
// connection on the Cutter's behalf. A writer without deadlines never blocks.
func (c *Cutter) lastDeadline(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.ended = true
		http.NewResponseController(c.ResponseWriter).SetWriteDeadline(t)
	}
}
