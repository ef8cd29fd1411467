package server

import (
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/keelson-io/keelson/api"
)

// This file limits connections, so that no client gets all of them. Each connection uses one of the
// files that the process may open. The store needs some of the files, and fails when it gets none.
//
// A connection is a stranger's until a request on it has shown its user. The number of strangers is
// bounded. Beyond the bound, or when no files are left, the oldest stranger is closed, of the
// address that has most of them. Users have what strangers leave: each user may have as many
// connections as are left for others, the first one half of them. The last few are for
// administrators and health checks.

const (
	// spareFiles is the number of files that are kept for the store, certificates and webhooks.
	spareFiles = 256
	// mostReserved is the largest number of connections that are kept for administrators and health
	// checks.
	mostReserved = 64
	// mostStrangers is the number of connections that may be open without a known user.
	mostStrangers = 1000
	// strangersGrace is the least age of a stranger that is closed to make room. Until then new
	// connections wait, so that a burst of good clients does not close its own connections.
	strangersGrace = time.Second
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
	sources map[netip.Prefix]*source // of strangers
	unknown int                      // strangers
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

// source holds the strangers of one address, the oldest first.
type source struct {
	first, last *clientConn
	count       int
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

// add counts a new connection as a stranger's, and makes room for it. If there is no room yet, but
// may be soon, it returns how long to wait at most. came is when the connection was accepted.
func (c *connections) add(conn *clientConn, came time.Time) (added bool, wait time.Duration) {
	now := time.Now()
	c.mu.Lock()
	full := c.limit > 0 && int64(len(c.open)) >= c.limit
	if !full && c.unknown < c.strangers {
		c.admit(conn, now)
		c.mu.Unlock()
		return true, 0
	}
	victim := c.victim()
	if victim == nil {
		say := now.Sub(c.said) > refusalsEvery
		if say {
			c.said = now
		}
		n := len(c.open)
		c.mu.Unlock()
		if say {
			c.log.Warn("connections are refused: there are as many as the limit on open files allows", "open", n)
		}
		return false, 0
	}
	if wait := strangersGrace - max(now.Sub(victim.since), now.Sub(came)); wait > 0 {
		c.mu.Unlock()
		return false, wait
	}
	c.remove(victim)
	c.admit(conn, now)
	c.mu.Unlock()
	victim.abort()
	return true, 0
}

// admit counts a connection as a stranger's. The lock is held.
func (c *connections) admit(conn *clientConn, now time.Time) {
	conn.since = now
	c.open[conn] = struct{}{}
	c.list(conn)
}

// list puts a connection at the end of its source's strangers. The lock is held.
func (c *connections) list(conn *clientConn) {
	s := c.sources[conn.source]
	if s == nil {
		s = &source{}
		c.sources[conn.source] = s
	}
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
	if s.count--; s.count == 0 {
		delete(c.sources, conn.source)
	}
}

// victim returns the oldest stranger of the address that has most; nil if there is no stranger. The
// lock is held.
func (c *connections) victim() *clientConn {
	var most *source
	for _, s := range c.sources {
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
func (c *connections) know(conn *clientConn, caller api.Caller) api.Standing {
	var victim *clientConn
	defer func() {
		if victim != nil {
			victim.abort()
		}
	}()
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.open[conn]; !ok {
		return api.Refused // it was closed to make room for another one
	}
	ordinary := c.limit - c.reserved
	over := c.limit > 0 && int64(len(c.open)) > ordinary
	switch {
	case !conn.stranger: // another request has shown the user before
		return api.Stays
	case caller.Anonymous:
		switch {
		case over && caller.Probe:
			return api.Closes
		case over:
			return api.Refused
		}
		return api.Stays
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
	return api.Stays
}

// leaves reports whether a user with one more connection leaves as many to others as it has. So
// users that open as many as they can leave some. A user without a connection may have one. The
// caller holds the lock.
func (c *connections) leaves(user string, ordinary int64) bool {
	has, known := c.users[user], int64(len(c.open)-c.unknown)
	return has == 0 || has+1 <= ordinary-known-1
}

// refusal returns the standing of a connection for which there is no room.
func refusal(caller api.Caller) api.Standing {
	if caller.Probe {
		return api.Closes
	}
	return api.Refused
}

// limitListener accepts connections as long as there is room for them, and closes others at once.
type limitListener struct {
	net.Listener
	*connections
}

// Accept implements net.Listener.
func (l limitListener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		conn := &clientConn{Conn: accepted, all: l.connections, source: sourceOf(accepted)}
		conn.counting.Store(true)
		came := time.Now()
		for {
			added, wait := l.add(conn, came)
			if added {
				return conn, nil
			}
			if wait == 0 {
				accepted.Close()
				break
			}
			t := time.NewTimer(wait)
			select {
			case <-l.changed:
			case <-t.C:
			}
			t.Stop()
		}
	}
}
