package flow

import (
	"fmt"
	"math"
	"slices"
)

// This file divides the server's seats among the levels.

// limits are the seats of a level: nominally, and how far lending and borrowing may change them.
type limits struct {
	nominal, least, most int
	current              int
}

// limitsOf returns the limits of a level with some of all shares. lends and borrows are percentages;
// borrows may be nil for no bound.
func limitsOf(total int, shares, all float64, lends int32, borrows *int32) limits {
	nominal := int(math.Ceil(float64(total) * shares / all))
	lendable := int(math.Round(float64(nominal) * float64(lends) / 100))
	borrowed := total
	if borrows != nil {
		borrowed = int(math.Round(float64(nominal) * float64(*borrows) / 100))
	}
	return limits{nominal: nominal, least: nominal - lendable, most: nominal + borrowed, current: nominal - lendable/2}
}

// maxSeatsOf returns how many seats one request of a level may have: 15 % of them, and no more than
// let every queue of a hand have one.
func maxSeatsOf(nominal, hand int) int64 {
	return int64(max(1, min(math.Ceil(float64(nominal)*0.15), float64(nominal/hand))))
}

// wish is what a level gets seats by.
type wish struct {
	target      float64
	least, most float64
}

// leastTarget is the target of levels that want nothing, so that seats left over can be divided.
const leastTarget = 0.001

// divide divides seats in proportion to the targets of levels, within their bounds. It returns the
// seats of each level, and the ratio of seats to target of levels that no bound restricts.
func divide(seats int, wishes []wish) ([]float64, float64, error) {
	const tiny = 1e-7
	sum := float64(seats)
	var least, most float64
	// Between two neighbouring ratios of a bound to its target, the seats grow linearly.
	var ratios []float64
	for i, w := range wishes {
		if w.least < 0 || w.target < w.least || w.most < w.least {
			return nil, 0, fmt.Errorf("priority level %d: got target %v between %v and %v", i, w.target, w.least, w.most)
		}
		least += w.least
		most += w.most
		target := max(w.target, leastTarget)
		ratios = append(ratios, w.least/target, w.most/target)
	}
	if seats < 0 || least-sum > tiny || sum-most > tiny {
		return nil, 0, fmt.Errorf("seats: got %d to divide, want %v to %v", seats, least, most)
	}
	at := func(ratio float64) (all []float64, total float64) {
		for _, w := range wishes {
			n := max(w.least, min(w.most, ratio*max(w.target, leastTarget)))
			all, total = append(all, n), total+n
		}
		return all, total
	}
	slices.Sort(ratios)
	if seats == 0 {
		return make([]float64, len(wishes)), 0, nil
	}
	// The first ratio with enough seats; the answer is between it and the one before.
	i, _ := slices.BinarySearchFunc(ratios, sum, func(r, want float64) int {
		if _, total := at(r); total < want-tiny {
			return -1
		}
		return 1
	})
	if i == 0 || i == len(ratios) {
		i = min(i, len(ratios)-1)
		all, _ := at(ratios[i])
		return all, ratios[i], nil
	}
	low, high := ratios[i-1], ratios[i]
	_, from := at(low)
	_, to := at(high)
	ratio := high
	if to > from {
		ratio = low + (high-low)*(sum-from)/(to-from)
	}
	all, _ := at(ratio)
	return all, ratio, nil
}
