package audit

import (
	"errors"
	"sync"
	"time"
)

// This file keeps events later than they happen, many at a time.

// errFull is why events are lost.
var errFull = errors.New("audit buffer queue blocked")

// queue is a backend that hands events on from another goroutine. What it holds
// are events that are encoded already: an event changes after it was handed
// over.
type queue struct {
	plugin
	encode func(*Event) ([]byte, error)
	events chan []byte
	size   int           // largest batch
	wait   time.Duration // how long a batch may wait for more; 0: it does not
	deliver
	release func() error

	mu     sync.RWMutex // held for reading by who adds, for writing by Close
	closed bool
	done   chan struct{}
}

// deliver keeps events that have been encoded.
type deliver func(events [][]byte) error

// logBatch is how many lines are written at once.
const logBatch = 64

func newQueue(p plugin, buffer int, encode func(*Event) ([]byte, error), d deliver, release func() error) *queue {
	return startQueue(&queue{plugin: p, encode: encode, events: make(chan []byte, buffer), size: logBatch, deliver: d, release: release})
}

func startQueue(q *queue) *queue {
	q.done = make(chan struct{})
	go q.run()
	return q
}

// Process implements Backend. Requests never wait: what there is no room for is
// lost.
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
	select {
	case q.events <- text:
	default:
		q.failed(errFull, 1)
	}
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
		}
		if !more {
			return
		}
	}
}

// batch is the next events; none are left to come if more is false.
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

// Close implements Backend: it returns when everything has been delivered.
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

// Backends are several backends as one; nil if there is none.
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
