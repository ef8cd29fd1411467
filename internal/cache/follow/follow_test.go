package follow

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-io/keelson/internal/cache"
)

// This file tests the follower over a scripted source, by a clock that moves only while everybody
// waits.

// script is a source whose calls answer what a test says. A call without an answer waits.
type script struct {
	lists chan listed // what List returns, one after the other
	nexts chan next   // what Next returns
	calls []time.Time // of List
}

type listed struct {
	objects []string
	rev     int64
	err     error // after the objects
}

type next struct {
	changes []string
	rev     int64
	err     error
}

func newScript() *script {
	return &script{lists: make(chan listed, 100), nexts: make(chan next, 100)}
}

func (s *script) List(ctx context.Context, each func(*string) error) (int64, error) {
	s.calls = append(s.calls, time.Now())
	select {
	case l := <-s.lists:
		for i := range l.objects {
			if err := each(&l.objects[i]); err != nil {
				return 0, err
			}
		}
		return l.rev, l.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (s *script) Next(ctx context.Context) ([]string, int64, error) {
	select {
	case n := <-s.nexts:
		return n.changes, n.rev, n.err
	default:
	}
	select {
	case n := <-s.nexts:
		return n.changes, n.rev, n.err
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
}

func (s *script) Newest(context.Context) (int64, error) { return 7, nil }
func (s *script) Close()                                {}

// diary is a handler that writes down what it is shown.
type diary struct {
	seen   []string
	before func(text string) // called before a text is written down; nil: nothing
}

func (d *diary) Reset(_ context.Context, listed iter.Seq2[*string, error]) error {
	d.add("list")
	for object, err := range listed {
		if err != nil {
			d.add("error")
			return err
		}
		d.add(*object)
	}
	d.add("end")
	return nil
}

func (d *diary) Change(_ context.Context, changes []string) {
	for _, text := range changes {
		d.add(text)
	}
}

func (d *diary) add(text string) {
	if d.before != nil {
		d.before(text)
	}
	d.seen = append(d.seen, text)
}

// bubble runs a test of a follower with a script in a bubble of synctest.
func bubble(t *testing.T, test func(t *testing.T, f *Follower[string], s *script, d *diary)) {
	synctest.Test(t, func(t *testing.T) {
		s, d := newScript(), new(diary)
		f := &Follower[string]{Source: s, Handler: d, Logger: slog.New(slog.DiscardHandler), Name: "test"}
		test(t, f, s, d)
	})
}

// start runs the follower until the test ends and returns what ends it before.
func start(t *testing.T, f *Follower[string]) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- f.Run(ctx) }()
	return func() error { cancel(); return <-over }
}

func (d *diary) want(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	if !slices.Equal(d.seen, want) {
		t.Errorf("got %q, want %q", d.seen, want)
	}
}

func TestListIsShownAndThenChanges(t *testing.T) {
	bubble(t, func(t *testing.T, f *Follower[string], s *script, d *diary) {
		s.lists <- listed{objects: []string{"a", "b"}, rev: 2}
		s.nexts <- next{changes: []string{"c", "d"}, rev: 4}
		s.nexts <- next{rev: 5} // nothing that is shown
		s.nexts <- next{changes: []string{"e"}, rev: 6}
		stop := start(t, f)
		d.want(t, "list", "a", "b", "end", "c", "d", "e")
		if got := f.Shown(); got != 6 {
			t.Errorf("shown: got %d, want 6", got)
		}
		if err := stop(); err != nil {
			t.Errorf("got error %v, want none", err)
		}
	})
}

func TestLostWatchIsResumedWithoutAList(t *testing.T) {
	bubble(t, func(t *testing.T, f *Follower[string], s *script, d *diary) {
		s.lists <- listed{objects: []string{"a"}, rev: 1}
		s.nexts <- next{changes: []string{"b"}, rev: 2}
		s.nexts <- next{err: errors.New("connection lost")}
		s.nexts <- next{err: cache.ErrSlow}
		s.nexts <- next{changes: []string{"c"}, rev: 3}
		began := time.Now()
		var at time.Time
		d.before = func(string) { at = time.Now() }
		stop := start(t, f)
		if err := f.waitBegun(t, 3); err != nil {
			t.Error(err)
		}
		d.want(t, "list", "a", "end", "b", "c")
		if got, want := at.Sub(began), firstPause+2*firstPause; got != want {
			t.Errorf("resumed after %v, want %v", got, want)
		}
		stop()
	})
}

// waitBegun waits for a revision when Run has begun.
func (f *Follower[T]) waitBegun(t *testing.T, rev int64) error {
	synctest.Wait()
	return f.Wait(t.Context(), rev)
}

func TestExpiredRevisionIsListedAgainAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, f *Follower[string], s *script, d *diary) {
		s.lists <- listed{objects: []string{"a", "b"}, rev: 2}
		s.nexts <- next{err: cache.ErrExpired}
		s.lists <- listed{objects: []string{"b", "c"}, rev: 9}
		s.nexts <- next{changes: []string{"d"}, rev: 10}
		began := time.Now()
		stop := start(t, f)
		d.want(t, "list", "a", "b", "end", "list", "b", "c", "end", "d")
		if got := time.Since(began); got != 0 {
			t.Errorf("listed after %v, want no pause", got)
		}
		stop()
	})
}

func TestFailedListIsRepeatedAfterGrowingPauses(t *testing.T) {
	bubble(t, func(t *testing.T, f *Follower[string], s *script, d *diary) {
		failures := 10
		for range failures {
			s.lists <- listed{objects: []string{"a"}, err: errors.New("not now")}
		}
		s.lists <- listed{objects: []string{"a", "b"}, rev: 2}
		stop := start(t, f)
		if err := f.waitBegun(t, 2); err != nil {
			t.Error(err)
		}
		pause := firstPause
		for i := 1; i < len(s.calls); i++ {
			if got := s.calls[i].Sub(s.calls[i-1]); got != pause {
				t.Errorf("try %d after %v, want %v", i, got, pause)
			}
			pause = min(2*pause, lastPause)
		}
		if got := len(s.calls); got != failures+1 {
			t.Errorf("listed %d times, want %d", got, failures+1)
		}
		if got := d.seen[len(d.seen)-7:]; !slices.Equal(got, []string{"list", "a", "error", "list", "a", "b", "end"}) {
			t.Errorf("got %q", got)
		}
		// The pauses begin anew after a success.
		s.nexts <- next{err: errors.New("connection lost")}
		before := time.Now()
		s.nexts <- next{changes: []string{"c"}, rev: 3}
		if err := f.Wait(t.Context(), 3); err != nil || time.Since(before) != firstPause {
			t.Errorf("resumed after %v (%v), want %v", time.Since(before), err, firstPause)
		}
		stop()
	})
}

func TestWaitReturnsWhenTheHandlerHasReturned(t *testing.T) {
	bubble(t, func(t *testing.T, f *Follower[string], s *script, d *diary) {
		if err := f.Wait(t.Context(), 1); err != ErrStopped {
			t.Errorf("before Begin: got %v, want %v", err, ErrStopped)
		}
		gate := make(chan struct{})
		d.before = func(text string) {
			if text == "slow" {
				<-gate
			}
		}
		s.lists <- listed{rev: 5}
		stop := start(t, f)
		if err := f.waitBegun(t, 5); err != nil {
			t.Errorf("shown already: got %v", err)
		}
		caughtUp := make(chan error, 1)
		go func() { caughtUp <- f.CatchUp(t.Context()) }() // up to 7, see script.Newest
		s.nexts <- next{changes: []string{"slow"}, rev: 7}
		synctest.Wait()
		select {
		case err := <-caughtUp:
			t.Errorf("caught up while the handler works: %v", err)
		default:
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := f.Wait(short, 7); err != context.DeadlineExceeded {
			t.Errorf("with a deadline: got %v, want %v", err, context.DeadlineExceeded)
		}
		close(gate)
		if err := <-caughtUp; err != nil {
			t.Errorf("after the handler has returned: got %v", err)
		}
		late := make(chan error, 1)
		go func() { late <- f.Wait(t.Context(), 8) }()
		synctest.Wait()
		stop()
		if err := <-late; err != ErrStopped {
			t.Errorf("after the end: got %v, want %v", err, ErrStopped)
		}
		if err := f.Wait(t.Context(), 7); err != nil {
			t.Errorf("what was shown before the end: got %v", err)
		}
	})
}

func TestWaitWaitsFromBeginOn(t *testing.T) {
	bubble(t, func(t *testing.T, f *Follower[string], s *script, d *diary) {
		s.lists <- listed{rev: 1}
		if err := f.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		f.Begin(ctx)
		waited := make(chan error, 1)
		go func() { waited <- f.Wait(t.Context(), 2) }()
		synctest.Wait()
		if len(waited) > 0 {
			t.Errorf("did not wait: %v", <-waited)
		}
		s.nexts <- next{changes: []string{"a"}, rev: 2}
		go f.Run(ctx)
		if err := <-waited; err != nil {
			t.Error(err)
		}
		d.want(t, "list", "end", "a")
		cancel()
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	for _, test := range []struct {
		where string
		fill  func(s *script)
	}{
		{"in a list", func(*script) {}},
		{"between lists", func(s *script) {
			s.lists <- listed{err: errors.New("not now")}
		}},
		{"in a watch", func(s *script) { s.lists <- listed{rev: 1} }},
		{"between watches", func(s *script) {
			s.lists <- listed{rev: 1}
			s.nexts <- next{err: errors.New("lost")}
		}},
	} {
		t.Run(test.where, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *Follower[string], s *script, d *diary) {
				test.fill(s)
				stop := start(t, f)
				synctest.Wait()
				if err := stop(); err != nil {
					t.Errorf("got %v, want no error", err)
				}
				before := len(d.seen)
				s.lists <- listed{objects: []string{"late"}}
				s.nexts <- next{changes: []string{"late"}}
				time.Sleep(time.Hour)
				if len(d.seen) != before {
					t.Errorf("shown after the end: %q", d.seen[before:])
				}
			})
		})
	}
}

func TestRunEndsWithItsSource(t *testing.T) {
	bubble(t, func(t *testing.T, f *Follower[string], s *script, d *diary) {
		s.lists <- listed{rev: 1}
		s.nexts <- next{err: cache.ErrClosed}
		if err := f.Run(t.Context()); err != cache.ErrClosed {
			t.Errorf("got %v, want %v", err, cache.ErrClosed)
		}
		if err := f.Wait(t.Context(), 2); err != ErrStopped {
			t.Errorf("got %v, want %v", err, ErrStopped)
		}
	})
}

func TestStepReturnsInTime(t *testing.T) {
	bubble(t, func(t *testing.T, f *Follower[string], s *script, d *diary) {
		began := time.Now()
		step := func(wait, want time.Duration) {
			t.Helper()
			if err := f.Step(t.Context(), wait); err != nil {
				t.Error(err)
			}
			if got := time.Since(began); got != want {
				t.Errorf("returned at %v, want %v", got, want)
			}
		}
		s.lists <- listed{err: errors.New("not now")}
		step(0, 0)                       // the list fails
		step(10*time.Millisecond, 10e6)  // in the pause
		s.lists <- listed{rev: 1}        //
		step(time.Second, 50e6)          // the pause ends, the list follows
		step(0, 50e6)                    // there is nothing
		step(70*time.Millisecond, 120e6) // nor later
		s.nexts <- next{changes: []string{"a"}, rev: 2}
		step(0, 120e6) // what is there is shown, even without time to wait
		d.want(t, "list", "error", "list", "end", "a")
	})
}

// TestUnreadListIsAnError checks that a handler that leaves a list early is not taken for one that
// knows it.
func TestUnreadListIsAnError(t *testing.T) {
	bubble(t, func(t *testing.T, f *Follower[string], s *script, d *diary) {
		f.Handler = hasty{}
		s.lists <- listed{objects: []string{"a", "b"}, rev: 2}
		if err := f.Sync(t.Context()); !errors.Is(err, errUnread) || f.Shown() != 0 {
			t.Errorf("got %v, shown %d", err, f.Shown())
		}
	})
}

// hasty is a handler that reads one object of a list.
type hasty struct{}

func (hasty) Reset(_ context.Context, listed iter.Seq2[*string, error]) error {
	for range listed {
		break
	}
	return nil
}

func (hasty) Change(context.Context, []string) {}
