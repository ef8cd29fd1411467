package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/keelson-io/keelson/authn"
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
func (s *testServer) held(body *http.Request) (*request, *httptest.ResponseRecorder) {
	w := httptest.NewRecorder()
	return &request{h: s.h, w: w, r: body, user: &authn.User{Name: "jane"}}, w
}

// Ledger: bodies-in-flight.
func TestBodiesHaveABudget(t *testing.T) {
	s := newTestServer(t)
	var all []*request
	for {
		q, w := s.held(httptest.NewRequest("POST", "/", strings.NewReader(strings.Repeat("x", maxBody))))
		all = append(all, q)
		body, err := q.readBody()
		if err != nil {
			if err != errAnswered || w.Code != 429 || w.Header().Get("Retry-After") != "1" {
				t.Errorf("too much: got %v, answer %d", err, w.Code)
			}
			break
		}
		if len(body) != maxBody {
			t.Fatalf("got %d bytes, want %d", len(body), maxBody)
		}
	}
	if n := len(all) - 1; n != maxUserBodies/maxBody {
		t.Errorf("one user has %d bodies of 3 MiB", n)
	}
	other, _ := s.held(httptest.NewRequest("POST", "/", strings.NewReader("{}")))
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
			q, _ := s.held(r)
			body, err := q.readBody()
			if n > maxBody && err == nil || n <= maxBody && (err != nil || len(body) != n) {
				t.Errorf("%d bytes, said to be %d: got %d, %v", n, size, len(body), err)
			}
			q.release()
		}
	}
	r := httptest.NewRequest("POST", "/", strings.NewReader("short"))
	r.ContentLength = 10
	q, _ := s.held(r)
	if _, err := q.readBody(); err == nil {
		t.Error("a body that ends early is taken")
	}
}

// TestUsersHeadersHaveAShare holds that one user's large headers leave room for those of others.
func TestUsersHeadersHaveAShare(t *testing.T) {
	s := newTestServer(t)
	ask := func(user string) (*request, int) {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-Filler", strings.Repeat("x", 1<<20))
		q, w := s.held(r)
		q.user = nil
		if done, err := countHeaders(q); done || err != nil {
			t.Fatalf("got %v, %v", done, err)
		}
		q.user = &authn.User{Name: user}
		done, err := countUsersHeaders(q)
		if err != nil || done != (w.Code == 429) {
			t.Errorf("got %v, %v, answer %d", done, err, w.Code)
		}
		return q, w.Code
	}
	var all []*request
	for {
		q, code := ask("mallory")
		all = append(all, q)
		if code == 429 {
			break
		}
	}
	if n := len(all) - 1; n != 15 {
		t.Errorf("one user has %d headers of 1 MiB in 16 MiB", n)
	}
	q, code := ask("jane")
	if code != 200 {
		t.Errorf("another user: got %d", code)
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
	open := func(name string) (*request, int) {
		q, w := s.held(httptest.NewRequest("GET", "/", nil))
		q.user, q.long = &authn.User{Name: name}, true
		if _, err := goOn(q); err != nil {
			t.Fatal(err)
		}
		return q, w.Code
	}
	first, code := open("jane")
	if code != 200 {
		t.Errorf("the first watch: %d", code)
	}
	if _, code := open("jane"); code != 429 {
		t.Errorf("one too many: got %d", code)
	}
	if _, code := open("mary"); code != 200 {
		t.Errorf("another user: got %d", code)
	}
	first.release()
	if _, code := open("jane"); code != 200 {
		t.Errorf("after the first one has ended: got %d", code)
	}
}

func TestLargeHeadersHaveABudget(t *testing.T) {
	s := newTestServer(t)
	ask := func() (*request, int) {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-Filler", strings.Repeat("x", 1<<20))
		r.Header.Set("Accept", "application/json")
		q, w := s.held(r)
		done, err := countHeaders(q)
		if err != nil || done != (w.Code == 429) {
			t.Errorf("got %v, %v, answer %d", done, err, w.Code)
		}
		return q, w.Code
	}
	var all []*request
	for {
		q, code := ask()
		if code == 429 {
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
	if q, code := ask(); code != 200 {
		t.Errorf("after one was forgotten: got %d", code)
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

// stuck is a writer that writes nothing until its deadline has passed.
type stuck struct {
	*httptest.ResponseRecorder
	late chan struct{}
}

func (w *stuck) Write([]byte) (int, error) {
	<-w.late
	return 0, http.ErrHandlerTimeout
}

func TestStalledAnswersEnd(t *testing.T) {
	s := newStalls(mostStalled)
	w := &stuck{httptest.NewRecorder(), make(chan struct{})}
	p := s.follow(deadlined{w})
	done := make(chan error)
	go func() {
		_, err := p.Write(make([]byte, 3*writePiece))
		done <- err
	}()
	for p.since.Load() == 0 {
		select {
		case err := <-done:
			t.Fatal(err)
		default:
		}
	}
	for range looksAtStalls {
		s.look()
	}
	select {
	case err := <-done:
		t.Fatalf("it ended early: %v", err)
	default:
	}
	s.look()
	if err := <-done; err != http.ErrHandlerTimeout {
		t.Errorf("got %v", err)
	}
	s.forget(p)
}

// deadlined is a stuck writer that takes deadlines.
type deadlined struct{ *stuck }

// SetWriteDeadline is for http.ResponseController.
func (w deadlined) SetWriteDeadline(time.Time) error {
	close(w.late)
	return nil
}
