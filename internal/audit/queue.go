package audit

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// This file writes events in batches from a background goroutine.

// errFull is the reason of dropped events.
var errFull = errors.New("audit buffer queue blocked")

// maxQueued bounds the bytes of the events that wait or are being delivered. The size of the buffer
// bounds their number only. An event with the bodies of request and answer can have several MiB.
const maxQueued = 128 << 20

// queue is a backend that passes events to another goroutine. It stores them encoded, because the
// caller changes an event after Process.
type queue struct {
	plugin
	encode func(*Event) ([]byte, error)
	events chan []byte
	size   int           // events in a batch
	wait   time.Duration // time that a batch waits for more events; 0: none
	deliver
	release func() error
	bytes   atomic.Int64 // of events that wait or are being delivered
	limit   int64        // of bytes

	mu     sync.RWMutex // read lock for adding, write lock for Close
	closed bool
	done   chan struct{}
}

// deliver writes a batch of encoded events.
type deliver func(events [][]byte) error

// logBatch is the number of lines that are written at once.
const logBatch = 64

// newQueue returns a queue that writes batches of logBatch events without waiting for more. It holds so many events and bytes; 0
// bytes mean maxQueued.
func newQueue(p plugin, buffer int, bytes int64, encode func(*Event) ([]byte, error), d deliver, release func() error) *queue {
	return startQueue(&queue{plugin: p, encode: encode, events: make(chan []byte, buffer), size: logBatch, limit: bytes, deliver: d, release: release})
}

// startQueue starts the goroutine of a queue.
func startQueue(q *queue) *queue {
	q.done = make(chan struct{})
	if q.limit == 0 {
		q.limit = maxQueued
	}
	go q.run()
	return q
}

// Process implements Backend. It never waits: if the buffer is full, in events or in bytes, it drops the event.
func (q *queue) Process(e *Event) bool {
	text, err := q.encode(e)
	if err != nil {
		q.failed(err, 1)
		return true
	}
	q.mu.RLock()
	defer q.mu.RUnlock()
	if q.closed {
		q.failed(errors.New("audit backend shut down"), 1)
		return true
	}
	if q.bytes.Add(int64(len(text))) <= q.limit {
		select {
		case q.events <- text:
			return true
		default:
		}
	}
	q.bytes.Add(-int64(len(text)))
	q.failed(errFull, 1)
	return true
}

// run delivers batches until the queue is closed and empty.
func (q *queue) run() {
	defer close(q.done)
	for {
		batch, more := q.batch()
		if len(batch) > 0 {
			if err := q.deliver(batch); err != nil {
				q.failed(err, len(batch))
			}
			for _, event := range batch {
				q.bytes.Add(-int64(len(event)))
			}
		}
		if !more {
			return
		}
	}
}

// batch waits for the next batch. more is false if the queue is closed and this is the last one.
func (q *queue) batch() (batch [][]byte, more bool) {
	first, ok := <-q.events
	if !ok {
		return nil, false
	}
	batch = [][]byte{first}
	var late <-chan time.Time
	if q.wait > 0 {
		t := time.NewTimer(q.wait)
		defer t.Stop()
		late = t.C
	} else {
		now := make(chan time.Time)
		close(now)
		late = now
	}
	for len(batch) < q.size {
		select {
		case next, ok := <-q.events:
			if !ok {
				return batch, false
			}
			batch = append(batch, next)
			continue
		default:
		}
		select {
		case next, ok := <-q.events:
			if !ok {
				return batch, false
			}
			batch = append(batch, next)
		case <-late:
			return batch, true
		}
	}
	return batch, true
}

// Waiting returns the bytes of the events that wait or are being delivered.
func (q *queue) Waiting() int64 { return q.bytes.Load() }

// Close implements Backend. It returns when all events have been delivered.
func (q *queue) Close() error {
	q.mu.Lock()
	if !q.closed {
		q.closed = true
		close(q.events)
	}
	q.mu.Unlock()
	<-q.done
	return q.release()
}

// Backends combines several backends. It returns nil if the list is empty.
func Backends(list ...Backend) Backend {
	var some several
	for _, b := range list {
		if b != nil {
			some = append(some, b)
		}
	}
	switch len(some) {
	case 0:
		return nil
	case 1:
		return some[0]
	}
	return some
}

type several []Backend

// Process implements Backend.
func (s several) Process(e *Event) bool {
	kept := true
	for _, b := range s {
		kept = b.Process(e) && kept
	}
	return kept
}

// Close implements Backend.
func (s several) Close() error {
	var errs []error
	for _, b := range s {
		errs = append(errs, b.Close())
	}
	return errors.Join(errs...)
}
