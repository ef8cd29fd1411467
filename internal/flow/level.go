package flow

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// This file gives out the seats of a priority level.
//
// The first quarter of the seats is acquired and released with one atomic operation, and belongs to
// no queue. Beyond it, or while anybody waits, requests pass the queues under the level's lock. So
// a level that is hardly used costs its requests nothing, and one user cannot get all of it.

// clock is the time and timers of a level; tests replace it.
type clock interface {
	now() int64 // nanoseconds since some moment
	after(d time.Duration, do func())
}

// realClock counts from its own start, so that a reading is one monotonic clock's.
type realClock struct{ start time.Time }

func (c realClock) now() int64                     { return int64(time.Since(c.start)) }
func (realClock) after(d time.Duration, do func()) { time.AfterFunc(d, do) }

// verdict is what became of a request that asked for seats.
type verdict uint8

const (
	executing   verdict = iota
	waiting             // in a queue
	noSeats             // rejected: the level has no queues and too few free seats
	queueIsFull         // rejected
)

// waitingFlag is set in level.taken while requests wait. A request that releases seats then
// acquires the lock and lets others in.
const waitingFlag = 1 << 62

// exemptLimit is the free part of levels without a limit.
const exemptLimit = 1 << 61

// estimatedService is how long a request is expected to hold its initial seats, until it is known.
const estimatedService = 3 * time.Millisecond

// keptQueues is how many idle queues a level remembers.
const keptQueues = 256

// level has the seats and queues of one priority level.
type level struct {
	name  string
	uid   atomic.Pointer[[]string] // as the value of a header
	clock clock

	taken     atomic.Int64 // seats in use, and waitingFlag
	free      atomic.Int64 // seats that are given out without the lock
	quiescing atomic.Bool  // nobody refers to the level any more
	idle      func()       // called when a quiescing level has become idle
	maxSeats  atomic.Int64 // most seats of one request, as far as the level decides; 0: it does not

	fastHigh atomic.Int64 // most seats in use since the last adjustment, of those acquired without the lock
	fastWork atomic.Int64 // seat-nanoseconds of requests that were served without the lock

	mu     sync.Mutex
	shape  shape
	exempt bool
	share  int // seats that one user may have of those given out under the lock
	users  map[string]int

	queues    map[int]*queue // by their index; queues that are missing are idle
	busy      []*queue       // queues in which requests wait, in no order
	active    int            // queues in which requests wait or execute
	requested int            // seats that requests in queues hold or wait for
	r         seatSeconds    // progress: the work per active queue since the start
	last      int64          // when r was computed
	robin     int            // index of the queue that was served last
	enqueued  int
	executing int // requests that hold seats of a queue, or of a level without queues, acquired under the lock
	waiting   int
	seatsWait int
	locked    int // seats in use that were acquired under the lock
	linger    int // those of them that are held after their requests ended

	fromQueues list // requests that execute with seats acquired under the lock

	demand  demand
	stats   demandStats
	limits  limits
	known   bool    // limits are set
	target  float64 // seats that the last adjustment wanted to give
	counted counted
	rejects rejects
}

// shape is the configuration of a level's queues.
type shape struct {
	queues int // 0: none, what finds no seat is rejected
	hand   int
	length int // of a queue, at most
	limit  int // seats, now
}

// queue is one queue of a level.
type queue struct {
	index     int
	place     int // in level.busy; -1 if nothing waits
	waits     list
	work      seatSeconds // of those that wait
	initial   int         // initial seats of those that wait
	seatsWait int
	next      seatSeconds // progress at which the next request is dispatched in the virtual world
	executing int
	seats     int // in use
}

// list is a list of requests, linked through themselves.
type list struct {
	first, last *Ticket
	n           int
}

// push appends a request.
func (l *list) push(t *Ticket) {
	t.prev, t.next = l.last, nil
	if l.last == nil {
		l.first = t
	} else {
		l.last.next = t
	}
	l.last = t
	l.n++
}

// remove removes a request, which must be in the list.
func (l *list) remove(t *Ticket) {
	if t.prev == nil {
		l.first = t.next
	} else {
		t.prev.next = t.next
	}
	if t.next == nil {
		l.last = t.prev
	} else {
		t.next.prev = t.prev
	}
	t.prev, t.next = nil, nil
	l.n--
}

// newLevel returns a level without limits.
func newLevel(name string, c clock) *level {
	l := &level{name: name, clock: c, users: map[string]int{}, queues: map[int]*queue{}, last: c.now()}
	l.demand.last = l.last
	l.demand.seatUse.bounds, l.demand.requestUse.bounds, l.demand.waitUse.bounds, l.demand.wanted.bounds = useBounds, requestBounds, requestBounds, demandBounds
	return l
}

// inUse returns the number of seats in use.
func (l *level) inUse() int { return int(l.taken.Load() &^ waitingFlag) }

// enter asks for the seats of a request. The request's user and work are set.
func (l *level) enter(t *Ticket) verdict {
	if l.acquireFree(t) {
		return executing
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.sync()
	t.arrived = now
	if l.shape.queues < 1 {
		if l.atShare(t) || !l.acquire(t.seats) {
			t.flow.rejected[rejectedLimit].Add(1)
			return noSeats
		}
		l.execute(t, nil, now)
		return executing
	}
	q := l.choose(t.hash)
	if l.inUse() >= l.shape.limit && q.waits.n >= l.shape.length {
		l.forget(q)
		t.flow.rejected[rejectedFull].Add(1)
		return queueIsFull
	}
	l.enqueue(q, t)
	t.flow.lengths.observe(int64(q.waits.n))
	bound(q)
	l.taken.Or(waitingFlag)
	l.dispatch(now)
	if t.state == stateExecuting {
		return executing
	}
	t.wake = make(chan struct{}, 1)
	return waiting
}

// acquireFree acquires the seats without the lock, if few are in use and no request waits.
func (l *level) acquireFree(t *Ticket) bool {
	n := int64(t.seats)
	for {
		v := l.taken.Load()
		if v+n > l.free.Load() { // also if the flag is set
			return false
		}
		if l.taken.CompareAndSwap(v, v+n) {
			if high := l.fastHigh.Load(); v+n > high {
				l.fastHigh.CompareAndSwap(high, v+n)
			}
			t.state, t.free = stateExecuting, true
			t.started = l.clock.now()
			t.flow.enter(t)
			return true
		}
	}
}

// acquire acquires seats if the limit has room for them. The lock is held.
func (l *level) acquire(seats int) bool {
	for {
		v := l.taken.Load()
		used := int(v &^ waitingFlag)
		switch {
		case l.exempt:
		case seats > l.shape.limit:
			if used-l.linger > 0 {
				return false // a request that is wider than the level is served alone
			}
		case used+seats > l.shape.limit:
			return false
		}
		if l.taken.CompareAndSwap(v, v+int64(seats)) {
			return true
		}
	}
}

// atShare reports whether a request's user has to leave the remaining seats to others. The lock is
// held.
func (l *level) atShare(t *Ticket) bool {
	if l.share == 0 || l.exempt {
		return false
	}
	has := l.users[t.user]
	return has > 0 && has+t.seats > l.share
}

// sync advances the progress of the level to the present, and returns the time. The lock is held.
func (l *level) sync() int64 {
	now := l.clock.now()
	passed := now - l.last
	l.last = now
	if l.active > 0 && passed > 0 {
		rate := math.Min(float64(l.requested), float64(l.shape.limit)) / float64(l.active)
		l.r += seatsTimes(rate, time.Duration(passed))
		if l.r >= highR {
			l.advanceEpoch()
		}
	}
	l.demand.advance(now)
	return now
}

// advanceEpoch keeps progress from overflowing: all readings fall by the same amount.
func (l *level) advanceEpoch() {
	l.r -= epoch
	for _, q := range l.queues {
		if q.waits.n == 0 && q.executing == 0 {
			q.next = 0
			continue
		}
		q.next -= epoch
		for t := q.waits.first; t != nil; t = t.next {
			t.arrivalR -= epoch
		}
	}
	l.counted.epochs++
}

// choose picks the queue of the request's hand in which the least work waits. The lock is held.
func (l *level) choose(hash uint64) *queue {
	var hand [maxHand]int
	n := deal(hash, l.shape.queues, l.shape.hand, &hand)
	offset := l.enqueued % n
	l.enqueued++
	var best *queue
	at := 0
	for i := range n {
		at = hand[(offset+i)%n]
		q := l.queues[at]
		if q == nil || q.work == 0 {
			best = q // nothing is less than nothing
			break
		}
		if best == nil || q.work < best.work {
			best = q
		}
	}
	if best == nil {
		best = &queue{index: at, place: -1}
		l.queues[at] = best
	}
	return best
}

// forget drops a queue that is idle, unless the level has few. The lock is held.
func (l *level) forget(q *queue) {
	if q.waits.n == 0 && q.executing == 0 && q.seats == 0 && len(l.queues) > keptQueues {
		delete(l.queues, q.index)
	}
}

// enqueue puts a request into its queue. The lock is held.
func (l *level) enqueue(q *queue, t *Ticket) {
	if q.waits.n == 0 && q.executing == 0 {
		q.next = l.r
		l.active++
	}
	if q.waits.n == 0 {
		q.place = len(l.busy)
		l.busy = append(l.busy, q)
	}
	t.queue, t.state, t.arrivalR = q, stateWaiting, l.r
	q.waits.push(t)
	q.work += t.work
	q.initial += t.initial
	q.seatsWait += t.seats
	l.requested += t.seats
	l.waiting++
	l.seatsWait += t.seats
	t.flow.countWaiting(t, 1)
	l.noteDemand()
}

// dequeue removes a request from its queue. The lock is held.
func (l *level) dequeue(t *Ticket) {
	q := t.queue
	q.waits.remove(t)
	q.work -= t.work
	q.initial -= t.initial
	q.seatsWait -= t.seats
	if q.waits.n == 0 {
		last := len(l.busy) - 1
		moved := l.busy[last]
		l.busy[q.place], moved.place = moved, q.place
		l.busy[last], q.place = nil, -1
		l.busy = l.busy[:last]
		if q.executing == 0 {
			l.active--
		}
	}
	l.requested -= t.seats
	l.waiting--
	l.seatsWait -= t.seats
	t.flow.countWaiting(t, -1)
}

// dispatch lets requests in as long as there are seats. The lock is held.
func (l *level) dispatch(now int64) {
	for l.waiting > 0 && l.inUse() < l.shape.limit && l.dispatchOne(now) {
	}
	if l.waiting == 0 {
		l.taken.And(^waitingFlag)
	}
	l.noteDemand()
}

// dispatchOne lets the first request of the queue in that would be the first to finish in the virtual
// world. It reports whether it did. If that request does not fit, seats are saved for it.
func (l *level) dispatchOne(now int64) bool {
	size := max(l.shape.queues, 1)
	for _, q := range l.busy {
		size = max(size, q.index+1) // queues that a smaller configuration has no more
	}
	var best *queue
	var finish seatSeconds
	turn := 0
	low, high := bounds{min: maxSeatSeconds}, bounds{min: maxSeatSeconds}
	for _, q := range l.busy {
		head := q.waits.first
		if l.atShare(head) {
			continue
		}
		low.add(q.next)
		high.add(q.next - seatsTimes(float64(q.seats), estimatedService))
		f := q.next + head.work
		t := (q.index - l.robin - 1 + 2*size) % size
		if best == nil || f < finish || f == finish && t < turn {
			best, finish, turn = q, f, t
		}
	}
	if best == nil {
		return false
	}
	t := best.waits.first
	if !l.acquire(t.seats) {
		t.flow.unaccommodated.Add(1)
		return false
	}
	l.robin = best.index
	l.counted.dispatchR, l.counted.latestS, l.counted.next, l.counted.discounted = l.r, best.next, low, high
	l.dequeue(t)
	if best.waits.n == 0 && best.executing == 0 {
		l.active++ // it goes on with what is executing
	}
	// More final seats than the level has become as much work on fewer seats.
	if t.final > l.shape.limit {
		t.final = l.shape.limit
		t.extra = perSeat(t.finalWork, t.final)
	}
	l.execute(t, best, now)
	best.next += t.work
	bound(best)
	if t.wake != nil {
		t.wake <- struct{}{}
	}
	return true
}

// execute counts a request that has got its seats. q is nil for levels without queues. The lock is
// held.
func (l *level) execute(t *Ticket, q *queue, now int64) {
	t.state, t.free, t.started, t.queue = stateExecuting, false, now, q
	l.executing++
	l.locked += t.seats
	l.fromQueues.push(t)
	if l.share > 0 {
		l.users[t.user] += t.seats
	}
	if q != nil {
		q.executing++
		q.seats += t.seats
		l.requested += t.seats
	}
	t.flow.enter(t)
	l.noteDemand()
}

// leave ends a request that executes. Its final seats stay in use for as long as its work goes on.
func (l *level) leave(t *Ticket) {
	if t.free {
		l.leaveFree(t)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.sync()
	q := t.queue
	took := time.Duration(now - t.started)
	t.flow.executed(t, took, 0)
	l.executing--
	l.fromQueues.remove(t)
	if q != nil {
		q.executing--
		if q.executing == 0 && q.waits.n == 0 {
			l.active--
		}
		// The real duration replaces the estimate.
		q.next -= seatsTimes(float64(t.initial), estimatedService-took)
		bound(q)
	}
	if t.extra <= 0 {
		l.release(q, t.flow, t.user, t.seats)
	} else {
		flow, user, seats := t.flow, t.user, t.seats
		l.linger += seats
		l.clock.after(t.extra, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			now := l.sync()
			l.linger -= seats
			l.release(q, flow, user, seats)
			l.dispatch(now)
			l.reportIdle()
		})
	}
	l.dispatch(now)
	l.reportIdle()
}

// release releases seats that were acquired under the lock. The lock is held.
func (l *level) release(q *queue, f *series, user string, seats int) {
	l.taken.Add(int64(-seats))
	l.locked -= seats
	f.inside.Add(int64(-seats))
	if l.share > 0 || len(l.users) > 0 {
		if l.users[user] -= seats; l.users[user] <= 0 {
			delete(l.users, user)
		}
	}
	if q != nil {
		q.seats -= seats
		l.requested -= seats
		l.forget(q)
	}
}

// leaveFree ends a request that acquired its seats without the lock.
func (l *level) leaveFree(t *Ticket) {
	took := l.clock.now() - t.started
	l.fastWork.Add(took * int64(t.seats))
	if t.extra <= 0 {
		t.flow.executed(t, time.Duration(took), -t.seats)
		l.releaseFree(t.seats)
		return
	}
	t.flow.executed(t, time.Duration(took), 0)
	flow, seats, extra := t.flow, t.seats, t.extra
	l.clock.after(extra, func() {
		l.fastWork.Add(int64(extra) * int64(seats))
		flow.inside.Add(int64(-seats))
		l.releaseFree(seats)
	})
}

// releaseFree releases seats that were acquired without the lock.
func (l *level) releaseFree(seats int) {
	v := l.taken.Add(int64(-seats))
	if v&waitingFlag == 0 && !l.quiescing.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dispatch(l.sync())
	l.reportIdle()
}

// cancel ends the wait of a request. It reports whether the request waited still, and so was
// rejected; otherwise it has its seats.
func (l *level) cancel(t *Ticket) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.state != stateWaiting {
		return false
	}
	now := l.sync()
	q := t.queue
	l.dequeue(t)
	t.state, t.queue = stateNone, nil
	bound(q)
	l.forget(q)
	t.flow.rejected[rejectedTime].Add(1)
	l.counted.cancelled++
	l.dispatch(now) // seats may have been saved for it
	l.reportIdle()
	return true
}

// reportIdle reports to the controller that a level without a configuration has no requests any
// more. The lock is held.
func (l *level) reportIdle() {
	if l.quiescing.Load() && l.isIdle() {
		l.idle()
	}
}

// isIdle reports whether no request waits or executes. The lock is held.
func (l *level) isIdle() bool { return l.waiting == 0 && l.inUse() == 0 }

// bound keeps a queue from saving up: dispatch in the virtual world does not precede arrival. The
// lock is held.
func bound(q *queue) {
	if head := q.waits.first; head != nil && q.next < head.arrivalR {
		q.next = head.arrivalR
	}
}

// noteDemand records how many seats are wanted now. The lock is held.
func (l *level) noteDemand() {
	l.demand.set(l.locked+l.seatsWait, l.inUse(), l.seatsWait, l.executing, l.waiting)
}

// configure sets the shape of a level. The share of one user is that of the seats beyond the free
// quarter, so that three quarters are the most that one user has.
func (l *level) configure(s shape, of int, protect bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.sync()
	if s.queues < 1 {
		s.hand, s.length = l.shape.hand, l.shape.length // of requests that wait still
	}
	l.shape = s
	l.share = 0
	switch {
	case l.exempt:
		l.free.Store(exemptLimit)
	case protect:
		l.free.Store(int64(s.limit / 4))
		l.share = max(1, s.limit/2)
	}
	l.demand.scale(s, of)
	l.dispatch(now)
}
