package cli

import (
	"context"
	"errors"
	"io"
	"sync"
)

// This file makes a signal end a command that waits for its standard input.

// errInterrupted is the error of a read that a signal ended.
var errInterrupted = errors.New("interrupted")

// interruptible is a reader whose reads end with its context. A read of a terminal or a pipe cannot
// be ended, so it goes on in a goroutine, and what it gets is lost.
type interruptible struct {
	ctx context.Context
	in  io.Reader

	once   sync.Once
	pieces chan []byte // what was read, in order; closed at the end
	err    error       // of the last read; set before pieces is closed
	rest   []byte      // of the last piece
}

// Read implements io.Reader.
func (r *interruptible) Read(p []byte) (int, error) {
	r.once.Do(func() {
		r.pieces = make(chan []byte)
		go r.pump()
	})
	for len(r.rest) == 0 {
		select {
		case piece, more := <-r.pieces:
			if !more {
				return 0, r.err
			}
			r.rest = piece
		case <-r.ctx.Done():
			return 0, errInterrupted
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// pump reads until the input or the context ends.
func (r *interruptible) pump() {
	defer close(r.pieces)
	for {
		piece := make([]byte, 64<<10)
		n, err := r.in.Read(piece)
		if n > 0 {
			select {
			case r.pieces <- piece[:n]:
			case <-r.ctx.Done():
				r.err = errInterrupted
				return
			}
		}
		if err != nil {
			r.err = err
			return
		}
	}
}
