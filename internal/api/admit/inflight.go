package admit

import "sync/atomic"

// This file limits how many requests are served at a time.

// inFlight counts the requests of one sort that are being served. One user has at most three
// quarters of the slots, so that others are served however slow that user's requests are. While
// fewer than a quarter of the slots are in use, users are not counted.
type inFlight struct {
	most   int64 // 0: no limit
	now    atomic.Int64
	shared quota // requests that came when a quarter of the slots was in use
}

// setMost sets how many requests are served at a time.
func (c *inFlight) setMost(n int64) {
	c.most, c.shared.most, c.shared.share = n, n-n/4, max(1, n/2)
}

// enter acquires a slot for a user. It reports whether there was one, and whether it counts against
// the user's share. Exempt requests always get one.
func (c *inFlight) enter(user string, exempt bool) (ok, shared bool) {
	n := c.now.Add(1)
	switch {
	case exempt, n <= c.most/4:
		return true, false
	case n <= c.most && c.shared.acquire(user, 1, false):
		return true, true
	}
	c.now.Add(-1)
	return false, false
}

// leave releases a slot.
func (c *inFlight) leave(user string, shared bool) {
	if shared {
		c.shared.release(user, 1)
	}
	c.now.Add(-1)
}
