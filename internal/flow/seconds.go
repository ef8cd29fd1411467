package flow

import (
	"fmt"
	"math"
	"time"
)

// This file has the unit of work: a seat that is held for a second.

// seatSeconds is an amount of work, or of progress, in units of 10 ns of one seat.
type seatSeconds uint64

const (
	seatScale      = 1e8 // units in a seat-second
	maxSeatSeconds = seatSeconds(math.MaxUint64)

	// epoch is how far progress falls when it reaches highR.
	epoch = maxSeatSeconds / 2
	highR = epoch + epoch/2
)

// seatsTimes returns the work of some seats for a duration, which may be negative.
func seatsTimes(seats float64, d time.Duration) seatSeconds {
	return seatSeconds(int64(math.Round(seats * float64(d) / (1e9 / seatScale))))
}

// perSeat returns how long some seats need for some work.
func perSeat(work seatSeconds, seats int) time.Duration {
	return time.Duration(float64(work) / float64(seats) * (float64(time.Second) / seatScale))
}

// float returns the seat-seconds as a number.
func (s seatSeconds) float() float64 { return float64(s) / seatScale }

// String returns the seat-seconds as dumps print them.
func (s seatSeconds) String() string {
	const unit = seatSeconds(seatScale)
	return fmt.Sprintf("%d.%08dss", s/unit, s%unit)
}

// bounds are the least and the greatest of some readings.
type bounds struct{ min, max seatSeconds }

// add widens the bounds to include a value.
func (b *bounds) add(s seatSeconds) { b.min, b.max = min(b.min, s), max(b.max, s) }
