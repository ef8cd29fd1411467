package server

import (
	"net/netip"
)

// This file bounds the memory of headers that have not arrived completely. A header may be 1 MiB
// long, and its client may delay the rest of it for half a minute.

// freeHeader is the size up to which an incomplete header is not counted: nearly all headers are
// smaller.
const freeHeader = 16 << 10

// charges are the connections with large incomplete headers.
type charges struct {
	most  int64 // bytes that all incomplete headers may take together
	bytes int64
	conns map[*clientConn]int64
	turns map[*clientConn]uint64 // order of arrival
	turn  uint64
}

// init makes the maps, for a number of bytes that all incomplete headers may take together.
func (c *charges) init(most int64) {
	c.most, c.conns, c.turns = most, map[*clientConn]int64{}, map[*clientConn]uint64{}
}

// drop removes a connection.
func (c *charges) drop(conn *clientConn) {
	c.bytes -= c.conns[conn]
	delete(c.conns, conn)
	delete(c.turns, conn)
}

// victim returns the oldest connection of the address whose headers need most bytes.
func (c *charges) victim() *clientConn {
	sources := map[netip.Prefix]int64{}
	for conn, n := range c.conns {
		sources[conn.source] += n
	}
	var victim *clientConn
	for conn := range c.conns {
		switch {
		case victim == nil, sources[conn.source] > sources[victim.source],
			conn.source == victim.source && c.turns[conn] < c.turns[victim]:
			victim = conn
		}
	}
	return victim
}

// charge counts the bytes that a connection has sent of a header, in steps. If all together are too
// many, it closes connections.
func (c *connections) charge(conn *clientConn, n int64) {
	n = (n + freeHeader - 1) / freeHeader * freeHeader
	var victims []*clientConn
	c.mu.Lock()
	if _, ok := c.open[conn]; ok && c.charged.conns[conn] != n {
		if c.charged.turns[conn] == 0 {
			c.charged.turn++
			c.charged.turns[conn] = c.charged.turn
		}
		c.charged.bytes += n - c.charged.conns[conn]
		c.charged.conns[conn] = n
		for c.charged.bytes > c.charged.most {
			v := c.charged.victim()
			c.remove(v)
			victims = append(victims, v)
		}
	}
	c.mu.Unlock()
	for _, v := range victims {
		v.abort()
	}
}

// forgive removes the charge of a header that has arrived.
func (c *connections) forgive(conn *clientConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.charged.drop(conn)
}
