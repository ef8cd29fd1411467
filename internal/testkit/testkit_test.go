package testkit

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// recorder is a testing.TB that notes a fatal failure.
type recorder struct {
	testing.TB
	text string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.text = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestEventuallyReturnsWhenTheConditionHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, looks := time.Now(), 0
		Eventually(t, "three looks", func() bool { looks++; return looks == 3 })
		if looks != 3 || time.Since(began) > 10*time.Millisecond {
			t.Errorf("got %d looks in %v", looks, time.Since(began))
		}
	})
}

func TestEventuallyFailsWithTheLastText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, began, over, looks := &recorder{TB: t}, time.Now(), make(chan struct{}), 0
		go func() {
			defer close(over)
			EventuallySay(r, func() (string, bool) { looks++; return fmt.Sprint("look ", looks), false })
		}()
		<-over
		if want := fmt.Sprint("still not: look ", looks); r.text != want {
			t.Errorf("got %q, want %q", r.text, want)
		}
		if took := time.Since(began); took < Patience || took > Patience+time.Second {
			t.Errorf("gave up after %v, want %v", took, Patience)
		}
	})
}

func TestHereIsTheLineOfTheRow(t *testing.T) {
	_, _, line, _ := runtime.Caller(0)
	rows := []struct{ at Position }{
		{Here()},
		{at: Here()},
	}
	for i, row := range rows {
		if want := Position(fmt.Sprint("testkit_test.go:", line+2+i)); row.at != want {
			t.Errorf("got %s, want %s", row.at, want)
		}
	}
}
