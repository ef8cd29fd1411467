package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/keelson-io/keelson/internal/api/admit"
	"github.com/keelson-io/keelson/internal/authn"
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
		q := s.held(httptest.NewRequest("POST", "/", strings.NewReader(strings.Repeat("x", admit.MaxBody))))
		all = append(all, q)
		body, err := q.holds.ReadBody(q.ctx)
		if err != nil {
			if err != (admit.TooMany{After: 1}) {
				t.Errorf("too much: got %v, want 429", err)
			}
			break
		}
		if len(body) != admit.MaxBody {
			t.Fatalf("got %d bytes, want %d", len(body), admit.MaxBody)
		}
	}
	if n := len(all) - 1; n != 64<<20/admit.MaxBody {
		t.Errorf("one user has %d bodies of 3 MiB", n)
	}
	other := s.held(httptest.NewRequest("POST", "/", strings.NewReader("{}")))
	other.setUser(&authn.User{Name: "mary"})
	if _, err := other.holds.ReadBody(other.ctx); err != nil {
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
	for _, n := range []int{0, 1, 4095, 4096, 4097, admit.LeastBody - 1, admit.LeastBody, admit.LeastBody + 1, 4 * admit.LeastBody, admit.MaxBody - 1, admit.MaxBody, admit.MaxBody + 1} {
		for _, size := range []int64{int64(n), -1} {
			r := httptest.NewRequest("POST", "/", iotest.HalfReader(strings.NewReader(strings.Repeat("x", n))))
			r.ContentLength = size
			q := s.held(r)
			body, err := q.holds.ReadBody(q.ctx)
			if n > admit.MaxBody && err == nil || n <= admit.MaxBody && (err != nil || len(body) != n) {
				t.Errorf("%d bytes, said to be %d: got %d, %v", n, size, len(body), err)
			}
			q.release()
		}
	}
	r := httptest.NewRequest("POST", "/", strings.NewReader("short"))
	r.ContentLength = 10
	q := s.held(r)
	if _, err := q.holds.ReadBody(q.ctx); err == nil {
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
		q := request{identity: identity{user: &authn.User{Name: user}}}
		if got := q.payer(); got != want {
			t.Errorf("%q: got %q, want %q", user, got, want)
		}
	}
}
