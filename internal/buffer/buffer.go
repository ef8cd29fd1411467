// Package buffer is a pool of byte buffers for texts that are built and soon forgotten.
package buffer

import (
	"sync"

	"github.com/keelson-io/keelson/internal/poison"
)

// maxPooled is the capacity, in bytes, of the largest buffer that goes back to the pool.
const maxPooled = 4 << 20

var pool = sync.Pool{New: func() any { return new([]byte) }}

// Get takes an empty buffer from the pool.
func Get() *[]byte {
	b := pool.Get().(*[]byte)
	*b = (*b)[:0]
	return b
}

// Put gives a buffer back. Nothing may refer to it any more.
func Put(b *[]byte) {
	poison.Fill(*b)
	if cap(*b) <= maxPooled && !poison.On {
		pool.Put(b)
	}
}
