package flow

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/keelson-io/keelson/internal/flow/bootstrap"
	"github.com/keelson-io/keelson/internal/testkit"
)

// This file tests queues and seats, by a clock that moves only while everybody waits.

// limited returns a level of some queues, which neither lends nor borrows.
func limited(name string, shares, queues, hand, length int32) *flowcontrolv1.PriorityLevelConfiguration {
	none := int32(0)
	p := &flowcontrolv1.PriorityLevelConfiguration{}
	p.Name, p.UID, p.Spec.Type = name, "uid-of-level", flowcontrolv1.PriorityLevelEnablementLimited
	p.Spec.Limited = &flowcontrolv1.LimitedPriorityLevelConfiguration{NominalConcurrencyShares: &shares, LendablePercent: &none, BorrowingLimitPercent: &none}
	p.Spec.Limited.LimitResponse.Type = flowcontrolv1.LimitResponseTypeReject
	if queues > 0 {
		p.Spec.Limited.LimitResponse.Type = flowcontrolv1.LimitResponseTypeQueue
		p.Spec.Limited.LimitResponse.Queuing = &flowcontrolv1.QueuingConfiguration{Queues: queues, HandSize: hand, QueueLengthLimit: length}
	}
	return p
}

// everybody returns a schema that matches all requests for resources, with a flow for each user.
func everybody(name, level string, precedence int32) *flowcontrolv1.FlowSchema {
	s := bootstrap.Schemas(true)[1]
	s.Name, s.UID, s.Spec.MatchingPrecedence, s.Spec.PriorityLevelConfiguration.Name = name, "uid-of-schema", precedence, level
	return s
}

// newFlow returns a controller of some seats in which everybody is in one level.
func newFlow(seats int, p *flowcontrolv1.PriorityLevelConfiguration) *Controller {
	c := New(Config{Seats: seats, Logger: slog.New(slog.DiscardHandler)})
	c.Configure([]*flowcontrolv1.PriorityLevelConfiguration{p}, []*flowcontrolv1.FlowSchema{everybody("all", p.Name, 100)})
	return c
}

// from returns a request of a user.
func from(user string) *Request {
	return &Request{User: user, Payer: user, Groups: []string{"system:authenticated"}, IsResource: true, Verb: "get", Resource: "things", Namespace: "n"}
}

// enter lets a user's request ask for its seats.
func enter(t *testing.T, c *Controller, user string, w Work, wait time.Duration) (*Ticket, bool) {
	t.Helper()
	ticket := new(Ticket)
	c.Classify(ticket, from(user))
	ok, _ := ticket.Enter(t.Context(), w, wait)
	return ticket, ok
}

var one = Work{Initial: 1}

// numbers returns what the level has left of requests, which should be nothing at the end.
func numbers(c *Controller, name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.levels[name]
	l.mu.Lock()
	defer l.mu.Unlock()
	var executing, seats, waits int64
	for _, s := range c.series {
		n, held := s.current()
		executing, seats, waits = executing+n, seats+held, waits+s.waiting.Load()+s.seatsWaiting.Load()
	}
	return fmt.Sprint(l.taken.Load(), l.locked, l.linger, l.executing, l.waiting, l.seatsWait, l.requested, l.active, len(l.busy), len(l.users), l.fromQueues.n, executing, seats, waits)
}

var nothing = strings.TrimSpace(strings.Repeat("0 ", 14))

// TestFairness holds that a user with many requests does not delay a user with few.
func TestFairness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFlow(8, limited("level", 95, 64, 4, 1000)) // the level catch-all takes 5 shares: 8 seats for this one
		var wg sync.WaitGroup
		var served [2]atomic.Int64
		var slowest atomic.Int64
		client := func(which int, user string, requests int) {
			for range requests {
				began := time.Now()
				ticket, ok := enter(t, c, user, one, time.Hour)
				if !ok {
					t.Errorf("%s was rejected", user)
					return
				}
				if waited := time.Since(began); which == 1 && int64(waited) > slowest.Load() {
					slowest.Store(int64(waited))
				}
				time.Sleep(10 * time.Millisecond)
				ticket.Leave()
				served[which].Add(1)
			}
		}
		for range 200 {
			wg.Go(func() { client(0, "mallory", 20) })
		}
		synctest.Wait()
		wg.Go(func() { client(1, "jane", 100) })
		wg.Wait()
		if d := time.Duration(slowest.Load()); d > 20*time.Millisecond {
			t.Errorf("a request of jane's waited %v behind 200 of mallory's, which take 10 ms each", d)
		}
		if served[0].Load() != 4000 || served[1].Load() != 100 {
			t.Errorf("served %d and %d requests", served[0].Load(), served[1].Load())
		}
		if got := numbers(c, "level"); got != nothing {
			t.Errorf("at the end: %s", got)
		}
	})
}

// Ledger: requests-of-one-user.
func TestOneUserLeavesSeats(t *testing.T) {
	for _, queues := range []int32{0, 16} {
		synctest.Test(t, func(t *testing.T) {
			c := newFlow(95, limited("level", 95, queues, 4, 1000))
			limit := c.levels["level"].shape.limit // nobody changes it
			var in atomic.Int64
			release, rejected := make(chan struct{}), atomic.Int64{}
			var wg sync.WaitGroup
			hold := func(user string) {
				wg.Go(func() {
					ticket, ok := enter(t, c, user, one, time.Hour)
					if !ok {
						rejected.Add(1)
						return
					}
					in.Add(1)
					<-release
					ticket.Leave()
				})
			}
			for range 3 * limit {
				hold("mallory")
			}
			synctest.Wait()
			if n := int(in.Load()); n != limit/4+limit/2 {
				t.Errorf("%d queues: one user has %d seats of %d", queues, n, limit)
			}
			ticket, ok := enter(t, c, "jane", one, time.Nanosecond)
			if !ok {
				t.Errorf("%d queues: another user finds no seat", queues)
			}
			ticket.Leave()
			if n := int(rejected.Load()); (n > 0) != (queues == 0) {
				t.Errorf("%d queues: %d requests were rejected", queues, n)
			}
			close(release)
			wg.Wait()
			if got := numbers(c, "level"); got != nothing {
				t.Errorf("%d queues: at the end: %s", queues, got)
			}
		})
	}
}

// TestRejections holds why and when requests are rejected.
func TestRejections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFlow(2, limited("level", 95, 1, 1, 3))
		first, ok := enter(t, c, "a", Work{Initial: 2}, 0)
		if !ok {
			t.Fatal("there are seats")
		}
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				began := time.Now()
				ticket := new(Ticket)
				c.Classify(ticket, from("b"))
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				if i == 0 {
					cancel()
				}
				defer cancel()
				ok, waited := ticket.Enter(ctx, one, 15*time.Second)
				if d := time.Since(began); ok || i > 0 && (d != 15*time.Second || waited != d) || i == 0 && d != 0 {
					t.Errorf("a request in the queue: got %v after %v", ok, d)
				}
			})
		}
		synctest.Wait() // one has left: its context had ended
		wg.Go(func() { enter(t, c, "b", one, 15*time.Second) })
		synctest.Wait()
		if _, ok := enter(t, c, "d", one, time.Hour); ok {
			t.Error("a full queue took a request")
		}
		wg.Wait()
		s := c.series[seriesKey{"level", "all"}]
		if full, late := s.rejected[rejectedFull].Load(), s.rejected[rejectedTime].Load(); full != 1 || late != 4 {
			t.Errorf("rejected %d because of the queue, %d because of time", full, late)
		}
		first.Leave()
		if got := numbers(c, "level"); got != nothing {
			t.Errorf("at the end: %s", got)
		}
	})
}

// TestWideRequests holds that seats are saved for a request that needs many, and that final seats stay
// taken for their time.
func TestWideRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFlow(10, limited("level", 95, 8, 2, 100))
		a, _ := enter(t, c, "a", Work{Initial: 1, Final: 8, Extra: 5 * time.Second}, 0)
		var order []string
		var mu sync.Mutex
		var wg sync.WaitGroup
		for _, next := range []struct {
			user  string
			seats int
		}{{"wide", 5}, {"late", 1}} {
			wg.Go(func() {
				ticket, ok := enter(t, c, next.user, Work{Initial: next.seats}, time.Hour)
				mu.Lock()
				defer mu.Unlock()
				order = append(order, fmt.Sprint(next.user, ok, time.Now().Second()))
				ticket.Leave()
			})
			synctest.Wait()
		}
		time.Sleep(time.Second)
		a.Leave()
		time.Sleep(4 * time.Second)
		synctest.Wait()
		mu.Lock()
		if len(order) > 1 || slices.Contains(order, "widetrue 5") {
			t.Errorf("after 5 s: %v", order)
		}
		mu.Unlock()
		wg.Wait()
		if !slices.Contains(order, "widetrue 6") {
			t.Errorf("at the end: %v", order)
		}
		if got := numbers(c, "level"); got != nothing {
			t.Errorf("at the end: %s", got)
		}
	})
}

// TestLevelsEnd holds that a level that nobody refers to serves what it has, and ends then.
func TestLevelsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := newFlow(100, limited("level", 95, 8, 2, 100))
		go c.Run(ctx)
		has := func(want string) {
			t.Helper()
			synctest.Wait()
			var text bytes.Buffer
			c.Dump("dump_priority_levels", false, &text)
			if got := regexpLine(text.String(), "level,"); got != want {
				t.Errorf("got %q, want %q in\n%s", got, want, text.String())
			}
		}
		a, _ := enter(t, c, "a", one, 0)
		has("level,false,false,0,1,1,0,0,0")
		c.Configure(nil, nil)
		has("level,false,true,0,1,1,0,0,0")
		b, ok := enter(t, c, "b", one, 0)
		if schema, level := b.Names(); !ok || level != "catch-all" || schema != "catch-all" {
			t.Errorf("a new request is in level %s by %s", level, schema)
		}
		b.Leave()
		a.Leave()
		has("")
		cancel()
	})
}

// regexpLine returns the first line that begins with a prefix, without the number of active queues.
func regexpLine(text, prefix string) string {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); strings.HasPrefix(line, prefix) {
			return strings.TrimSuffix(f[0]+strings.Join(f[2:], ""), "\n")
		}
	}
	return ""
}

// TestBorrowing holds that seats move to the level that wants them, and back.
func TestBorrowing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := New(Config{Seats: 200})
		go c.Run(ctx)
		lends := int32(50)
		busy, idle := limited("busy", 50, 8, 2, 1000), limited("idle", 50, 8, 2, 1000)
		idle.Spec.Limited.LendablePercent, busy.Spec.Limited.BorrowingLimitPercent = &lends, nil
		c.Configure([]*flowcontrolv1.PriorityLevelConfiguration{busy, idle}, []*flowcontrolv1.FlowSchema{everybody("all", "busy", 100)})
		var wg sync.WaitGroup
		in := atomic.Int64{}
		for i := range 300 {
			wg.Go(func() {
				ticket, ok := enter(t, c, fmt.Sprint("user", i), one, time.Hour)
				if !ok {
					t.Error("rejected")
					return
				}
				in.Add(1)
				time.Sleep(time.Minute)
				ticket.Leave()
			})
		}
		synctest.Wait()
		before := in.Load()
		time.Sleep(2 * adjustEvery)
		synctest.Wait()
		// The level idle keeps half of its 96 seats, and catch-all its 10.
		if n := in.Load(); n != 144 || n <= before {
			t.Errorf("with borrowed seats %d requests are served, without %d", n, before)
		}
		seats := func() int {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.levels["idle"].limits.current
		}
		lent := seats()
		wg.Wait()
		time.Sleep(2 * time.Hour)
		if n := seats(); lent != 48 || n <= lent {
			t.Errorf("the lender has %d seats, and %d a long time after that", lent, n)
		}
		cancel()
	})
}

// TestManyRequests lets many goroutines come and go, by the real clock, while the configuration
// changes. It is for the race detector.
func TestManyRequests(t *testing.T) {
	reg := prometheus.NewRegistry()
	c := New(Config{Seats: 20, Metrics: reg, Logger: slog.New(slog.DiscardHandler)})
	level := limited("level", 95, 16, 4, 5)
	configure := func(p *flowcontrolv1.PriorityLevelConfiguration) {
		c.Configure([]*flowcontrolv1.PriorityLevelConfiguration{p}, []*flowcontrolv1.FlowSchema{everybody("all", "level", 100)})
	}
	configure(level)
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 1))
			for range 200 {
				w := Work{Initial: 1 + rnd.IntN(3)}
				if rnd.IntN(10) == 0 {
					w.Final, w.Extra = 2, time.Microsecond
				}
				ticket, ok := enter(t, c, fmt.Sprint("user", rnd.IntN(5)), w, time.Duration(rnd.IntN(300))*time.Microsecond)
				if ok {
					ticket.Leave()
				}
			}
		})
	}
	for i := range 50 {
		configure(limited("level", 95, int32(i%17), 4, 5)) // fewer queues than a hand has cards are broken
		if _, err := reg.Gather(); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"dump_priority_levels", "dump_queues", "dump_requests"} {
			var text bytes.Buffer
			if !c.Dump(name, true, &text) || text.Len() == 0 {
				t.Errorf("%s is empty", name)
			}
		}
	}
	configure(level)
	wg.Wait()
	testkit.EventuallySay(t, func() (string, bool) { // final seats
		got := numbers(c, "level")
		return "every seat is free, at the end: " + got, got == nothing
	})
}

// TestBrokenLevels holds that broken levels, and schemas without a level, have no effect.
func TestBrokenLevels(t *testing.T) {
	wrong := limited("wrong", 10, 4, 8, 10)
	exempt := limited("other", 10, 0, 0, 0)
	exempt.Spec.Type, exempt.Spec.Limited = flowcontrolv1.PriorityLevelEnablementExempt, nil
	c := New(Config{Seats: 10, Logger: slog.New(slog.DiscardHandler)})
	good, bad, none := everybody("good", "good", 500), everybody("bad", "wrong", 100), everybody("none", "missing", 200)
	c.Configure([]*flowcontrolv1.PriorityLevelConfiguration{wrong, exempt, limited("good", 10, 4, 2, 10)}, []*flowcontrolv1.FlowSchema{good, bad, none})
	var ticket Ticket
	c.Classify(&ticket, from("jane"))
	if schema, level := ticket.Names(); schema != "good" || level != "good" {
		t.Errorf("got schema %s, level %s", schema, level)
	}
	if !c.Dangles(bad) || !c.Dangles(none) || c.Dangles(good) {
		t.Errorf("dangling: got %v, %v, %v", c.Dangles(bad), c.Dangles(none), c.Dangles(good))
	}
	if schema, level := ticket.Headers(); schema[0] != "uid-of-schema" || level[0] != "uid-of-level" {
		t.Errorf("headers: got %q, %q", schema, level)
	}
}

// TestFastPathAllocatesNothing holds that a request of a level that is hardly used costs no memory.
func TestFastPathAllocatesNothing(t *testing.T) {
	c := newFlow(100, limited("level", 95, 64, 6, 50))
	ticket, r, ctx := new(Ticket), from("jane"), context.Background()
	if n := testing.AllocsPerRun(100, func() {
		c.Classify(ticket, r)
		if ok, _ := ticket.Enter(ctx, one, time.Second); !ok {
			t.Error("no seat")
		}
		ticket.Leave()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkEnter measures a request in a level that is hardly used.
func BenchmarkEnter(b *testing.B) {
	c := newFlow(100, limited("level", 95, 64, 6, 50))
	ticket, r, ctx := new(Ticket), from("jane"), context.Background()
	b.ReportAllocs()
	for b.Loop() {
		c.Classify(ticket, r)
		ticket.Enter(ctx, one, time.Second)
		ticket.Leave()
	}
}

// Ledger: flow-free-quarter.
func TestFirstQuarterNeedsNoQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFlow(95, limited("level", 95, 64, 6, 50))
		limit := c.levels["level"].shape.limit
		var all []*Ticket
		for i := range limit/4 + 1 {
			ticket, ok := enter(t, c, "jane", one, 0)
			if !ok || ticket.free != (i < limit/4) {
				t.Errorf("seat %d of %d: got %v, without a queue %v", i, limit, ok, ticket.free)
			}
			all = append(all, ticket)
		}
		var text bytes.Buffer
		c.Dump("dump_requests", false, &text)
		if n := strings.Count(text.String(), "\nlevel,"); n != 1 {
			t.Errorf("%d requests are listed, want that beyond the quarter:\n%s", n, text.String())
		}
		for _, ticket := range all {
			ticket.Leave()
		}
		if got := numbers(c, "level"); got != nothing {
			t.Errorf("at the end: %s", got)
		}
	})
}

// TestRetryAfter holds that clients are told to wait longer while many requests are rejected.
func TestRetryAfter(t *testing.T) {
	var r rejects
	var got []int64
	for second := int64(100); second < 108; second++ { // 100 in each second
		for range 99 {
			r.add(second)
		}
		got = append(got, r.add(second))
	}
	for second := int64(1000); second < 1100; second += 50 { // one now and then
		got = append(got, r.add(second))
	}
	if want := []int64{1, 2, 2, 4, 4, 4, 4, 8, 7, 6}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	c := New(Config{Seats: 100, Metrics: reg})
	c.Configure(bootstrap.Levels(false), bootstrap.Schemas(false))
	ticket, _ := enter(t, c, "jane", one, 0)
	values := func() map[string]string {
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]string{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				all[f.GetName()] += m.String() + "\n"
			}
		}
		return all
	}
	has := func(name, want string) {
		t.Helper()
		if got := values()["apiserver_flowcontrol_"+name]; !strings.Contains(strings.ReplaceAll(got, "  ", " "), want) {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	const labels = `label:{name:"flow_schema" value:"global-default"} label:{name:"priority_level" value:"global-default"} `
	has("current_executing_requests", labels+"gauge:{value:1}")
	has("current_executing_seats", labels+"gauge:{value:1}")
	has("dispatched_requests_total", labels+"counter:{value:1}")
	has("read_vs_write_current_requests", `label:{name:"phase" value:"executing"} label:{name:"request_kind" value:"mutating"}`)
	has("nominal_limit_seats", `label:{name:"priority_level" value:"workload-low"} gauge:{value:41}`)
	ticket.Leave()
	has("current_executing_requests", labels+"gauge:{value:0}")
}

// TestReadsAndWrites holds that the numbers of reads and writes are sampled, as shares of what may execute and wait, and
// that they are none at the end.
func TestReadsAndWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFlow(95, limited("level", 95, 64, 6, 50))
		write := from("jane")
		write.Verb = "create"
		var tickets []*Ticket
		for _, r := range []*Request{from("jane"), write, write} {
			ticket := new(Ticket)
			c.Classify(ticket, r)
			if ok, _ := ticket.Enter(t.Context(), one, 0); !ok {
				t.Fatal("not let in")
			}
			tickets = append(tickets, ticket)
		}
		sample := func() (reads, writes float64) {
			time.Sleep(time.Second)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.sampleReadWrite()
			use := &c.readWrite.use[0]
			if of := use[readOnly].of; of != float64(c.nominal) {
				t.Errorf("got shares of %v, want of %d", of, c.nominal)
			}
			return use[readOnly].value, use[mutating].value
		}
		if reads, writes := sample(); reads != 1 || writes != 2 {
			t.Errorf("got %v reads and %v writes, want 1 and 2", reads, writes)
		}
		for _, ticket := range tickets {
			ticket.Leave()
		}
		if reads, writes := sample(); reads != 0 || writes != 0 {
			t.Errorf("at the end: got %v reads and %v writes", reads, writes)
		}
		count, _, _ := c.readWrite.use[0][mutating].read()
		if seconds := float64(count) / 1e9; seconds < 1.9 || seconds > 2.1 {
			t.Errorf("got %v seconds in all samples, want 2", seconds)
		}
	})
}
