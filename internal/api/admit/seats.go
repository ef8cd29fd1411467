package admit

import (
	"context"
	"time"

	"github.com/keelson-io/keelson/internal/flow"
)

// This file passes requests through priority and fairness. Package flow decides. Requests hold seats in place of slots, while the
// server works on them.

// QueueWait is the part of a request's time that it may wait in a queue: one of so many.
const QueueWait = 4

// longestWait bounds the time in a queue.
const longestWait = time.Minute

// Estimator estimates the work of a request.
type Estimator interface {
	// EstimateWork returns the work. arrived says whether the body has arrived, or is arriving.
	EstimateWork(t *flow.Ticket, arrived bool) flow.Work
}

// seats is what a request needs for priority and fairness.
type seats struct {
	ticket    flow.Ticket
	request   flow.Request
	estimator Estimator
	wait      time.Duration // how long it may wait in a queue each time; 0: what requests without a timeout may
	waited    time.Duration
	arrived   bool // the body has arrived, or is arriving
	probe     bool
	watch     Watch
	unwatch   func()
}

// Watch says how a request counts among the watches that writes notify.
type Watch uint8

// The sorts of watches.
const (
	NoWatch   Watch = iota
	AnyWatch        // of objects
	NodeWatch       // of the pods of one node
)

// Classify finds the request's place among FlowSchemas and priority levels. It returns the values of the headers that name them. Probes
// do not wait: concurrent probes share one run of their checks.
func (h *Holding) Classify(r flow.Request, e Estimator, watch Watch, probe bool) (schema, level []string) {
	s := &h.seats
	s.request, s.estimator, s.watch, s.probe = r, e, watch, probe
	h.limits.Flow.Classify(&s.ticket, &s.request)
	return s.ticket.Headers()
}

// SetQueueWait says how long the request may wait in a queue each time.
func (h *Holding) SetQueueWait(d time.Duration) { h.seats.wait = d }

// Waited returns how long the request has waited in queues.
func (h *Holding) Waited() time.Duration { return h.seats.waited }

// bodyArrives says that the body has arrived, or is arriving: a write gets its seats afterwards.
func (h *Holding) bodyArrives() { h.seats.arrived = true }

// Watchers returns how many watches a write notifies.
func (h *Holding) Watchers() int { return h.limits.Flow.Watchers(&h.seats.request) }

// enterSeats acquires the request's seats. If there are none, the error is TooMany.
func (h *Holding) enterSeats(ctx context.Context) error {
	s := &h.seats
	if s.probe {
		return nil
	}
	wait := s.wait
	if wait == 0 {
		wait = h.limits.Timeout / QueueWait
	}
	ok, waited := s.ticket.Enter(ctx, s.estimator.EstimateWork(&s.ticket, s.arrived), min(wait, longestWait))
	s.waited += waited
	if !ok {
		return TooMany{s.ticket.RetryAfter()}
	}
	h.inSlot = true
	if s.watch != NoWatch && s.unwatch == nil {
		s.unwatch = h.limits.Flow.Watch(&s.request, s.watch == NodeWatch)
	}
	return nil
}
