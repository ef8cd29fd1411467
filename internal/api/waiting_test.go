package api

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/keelson-io/keelson/internal/api/admit"
	"github.com/keelson-io/keelson/internal/audit"
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
			shares := memory.SharesOf(64 << 30)
			shares.Answers = 4 << 20
			s.limitTo(shares)
			var taken []*admit.Room
			for i := range 4 { // each takes the share of a user
				h := new(admit.Holding)
				s.h.limits.Begin(h, httptest.NewRequest("GET", "/", nil))
				h.SetCaller(fmt.Sprint("other-", i), false)
				room := h.Room(t.Context())
				room.Wait(1 << 20)
				taken = append(taken, room)
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
			s.eventually(func() bool { return strings.Contains(s.h.limits.Leftovers(), "answers: waiting: 1;") })
			s.eventually(func() bool { reads, _ := s.h.limits.InFlight(); return reads == 0 })
			for _, room := range taken {
				room.Leave()
			}
			if code := <-answer; code != 200 {
				t.Errorf("%s of %s: got %d", name, path, code)
			}
			s.eventually(func() bool { return s.leftovers() == "" })
		}
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
	shares := memory.SharesOf(64 << 30)
	shares.Answers = 8 << 20
	s.limitTo(shares)
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
