package api

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// This file ends long-running answers whose clients do not read them. Other answers have to be sent
// before the deadline of their request, but a watch has none. So each piece of it has to be sent
// within a time. No timer is set for a piece: one goroutine checks all writes in progress at
// intervals.

// mostStalled is how long a client may leave a piece of an answer unread.
const mostStalled = 30 * time.Second

// writePiece is how much is written at once: a client that reads that much each 30 s makes progress.
const writePiece = 64 << 10

// StallLimit returns how long a client may leave a piece of an answer unread if requests may take
// as long as timeout.
func StallLimit(timeout time.Duration) time.Duration { return min(mostStalled, timeout) }

// looksAtStalls is how often the writes are checked within the time that a write may take.
const looksAtStalls = 6

// stalls are the long-running answers of a server.
type stalls struct {
	limit time.Duration
	looks atomic.Int64 // how often they were looked at, from 1

	mu   sync.Mutex
	open map[*progress]struct{}
}

func newStalls(limit time.Duration) *stalls {
	s := &stalls{limit: limit, open: map[*progress]struct{}{}}
	s.looks.Store(1)
	return s
}

// run looks at the answers until ctx ends.
func (s *stalls) run(ctx context.Context) {
	t := time.NewTicker(s.limit / looksAtStalls)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			s.look()
		case <-ctx.Done():
			return
		}
	}
}

// look ends the answers with a write that has taken too long.
func (s *stalls) look() {
	now := s.looks.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.open {
		if since := p.since.Load(); since > 0 && now-since > looksAtStalls {
			delete(s.open, p)
			go p.abort()
		}
	}
}

// follow returns a writer for an answer, which is checked for stalls until forget is called.
func (s *stalls) follow(w http.ResponseWriter) *progress {
	p := &progress{ResponseWriter: w, s: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[p] = struct{}{}
	return p
}

// forget stops checking an answer. When it returns, nothing uses the answer's writer any more.
func (s *stalls) forget(p *progress) {
	s.mu.Lock()
	delete(s.open, p)
	s.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
}

// progress is an answer that is written in pieces. It records when the write in progress began.
type progress struct {
	http.ResponseWriter
	s     *stalls
	since atomic.Int64 // how often the answers had been looked at when it began; 0: none is

	mu    sync.Mutex // held while the connection is told to end the answer
	ended bool
}

// Write writes pieces.
func (p *progress) Write(b []byte) (int, error) {
	defer p.since.Store(0)
	n := 0
	for {
		piece := b[n:min(len(b), n+writePiece)]
		p.since.Store(p.s.looks.Load())
		m, err := p.ResponseWriter.Write(piece)
		if n += m; err != nil || n == len(b) {
			return n, err
		}
	}
}

// FlushError writes what is buffered.
func (p *progress) FlushError() error {
	p.since.Store(p.s.looks.Load())
	defer p.since.Store(0)
	return http.NewResponseController(p.ResponseWriter).Flush()
}

// Flush implements http.Flusher.
func (p *progress) Flush() {
	p.since.Store(p.s.looks.Load())
	defer p.since.Store(0)
	if f, ok := p.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// Unwrap is for http.ResponseController.
func (p *progress) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// abort makes the write that is under way, and those after it, fail: a stream of HTTP/2 is reset, a
// connection of HTTP/1.1 ends.
func (p *progress) abort() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		http.NewResponseController(p.ResponseWriter).SetWriteDeadline(time.Unix(1, 0))
	}
}
