package api

import (
	"net/http/httptest"
	"testing"

	"github.com/keelson-io/keelson/internal/negotiation"
)

// TestLongAnswersAreCounted sends one long answer more than there is memory for.
func TestLongAnswersAreCounted(t *testing.T) {
	s := newTestServer(t)
	s.h.sending.setMost(4)
	answer := func() (*request, error) {
		q := s.held(httptest.NewRequest("GET", "/", nil))
		a := q.reply(200, jsonHeader)
		defer a.end()
		a.b = append(a.b, make([]byte, negotiation.GzipAbove+1)...)
		return q, a.step()
	}
	var all []*request
	for {
		q, err := answer()
		if err == nil && len(all) < 10 {
			all = append(all, q)
			continue
		}
		if err != (tooMany{1}) {
			t.Errorf("after %d long answers: got %v, want 429", len(all), err)
		}
		break
	}
	if len(all) < 1 || len(all) > 4 {
		t.Errorf("one user sends %d long answers at a time, want at most 4", len(all))
	}
	for _, q := range all {
		q.release()
	}
	if _, err := answer(); err != nil || s.h.sending.now.Load() != 1 {
		t.Errorf("after the others: %v, %d are counted, want 1", err, s.h.sending.now.Load())
	}
}
