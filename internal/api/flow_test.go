package api

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/keelson-io/keelson/internal/audit"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/flow"
	"github.com/keelson-io/keelson/internal/flow/bootstrap"
)

// This file tests requests under priority and fairness.

// withFlow makes a server that uses a controller.
func withFlow(f *flow.Controller) func(*setup) { return func(c *setup) { c.Flow = f } }

// inside describes the requests that wait or hold seats.
func inside(f *flow.Controller) []string {
	var text strings.Builder
	f.Dump("dump_priority_levels", false, &text)
	var out []string
	for line := range strings.Lines(text.String()) {
		if cells := strings.Fields(strings.ReplaceAll(line, ",", "")); cells[0] != "PriorityLevelName" && (cells[4] != "0" || cells[5] != "0" || cells[2] != "true") {
			out = append(out, "level "+strings.TrimSpace(line))
		}
	}
	return out
}

// seats returns a controller in which everybody but administrators shares some seats of one level, by
// one queue of one place.
func seats(n int) *flow.Controller {
	f := flow.New(flow.Config{Seats: n, Logger: slog.New(slog.DiscardHandler)})
	none, shares := int32(0), int32(10_000)
	level := &flowcontrolv1.PriorityLevelConfiguration{}
	level.Name, level.UID, level.Spec.Type = "narrow", "uid-of-level", flowcontrolv1.PriorityLevelEnablementLimited
	level.Spec.Limited = &flowcontrolv1.LimitedPriorityLevelConfiguration{NominalConcurrencyShares: &shares, LendablePercent: &none, BorrowingLimitPercent: &none,
		LimitResponse: flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeQueue, Queuing: &flowcontrolv1.QueuingConfiguration{Queues: 1, HandSize: 1, QueueLengthLimit: 1}}}
	schemas := bootstrap.Schemas(true)
	everybody := schemas[1].DeepCopy()
	everybody.Name, everybody.UID, everybody.Spec.MatchingPrecedence, everybody.Spec.PriorityLevelConfiguration.Name = "all", "uid-of-schema", 5000, "narrow"
	f.Configure(append(bootstrap.Levels(true), level), append(schemas, everybody))
	return f
}

// hold takes all seats of the level narrow.
func hold(t *testing.T, f *flow.Controller, n int) (release func()) {
	t.Helper()
	ticket := new(flow.Ticket)
	f.Classify(ticket, &flow.Request{User: "holder", Payer: "holder", Groups: []string{authn.Authenticated}, IsResource: true, Verb: "get", Resource: "x"})
	if ok, _ := ticket.Enter(context.Background(), flow.Work{Initial: n}, 0); !ok {
		t.Fatal("there are no seats")
	}
	return ticket.Leave
}

// TestFlow fills all seats of a level, and checks which requests are served and how the others are answered.
func TestFlow(t *testing.T) {
	f := seats(2)
	quiet := slog.New(slog.DiscardHandler)
	policy, err := audit.ParsePolicy([]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata, omitStages: [RequestReceived]}]"), quiet)
	if err != nil {
		t.Fatal(err)
	}
	kept := &events{}
	s := newTestServer(t, withFlow(f), func(c *setup) {
		c.Audit = audit.NewAuditor(policy, kept, audit.NewMetrics(prometheus.NewRegistry()), quiet)
	})
	s.must(201, "POST", widgets, widget("a", ``))
	jane := []string{"Test-User", "jane"}
	headers := func(a answer, schema, level string) {
		t.Helper()
		if gotSchema, gotLevel := a.header.Get("X-Kubernetes-PF-FlowSchema-UID"), a.header.Get("X-Kubernetes-PF-PriorityLevel-UID"); gotSchema != schema || gotLevel != level {
			t.Errorf("headers: got schema %q, level %q, want %q, %q", gotSchema, gotLevel, schema, level)
		}
	}
	headers(s.must(403, "GET", widgets+"/a", "", jane...), "uid-of-schema", "uid-of-level")
	headers(s.must(200, "GET", widgets+"/a", ""), "", "") // of objects that are not stored

	release := hold(t, f, 2)
	waits := make(chan answer)
	go func() { waits <- s.call("GET", widgets+"/a?timeout=20s", "", jane...) }()
	s.eventually(func() bool { return strings.Contains(strings.Join(inside(f), " "), "narrow") && waiting(f) == 1 })
	a := s.must(429, "GET", widgets+"/a", "", jane...) // the queue has one place
	headers(a, "uid-of-schema", "uid-of-level")
	if a.body != "Too many requests, please try again later.\n" || a.header.Get("Retry-After") != "1" {
		t.Errorf("got %q, Retry-After %q", a.body, a.header.Get("Retry-After"))
	}
	headers(s.must(200, "GET", widgets+"/a", ""), "", "")
	if code := s.call("GET", "/readyz", "", jane...).code; code != 200 {
		t.Errorf("a probe: got %d", code)
	}
	time.Sleep(600 * time.Millisecond) // a record of latencies is kept of requests that take half a second
	release()
	if a := <-waits; a.code != 403 {
		t.Errorf("a request that waited: got %d %s", a.code, a.body)
	}
	s.eventually(func() bool { return kept.last["apiserver.latency.k8s.io/apf-queue-wait"] != "" })

	release = hold(t, f, 2)
	defer release()
	began := time.Now()
	s.must(429, "GET", widgets+"/a?timeout=400ms", "", jane...)
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Errorf("a request of 400 ms waited %v, want a quarter", took)
	}
}

// waiting returns how many requests wait.
func waiting(f *flow.Controller) int {
	var text strings.Builder
	f.Dump("dump_requests", true, &text)
	return strings.Count(text.String(), "\nnarrow,") - strings.Count(text.String(), "-1,")
}

// Ledger: flow-bodies.
func TestBodiesHoldNoSeats(t *testing.T) {
	f := seats(4)
	s := newTestServer(t, withFlow(f))
	reader, writer := io.Pipe()
	done := make(chan int)
	go func() {
		r, _ := http.NewRequest("POST", s.url+widgets, reader)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			done <- 0
			return
		}
		resp.Body.Close()
		done <- resp.StatusCode
	}()
	io.WriteString(writer, `{"apiVersion":"demo.io/v1",`)
	bodies := func() bool { return strings.Contains(s.h.limits.Leftovers(), "bodies") }
	s.eventually(bodies)
	if left := inside(f); len(left) > 0 {
		t.Errorf("while the body arrives: %v", left)
	}
	io.WriteString(writer, `"kind":"Widget","metadata":{"name":"slow"}}`)
	writer.Close()
	if code := <-done; code != 201 {
		t.Errorf("got %d", code)
	}
}

// TestWatchesHoldSeatsAtTheStart holds that a watch has given its seats back when it has begun, and
// that writes are told to take more seats if there are many watches.
func TestWatchesHoldSeatsAtTheStart(t *testing.T) {
	f := seats(40)
	s := newTestServer(t, withFlow(f))
	for range 25 {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		r, _ := http.NewRequestWithContext(ctx, "GET", s.url+widgets+"?watch=1", nil)
		resp, err := http.DefaultClient.Do(r)
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(err, resp)
		}
		defer resp.Body.Close()
	}
	if left := inside(f); len(left) > 0 {
		t.Errorf("after the start of watches: %v", left)
	}
	r := &flow.Request{User: "jane", Verb: "create", IsResource: true, Group: "demo.io", Resource: "widgets", Namespace: "default"}
	if n := f.Watchers(r); n != 25 {
		t.Errorf("%d watches are counted", n)
	}
	var ticket flow.Ticket
	f.Classify(&ticket, r)
	if w := ticket.WriteWork(25); w != (flow.Work{Initial: 1, Final: 3, Extra: 5 * time.Millisecond}) {
		t.Errorf("got %+v", w)
	}
}

// TestListsTakeSeats holds how many seats lists of many and large objects take.
func TestListsTakeSeats(t *testing.T) {
	s := newTestServer(t, withFlow(seats(4000)))
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		s.must(201, "POST", widgets, widget(name, `"color":"`+strings.Repeat("x", 100_000)+`"`))
	}
	s.must(200, "GET", widgets, "")
	for query, want := range map[string]int{"": 7, "?limit=2": 3, "?fieldSelector=metadata.name%3Da": 2, "?watch=1": 7, "?watch=1&resourceVersion=5": 1,
		"?labelSelector=a&limit=1&resourceVersion=7": 4, "?limit=x": 100} {
		q := &request{h: s.h, w: httptest.NewRecorder(), r: httptest.NewRequest("GET", widgets+query, nil), identity: identity{user: &authn.User{Name: "jane", Groups: []string{authn.Authenticated}}}}
		if err := requestInfo(q); err != nil {
			t.Fatal(err)
		}
		r := q.flowRequest()
		var ticket flow.Ticket
		s.h.Flow.Classify(&ticket, &r)
		if w := q.EstimateWork(&ticket, false); w.Initial != want {
			t.Errorf("%q: got %d seats, want %d", query, w.Initial, want)
		}
	}
}
