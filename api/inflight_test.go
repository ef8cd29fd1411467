package api

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/keelson-io/keelson/authn"
)

// TestRequestsInFlight holds who is let in when enough requests are being served.
func TestRequestsInFlight(t *testing.T) {
	s := newTestServer(t)
	s.must(201, "POST", widgets, widget("a", ``))
	serve := func(method, path string, groups ...string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		q := &request{h: s.h, w: w, r: httptest.NewRequest(method, path, nil), user: &authn.User{Name: "jane", Groups: groups}}
		if err := limit(q); err != nil {
			q.fail(err)
		}
		q.leave()
		return w
	}
	s.h.reads.now.Store(DefaultReads)
	if w := serve("GET", widgets); w.Code != 429 || w.Body.String() != "Too many requests, please try again later.\n" || w.Header().Get("Retry-After") != "1" {
		t.Errorf("got %d %q, headers %v", w.Code, w.Body, w.Header())
	}
	if w := serve("GET", widgets, authn.Masters); w.Code != 200 {
		t.Errorf("an administrator: got %d", w.Code)
	}
	if w := serve("POST", widgets); w.Code != 200 {
		t.Errorf("a write while there are many reads: got %d", w.Code)
	}
	if n := s.h.reads.now.Load(); n != DefaultReads {
		t.Errorf("%d reads are counted, want %d", n, DefaultReads)
	}
	s.h.reads.now.Store(0)
	s.must(200, "GET", widgets+"/a", "")
	if n := s.h.reads.now.Load() + s.h.writes.now.Load(); n != 0 {
		t.Errorf("%d requests are counted after the last one", n)
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
		if n := s.h.reads.now.Load(); n != 0 {
			t.Errorf("%d requests are counted after those %s", n, name)
		}
	}
}
