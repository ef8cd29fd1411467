// Package watchfile calls back when files may have changed.
//
// A [Watcher] looks at the directories of its files, so that files which are
// replaced, by a rename or by the symbolic links that Kubernetes mounts
// configuration with, are noticed like those that are written to. What comes to
// the same is one call. Because events can get lost, it calls in intervals as
// well, when the files to be watched are others, and when it is asked to
// ([Watcher.Again]). Whether anything has changed is for the callee to find out,
// by reading the files.
//
// Calls come one after another, from one goroutine, [Watcher.Run]'s.
package watchfile

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settle is how long to wait for more events before calling: who writes a file
// does so in several steps.
const settle = 10 * time.Millisecond

// Watcher watches files until the context of Run ends.
type Watcher struct {
	Interval time.Duration // between calls without an event; 0: one minute
	Check    func()        // what is called
	Logger   *slog.Logger  // nil: slog.Default()
	What     string        // is watched, in log lines: "authorization config"

	open func() (*fsnotify.Watcher, error)
	tick func(time.Duration) (ticks <-chan time.Time, stop func())

	mu      sync.Mutex
	paths   []string
	again   time.Duration // until one more call; 0: none is wanted
	changed chan struct{} // there are other paths
}

// New returns a Watcher of files.
func New(check func(), paths ...string) *Watcher {
	return &Watcher{Check: check, paths: paths, changed: make(chan struct{}, 1), open: fsnotify.NewWatcher, tick: tick}
}

// Set makes other files those that are watched. It may be called from Check.
func (w *Watcher) Set(paths ...string) {
	w.mu.Lock()
	same := slices.Equal(w.paths, paths)
	w.paths = slices.Clone(paths)
	w.mu.Unlock()
	if same {
		return
	}
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// Again asks for one more call after a while, whatever happens until then. It may
// be called from Check, before whose end the time does not begin.
func (w *Watcher) Again(after time.Duration) {
	w.mu.Lock()
	w.again = after
	w.mu.Unlock()
}

// wanted is the time of the call that Again asked for, nil if it did not.
func (w *Watcher) wanted() <-chan time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.again == 0 {
		return nil
	}
	after := w.again
	w.again = 0
	return time.After(after)
}

// Run watches until ctx ends. Where the system cannot tell of events, only the
// intervals remain; that is logged.
func (w *Watcher) Run(ctx context.Context) {
	logger := w.Logger
	if logger == nil {
		logger = slog.Default()
	}
	interval := w.Interval
	if interval == 0 {
		interval = time.Minute
	}
	ticks, stop := w.tick(interval)
	defer stop()
	failed := func(err error) { logger.Error("watching "+w.What+" file", "err", err) }
	notify, err := w.open()
	var events chan fsnotify.Event
	var errs chan error
	if err != nil {
		failed(fmt.Errorf("error creating file watcher, falling back to poll at interval %s: %w", interval, err))
	} else {
		defer notify.Close()
		events, errs = notify.Events, notify.Errors
	}
	watched := map[string]bool{}
	w.follow(notify, watched, failed)
	again := w.wanted()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		case <-again:
		case err := <-errs:
			failed(err)
		case <-events:
			drain(events)
		case <-w.changed:
		}
		if ctx.Err() != nil {
			return
		}
		w.follow(notify, watched, failed)
		w.Check()
		again = w.wanted()
	}
}

func tick(interval time.Duration) (<-chan time.Time, func()) {
	t := time.NewTicker(interval)
	return t.C, t.Stop
}

// follow makes the directories of the paths those that are watched. One that
// cannot be watched now is tried again at the next call.
func (w *Watcher) follow(notify *fsnotify.Watcher, watched map[string]bool, failed func(error)) {
	if notify == nil {
		return
	}
	want := map[string]bool{}
	w.mu.Lock()
	for _, p := range w.paths {
		want[filepath.Dir(p)] = true
	}
	w.mu.Unlock()
	active := notify.WatchList()
	for dir := range maps.Clone(watched) {
		// A directory that was removed is no longer watched, whoever made it anew.
		if !want[dir] || !slices.Contains(active, dir) {
			notify.Remove(dir)
			delete(watched, dir)
		}
	}
	for dir := range want {
		if watched[dir] {
			continue
		}
		if err := notify.Add(dir); err != nil {
			failed(fmt.Errorf("directory %s: %w", dir, err))
			continue
		}
		watched[dir] = true
	}
}

// drain takes the events that come with one another.
func drain(events <-chan fsnotify.Event) {
	t := time.NewTimer(settle)
	defer t.Stop()
	for {
		select {
		case <-events:
		case <-t.C:
			return
		}
	}
}
