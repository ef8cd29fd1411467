package often

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// logger returns a logger through a Handler, its output, and a function that lets time pass.
func logger() (log *slog.Logger, out *bytes.Buffer, pass func(time.Duration)) {
	out, now := new(bytes.Buffer), time.Unix(0, 0)
	h := New(slog.NewTextHandler(out, nil))
	h.counter.now = func() time.Time { return now }
	return slog.New(h), out, func(d time.Duration) { now = now.Add(d) }
}

func lines(out *bytes.Buffer) []string {
	text := strings.TrimSuffix(out.String(), "\n")
	out.Reset()
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

func TestHandler(t *testing.T) {
	log, out, pass := logger()
	for i := range 1000 {
		log.Warn("request failed", "path", fmt.Sprintf("/a/%d", i), "error", errors.New("late"))
		log.Info("fine")
	}
	if got := lines(out); len(got) != 1001 || !strings.Contains(got[0], "path=/a/0") {
		t.Errorf("got %d lines and %q, want 1000 without a limit, and a warning", len(got), got[0])
	}
	log.Warn("request failed", "path", "/b", "error", errors.New("late"))
	log.Error("request failed", "path", "/a/1", "error", errors.New("late"))
	log.With("from", "x").Warn("request failed", "path", "/a/1", "error", errors.New("late"))
	if got := lines(out); len(got) != 3 {
		t.Errorf("of other kinds: got %q, want 3 lines", got)
	}
	pass(every)
	log.Warn("request failed", "path", "/a/7", "error", errors.New("late"))
	log.Warn("request failed", "path", "/a/8", "error", errors.New("late"))
	if got := lines(out); len(got) != 1 || !strings.Contains(got[0], "path=/a/7 error=late repeated=999 within=1m0s") {
		t.Errorf("a minute later: got %q, want the number of those that were not logged", got)
	}
}

// TestManyKinds makes up a text for each message.
func TestManyKinds(t *testing.T) {
	log, out, pass := logger()
	text := func(i int) string { return strings.Repeat("x", i%900) + string(rune('a'+i/900)) }
	for i := range 3000 {
		log.Warn("request failed", "path", text(i))
	}
	got := lines(out)
	if len(got) != kinds+1 || !strings.Contains(got[kinds], "there are more kinds of messages than are logged") {
		t.Errorf("got %d lines, want %d and one about the others", len(got), kinds)
	}
	pass(every)
	log.Warn("request failed", "path", text(2999))
	if got := lines(out); len(got) != 1 || !strings.Contains(got[0], "path=") {
		t.Errorf("a minute later: got %q", got)
	}
}

// TestNothingIsInjected holds that texts of clients stay within their lines, and reach no terminal as they are.
func TestNothingIsInjected(t *testing.T) {
	log, out, _ := logger()
	evil := "a\nlevel=ERROR msg=forged\r\x1b[2J\u2028\x00 user=root"
	log.Warn("request failed: "+evil, "path", evil, "error", errors.New(evil), "list", []string{evil})
	got := lines(out)
	if len(got) != 1 {
		t.Errorf("got %d lines, want 1: %q", len(got), got)
	}
	if strings.ContainsAny(got[0], "\r\x1b\x00\u2028") {
		t.Errorf("control characters in %q", got[0])
	}
}
