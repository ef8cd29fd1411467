package api

import (
	"net/http"
	"sync"
	"time"
)

// This file ends watches whose clients do not read them.

const (
	// readWait is how long a client may leave the bytes of a watch unread.
	readWait = 30 * time.Second

	// lastWait is how long a client may leave them unread after the end of the watch.
	lastWait = time.Second
)

// cutter makes a blocked write of a watch fail: after readWait, or lastWait after the end of the
// watch. A nil cutter does nothing.
type cutter struct {
	unread *time.Timer // runs during a write
	over   *time.Timer // ends lastWait after the watch

	mu sync.Mutex
	w  http.ResponseWriter // nil after the last deadline: the handler may have returned
}

// newCutter returns the cutter of a watch that is to end at a time.
func newCutter(w http.ResponseWriter, end time.Time) *cutter {
	c := &cutter{w: w}
	c.unread = time.AfterFunc(readWait, c.cut)
	c.unread.Stop()
	c.over = time.AfterFunc(time.Until(end)+lastWait, c.cut)
	return c
}

// wait begins a write.
func (c *cutter) wait() {
	if c != nil {
		c.unread.Reset(readWait)
	}
}

// done ends a write.
func (c *cutter) done() {
	if c != nil {
		c.unread.Stop()
	}
}

// by sets a new end of the watch.
func (c *cutter) by(end time.Time) { c.over.Reset(time.Until(end) + lastWait) }

// cut makes the write under way fail, and all later ones.
func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline(time.Unix(1, 0))
}

// deadline sets the last write deadline and forgets the writer. A writer without deadlines never
// blocks. The caller holds the lock.
func (c *cutter) deadline(t time.Time) {
	if c.w != nil {
		http.NewResponseController(c.w).SetWriteDeadline(t)
		c.w = nil
	}
}

// end is called before the handler returns. What net/http still has to write gets as long as any
// other write.
func (c *cutter) end() {
	c.unread.Stop()
	c.over.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline(time.Now().Add(readWait))
}
