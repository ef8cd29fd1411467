package server

import (
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/keelson-io/keelson/internal/api/admit"
)

// This file limits connections, so that no client gets all of them. Each connection uses one of the
// files that the process may open. The store needs some of the files, and fails when it gets none.
//
// A connection is a stranger's until a request on it has shown its user. The number of strangers is
// bounded. Beyond the bound, or when no files are left, addresses share what there is: a new
// connection takes the place of the oldest stranger of the address that has most of them, at once if its
// own address has fewer. The others wait, for a second at most, and only for the strangers of their own
// address and of such as have as many: nobody else waits behind them. While an address connects faster
// than the server accepts, which makes all others wait in the system's queue, its new connections are
// closed at once. Users have what strangers leave:
// each user may have as many connections as are left for others, the first one half of them. The last
// few are for administrators and health checks.

const (
	// spareFiles is the number of files that are kept for the store, certificates and webhooks.
	spareFiles = 256
	// mostReserved is the largest number of connections that are kept for administrators and health
	// checks.
	mostReserved = 64
	// mostStrangers is the number of connections that may be open without a known user.
	mostStrangers = 1000
	// strangersGrace is the least age of a stranger that is closed to make room for one of an address with
	// as many. Until then new connections wait, so that a burst of good clients does not close its own
	// connections.
	strangersGrace = time.Second
	// waitingRoom is the number of connections that may wait for room.
	waitingRoom = 1000
	// refusalsEvery is the interval at which the log reports refused connections.
	refusalsEvery = time.Minute
)

// maxConnections returns how many connections a process has files for that may open so many; 0 is
// no limit.
func maxConnections(files int64) int64 {
	return files - min(spareFiles, files/2)
}

// connections are the open connections.
type connections struct {
	limit     int64 // of all; 0: none
	reserved  int64 // of them, for administrators and health checks
	strangers int   // how many may be strangers'
	log       *slog.Logger
	stalls    stallLooks

	mu      sync.Mutex
	open    map[*clientConn]struct{}
	sources map[netip.Prefix]*source // of strangers, and of connections that wait
	unknown int                      // strangers
	waiting int                      // connections that wait
	users   map[string]int64         // connections by user
	charged charges                  // for headers that have not arrived yet
	said    time.Time                // when the log last reported refusals
	changed chan struct{}            // has an element when there is room again
}

// newConnections returns the limits for a process that may open a number of files. Headers that have not
// arrived completely may take so many pending bytes together.
func newConnections(files, pending int64, stall time.Duration, log *slog.Logger) *connections {
	c := &connections{limit: maxConnections(files), strangers: mostStrangers, log: log, open: map[*clientConn]struct{}{},
		sources: map[netip.Prefix]*source{}, users: map[string]int64{}, changed: make(chan struct{}, 1)}
	c.reserved = min(mostReserved, c.limit/8)
	c.charged.init(pending)
	c.stalls.limit = stall
	c.stalls.now.Store(1)
	return c
}

// source holds the strangers of one address and its connections that wait, the oldest first.
type source struct {
	first, last *clientConn
	count       int
	waiting     []*clientConn
}

// sourceOf returns the address that a connection comes from; for IPv6 the network of its site.
func sourceOf(c net.Conn) netip.Prefix {
	a, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	addr := a.AddrPort().Addr().Unmap()
	bits := 32
	if addr.Is6() {
		bits = 64
	}
	p, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// placing is what became of a new connection.
type placing uint8

const (
	admitted placing = iota
	waits
	refused
	shed // refused, because its address connects faster than the server accepts
)

// place admits a new connection as a stranger's, makes it wait, or refuses it. If one that has waited is admitted for it, that is ready.
// behind says that many more are in the system's queue.
func (c *connections) place(conn *clientConn, behind bool) (got placing, ready *clientConn) {
	now := time.Now()
	c.mu.Lock()
	got, ready, dropped := c.decide(conn, now, behind)
	say := got >= refused && now.Sub(c.said) > refusalsEvery
	if say {
		c.said = now
	}
	n := len(c.open)
	c.mu.Unlock()
	if dropped != nil {
		dropped.abort()
	}
	switch {
	case say && got == shed:
		c.log.Warn("connections of an address are closed: it connects faster than they can be accepted", "address", conn.source.String())
	case say:
		c.log.Warn("connections are refused: there are as many as the limit on open files allows", "open", n)
	}
	return got, ready
}

// decide does the work of place. It also returns a connection that is to be closed, or nil. The lock is held.
func (c *connections) decide(conn *clientConn, now time.Time, behind bool) (got placing, ready, dropped *clientConn) {
	if c.hasRoom() {
		c.admit(conn, now)
		return admitted, nil, nil
	}
	victim := c.victim()
	if victim == nil {
		return refused, nil, nil
	}
	s := c.sourceAt(conn.source)
	if behind && 2*s.count >= c.sources[victim.source].count {
		c.tidy(conn.source)
		return shed, nil, nil
	}
	if s.count+1 < c.sources[victim.source].count || c.waiting == 0 && now.Sub(victim.since) >= strangersGrace {
		c.remove(victim)
		c.admit(conn, now)
		return admitted, nil, victim
	}
	if !c.mayWait() {
		if most := c.mostWaiting(); most != nil && most != s {
			dropped = most.waiting[len(most.waiting)-1]
			c.forsake(dropped)
		} else {
			// The address has all that wait: each of its connections has a shorter time.
			c.remove(victim)
			dropped = victim
			if len(s.waiting) == 0 {
				c.admit(conn, now)
				return admitted, nil, dropped
			}
			ready = s.waiting[0]
			c.forsake(ready)
			c.admit(ready, now)
			s = c.sourceAt(conn.source)
		}
	}
	conn.since = now
	s.waiting = append(s.waiting, conn)
	c.waiting++
	return waits, ready, dropped
}

// mayWait reports whether one more connection may wait. Those that wait have files, too: some of those that are kept for the store. The lock
// is held.
func (c *connections) mayWait() bool {
	return c.waiting < waitingRoom && (c.limit == 0 || int64(len(c.open)+c.waiting) < c.limit+min(c.limit/8, spareFiles/2))
}

// hasRoom reports whether a connection may be admitted without closing another one. The lock is held.
func (c *connections) hasRoom() bool {
	return (c.limit == 0 || int64(len(c.open)) < c.limit) && c.unknown < c.strangers
}

// mostWaiting returns the address with most connections that wait; nil if none waits. The lock is held.
func (c *connections) mostWaiting() *source {
	var most *source
	for _, s := range c.sources {
		if len(s.waiting) > 0 && (most == nil || len(s.waiting) > len(most.waiting)) {
			most = s
		}
	}
	return most
}

// forsake removes a connection that waits. The lock is held.
func (c *connections) forsake(conn *clientConn) {
	s := c.sources[conn.source]
	i := slices.Index(s.waiting, conn)
	s.waiting = slices.Delete(s.waiting, i, i+1)
	c.waiting--
	c.tidy(conn.source)
}

// next admits a connection that has waited, the first one of the address that has fewest strangers, if there is room or may be made. If
// there is none, it returns how long that takes at most, 0 if nothing waits.
func (c *connections) next() (conn *clientConn, wait time.Duration) {
	var dropped *clientConn
	defer func() {
		if dropped != nil {
			dropped.abort()
		}
	}()
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting == 0 {
		return nil, 0
	}
	var fewest *source
	for _, s := range c.sources {
		if len(s.waiting) > 0 && (fewest == nil || s.count < fewest.count || s.count == fewest.count && s.waiting[0].since.Before(fewest.waiting[0].since)) {
			fewest = s
		}
	}
	conn = fewest.waiting[0]
	if !c.hasRoom() {
		victim := c.victim()
		if victim == nil { // users have all of them
			return nil, strangersGrace
		}
		if wait := strangersGrace - max(now.Sub(victim.since), now.Sub(conn.since)); wait > 0 {
			return nil, wait
		}
		dropped = victim
		c.remove(victim)
	}
	c.forsake(conn)
	c.admit(conn, now)
	return conn, 0
}

// admit counts a connection as a stranger's. The lock is held.
func (c *connections) admit(conn *clientConn, now time.Time) {
	conn.since = now
	c.open[conn] = struct{}{}
	c.list(conn)
}

// list puts a connection at the end of its source's strangers. The lock is held.
func (c *connections) list(conn *clientConn) {
	s := c.sourceAt(conn.source)
	conn.before, conn.after = s.last, nil
	if s.last == nil {
		s.first = conn
	} else {
		s.last.after = conn
	}
	s.last = conn
	s.count++
	conn.stranger = true
	c.unknown++
}

// unlist removes a connection from the strangers. The lock is held.
func (c *connections) unlist(conn *clientConn) {
	if !conn.stranger {
		return
	}
	conn.stranger = false
	c.unknown--
	s := c.sources[conn.source]
	if conn.before == nil {
		s.first = conn.after
	} else {
		conn.before.after = conn.after
	}
	if conn.after == nil {
		s.last = conn.before
	} else {
		conn.after.before = conn.before
	}
	conn.before, conn.after = nil, nil
	s.count--
	c.tidy(conn.source)
}

// sourceAt returns the connections of an address. The lock is held.
func (c *connections) sourceAt(at netip.Prefix) *source {
	s := c.sources[at]
	if s == nil {
		s = &source{}
		c.sources[at] = s
	}
	return s
}

// tidy forgets an address without connections. The lock is held.
func (c *connections) tidy(at netip.Prefix) {
	if s := c.sources[at]; s.count == 0 && len(s.waiting) == 0 {
		delete(c.sources, at)
	}
}

// victim returns the oldest stranger of the address that has most; nil if there is no stranger. The
// lock is held.
func (c *connections) victim() *clientConn {
	var most *source
	for _, s := range c.sources {
		if s.count == 0 {
			continue
		}
		if most == nil || s.count > most.count || s.count == most.count && s.first.since.Before(most.first.since) {
			most = s
		}
	}
	if most == nil {
		return nil
	}
	return most.first
}

// remove forgets a connection. The lock is held.
func (c *connections) remove(conn *clientConn) {
	if _, ok := c.open[conn]; !ok {
		return
	}
	delete(c.open, conn)
	c.unlist(conn)
	c.charged.drop(conn)
	if conn.counts {
		if c.users[conn.user]--; c.users[conn.user] == 0 {
			delete(c.users, conn.user)
		}
	}
	c.wake()
}

// wake wakes a connection that waits, because there may be room.
func (c *connections) wake() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// know decides whether a connection may stay, now that its user is known.
func (c *connections) know(conn *clientConn, caller admit.Caller) admit.Standing {
	var victim *clientConn
	defer func() {
		if victim != nil {
			victim.abort()
		}
	}()
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.open[conn]; !ok {
		return admit.Refused // it was closed to make room for another one
	}
	ordinary := c.limit - c.reserved
	over := c.limit > 0 && int64(len(c.open)) > ordinary
	switch {
	case !conn.stranger: // another request has shown the user before
		return admit.Stays
	case caller.Anonymous:
		switch {
		case over && caller.Probe:
			return admit.Closes
		case over:
			return admit.Refused
		}
		return admit.Stays
	case caller.Administrator:
	case c.limit > 0 && !c.leaves(caller.User, ordinary):
		return refusal(caller)
	case over:
		c.unlist(conn)
		if victim = c.victim(); victim == nil {
			c.list(conn)
			return refusal(caller)
		}
		c.remove(victim)
	}
	c.unlist(conn)
	c.charged.drop(conn)
	conn.user, conn.counts = caller.User, true
	c.users[caller.User]++
	conn.known.Store(true)
	c.wake()
	return admit.Stays
}

// leaves reports whether a user with one more connection leaves as many to others as it has. So
// users that open as many as they can leave some. A user without a connection may have one. The
// caller holds the lock.
func (c *connections) leaves(user string, ordinary int64) bool {
	has, known := c.users[user], int64(len(c.open)-c.unknown)
	return has == 0 || has+1 <= ordinary-known-1
}

// refusal returns the standing of a connection for which there is no room.
func refusal(caller admit.Caller) admit.Standing {
	if caller.Probe {
		return admit.Closes
	}
	return admit.Refused
}

// forsakeAll closes all connections that wait.
func (c *connections) forsakeAll() {
	c.mu.Lock()
	var all []*clientConn
	for at, s := range c.sources {
		all = append(all, s.waiting...)
		s.waiting = nil
		c.tidy(at)
	}
	c.waiting = 0
	c.mu.Unlock()
	for _, conn := range all {
		conn.abort()
	}
}
