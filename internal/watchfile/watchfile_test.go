package watchfile

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

// This file changes files in the ways in which files are changed.

func TestWatch(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	path, second := filepath.Join(dir, "a"), filepath.Join(other, "b")
	calls := make(chan string, 100)
	w := New(func() {
		text, _ := os.ReadFile(path)
		more, _ := os.ReadFile(second)
		calls <- string(text) + "+" + string(more)
	}, path)
	w.Interval = time.Hour
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	// The watch begins at some time after Run; until then changes are not events.
	want := func(text string, change func()) {
		t.Helper()
		change()
		limit := time.After(time.Minute)
		again := time.NewTicker(200 * time.Millisecond)
		defer again.Stop()
		for {
			select {
			case got := <-calls:
				if got == text {
					return
				}
			case <-again.C:
				change()
			case <-limit:
				t.Fatalf("no call that sees %q", text)
			}
		}
	}
	write := func(path, text string) func() {
		return func() { must(os.WriteFile(path, []byte(text), 0o600)) }
	}
	want("one+", write(path, "one"))
	want("two+", func() {
		must(os.WriteFile(path+".new", []byte("two"), 0o600))
		must(os.Rename(path+".new", path))
	})
	want("+", func() { os.Remove(path) })
	want("three+", write(path, "three"))
	w.Set(path, second)
	want("three+more", write(second, "more"))
	want("linked+more", func() {
		must(os.WriteFile(filepath.Join(dir, "target"), []byte("linked"), 0o600))
		os.Remove(path)
		must(os.Symlink("target", path))
	})
	stop()
	<-done
}

// What asks for another call gets one, though nothing happens.
func TestAgain(t *testing.T) {
	calls := make(chan int, 100)
	n := 0
	var w *Watcher
	w = New(func() {
		n++
		if n < 3 {
			w.Again(time.Millisecond)
		}
		calls <- n
	}, filepath.Join(t.TempDir(), "missing", "file"))
	w.Interval = time.Hour
	w.Again(time.Millisecond)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	for want := 1; want <= 3; want++ {
		if got := <-calls; got != want {
			t.Errorf("call %d: got %d", want, got)
		}
	}
	stop()
	<-done
	if len(calls) > 0 {
		t.Error("more calls than were asked for")
	}
}

// TestChangeBeforeTheWatch holds that a change is seen that was made after the file was read, and before it was watched.
func TestChangeBeforeTheWatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	calls := make(chan string, 100)
	w := New(func() {
		text, _ := os.ReadFile(path)
		calls <- string(text)
	}, path)
	w.Interval = time.Hour
	if err := os.WriteFile(path, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	if got := <-calls; got != "new" {
		t.Errorf("got %q, want the new text", got)
	}
	stop()
	<-done
}

// TestMinute holds that files are checked once a minute by default.
func TestMinute(t *testing.T) {
	calls, ticks := make(chan struct{}), make(chan time.Time)
	w := New(func() { calls <- struct{}{} }, filepath.Join(t.TempDir(), "missing", "file"))
	asked := make(chan time.Duration, 1)
	w.tick = func(d time.Duration) (<-chan time.Time, func()) {
		asked <- d
		return ticks, func() {}
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	if d := <-asked; d != time.Minute {
		t.Errorf("got a clock of %v", d)
	}
	<-calls // as soon as it watches
	for range 3 {
		ticks <- time.Now()
		<-calls
	}
	stop()
	<-done
}

func TestIntervals(t *testing.T) {
	calls := make(chan struct{}, 100)
	w := New(func() { calls <- struct{}{} }, filepath.Join(t.TempDir(), "missing", "file"))
	w.Interval = time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	for range 3 {
		<-calls
	}
	stop()
	for {
		select {
		case <-calls:
		case <-done:
			return
		}
	}
}

// Where there are no events, that is said, and the intervals remain.
func TestWithoutEvents(t *testing.T) {
	for _, row := range []struct {
		path string
		open func() (*fsnotify.Watcher, error)
		want string
	}{
		{"f", func() (*fsnotify.Watcher, error) { return nil, errors.New("too many") },
			`level=ERROR msg="watching some config file" err="error creating file watcher, falling back to poll at interval 1ms: too many"`},
		{"none/f", fsnotify.NewWatcher, `level=ERROR msg="watching some config file" err="directory `},
	} {
		var log bytes.Buffer
		calls := make(chan bool)
		ctx, stop := context.WithCancel(t.Context())
		w := New(func() {
			select {
			case calls <- true:
			case <-ctx.Done():
			}
		}, filepath.Join(t.TempDir(), row.path))
		w.Interval, w.Logger, w.What, w.open = time.Millisecond, slog.New(slog.NewTextHandler(&log, nil)), "some config", row.open
		done := make(chan struct{})
		go func() { defer close(done); w.Run(ctx) }()
		<-calls
		<-calls
		stop()
		<-done
		if !strings.Contains(log.String(), row.want) {
			t.Errorf("%s: got %s", row.path, log.String())
		}
	}
}
