package servertest

import (
	"bytes"
	"sync"
)

// This file keeps the end of the server's log, for tests that fail.

// tail keeps the last bytes that were written to it.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

// tailSize is the number of bytes that a tail keeps at least.
const tailSize = 16 << 10

// Write implements io.Writer.
func (w *tail) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept = append(w.kept, b...)
	if n := len(w.kept); n > 2*tailSize {
		w.kept = append(w.kept[:0], w.kept[n-tailSize:]...)
	}
	return len(b), nil
}

// String returns the last bytes.
func (w *tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(bytes.TrimSpace(w.kept[max(0, len(w.kept)-tailSize):]))
}
