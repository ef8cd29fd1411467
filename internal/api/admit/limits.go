// Package admit decides what requests may hold of a server at the same time, so that no client can take the server from others: slots
// or seats of priority and fairness, memory for headers, bodies, work and answers, and turns of the processors.
//
// [Limits] belong to a server. [Holding] is what one request holds of them. Whoever finds no room gets [TooMany]; whoever waits does
// it in [Holding.Wait], without a slot.
package admit

import (
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/keelson-io/keelson/internal/flow"
	"github.com/keelson-io/keelson/internal/memory"
)

// Config is what the limits of a server depend on.
type Config struct {
	Memory *memory.Governor // nil: the memory has no limit
	Shares memory.Shares    // of the memory
	Flow   *flow.Controller // decides in place of Reads and Writes; nil: they do
	// Reads and Writes are how many requests are served at a time, watches not counted; 0: the default, negative: no limit.
	Reads, Writes int
	Timeout       time.Duration // the longest duration of a request
	Logger        *slog.Logger
}

// Limits bound what the requests of a server hold together. All their methods may be called by many goroutines.
type Limits struct {
	Config
	reads, writes inFlight
	turns         *turns // of long answers
	building      *budget
	sending       inFlight // long answers
	working       *budget  // bytes that large bodies and objects become
	bodies        quota    // bytes of bodies
	watches       quota    // how many long-running requests there are
	headers       quota    // bytes of headers of requests with many of them
	unread        unread   // answers that clients leave unread

	refused atomic.Int32 // refused requests that wait for the end of their bodies
}

// New returns the limits of a server.
func New(c Config) *Limits {
	l := &Limits{Config: c, turns: newTurns()}
	l.reads.setMost(limitOf(c.Reads, DefaultReads))
	l.writes.setMost(limitOf(c.Writes, DefaultWrites))
	l.share(c.Shares)
	return l
}

// share divides memory among the limits.
func (l *Limits) share(s memory.Shares) {
	l.building = newBudget(s.Answers, s.Answers/4)
	l.working = newBudget(s.Work, s.Work/4*3)
	l.bodies.most, l.bodies.share = s.Bodies, max(s.Bodies/4, 2*MaxBody)
	l.sending.setMost(s.Answers / longAnswer)
	l.watches.most, l.watches.share = watchesWithin(s.Watches)
	l.headers.most, l.headers.share = s.Headers, s.Headers/4
	l.unread.most, l.unread.share = s.Answers, s.Answers/4*3
}

// MaxBody is the length of the largest body that is read, in bytes.
const MaxBody = 3 << 20

// Track registers the limits with the governor of the memory.
func (l *Limits) Track() {
	g, shares := l.Memory, l.Shares
	g.Track("work", shares.Work, l.working.held)
	g.Track("bodies", shares.Bodies, l.bodies.held)
	g.Track("answers", shares.Answers, l.building.held)
	g.Track("unread", shares.Answers, l.unread.held)
	g.Track("headers", shares.Headers, l.headers.held)
}

// InFlight returns how many reads and writes hold a slot.
func (l *Limits) InFlight() (reads, writes int64) { return l.reads.now.Load(), l.writes.now.Load() }

// Leftovers says what requests hold; "" if they hold nothing.
func (l *Limits) Leftovers() string {
	text := ""
	add := func(name string, n int64) {
		if n != 0 {
			text += fmt.Sprintf("%s: %d; ", name, n)
		}
	}
	for name, c := range map[string]*inFlight{"reads": &l.reads, "writes": &l.writes, "long answers": &l.sending} {
		add(name, c.now.Load())
		add("shared "+name, c.shared.held())
	}
	for name, u := range map[string]*quota{"bodies": &l.bodies, "watches": &l.watches, "large headers": &l.headers, "unread": &l.unread.quota} {
		add(name, u.held())
	}
	for name, b := range map[string]*budget{"answers": l.building, "work": l.working} {
		add(name, b.held())
		add(name+": waiting", int64(b.waits()))
	}
	add("turns", int64(len(l.turns.slots)))
	return text
}

// The default limits of requests in flight.
const (
	DefaultReads  = 400
	DefaultWrites = 200
)

// limitOf returns a configured limit: 0 means the default, a negative one none.
func limitOf(n, standard int) int64 {
	switch {
	case n == 0:
		return int64(standard)
	case n < 0:
		return 0
	}
	return int64(n)
}

// maxUserWatches is how many long-running requests one user may have. Kubernetes bounds them by
// connection only.
const maxUserWatches = 16_384

// watchBytes is what a watch holds whose client does not read: a piece, what its connection holds
// back, and the connection.
const watchBytes = 128 << 10

// watchesWithin returns how many long-running requests all users, and one user, may have in so many
// bytes. Without a limit, only the watches of one user are bounded.
func watchesWithin(bytes int64) (most, share int64) {
	if bytes == math.MaxInt64 {
		return bytes, maxUserWatches
	}
	most = bytes / watchBytes
	return most, min(maxUserWatches, most/2)
}
