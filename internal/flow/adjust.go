package flow

import (
	"maps"
	"math"
	"slices"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
)

// This file lends the seats of levels that do not want them to others.

// adjust ends a period: it computes the limits of all levels by what they wanted in it. The lock is
// held.
func (c *Controller) adjust() {
	c.sampleReadWrite()
	names := slices.Sorted(maps.Keys(c.levels)) // so that rounding does not depend on chance
	remaining := c.nominal
	var wishes []wish
	var least, low int
	for _, name := range names {
		p := c.levels[name]
		p.observe()
		if p.exempt {
			remaining -= p.floor()
			continue
		}
		floor := p.floor()
		p.target = max(float64(floor), p.stats.smoothed)
		wishes = append(wishes, wish{target: p.target, least: float64(floor), most: float64(p.limits.most)})
		least += p.limits.least
		low += floor
	}
	var seats []float64
	c.fair = 0
	if remaining > least && remaining > low {
		var err error
		if seats, c.fair, err = divide(c.nominal, wishes); err != nil {
			c.logger.Error("seats cannot be divided, limits stay as they are", "error", err)
			for _, name := range names {
				if p := c.levels[name]; !p.exempt {
					seats = append(seats, float64(p.limits.current))
				}
			}
		}
	}
	i := 0
	for _, name := range names {
		p := c.levels[name]
		current := p.floor()
		switch {
		case p.exempt:
		case remaining <= least:
			current = p.limits.least
		case remaining <= low:
			part := float64(remaining-least) / float64(low-least)
			current = p.limits.least + int(math.Round(float64(current-p.limits.least)*part))
		default:
			current = int(math.Round(seats[i]))
		}
		if !p.exempt {
			i++
		}
		p.limits.current = current
		of := current
		if of <= 0 {
			of = int(max(1, math.Round(float64(c.total)/10)))
		}
		p.apply(p.config, of, c.shares)
	}
}

// observe ends the period of a level.
func (p *priority) observe() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sync()
	used := p.taken.Load() &^ waitingFlag
	p.noteDemand()
	high := p.fastHigh.Swap(used)
	p.stats.update(p.demand.reset(p.fastWork.Swap(0), high))
}

// floor returns the least limit for the coming period: what was wanted, but no more than the nominal
// limit, and no less than what is not lent.
func (p *priority) floor() int {
	if p.exempt {
		return max(p.limits.least, p.stats.high)
	}
	return max(p.limits.least, min(p.limits.nominal, p.stats.high))
}

// apply sets a level's queues by its configuration, and its limit. of is the number of seats that
// shares in metrics refer to.
func (p *priority) apply(config *flowcontrolv1.PriorityLevelConfiguration, of int, protect bool) {
	s := shape{limit: p.limits.current, queues: -1}
	if l := config.Spec.Limited; l != nil {
		s.queues = 0
		if q := l.LimitResponse.Queuing; q != nil {
			s.queues, s.hand, s.length = int(q.Queues), int(q.HandSize), int(q.QueueLengthLimit)
		}
	}
	p.configure(s, of, protect)
}
