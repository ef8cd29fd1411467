// Package watchfile calls a function when files may have changed.
//
// A [Watcher] watches the directories of its files. It therefore notices files that are written to,
// and files that are replaced by a rename or by the symbolic links of mounted ConfigMaps. Several
// events that follow closely are one call. Because events can get lost, it also calls at intervals,
// when it begins, when the set of files changes, and on request ([Watcher.Again]). The function itself must read
// the files to find out what changed.
//
// All calls come from one goroutine, that of [Watcher.Run].
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

// settle is the time to wait for further events before a call, because programs write files in
// several steps.
const settle = 10 * time.Millisecond

// Watcher watches files until the context of Run ends.
type Watcher struct {
	Interval time.Duration // between calls without an event; 0 means one minute
	Check    func()        // called when files may have changed
	Logger   *slog.Logger  // nil means slog.Default()
	What     string        // is watched, in log lines: "authorization config"

	open func() (*fsnotify.Watcher, error)
	tick func(time.Duration) (ticks <-chan time.Time, stop func())

	mu      sync.Mutex
	paths   []string
	again   time.Duration // delay of one more call; 0: none is wanted
	changed chan struct{} // signals that the paths changed
}

// New returns a Watcher of files.
func New(check func(), paths ...string) *Watcher {
	return &Watcher{Check: check, paths: paths, changed: make(chan struct{}, 1), open: fsnotify.NewWatcher, tick: tick}
}

// Set replaces the watched files. Check may call it.
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

// Again requests one more call after a delay, even without an event. If Check calls it, the delay
// starts when Check returns.
func (w *Watcher) Again(after time.Duration) {
	w.mu.Lock()
	w.again = after
	w.mu.Unlock()
}

// wanted returns the timer of the call that Again requested, nil without one.
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

// Run watches until ctx ends. Its first call comes as soon as it watches: the files may have changed since they were read. If the system cannot report events, it logs that, and calls only at
// intervals.
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
	w.Check() // a change before the watch was no event
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

// follow watches the directories of the paths. A directory that cannot be watched now is tried
// again at the next call.
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
		// The system stops watching a directory that is removed, even if it is created again.
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

// drain discards the events that follow within settle.
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
