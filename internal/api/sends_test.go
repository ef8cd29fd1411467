package api

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/api/admit"
	"github.com/keelson-io/keelson/internal/memory"
	"github.com/keelson-io/keelson/internal/negotiation"
)

// TestLongAnswersAreCounted sends one long answer more than there is memory for.
func TestLongAnswersAreCounted(t *testing.T) {
	s := newTestServer(t)
	shares := memory.SharesOf(64 << 30)
	shares.Answers = 512 << 10 // of 128 KiB
	s.limitTo(shares)
	answer := func() (*request, error) {
		q := s.held(httptest.NewRequest("GET", "/", nil))
		a := q.reply(200, jsonHeader)
		defer a.end()
		a.B = append(a.B, make([]byte, negotiation.GzipAbove+1)...)
		return q, a.Step()
	}
	var all []*request
	for {
		q, err := answer()
		if err == nil && len(all) < 10 {
			all = append(all, q)
			continue
		}
		if err != (admit.TooMany{After: 1}) {
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
	if _, err := answer(); err != nil || !strings.HasPrefix(s.h.limits.Leftovers(), "long answers: 1; ") {
		t.Errorf("after the others: %v, %s are counted, want 1 long answer", err, s.h.limits.Leftovers())
	}
}
