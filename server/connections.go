package server

import (
	"log/slog"
	"net"
	"sync"
	"time"
)

// This file keeps connections from taking all the files that the process may open: the store needs some of them, and has to give up
// when it gets none.

// spareFiles are kept for what is not a connection of a client: the store, certificates, webhooks.
const spareFiles = 256

// refusalsEvery is how often the log says that connections are refused.
const refusalsEvery = time.Minute

// maxConnections is how many connections a process has files for that may open so many; 0 is no limit.
func maxConnections(files int64) int64 {
	return files - min(spareFiles, files/2)
}

// connections counts those that are open, up to a limit.
type connections struct {
	limit int64 // 0: none
	log   *slog.Logger

	mu   sync.Mutex
	open int64
	said time.Time // when the log said last that there are too many
}

// take counts one more, if there is room for it.
func (c *connections) take() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.limit == 0 || c.open < c.limit {
		c.open++
		return true
	}
	if now := time.Now(); now.Sub(c.said) > refusalsEvery {
		c.said = now
		c.log.Warn("connections are refused: there are as many as the limit on open files allows", "open", c.open)
	}
	return false
}

func (c *connections) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
}

// limitListener accepts connections as long as there is room for them, and closes others at once.
type limitListener struct {
	net.Listener
	*connections
}

// Accept implements net.Listener.
func (l limitListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.take() {
			return &countedConn{Conn: c, left: sync.OnceFunc(l.leave)}, nil
		}
		c.Close()
	}
}

// countedConn is a connection that counts until it is closed.
type countedConn struct {
	net.Conn
	left func()
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	defer c.left()
	return c.Conn.Close()
}
