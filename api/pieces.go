package api

import (
	"sync"

	"github.com/keelson-io/keelson/api/admit"
)

// This file gathers the bytes of long answers into pieces, so that what is built for a reader
// stays small, however long the answer is and however slowly it is read.

// pieceSize is the number of bytes that are gathered before they are sent. A piece is still in the
// processor's cache when it is encrypted.
const pieceSize = 32 << 10

var pieceBuffers = sync.Pool{New: func() any {
	b := make([]byte, 0, pieceSize+pieceSize/4)
	return &b
}}

// pieces gathers bytes and sends them in pieces. Its user appends bytes built for this reader to b,
// and passes bytes that other readers share to share.
type pieces struct {
	b      []byte
	pooled *[]byte            // where b comes from; nil before begin
	most   int                // b is sent when it is longer
	whole  bool               // b is sent only between steps
	send   func([]byte) error // does not keep the bytes
	room   *admit.Room        // for more than admit.BuildFree; nil if it is counted elsewhere
}

// begin gets an empty buffer.
func (p *pieces) begin() {
	if p.pooled == nil {
		p.pooled = pieceBuffers.Get().(*[]byte)
		p.b = (*p.pooled)[:0]
	}
}

// end releases the buffer. Bytes that were not flushed are dropped.
func (p *pieces) end() {
	p.room.Leave()
	if p.pooled != nil {
		pieceBuffers.Put(p.pooled)
		p.pooled, p.b = nil, nil
	}
}

// flush sends what was gathered.
func (p *pieces) flush() error {
	if len(p.b) == 0 {
		return nil
	}
	err := p.send(p.b)
	p.b = (*p.pooled)[:0] // drops a buffer that grew once
	return err
}

// step ends a part of an answer. If the gathered bytes are long enough or hold room, it sends them
// and releases the room.
func (p *pieces) step() error {
	if len(p.b) < p.most && !p.room.IsHeld() {
		return nil
	}
	err := p.flush()
	p.room.Leave()
	return err
}

// share adds bytes that other readers share. Few bytes are copied; many are sent without a copy.
func (p *pieces) share(b []byte) error {
	if !p.whole && len(p.b)+len(b) > p.most {
		if err := p.flush(); err != nil {
			return err
		}
		if len(b) >= p.most {
			return p.send(b)
		}
	}
	p.b = append(p.b, b...)
	return nil
}

// build acquires room for about n bytes that will be built for this reader, or waits for it. It
// first sends what was gathered before.
func (p *pieces) build(n int) error {
	if n <= admit.BuildFree || p.room == nil {
		return nil
	}
	if err := p.flush(); err != nil {
		return err
	}
	p.room.Leave()
	return p.room.Enter(int64(n))
}
