package server

import (
	"crypto/x509"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/keelson-io/keelson/internal/api/admit"
)

// This file tracks one connection: its user, the bytes of a header that has not arrived completely,
// and how long a write has been blocked.

// clientConn is a connection of a client, below TLS.
type clientConn struct {
	net.Conn
	all    *connections
	source netip.Prefix

	// Guarded by the lock of connections:
	since         time.Time // when it came
	stranger      bool      // it is among its source's strangers
	before, after *clientConn
	user          string // the first one that was known
	counts        bool   // it is among that user's

	certs atomic.Pointer[[]*x509.Certificate] // of the client; nil: none, or no request has arrived

	kept     atomic.Bool  // the system asks now and then whether the client is still there
	known    atomic.Bool  // its user is known
	counting atomic.Bool  // bytes that are read are counted
	pending  atomic.Int64 // bytes that were read since
	writing  atomic.Int64 // the number of checks for stalls when the write began; 0: no write is in progress
	closed   atomic.Bool

	leaving bool // the last check found that the client has closed its end; only lookForStalls uses it
}

// Admit implements admit.Connection.
func (c *clientConn) Admit(caller admit.Caller) admit.Standing {
	if c.known.Load() {
		return admit.Stays
	}
	// Not when it is accepted: it takes four system calls, which matter in a flood of connections.
	if t, ok := c.Conn.(*net.TCPConn); ok && c.kept.CompareAndSwap(false, true) {
		t.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true})
	}
	return c.all.know(c, caller)
}

// begin is called when the header of a request has arrived. The client may have sent the body and
// other requests, too. The body is counted elsewhere.
func (c *clientConn) begin(major int) {
	if !c.counting.Load() {
		return
	}
	// On an HTTP/2 connection, bodies cannot be distinguished from headers here.
	if major == 1 || c.known.Load() {
		c.counting.Store(false)
	}
	if c.pending.Swap(0) > freeHeader {
		c.all.forgive(c)
	}
}

// end is called when a request has been answered. On HTTP/1.1 the next bytes are a header.
func (c *clientConn) end(major int) {
	if major == 1 {
		c.counting.Store(true)
	}
}

// Read implements net.Conn.
func (c *clientConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && c.counting.Load() {
		if now := c.pending.Add(int64(n)); now > freeHeader {
			c.all.charge(c, now)
		}
	}
	return n, err
}

// maxWrite is the number of bytes that are written at once. A check finds the write stalled if they
// have not been sent.
const maxWrite = 64 << 10

// Write implements net.Conn. One goroutine writes at a time.
func (c *clientConn) Write(b []byte) (int, error) {
	defer c.writing.Store(0)
	n := 0
	for {
		c.writing.Store(c.all.stalls.now.Load())
		m, err := c.Conn.Write(b[n:min(len(b), n+maxWrite)])
		if n += m; err != nil || n == len(b) {
			return n, err
		}
	}
}

// Close implements net.Conn.
func (c *clientConn) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.all.mu.Lock()
		c.all.remove(c)
		c.all.mu.Unlock()
	}
	return c.Conn.Close()
}

// abort closes the connection and drops what has not been sent.
func (c *clientConn) abort() {
	if t, ok := c.Conn.(*net.TCPConn); ok {
		t.SetLinger(0)
	}
	c.Close()
}

// looksForStalls is how many times connections are checked within the longest duration of a write.
const looksForStalls = 6

// stallLooks finds connections whose writes are blocked.
type stallLooks struct {
	limit time.Duration
	now   atomic.Int64 // the number of checks, from 1
}

// lookForStalls closes connections whose writes are blocked for too long, and those whose clients
// have gone, until done is closed. No timer is set for a write.
//
// net/http notices that an HTTP/1.1 client has gone when it reads the end of the connection. It does
// not read on while a request is served and the next one has begun to arrive. A watch without
// events would then hold a connection that does not exist any more.
func (c *connections) lookForStalls(done <-chan struct{}) {
	t := time.NewTicker(c.stalls.limit / looksForStalls)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-done:
			return
		}
		now := c.stalls.now.Add(1)
		var stalled, open []*clientConn
		c.mu.Lock()
		for conn := range c.open {
			open = append(open, conn)
			if since := conn.writing.Load(); since > 0 && now-since > looksForStalls {
				stalled = append(stalled, conn)
			}
		}
		c.mu.Unlock()
		for _, conn := range stalled {
			conn.abort()
		}
		for _, conn := range open {
			if conn.gone() {
				conn.abort()
			}
		}
	}
}

// gone reports whether the client has reset the connection, or had closed its end at the last check
// already: net/http reads a client's end within that time, if it reads at all.
func (c *clientConn) gone() bool {
	t, ok := c.Conn.(*net.TCPConn)
	if !ok {
		return false
	}
	reset, ended := peerState(t)
	before := c.leaving
	c.leaving = ended
	return reset || ended && before
}
