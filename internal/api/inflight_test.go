package api

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/keelson-io/keelson/internal/api/admit"
	"github.com/keelson-io/keelson/internal/authn"
)

// TestRequestsInFlight holds who is let in when enough requests are being served.
func TestRequestsInFlight(t *testing.T) {
	s := newTestServer(t)
	s.must(201, "POST", widgets, widget("a", ``))
	serve := func(method, path string, groups ...string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		q := &request{h: s.h, w: w, r: httptest.NewRequest(method, path, nil)}
		s.h.limits.Begin(&q.holds, q.r)
		q.setUser(&authn.User{Name: "jane", Groups: groups})
		if err := limit(q); err != nil {
			q.fail(err)
		}
		q.release()
		return w
	}
	c := s.h.limits.Config
	c.Reads = 1
	s.h.limits = admit.New(c)
	var other admit.Holding
	s.h.limits.Begin(&other, httptest.NewRequest("GET", "/", nil))
	other.UseSlots(false)
	if err := other.Enter(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w := serve("GET", widgets); w.Code != 429 || w.Body.String() != "Too many requests, please try again later.\n" || w.Header().Get("Retry-After") != "1" {
		t.Errorf("got %d %q, headers %v", w.Code, w.Body, w.Header())
	}
	if w := serve("GET", widgets, authn.Masters); w.Code != 200 {
		t.Errorf("an administrator: got %d", w.Code)
	}
	if w := serve("POST", widgets); w.Code != 200 {
		t.Errorf("a write while there are many reads: got %d", w.Code)
	}
	if n, _ := s.h.limits.InFlight(); n != 1 {
		t.Errorf("%d reads are counted, want 1", n)
	}
	other.Release()
	s.must(200, "GET", widgets+"/a", "")
	if left := s.h.limits.Leftovers(); left != "" {
		t.Errorf("after the last request: %s", left)
	}
	for name, breaks := range map[string]http.HandlerFunc{
		"that end in a panic":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200); panic("broken") },
		"that cut their answer off": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		s.h.discovery = breaks
		func() {
			defer func() { _ = recover() }()
			s.h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/apis", nil))
			t.Error("the connection is not cut")
		}()
		if left := s.h.limits.Leftovers(); left != "" {
			t.Errorf("after those %s: %s", name, left)
		}
	}
}
