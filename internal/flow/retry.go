package flow

import "sync"

// This file chooses the Retry-After of rejected requests. It doubles while many are rejected, and
// falls second by second afterwards.

// longestRetry is the largest Retry-After, in seconds.
const longestRetry = 32

// rejects counts the rejected requests of a level by second.
type rejects struct {
	mu      sync.Mutex
	after   int64 // the present answer, in seconds; 0: 1
	raised  int64 // the second in which it was raised
	second  int64 // that is being counted
	count   int64
	history []rejectedIn // earlier seconds, in order
}

// rejectedIn counts the rejected requests of one second.
type rejectedIn struct{ second, count int64 }

// add counts a request that is rejected in a second, and returns the seconds to wait.
func (r *rejects) add(second int64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.after == 0 {
		r.after = 1
	}
	if second == r.second {
		r.count++
		return r.after
	}
	r.history = append(r.history, rejectedIn{r.second, r.count})
	keep := 0
	for ; keep < len(r.history) && r.second-r.history[keep].second > min(2*r.after, longestRetry); keep++ {
	}
	r.history = append(r.history[:0], r.history[keep:]...)
	r.second, r.count = second, 1
	var lately int64
	for _, h := range r.history {
		if second-h.second <= r.after && h.second < second {
			lately += h.count
		}
	}
	switch {
	case second-r.raised >= r.after && lately >= 3*r.after:
		r.after = min(2*r.after, longestRetry)
		r.raised = second
	case lately < r.after && r.after > 1:
		r.after--
	}
	return r.after
}
