package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// This file has the clock by which the judge measures how long the server takes.
//
// A machine that does other work, too, makes everything slower, and no bound in seconds holds there. The kernel counts for each thread
// how long it ran, and how long it was ready to run and had to wait for a processor. The clock of a server runs as fast as the server
// and this program get the processor time that they ask for: if they wait for three of four seconds, four seconds are one. A server
// that waits for something else, such as a lock, asks for no processor time, and its clock keeps up with the time.

// tick is how often the clock is set.
const tick = 100 * time.Millisecond

// paced is the clock of one process. Its time is 0 at the start of the process.
type paced struct {
	mu      sync.Mutex
	now     time.Duration
	waiting map[*waiter]bool
}

// waiter waits for a time of the clock.
type waiter struct {
	until time.Duration
	wake  func()
}

// newPaced starts the clock of a process, which stops with the context. With machine unset it is an ordinary clock.
func newPaced(ctx context.Context, pid int, machine bool) *paced {
	p := &paced{waiting: map[*waiter]bool{}}
	usages := []*usage{{dir: fmt.Sprintf("/proc/%d/task", pid)}, {dir: "/proc/self/task"}}
	if !machine {
		usages = nil
	}
	last := time.Now()
	go func() {
		for ctx.Err() == nil {
			pause(ctx, tick)
			now := time.Now()
			share := 1.0
			for _, u := range usages {
				share = min(share, u.share(now.Sub(last)))
			}
			p.advance(time.Duration(share * float64(now.Sub(last))))
			last = now
		}
	}()
	return p
}

// advance moves the clock, and wakes those who waited for the new time.
func (p *paced) advance(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now += d
	for w := range p.waiting {
		if p.now >= w.until {
			delete(p.waiting, w)
			w.wake()
		}
	}
}

func (p *paced) time() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// patience returns a context that ends when d has passed on the clock.
func (p *paced) patience(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	limited, cancel := context.WithCancelCause(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &waiter{p.now + d, func() { cancel(context.DeadlineExceeded) }}
	p.waiting[w] = true
	return limited, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.waiting, w)
		cancel(context.Canceled)
	}
}

// usage is what the threads of a process have had of the processors.
type usage struct {
	dir     string
	threads map[string]spent
}

// spent are the times that a thread ran, and waited for a processor.
type spent struct{ ran, waited time.Duration }

// share returns the part of the processor time that the process asked for since the last call and got, 1 if it asked for next to none.
func (u *usage) share(since time.Duration) float64 {
	threads := map[string]spent{}
	var ran, waited time.Duration
	entries, err := os.ReadDir(u.dir)
	if err != nil {
		return 1 // the process has ended
	}
	for _, e := range entries {
		b, err := os.ReadFile(u.dir + "/" + e.Name() + "/schedstat")
		if err != nil {
			continue
		}
		s, ok := parseSpent(string(b))
		if !ok {
			continue
		}
		threads[e.Name()] = s
		if before, ok := u.threads[e.Name()]; ok {
			ran, waited = ran+s.ran-before.ran, waited+s.waited-before.waited
		}
	}
	u.threads = threads
	return portion(ran, waited, since)
}

// portion is the part of the time asked for that was got.
func portion(ran, waited, since time.Duration) float64 {
	if ran+waited < since/20 {
		return 1
	}
	return float64(max(ran, time.Millisecond)) / float64(max(ran, time.Millisecond)+waited)
}

// parseSpent reads a line of /proc/PID/task/TID/schedstat: nanoseconds that the thread ran, and waited, and how often it ran.
func parseSpent(line string) (s spent, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 2 {
		return s, false
	}
	ran, err1 := strconv.ParseInt(fields[0], 10, 64)
	waited, err2 := strconv.ParseInt(fields[1], 10, 64)
	return spent{time.Duration(ran), time.Duration(waited)}, err1 == nil && err2 == nil
}
