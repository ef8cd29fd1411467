package flow

import (
	"math"
	"time"
)

// This file measures how many seats a level wants over time.

// demand integrates the seats that a level's requests hold or wait for. Requests that were served
// without the lock are not in the integral: their work is added when the period ends.
type demand struct {
	last             int64   // when the integral was brought up to date
	seconds          float64 // of the period so far
	sum, squares     float64 // integrals of seats and of their squares over the period
	seats            int     // wanted now, of those that pass the lock
	most             int     // most seats wanted at the same time in the period, with those that do not pass the lock
	inUse, executing int
	waiting          int

	// How long which shares were in use, in nanoseconds.
	seatUse, requestUse, waitUse, wanted timing
}

// advance brings the integral up to a time.
func (d *demand) advance(now int64) {
	passed := now - d.last
	if passed <= 0 {
		return
	}
	d.last = now
	seconds, x := time.Duration(passed).Seconds(), float64(d.seats)
	d.seconds += seconds
	d.sum += x * seconds
	d.squares += x * x * seconds
	d.seatUse.add(passed)
	d.requestUse.add(passed)
	d.waitUse.add(passed)
	d.wanted.add(passed)
}

// set replaces the present numbers. advance comes first.
func (d *demand) set(seats, inUse, seatsWait, executing, waiting int) {
	d.seats, d.inUse, d.executing, d.waiting = seats, inUse, executing, waiting
	d.most = max(d.most, inUse+seatsWait)
	d.seatUse.set(inUse)
	d.requestUse.set(executing)
	d.waitUse.set(waiting)
	d.wanted.set(inUse + seatsWait)
}

// scale sets what the numbers are shares of: the places in all queues, and a number of seats.
func (d *demand) scale(s shape, seats int) {
	d.waitUse.of = float64(max(s.length, 1)) * float64(max(s.queues, 1))
	d.seatUse.of, d.requestUse.of, d.wanted.of = float64(seats), float64(seats), float64(seats)
}

// reset ends a period, in which fast is the work in seat-nanoseconds and high the most seats of
// requests that were served without the lock. It returns the period's moments.
func (d *demand) reset(fast, high int64) observed {
	o := observed{most: max(d.most, int(high)), seconds: d.seconds}
	if d.seconds > 0 {
		average := d.sum / d.seconds
		variance := max(0, d.squares/d.seconds-average*average)
		// How many independent requests are served at a time varies as a Poisson distribution does:
		// the variance is the average.
		quick := float64(fast) / 1e9 / d.seconds
		o.average, o.deviation = average+quick, math.Sqrt(variance+quick)
	}
	d.seconds, d.sum, d.squares, d.most = 0, 0, 0, d.inUse
	return o
}

// observed are the moments of a period.
type observed struct {
	seconds            float64
	average, deviation float64
	most               int
}

// smoothing is the part of the smoothed demand that lasts for another period; its half-life is five
// minutes.
const smoothing = 0.977

// demandStats is what adjustments remember of a level.
type demandStats struct {
	average, deviation, smoothed float64
	high                         int
}

// update adds the moments of a period. Demand rises at once and falls slowly.
func (s *demandStats) update(o observed) {
	s.high = o.most
	if o.seconds <= 0 {
		return
	}
	s.average, s.deviation = o.average, o.deviation
	envelope := o.average + o.deviation
	s.smoothed = max(envelope, smoothing*s.smoothed+(1-smoothing)*envelope)
}
