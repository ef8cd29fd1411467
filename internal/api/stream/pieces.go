// Package stream sends long answers to clients that may read slowly: in pieces, indented, over WebSockets, and cut off if a client does
// not read.
package stream

import (
	"sync"

	"github.com/keelson-io/keelson/internal/api/admit"
)

// This file gathers the bytes of long answers into pieces, so that what is built for a reader
// stays small, however long the answer is and however slowly it is read.

// PieceSize is the number of bytes that are gathered before they are sent. A piece is still in the
// processor's cache when it is encrypted.
const PieceSize = 32 << 10

var pieceBuffers = sync.Pool{New: func() any {
	b := make([]byte, 0, PieceSize+PieceSize/4)
	return &b
}}

// Pieces gathers bytes and sends them in pieces. Its user appends bytes built for this reader to B,
// and passes bytes that other readers share to Share.
type Pieces struct {
	B     []byte
	Most  int                // B is sent when it is longer
	Whole bool               // B is sent only between steps
	Send  func([]byte) error // does not keep the bytes
	Room  *admit.Room        // for more than admit.BuildFree; nil if it is counted elsewhere

	pooled *[]byte // where B comes from; nil before Begin
}

// Begin gets an empty buffer.
func (p *Pieces) Begin() {
	if p.pooled == nil {
		p.pooled = pieceBuffers.Get().(*[]byte)
		p.B = (*p.pooled)[:0]
	}
}

// End releases the buffer. Bytes that were not flushed are dropped.
func (p *Pieces) End() {
	p.Room.Leave()
	if p.pooled != nil {
		pieceBuffers.Put(p.pooled)
		p.pooled, p.B = nil, nil
	}
}

// Flush sends what was gathered.
func (p *Pieces) Flush() error {
	if len(p.B) == 0 {
		return nil
	}
	err := p.Send(p.B)
	p.B = (*p.pooled)[:0] // drops a buffer that grew once
	return err
}

// Step ends a part of an answer. If the gathered bytes are long enough or hold room, it sends them
// and releases the room.
func (p *Pieces) Step() error {
	if len(p.B) < p.Most && !p.Room.IsHeld() {
		return nil
	}
	err := p.Flush()
	p.Room.Leave()
	return err
}

// Share adds bytes that other readers share. Few bytes are copied; many are sent without a copy.
func (p *Pieces) Share(b []byte) error {
	if !p.Whole && len(p.B)+len(b) > p.Most {
		if err := p.Flush(); err != nil {
			return err
		}
		if len(b) >= p.Most {
			return p.Send(b)
		}
	}
	p.B = append(p.B, b...)
	return nil
}

// Build acquires room for about n bytes that will be built for this reader, or waits for it. It
// first sends what was gathered before.
func (p *Pieces) Build(n int) error {
	if n <= admit.BuildFree || p.Room == nil {
		return nil
	}
	if err := p.Flush(); err != nil {
		return err
	}
	p.Room.Leave()
	return p.Room.Enter(int64(n))
}
