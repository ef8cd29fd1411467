package server

import (
	"context"
	"crypto/tls"
	"net"
	"sync"

	"github.com/keelson-io/keelson/internal/api/admit"
	"github.com/keelson-io/keelson/internal/api/stream"
	"github.com/keelson-io/keelson/internal/poison"
)

// This file makes few large writes out of many small ones. net/http writes an answer through a
// buffer of 4 KB and TLS sends each record by itself, so that the events of a watch, which are
// flushed as they come, would be five system calls, each of which wakes the client.

// corkListener accepts connections that can be corked.
type corkListener struct{ net.Listener }

// Accept implements net.Listener.
func (l corkListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &corkConn{Conn: c}, nil
}

// corkConn is a connection below TLS. Bytes that are written while it is corked are sent by Uncork,
// or when there are too many.
type corkConn struct {
	net.Conn
	mu     sync.Mutex // TLS answers to what it reads, too
	corked bool
	held   *[]byte
}

// maxHeld is the number of bytes that a corked connection holds back: a piece of a watch, in
// records. Each client that does not read costs that much.
const maxHeld = 40 << 10

var heldBuffers = sync.Pool{New: func() any {
	b := make([]byte, 0, maxHeld)
	return &b
}}

// Cork implements stream.Corker.
func (c *corkConn) Cork() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.corked = true
}

// Uncork implements stream.Corker.
func (c *corkConn) Uncork() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.corked = false
	return c.release()
}

// Write implements net.Conn.
func (c *corkConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.corked {
		return c.Conn.Write(b)
	}
	if c.held != nil && len(*c.held)+len(b) > maxHeld {
		if err := c.release(); err != nil {
			return 0, err
		}
	}
	if len(b) > maxHeld {
		return c.Conn.Write(b)
	}
	if c.held == nil {
		c.held = heldBuffers.Get().(*[]byte)
	}
	*c.held = append(*c.held, b...)
	return len(b), nil
}

// release writes what is held back. The lock is held.
func (c *corkConn) release() error {
	if c.held == nil {
		return nil
	}
	b := c.held
	c.held = nil
	_, err := c.Conn.Write(*b)
	poison.Fill(*b)
	*b = (*b)[:0]
	heldBuffers.Put(b)
	return err
}

// withConnection gives handlers the connection of a request, and lets them cork it.
func withConnection(ctx context.Context, c net.Conn) context.Context {
	t, ok := c.(*tls.Conn)
	if !ok {
		return ctx
	}
	cork, ok := t.NetConn().(*corkConn)
	if !ok {
		return ctx
	}
	ctx = stream.WithCorker(ctx, cork)
	if conn, ok := cork.Conn.(*clientConn); ok {
		ctx = admit.WithConnection(ctx, conn)
	}
	return ctx
}
