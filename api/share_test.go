package api

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/keelson-io/keelson/api/admit"
	"github.com/keelson-io/keelson/authn"
)

// This file tests what one user leaves for others.

// held returns a request of jane's with a body that a reader of its own holds.
func (s *testServer) held(body *http.Request) *request {
	q := &request{h: s.h, w: httptest.NewRecorder(), r: body, ctx: context.Background()}
	s.h.limits.Begin(&q.holds, body)
	q.setUser(&authn.User{Name: "jane"})
	return q
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
			if err != (admit.TooMany{After: 1}) {
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
	other.setUser(&authn.User{Name: "mary"})
	if _, err := other.readBody(); err != nil {
		t.Errorf("another user: %v", err)
	}
	for _, q := range append(all, other) {
		q.release()
	}
	if left := s.h.limits.Leftovers(); left != "" {
		t.Errorf("at the end: %s", left)
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
