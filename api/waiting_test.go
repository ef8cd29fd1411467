package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/keelson-io/keelson/audit"
	"github.com/keelson-io/keelson/authn"
	"github.com/keelson-io/keelson/internal/memory"
)

// This file tests requests that wait for room to build large answers.

const asTables = "application/json;as=Table;v=v1;g=meta.k8s.io"

// TestWhoWaitsForRoomHoldsNoSlot holds that a request gives back its slot while too much is built for its user.
func TestWhoWaitsForRoomHoldsNoSlot(t *testing.T) {
	s := newTestServer(t)
	s.must(201, "POST", widgets, widget("large", `"color":"`+strings.Repeat("x", 400<<10)+`"`))
	for name, accept := range map[string]string{"a table": asTables, "YAML": "application/yaml"} {
		for _, path := range []string{widgets, widgets + "/large"} {
			s.h.building = newBudget(1<<20, 1<<20)
			taken, err := s.h.building.acquire(context.Background(), "other", 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			answer := make(chan int)
			go func() {
				r, _ := http.NewRequest("GET", s.url+path, nil)
				r.Header.Set("Accept", accept)
				resp, err := http.DefaultClient.Do(r)
				if err != nil {
					answer <- 0
					return
				}
				resp.Body.Close()
				answer <- resp.StatusCode
			}()
			s.eventually(func() bool {
				s.h.building.mu.Lock()
				defer s.h.building.mu.Unlock()
				return s.h.building.waiting == 1
			})
			s.eventually(func() bool { return s.h.reads.now.Load() == 0 })
			s.h.building.release("other", taken)
			if code := <-answer; code != 200 {
				t.Errorf("%s of %s: got %d", name, path, code)
			}
			s.eventually(func() bool { return s.leftovers() == "" })
		}
	}
}

// TestManyReadersWait lets 40,000 readers of one user wait, as many watches can at an event, while others come and go.
func TestManyReadersWait(t *testing.T) {
	b := newBudget(100, 50)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if _, err := b.acquire(ctx, "mallory", 50); err != nil {
		t.Fatal(err)
	}
	const many = 40_000
	var wg, waits sync.WaitGroup
	waits.Add(many)
	for i := range many {
		wg.Go(func() {
			inner, leave := context.WithCancel(ctx)
			defer leave()
			if i%2 == 0 {
				go func() { waits.Wait(); leave() }()
			}
			w := b.ask("mallory", 10)
			waits.Done()
			if w.wait(inner) == nil {
				b.release("mallory", w.n)
			}
		})
	}
	waits.Wait()
	for range 1000 {
		n, err := b.acquire(ctx, "jane", 50)
		if err != nil {
			t.Fatal(err)
		}
		b.release("jane", n)
	}
	b.release("mallory", 50)
	wg.Wait()
	if b.used != 0 || b.waiting != 0 || len(b.users) != 0 || b.blocked.Len() != 0 {
		t.Errorf("at the end %d bytes are used, by %v, and %d wait", b.used, b.users, b.waiting)
	}
}

// TestUsersWaitInTurn checks that users get room in turn when the budget is full, and that a user
// who leaves the line does not block it.
func TestUsersWaitInTurn(t *testing.T) {
	b := newBudget(100, 60)
	for user, n := range map[string]int64{"a": 60, "b": 40} {
		if _, err := b.acquire(context.Background(), user, n); err != nil {
			t.Fatal(err)
		}
	}
	gone, leave := context.WithCancel(context.Background())
	got := make(chan string)
	wait := func(ctx context.Context, user string, n int64) {
		w := b.ask(user, n)
		go func() {
			if err := w.wait(ctx); err != nil {
				user += " left"
			}
			got <- user
		}()
	}
	wait(gone, "c", 60)
	wait(context.Background(), "d", 20)
	wait(context.Background(), "d", 30)
	wait(context.Background(), "e", 20)
	middle, leaveMiddle := context.WithCancel(context.Background())
	wait(middle, "f", 60)
	leaveMiddle()
	if next := <-got; next != "f left" || b.users["f"] != nil {
		t.Errorf("got %s; what is kept of f: %v", next, b.users["f"])
	}
	b.release("b", 10) // too little for c, which is first in line
	b.release("b", 10)
	leave()
	if first, second := <-got, <-got; first+second != "c leftd" && first+second != "dc left" {
		t.Errorf("got %s and %s", first, second)
	}
	b.release("b", 20)
	if next := <-got; next != "e" {
		t.Errorf("the turn is e's: got %s", next)
	}
	b.release("a", 60)
	if next := <-got; next != "d" {
		t.Errorf("got %s, want d again", next)
	}
	b.release("d", 50)
	b.release("e", 20)
	if b.used != 0 || len(b.users) != 0 || b.waiting != 0 {
		t.Errorf("at the end %d bytes are used, by %v", b.used, b.users)
	}
}

// responses keeps the answers that are recorded.
type responses struct{ sizes chan int }

// Process implements audit.Backend.
func (b responses) Process(event *audit.Event) bool {
	b.sizes <- len(event.ResponseObject)
	return true
}

// Close implements audit.Backend.
func (b responses) Close() error { return nil }

// TestRecordedTables checks that a list is recorded although its record takes all the room that its
// user may have.
func TestRecordedTables(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	policy, err := audit.ParsePolicy([]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\n"+
		"rules: [{level: RequestResponse, verbs: [list]}, {level: None}]"), quiet)
	if err != nil {
		t.Fatal(err)
	}
	kept := responses{make(chan int, 10)}
	s := newTestServer(t, func(c *setup) {
		c.Audit = audit.NewAuditor(policy, kept, audit.NewMetrics(prometheus.NewRegistry()), quiet)
	})
	s.h.building = newBudget(8<<20, 2<<20)
	for _, name := range []string{"a", "b"} {
		s.must(201, "POST", widgets, widget(name, `"color":"`+strings.Repeat("x", 400<<10)+`"`))
	}
	for i := range 2 * checkEach { // so that the end of the request is looked for
		s.must(201, "POST", widgets, widget(fmt.Sprint("small-", i), `"color":"red"`))
	}
	s.must(200, "GET", widgets+"?includeObject=Object", "", "Accept", asTables)
	if n := <-kept.sizes; n < 800<<10 {
		t.Errorf("%d bytes are recorded of a list of 800 KiB", n)
	}
	// A table in YAML takes room twice.
	s.must(200, "GET", widgets+"/a?includeObject=Object", "", "Accept", "application/yaml;as=Table;v=v1;g=meta.k8s.io")
	s.eventually(func() bool { return s.leftovers() == "" })
}

// TestWorkHasABudget works on bodies of the greatest length, as many as one user may have at a time, and on one more.
func TestWorkHasABudget(t *testing.T) {
	s := newTestServer(t)
	work := memory.SharesOf(64 << 30).Work
	s.h.working = newBudget(work, work/4*3)
	var all []*request
	worker := func(name string, ctx context.Context) (*request, error) {
		q := s.held(httptest.NewRequest("POST", "/", nil))
		q.user, q.ctx = &authn.User{Name: name}, ctx
		all = append(all, q)
		return q, q.workOnBody(maxBody)
	}
	impatient, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	most := (768 << 20) / (maxBody * workFactor) // three quarters of 1 GiB
	for n := range most {
		if q, err := worker("jane", t.Context()); err != nil || q.charged != maxBody*workFactor {
			t.Fatalf("body %d: charged %d, %v", n, q.charged, err)
		}
	}
	if q, err := worker("jane", impatient); err == nil || q.charged != 0 {
		t.Errorf("body %d: charged %d, %v, want that it waits", most+1, q.charged, err)
	}
	if q, err := worker("mary", t.Context()); err != nil || q.charged == 0 {
		t.Errorf("another user: charged %d, %v", q.charged, err)
	}
	small := s.held(httptest.NewRequest("POST", "/", nil))
	if err := small.workOnBody(workFree); err != nil || small.charged != 0 {
		t.Errorf("a small body: charged %d, %v, want that it is free", small.charged, err)
	}
	for _, q := range all {
		q.endWork()
	}
	if used := s.h.working.held(); used != 0 {
		t.Errorf("at the end: %d bytes are charged", used)
	}
}
