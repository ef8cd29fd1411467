package stream

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

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
	write := func(c *Cutter) error {
		_, err := c.Write(make([]byte, 3*writePiece))
		return err
	}
	for name, test := range map[string]struct {
		write func(*Cutter) error
		after time.Duration
	}{
		"a write":                     {write, 20 * time.Second},
		"an event":                    {func(c *Cutter) error { return c.Send([]byte("{}"), nil) }, 20 * time.Second},
		"a write at a watch's end":    {func(c *Cutter) error { c.EndBy(time.Now().Add(5 * time.Second)); return write(c) }, 6 * time.Second},
		"a write after a watch's end": {func(c *Cutter) error { c.EndBy(time.Now().Add(time.Hour)); c.EndNow(); return write(c) }, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &stuck{httptest.NewRecorder(), make(chan time.Time, 1)}
				c := NewCutter(w, 20*time.Second)
				began := time.Now()
				if err := test.write(c); !errors.Is(err, http.ErrHandlerTimeout) {
					t.Errorf("got %v", err)
				}
				if took := time.Since(began); took != test.after {
					t.Errorf("it ended after %v, want %v", took, test.after)
				}
				c.End()
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
		c := NewCutter(w, 20*time.Second)
		n, err := c.Write(make([]byte, 5*writePiece))
		if err != nil || n != 5*writePiece || w.Body.Len() != n {
			t.Errorf("got %d, %v", n, err)
		}
		if len(w.deadlines) > 0 {
			t.Error("it was cut off")
		}
		c.End()
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
