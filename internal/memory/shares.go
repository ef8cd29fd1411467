package memory

import "math"

// This file divides a limit into shares.

// Shares are how many bytes the parts of a server may take.
type Shares struct {
	limit int64 // 0: there is none

	Stored   int64 // objects in the cache, with their indexes
	Work     int64 // what large bodies and objects become while requests work on them
	Bodies   int64 // bodies of requests, as they were sent
	Answers  int64 // what is built for readers
	Headers  int64 // large headers
	Pending  int64 // headers that have not arrived completely, as received: they take up to twice as much
	Webhooks int64 // answers of admission and conversion webhooks
	Audit    int64 // events that wait, for each backend
	Logs     int64 // changes that are kept for watchers
	Views    int64 // views much larger than what is stored
	States   int64 // old states that lists in pages go on with
	Watches  int64 // watches and other long-running requests whose clients do not read
}

// Bytes of a process that has nothing to do yet: its program and its empty database, which are files, and its heap.
const (
	programFiles = 48 << 20
	leastHeap    = 32 << 20
)

// Least is the smallest limit that a server can work in.
const Least = 2 * (programFiles + leastHeap)

// mostRecent is what etcd's log of the last writes takes in memory at most, beside the stored objects that they wrote. How much that is
// depends on the size of the objects; while few bytes are stored, it is as much as they take.
const mostRecent = 64 << 20

// leastPending is what headers that have not arrived completely have in the smallest server: some of the largest, 1 MiB each.
const leastPending = 4 << 20

// leastRoom is what the bodies of requests and the answers to them have in the smallest server: some of the largest.
const leastRoom = 16 << 20

// SharesOf divides a limit. What remains of it beside programFiles and leastHeap is in three parts: three eighths are working memory,
// three eighths are for what is stored, and the rest is for the views of that and for the database's pages. The parts of a server
// with a large limit, or none, have fixed sizes.
func SharesOf(limit int64) Shares {
	s := Shares{limit: limit, Stored: math.MaxInt64, Work: 1 << 30, Bodies: 256 << 20, Answers: 256 << 20, Headers: 64 << 20, Pending: 32 << 20,
		Webhooks: 512 << 20, Audit: 128 << 20, Logs: 128 << 20, Views: 256 << 20, States: 256 << 20, Watches: math.MaxInt64}
	if limit == 0 {
		s.Work = math.MaxInt64
		return s
	}
	s.Stored = (limit - programFiles - leastHeap) / 8 * 3
	s.Stored -= min(s.Stored/2, mostRecent)
	for _, p := range []struct {
		bytes *int64
		part  int64 // of 32 of the working memory
		least int64
	}{{&s.Work, 16, leastRoom}, {&s.Bodies, 8, leastRoom}, {&s.Answers, 6, leastRoom}, {&s.Headers, 2, 0}, {&s.Pending, 2, leastPending},
		{&s.Webhooks, 12, 0}, {&s.Audit, 3, 0}, {&s.Logs, 5, 0}, {&s.Views, 6, 0}, {&s.States, 3, 0}, {&s.Watches, 32, 0}} {
		*p.bytes = min(*p.bytes, max(p.least, s.working()/32*p.part))
	}
	return s
}

// working returns the bytes of the working memory.
func (s *Shares) working() int64 { return (s.limit - programFiles - leastHeap) / 8 * 3 }

// heap returns how many bytes Go's heap may take, beside the resident pages of files, while so many are stored.
func (s *Shares) heap(files, stored int64) int64 {
	most := min(s.limit-s.limit/16-files, leastHeap+stored+min(stored, mostRecent)+s.working())
	return max(most, s.limit/4, leastHeap)
}
