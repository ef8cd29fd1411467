package negotiation

import (
	"bytes"
	"compress/gzip"
	"io"
	"math/rand/v2"
	"testing"
)

// largestWrite notes how much is written at once.
type largestWrite struct {
	bytes.Buffer
	largest int
}

func (w *largestWrite) Write(b []byte) (int, error) {
	w.largest = max(w.largest, len(b))
	return w.Buffer.Write(b)
}

func TestCompressor(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, zipChunk - 1, zipChunk, zipChunk + 1, 10*zipChunk + 77} {
		text := make([]byte, size)
		for i := range text {
			text[i] = byte(r.IntN(200)) // hardly smaller when compressed
		}
		var out largestWrite
		c := NewCompressor(&out)
		for rest := text; len(rest) > 0; {
			n := min(len(rest), 1+r.IntN(2*zipChunk))
			if wrote, err := c.Write(rest[:n]); wrote != n || err != nil {
				t.Fatalf("wrote %d, %v, want %d", wrote, err, n)
			}
			rest = rest[n:]
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(&out)
		if err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		z.Multistream(false) // as clients that know one member only
		got, err := io.ReadAll(z)
		if err != nil || !bytes.Equal(got, text) {
			t.Errorf("%d bytes: %d read, %v", size, len(got), err)
		}
		if out.largest > zipChunk+zipChunk/8 {
			t.Errorf("%d bytes: %d written at once", size, out.largest)
		}
	}
}
