// Package flow decides when requests are served: API Priority and Fairness.
//
// # Model
//
// A [Controller] divides the server's seats among priority levels. A FlowSchema matches requests and
// names their level; the first that matches counts. Requests of one level wait in queues. A
// distinguisher, such as the user's name, tells the flows of a schema apart. Each flow has a hand of
// queues, dealt by a hash, and its requests join the queue of the hand in which the least work waits
// (deal.go). Queues are served by fair queuing: the level's progress R is the work that each queue
// with requests would have got by now if all were served at the same time, and the next request is the
// one that would be the first to finish then (level.go).
//
// Every 10 seconds, levels lend seats to levels that want more, within the bounds of their
// configuration (adjust.go).
//
// A [Ticket] is the place of one request. [Controller.Classify] finds its schema, [Ticket.Enter] waits
// for its seats, [Ticket.Leave] gives them back. A request may enter several times.
//
// # Invariants
//
//   - The configuration that requests see is one immutable index, replaced as a whole.
//   - The seats of the requests of a limited level, those of the work that follows them included, do
//     not exceed its limit, unless a single request is wider than that or the limit has just fallen.
//   - A level that nobody refers to serves what it has, and ends then.
//   - Levels exempt and catch-all always exist, and one schema for each.
//   - One user has at most three quarters of a level's seats.
package flow

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"github.com/prometheus/client_golang/prometheus"
)

// Config configures a Controller.
type Config struct {
	Seats   int                   // of the server, for requests that are not exempt
	Metrics prometheus.Registerer // nil: nothing is shown
	Logger  *slog.Logger          // nil: slog.Default()

	// Unprotected makes every request pass the queues, and lets one user have all seats of a level,
	// as in Kubernetes. It is for comparisons.
	Unprotected bool
}

// Controller divides seats. Its methods may be called by any goroutine.
type Controller struct {
	total  int
	logger *slog.Logger
	clock  clock
	shares bool // one user leaves seats to others

	index    atomic.Pointer[index]
	watchers watchers
	ended    chan struct{} // a level that nobody refers to has become idle

	mu         sync.Mutex // guards what follows
	levels     map[string]*priority
	series     map[seriesKey]*series
	configured []*flowcontrolv1.PriorityLevelConfiguration
	schemas    []*flowcontrolv1.FlowSchema
	usable     map[string]bool // levels that have an object that is not broken
	nominal    int             // sum of all levels
	fair       float64
	readWrite  readWrite
}

// seriesKey names a schema in a level.
type seriesKey struct{ level, schema string }

// priority is a level with its configuration.
type priority struct {
	*level
	config *flowcontrolv1.PriorityLevelConfiguration
}

// New returns a controller with the mandatory levels.
func New(c Config) *Controller {
	f := newController(c.Seats, realClock{time.Now()}, !c.Unprotected)
	if f.logger = c.Logger; f.logger == nil {
		f.logger = slog.Default()
	}
	f.Configure(nil, nil)
	if c.Metrics != nil {
		c.Metrics.MustRegister(newCollector(f))
	}
	return f
}

// newController returns a Controller without configuration.
func newController(seats int, c clock, shares bool) *Controller {
	return &Controller{total: seats, clock: c, shares: shares, logger: slog.New(slog.DiscardHandler), ended: make(chan struct{}, 1),
		watchers: watchers{count: map[watched]int{}}, levels: map[string]*priority{}, series: map[seriesKey]*series{}}
}

// adjustEvery is the time between adjustments of the levels' limits.
const adjustEvery = 10 * time.Second

// Run adjusts limits and removes levels that have ended, until ctx ends.
func (c *Controller) Run(ctx context.Context) {
	tick := time.NewTicker(adjustEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			c.mu.Lock()
			c.adjust()
			c.mu.Unlock()
		case <-c.ended:
			c.mu.Lock()
			c.digest()
			c.mu.Unlock()
		}
	}
}

// States of a ticket.
const (
	stateNone = iota
	stateWaiting
	stateExecuting
)

// Ticket is the place of one request. The zero value is ready for Classify.
type Ticket struct {
	schema  *schemaOf
	flow    *series
	request *Request

	state   uint8
	free    bool // the seats were acquired without the level's lock
	watch   bool
	mutates bool // any verb but get, list and watch
	served  bool // it has been counted
	queue   *queue
	wake    chan struct{} // gets a value when a waiting request is let in; nil: it did not wait

	hash           uint64
	flowOf         string // the distinguisher
	user           string // that is charged
	initial, final int
	seats          int // the greater one
	extra          time.Duration
	work           seatSeconds // all of it
	finalWork      seatSeconds
	arrivalR       seatSeconds
	arrived        int64
	started        int64

	prev, next *Ticket
}

// Classify finds the schema and level of a request. The request must not change until the ticket is
// not used any more.
func (c *Controller) Classify(t *Ticket, r *Request) {
	*t = Ticket{request: r, user: r.Payer, watch: r.IsResource && r.Verb == "watch", mutates: r.Verb != "get" && r.Verb != "list" && r.Verb != "watch"}
	t.schema = c.index.Load().find(r)
	t.flow = t.schema.series
}

// Headers returns the values of the headers X-Kubernetes-PF-FlowSchema-UID and
// X-Kubernetes-PF-PriorityLevel-UID. They must not be changed.
func (t *Ticket) Headers() (schema, level []string) {
	return t.schema.uidHeader, *t.schema.level.uid.Load()
}

// Classified reports whether Classify was called.
func (t *Ticket) Classified() bool { return t.schema != nil }

// Inside reports whether the request has seats.
func (t *Ticket) Inside() bool { return t.state == stateExecuting }

// Names returns the names of the schema and the level.
func (t *Ticket) Names() (schema, level string) { return t.schema.name, t.schema.level.name }

// Enter acquires the request's seats. If there are none, it waits in a queue for some time, or
// until ctx ends. It reports whether the request has its seats, and how long it waited.
func (t *Ticket) Enter(ctx context.Context, w Work, wait time.Duration) (ok bool, waited time.Duration) {
	l := t.schema.level
	t.initial, t.final, t.extra = w.Initial, w.Final, w.Extra
	t.seats = max(w.Initial, w.Final)
	t.finalWork = seatsTimes(float64(w.Final), w.Extra)
	t.work = seatsTimes(float64(w.Initial), estimatedService) + t.finalWork
	t.flow.workEstimate.observe(int64(t.seats))
	if l.acquireFree(t) {
		t.enters(l, 0)
		return true, 0
	}
	if t.schema.queues {
		t.flowOf = t.schema.distinguisher(t.request)
		t.hash = hashFlow(t.schema.name, t.flowOf)
	}
	switch l.enter(t) {
	case noSeats, queueIsFull:
		t.flow.waits[0].observe(0)
		return false, 0
	case executing:
		t.enters(l, 0)
		return true, 0
	}
	began := time.Now()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	in := false
	select {
	case <-t.wake:
		in = true
	case <-ctx.Done():
		in = !l.cancel(t)
	case <-timer.C:
		in = !l.cancel(t)
	}
	waited = time.Since(began)
	if !in {
		t.flow.waits[1].observe(int64(waited)) // as upstream labels a request that it might have executed
		return false, waited
	}
	t.enters(l, waited)
	return true, waited
}

// enters counts a request that has got its seats.
func (t *Ticket) enters(l *level, waited time.Duration) {
	if !l.exempt {
		t.flow.waits[1].observe(int64(waited))
	}
	if !t.served {
		t.served = true
		t.flow.dispatched.Add(1)
	}
}

// Leave gives the seats back, if the request has any.
func (t *Ticket) Leave() {
	if t.state == stateExecuting {
		t.schema.level.leave(t)
		t.state, t.queue, t.wake = stateNone, nil, nil
	}
}

// RetryAfter counts a rejected request, and returns how many seconds its client shall wait.
func (t *Ticket) RetryAfter() int64 { return t.schema.level.rejects.add(time.Now().Unix()) }
