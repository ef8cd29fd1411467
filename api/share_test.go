package api

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/keelson-io/keelson/authn"
	"github.com/keelson-io/keelson/internal/memory"
)

// This file tests what one user leaves for others.

// Ledger: requests-of-one-user.
func TestOneUserLeavesSlots(t *testing.T) {
	var c inFlight
	c.setMost(400)
	var shares []bool
	for {
		ok, shared := c.enter("mallory", false)
		if !ok {
			break
		}
		shares = append(shares, shared)
	}
	if len(shares) != 300 {
		t.Errorf("one user has %d slots of 400, want 300", len(shares))
	}
	for _, next := range []struct {
		user  string
		slots int
	}{{"jane", 66}, {"mary", 22}, {"mike", 8}, {"paul", 2}, {"rose", 1}, {"ruth", 1}, {"late", 0}} { // each leaves some
		slots := 0
		for {
			if ok, _ := c.enter(next.user, false); !ok {
				break
			}
			slots++
		}
		if slots != next.slots {
			t.Errorf("%s has %d slots, want %d", next.user, slots, next.slots)
		}
	}
	if ok, shared := c.enter("root", true); !ok || shared {
		t.Errorf("an administrator: got %v, of the share %v", ok, shared)
	}
	for _, shared := range shares {
		c.leave("mallory", shared)
	}
	if ok, _ := c.enter("mallory", false); !ok || c.shared.users["mallory"] != 1 {
		t.Errorf("after all were given back: got %v, %v", ok, c.shared.users)
	}
}

// held returns a request of jane's with a body that a reader of its own holds.
func (s *testServer) held(body *http.Request) *request {
	return &request{h: s.h, w: httptest.NewRecorder(), r: body, ctx: context.Background(), user: &authn.User{Name: "jane"}}
}

// Ledger: bodies-in-flight.
func TestBodiesHaveABudget(t *testing.T) {
	s := newTestServer(t)
	var all []*request
	for {
		q := s.held(httptest.NewRequest("POST", "/", strings.NewReader(strings.Repeat("x", maxBody))))
		all = append(all, q)
		body, err := q.readBody()
		if err != nil {
			if err != (tooMany{1}) {
				t.Errorf("too much: got %v, want 429", err)
			}
			break
		}
		if len(body) != maxBody {
			t.Fatalf("got %d bytes, want %d", len(body), maxBody)
		}
	}
	if n := len(all) - 1; n != 64<<20/maxBody {
		t.Errorf("one user has %d bodies of 3 MiB", n)
	}
	other := s.held(httptest.NewRequest("POST", "/", strings.NewReader("{}")))
	other.user = &authn.User{Name: "mary"}
	if _, err := other.readBody(); err != nil {
		t.Errorf("another user: %v", err)
	}
	for _, q := range append(all, other) {
		q.release()
	}
	if s.h.bodies.used != 0 || len(s.h.bodies.users) != 0 {
		t.Errorf("at the end: %d bytes, users %v", s.h.bodies.used, s.h.bodies.users)
	}
}

func TestBodiesOfAllLengths(t *testing.T) {
	s := newTestServer(t)
	for _, n := range []int{0, 1, 4095, 4096, 4097, leastBody - 1, leastBody, leastBody + 1, 4 * leastBody, maxBody - 1, maxBody, maxBody + 1} {
		for _, size := range []int64{int64(n), -1} {
			r := httptest.NewRequest("POST", "/", iotest.HalfReader(strings.NewReader(strings.Repeat("x", n))))
			r.ContentLength = size
			q := s.held(r)
			body, err := q.readBody()
			if n > maxBody && err == nil || n <= maxBody && (err != nil || len(body) != n) {
				t.Errorf("%d bytes, said to be %d: got %d, %v", n, size, len(body), err)
			}
			q.release()
		}
	}
	r := httptest.NewRequest("POST", "/", strings.NewReader("short"))
	r.ContentLength = 10
	q := s.held(r)
	if _, err := q.readBody(); err == nil {
		t.Error("a body that ends early is taken")
	}
}

// TestUsersHeadersHaveAShare holds that one user's large headers leave room for those of others.
func TestUsersHeadersHaveAShare(t *testing.T) {
	s := newTestServer(t)
	ask := func(user string) (*request, error) {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-Filler", strings.Repeat("x", 1<<20))
		q := s.held(r)
		q.user = nil
		if err := countHeaders(q); err != nil {
			t.Fatal(err)
		}
		q.user = &authn.User{Name: user}
		return q, countUsersHeaders(q)
	}
	var all []*request
	for {
		q, err := ask("mallory")
		all = append(all, q)
		if err == (tooMany{1}) {
			break
		}
	}
	if n := len(all) - 1; n != 15 {
		t.Errorf("one user has %d headers of 1 MiB in 16 MiB", n)
	}
	q, err := ask("jane")
	if err != nil {
		t.Errorf("another user: got %v", err)
	}
	for _, q := range append(all, q) {
		q.release()
	}
	if u := &s.h.largeHeaders; u.used != 0 || len(u.users) != 0 {
		t.Errorf("at the end: %d bytes, users %v", u.used, u.users)
	}
}

// TestServiceAccountsShare holds that what the service accounts of a namespace take is counted together.
func TestServiceAccountsShare(t *testing.T) {
	for user, want := range map[string]string{
		"jane":                             "jane",
		"system:anonymous":                 "system:anonymous",
		"system:serviceaccount:tenant:one": "system:serviceaccount:tenant",
		"system:serviceaccount:tenant:two": "system:serviceaccount:tenant",
		"system:serviceaccount:tenant:":    "system:serviceaccount:tenant",
		"system:serviceaccount:tenant":     "system:serviceaccount:tenant",
		"system:serviceaccount:":           "system:serviceaccount:",
		"system:serviceaccount:other:one":  "system:serviceaccount:other",
	} {
		q := request{user: &authn.User{Name: user}}
		if got := q.payer(); got != want {
			t.Errorf("%q: got %q, want %q", user, got, want)
		}
	}
}

// Ledger: watches-of-one-user.
func TestWatchesOfOneUser(t *testing.T) {
	s := newTestServer(t)
	s.h.watches.share = 1
	open := func(name string) (*request, error) {
		q := s.held(httptest.NewRequest("GET", "/", nil))
		q.user, q.long = &authn.User{Name: name}, true
		return q, admitLongRunning(q)
	}
	first, err := open("jane")
	if err != nil {
		t.Errorf("the first watch: %v", err)
	}
	if _, err := open("jane"); err != (tooMany{1}) {
		t.Errorf("one too many: got %v", err)
	}
	if _, err := open("mary"); err != nil {
		t.Errorf("another user: got %v", err)
	}
	first.release()
	if _, err := open("jane"); err != nil {
		t.Errorf("after the first one has ended: got %v", err)
	}
}

// TestWatchesShrinkWithTheMemory opens as many watches as one user, and others, may have in servers with a small and with no limit.
func TestWatchesShrinkWithTheMemory(t *testing.T) {
	for _, test := range []struct{ limit, one, all int64 }{{memory.Least, 120, 240}, {448 << 20, 552, 1104}, {64 << 30, 16_384, 196_368}, {0, 16_384, math.MaxInt64}} {
		var q quota
		q.most, q.share = watchesWithin(memory.SharesOf(test.limit).Watches)
		if q.most != test.all {
			t.Errorf("%d MiB: all users may have %d watches, want %d", test.limit>>20, q.most, test.all)
		}
		jane := int64(0)
		for q.acquire("jane", 1, false) {
			jane++
		}
		if jane != test.one || !q.acquire("mary", 1, false) || !q.acquire("root", 1, true) {
			t.Errorf("%d MiB: one user may have %d watches, want %d, and that others have some", test.limit>>20, jane, test.one)
		}
	}
}

func TestLargeHeadersHaveABudget(t *testing.T) {
	s := newTestServer(t)
	ask := func() (*request, error) {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-Filler", strings.Repeat("x", 1<<20))
		r.Header.Set("Accept", "application/json")
		q := s.held(r)
		return q, countHeaders(q)
	}
	var all []*request
	for {
		q, err := ask()
		if err == (tooMany{1}) {
			if len(q.r.Header) != 0 {
				t.Error("a header that is refused is kept")
			}
			break
		}
		all = append(all, q)
	}
	if n := len(all); n != 63 {
		t.Errorf("there are %d headers of 1 MiB in 64 MiB", n)
	}
	all[0].shedHeaders() // it waits for its client
	if h := all[0].r.Header; h.Get("Accept") == "" || h.Get("X-Filler") != "" {
		t.Errorf("what is kept: %d fields", len(h))
	}
	if q, err := ask(); err != nil {
		t.Errorf("after one was forgotten: got %v", err)
	} else {
		all = append(all, q)
	}
	for _, q := range all {
		q.release()
	}
	if s.h.largeHeaders.used != 0 {
		t.Errorf("%d bytes at the end", s.h.largeHeaders.used)
	}
}

// stuck is a writer that writes nothing until its deadline is set.
type stuck struct {
	*httptest.ResponseRecorder
	deadlines chan time.Time
}

func (w *stuck) Write([]byte) (int, error) {
	<-w.deadlines
	return 0, http.ErrHandlerTimeout
}

// SetWriteDeadline is for http.ResponseController.
func (w *stuck) SetWriteDeadline(t time.Time) error {
	w.deadlines <- t
	return nil
}

func TestStalledAnswersEnd(t *testing.T) {
	write := func(c *cutter) error {
		_, err := c.Write(make([]byte, 3*writePiece))
		return err
	}
	for name, test := range map[string]struct {
		write func(*cutter) error
		after time.Duration
	}{
		"a write":                     {write, 20 * time.Second},
		"an event":                    {func(c *cutter) error { return c.send([]byte("{}"), nil) }, 20 * time.Second},
		"a write at a watch's end":    {func(c *cutter) error { c.endBy(time.Now().Add(5 * time.Second)); return write(c) }, 6 * time.Second},
		"a write after a watch's end": {func(c *cutter) error { c.endBy(time.Now().Add(time.Hour)); c.endNow(); return write(c) }, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &stuck{httptest.NewRecorder(), make(chan time.Time, 1)}
				c := newCutter(w, 20*time.Second)
				began := time.Now()
				if err := test.write(c); !errors.Is(err, http.ErrHandlerTimeout) {
					t.Errorf("got %v", err)
				}
				if took := time.Since(began); took != test.after {
					t.Errorf("it ended after %v, want %v", took, test.after)
				}
				c.end()
				time.Sleep(time.Hour)
				if len(w.deadlines) > 0 {
					t.Error("a deadline was set after the last one")
				}
			})
		})
	}
}

// TestAnswersThatAreReadGoOn reads an answer slowly: each piece within the limit.
func TestAnswersThatAreReadGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &slow{stuck: stuck{httptest.NewRecorder(), make(chan time.Time, 1)}}
		c := newCutter(w, 20*time.Second)
		n, err := c.Write(make([]byte, 5*writePiece))
		if err != nil || n != 5*writePiece || w.Body.Len() != n {
			t.Errorf("got %d, %v", n, err)
		}
		if len(w.deadlines) > 0 {
			t.Error("it was cut off")
		}
		c.end()
		if d := <-w.deadlines; !d.Equal(time.Now().Add(20 * time.Second)) {
			t.Errorf("what is still buffered has to be sent by %v", d)
		}
	})
}

// slow is a writer that needs 15 s for a piece.
type slow struct{ stuck }

func (w *slow) Write(b []byte) (int, error) {
	time.Sleep(15 * time.Second)
	return w.Body.Write(b)
}
