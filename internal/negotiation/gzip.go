package negotiation

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"hash/crc32"
	"io"
	"sync"
)

// This file compresses answers without keeping a compressor, which is large, for each client that
// is slow to read.

// zipChunk is the number of bytes that are compressed at once.
const zipChunk = 64 << 10

// Compressor compresses what is written to it as gzip (RFC 1952). Between two writes to the client
// it holds only the bytes of the next chunk. During a write it also holds the compressed chunk.
type Compressor struct {
	w      io.Writer
	chunk  *[]byte // what is gathered
	begun  bool
	sum    uint32
	length uint32
}

var (
	zippers = sync.Pool{New: func() any {
		w, err := flate.NewWriter(nil, flate.BestSpeed)
		if err != nil {
			panic("BUG: " + err.Error())
		}
		return w
	}}
	zipChunks = sync.Pool{New: func() any {
		b := make([]byte, 0, zipChunk)
		return &b
	}}
	zipped = sync.Pool{New: func() any { return new(bytes.Buffer) }}
)

// NewCompressor returns a Compressor that writes to w. It must be closed.
func NewCompressor(w io.Writer) *Compressor {
	return &Compressor{w: w, chunk: zipChunks.Get().(*[]byte)}
}

// Write implements io.Writer.
func (c *Compressor) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		if len(*c.chunk) == 0 && len(b) >= zipChunk {
			if err := c.compress(b[:zipChunk]); err != nil {
				return n - len(b), err
			}
			b = b[zipChunk:]
			continue
		}
		more := min(len(b), zipChunk-len(*c.chunk))
		*c.chunk = append(*c.chunk, b[:more]...)
		b = b[more:]
		if len(*c.chunk) == zipChunk {
			if err := c.flush(); err != nil {
				return n - len(b), err
			}
		}
	}
	return n, nil
}

func (c *Compressor) flush() error {
	err := c.compress(*c.chunk)
	*c.chunk = (*c.chunk)[:0]
	return err
}

// compress writes one chunk. A chunk does not refer to earlier ones, so that any compressor of the
// pool can be used.
func (c *Compressor) compress(b []byte) error {
	out := zipped.Get().(*bytes.Buffer)
	defer zipped.Put(out)
	out.Reset()
	c.begin(out)
	c.sum = crc32.Update(c.sum, crc32.IEEETable, b)
	c.length += uint32(len(b))
	z := zippers.Get().(*flate.Writer)
	z.Reset(out)
	z.Write(b) // to a buffer: there are no errors
	z.Flush()
	zippers.Put(z)
	_, err := c.w.Write(out.Bytes())
	return err
}

// begin writes the header, once: deflate, no name, no time, the fastest algorithm, and any system.
func (c *Compressor) begin(out *bytes.Buffer) {
	if !c.begun {
		c.begun = true
		out.Write([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255})
	}
}

// Close writes what is left. It does not close the writer below.
func (c *Compressor) Close() error {
	var err error
	if len(*c.chunk) > 0 {
		err = c.flush()
	}
	c.Release()
	if err != nil {
		return err
	}
	var out bytes.Buffer
	c.begin(&out)
	end := []byte{3, 0} // a last block with nothing in it
	end = binary.LittleEndian.AppendUint32(end, c.sum)
	end = binary.LittleEndian.AppendUint32(end, c.length)
	out.Write(end)
	_, err = c.w.Write(out.Bytes())
	return err
}

// Release gives up a Compressor that is not closed. Nothing may be written to it any more.
func (c *Compressor) Release() {
	if c.chunk != nil {
		*c.chunk = (*c.chunk)[:0]
		zipChunks.Put(c.chunk)
		c.chunk = nil
	}
}

// Gzip compresses everything that write writes, and writes it to w.
func Gzip(w io.Writer, write func(io.Writer)) error {
	c := NewCompressor(w)
	write(c)
	return c.Close()
}
