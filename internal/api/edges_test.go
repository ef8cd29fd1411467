package api

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keelson-io/keelson/internal/api/health"
)

// This file tests what stands at the edges of requests: deadlines, warnings, bookmarks before the end, and health.

func TestDeadline(t *testing.T) {
	h := &Handler{Config: Config{Timeout: time.Minute}}
	for _, test := range []struct {
		method, target string
		most           time.Duration // 0: none
	}{
		{"GET", "/apis/demo.io/v1/widgets", time.Minute},
		{"GET", "/apis/demo.io/v1/widgets?timeout=5s", 5 * time.Second},
		{"GET", "/apis/demo.io/v1/widgets?timeout=0", time.Minute},
		{"GET", "/apis/demo.io/v1/widgets?timeout=5m", time.Minute},
		{"PUT", "/apis/demo.io/v1/widgets/a", 34 * time.Second},
		{"DELETE", "/apis/demo.io/v1/widgets?timeout=50s", 34 * time.Second},
		{"PATCH", "/apis/demo.io/v1/widgets/a?timeout=5s", 5 * time.Second},
		{"GET", "/apis/demo.io/v1/widgets?watch=1&timeout=5s", 0},
	} {
		r := httptest.NewRequest(test.method, test.target, nil)
		q := &request{h: h, r: r, ctx: context.Background()}
		began := time.Now()
		for _, step := range []func(*request) error{requestInfo, deadline} {
			if err := step(q); err != nil {
				t.Fatalf("%s %s: %v", test.method, test.target, err)
			}
		}
		ends, limited := q.ctx.Deadline()
		// Between the two moments there may be any time, but not as much as between two limits.
		if left := ends.Sub(began); limited != (test.most > 0) || limited && (left < test.most || left > test.most+4*time.Second) {
			t.Errorf("%s %s: ends after %v (%t), want %v", test.method, test.target, left, limited, test.most)
		}
		if q.cancel != nil {
			q.cancel()
		}
	}
}

func TestWarningsOnce(t *testing.T) {
	long := strings.Repeat("é", 300)
	w := httptest.NewRecorder()
	q := &request{w: w, answered: answered{warnings: []string{"a", "b", "", "a"}}}
	q.writeWarnings()
	if got := w.Header()["Warning"]; len(got) != 2 || got[0] != `299 - "a"` || got[1] != `299 - "b"` {
		t.Errorf("each text once, in order: got %q", got)
	}
	w = httptest.NewRecorder()
	q = &request{w: w, answered: answered{warnings: []string{long}}}
	if q.writeWarnings(); w.Header().Get("Warning") != `299 - "`+long+`"` {
		t.Errorf("a long warning alone is cut: %q", w.Header().Get("Warning"))
	}
	w = httptest.NewRecorder()
	q = &request{w: w}
	for i := range 20 {
		q.warn(strings.Repeat(string(rune('a'+i)), 300))
	}
	q.writeWarnings()
	got := w.Header()["Warning"]
	if len(got) != 16 || got[15] != `299 - "`+strings.Repeat("p", 256)+`"` { // 16 of 256 runes are 4,096
		t.Errorf("many long warnings: %d, the last is %.20q", len(got), got[len(got)-1])
	}
	w = httptest.NewRecorder()
	q = &request{w: w}
	for i := range 30 {
		q.warn(strings.Repeat(string(rune('a'+i%26)), 170+i))
	}
	q.writeWarnings()
	if got := w.Header()["Warning"]; len(got) != 23 { // 22 have 3,971 runes, and there is room as long as there are less than 4,096
		t.Errorf("warnings up to the one that is too much: got %d", len(got))
	}
}

// TestLargeAnswers: an answer of more than 128 KiB, its newline counted, is compressed for who accepts that, and for nobody else.
func TestLargeAnswers(t *testing.T) {
	for size, want := range map[int]string{128 << 10: "", 128<<10 + 1: "gzip"} {
		for _, accept := range []string{"gzip", "gzip;q=0"} {
			w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
			r.Header.Set("Accept-Encoding", accept)
			q := &request{h: &Handler{}, w: w, r: r}
			q.send(http.StatusOK, []byte(`"`+strings.Repeat("x", size-3)+`"`))
			got := w.Header().Get("Content-Encoding")
			if accept != "gzip" {
				want = ""
			}
			if got != want || got == "" && w.Body.Len() != size {
				t.Errorf("%d bytes for who accepts %s: %q, %d bytes", size, accept, got, w.Body.Len())
			}
		}
	}
}

func TestLastBookmark(t *testing.T) {
	now := time.Now()
	w := &watcher{q: &request{h: &Handler{Config: Config{BookmarkEvery: time.Minute}}}}
	for left, want := range map[time.Duration]time.Duration{
		time.Hour: time.Minute, 62 * time.Second: time.Minute, 30 * time.Second: 28 * time.Second, time.Second: time.Minute,
	} {
		w.deadline = now.Add(left)
		if got := w.markAfter(now).Sub(now); got != want {
			t.Errorf("%v before the end: the next bookmark comes after %v, want %v", left, got, want)
		}
	}
}

func TestHealth(t *testing.T) {
	sick := errors.New("it is sick")
	var ill atomic.Bool
	s := newTestServer(t, func(c *setup) {
		c.Checks = []health.Check{{Name: "organ", Do: func(context.Context) error {
			if ill.Load() {
				return sick
			}
			return nil
		}}}
	})
	for _, path := range []string{"/healthz", "/livez", "/readyz", "/readyz/organ"} {
		s.must(http.StatusOK, "GET", path, "")
	}
	ill.Store(true)
	for _, path := range []string{"/healthz", "/livez?verbose", "/readyz", "/readyz?exclude=" + url.QueryEscape("ping")} {
		a := s.must(http.StatusInternalServerError, "GET", path, "")
		if !strings.Contains(a.body, "[-]organ failed: reason withheld\n") || !strings.Contains(a.body, " check failed\n") || strings.Contains(a.body, sick.Error()) {
			t.Errorf("%s: %s", path, a.body)
		}
	}
	if a := s.must(http.StatusOK, "GET", "/livez?verbose&exclude=organ", ""); !strings.Contains(a.body, "[+]organ excluded: ok\n") {
		t.Errorf("with what is ill excluded: %s", a.body)
	}
	ill.Store(false)
	s.h.health.Stop()
	s.must(http.StatusOK, "GET", "/livez", "")
	if a := s.must(http.StatusInternalServerError, "GET", "/readyz", ""); !strings.Contains(a.body, "[-]shutdown failed: reason withheld\n") {
		t.Errorf("while it stops: %s", a.body)
	}
}
