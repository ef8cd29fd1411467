package flow

// This file shows how many reads and writes wait and execute. The numbers are sampled with each adjustment
// and each look at the metrics, which costs requests nothing: that of a sample stands for the time since the
// one before.

// Phases and kinds of requests, as indexes and labels.
const (
	readOnly = iota
	mutating
)

var (
	phases          = [...]string{"executing", "waiting"}
	requestKinds    = [...]string{readOnly: "readOnly", mutating: "mutating"}
	readWriteBounds = []float64{0, 0.001, 0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1}
)

// readWrite says for how long which share of requests were executed or waited, by phase and kind.
type readWrite struct {
	last int64
	use  [len(phases)][len(requestKinds)]timing
}

// sampleReadWrite takes a sample. The lock of the controller is held.
func (c *Controller) sampleReadWrite() {
	now := c.clock.now()
	passed := now - c.readWrite.last
	if passed <= 0 {
		return
	}
	c.readWrite.last = now
	var counts [len(phases)][len(requestKinds)]int64
	for _, s := range c.series {
		// The numbers change meanwhile: a write may be counted that is not in the sum yet.
		executing, _ := s.current()
		writes, waits, waitingWrites := s.mutating.Load(), s.waiting.Load(), s.waitingMutating.Load()
		counts[0][mutating] += writes
		counts[0][readOnly] += max(0, executing-writes)
		counts[1][mutating] += waitingWrites
		counts[1][readOnly] += max(0, waits-waitingWrites)
	}
	places := 0
	for _, p := range c.levels {
		places += p.places()
	}
	limits := [len(phases)]float64{float64(c.nominal), float64(places)}
	for phase := range c.readWrite.use {
		for kind := range c.readWrite.use[phase] {
			t := &c.readWrite.use[phase][kind]
			t.bounds, t.of = readWriteBounds, limits[phase]
			t.set(int(counts[phase][kind]))
			t.add(passed)
		}
	}
}

// places returns how many requests the queues of a level hold.
func (l *level) places() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shape.queues * l.shape.length
}
