package cluster

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// This file is clients that watch, over whatever happens to the servers.

// change is what a watch said.
type change struct {
	kind    string // ADDED, MODIFIED, DELETED
	key     string
	value   int
	version int64
}

// watcher follows all gadgets from a version on. When its watch ends it goes on where it was, at the next server.
type watcher struct {
	name     string
	replicas []*replica
	at       int // in replicas

	mu      sync.Mutex
	last    int64 // version of the last change or bookmark
	changes []change
	expired []string // answers that the version is too old
	resumed int
	starts  []start // of watches
	ended   string  // how the last watch ended
}

// start is where a watch began.
type start struct {
	server  string
	version int64
}

// wentOn says where watches began about a version.
func (w *watcher) wentOn(version int64) string {
	i, _ := slices.BinarySearchFunc(w.starts, version, func(s start, v int64) int { return cmp.Compare(s.version, v) })
	return fmt.Sprint(w.starts[max(0, i-3):min(len(w.starts), i+3)])
}

func (w *watcher) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprintf("%s: %d changes up to version %d, went on %d times, lately because of: %s", w.name, len(w.changes), w.last, w.resumed, w.ended)
}

// gadget is what the test needs of an object, and of an error.
type gadget struct {
	Kind     string
	Code     int
	Reason   string
	Message  string
	Metadata struct{ Name, ResourceVersion string }
	Spec     struct{ Value int }
	Details  struct{ Name string }
}

func (w *watcher) run(ctx context.Context) {
	for ctx.Err() == nil {
		ended := w.watch(ctx)
		w.mu.Lock()
		w.ended = ended
		w.resumed++
		w.mu.Unlock()
		w.at++
		pause(ctx, 20*time.Millisecond)
	}
}

// watch follows one server until the watch breaks off, or nothing comes for so long that the connection must be dead: bookmarks come
// every minute, but the load writes all the time.
func (w *watcher) watch(ctx context.Context) string {
	r := w.replicas[w.at%len(w.replicas)]
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.mu.Lock()
	from := w.last
	w.starts = append(w.starts, start{r.name, from})
	w.mu.Unlock()
	url := fmt.Sprintf("%s%s?watch=true&allowWatchBookmarks=true&resourceVersion=%d", r.base, gadgets, from)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		panic(err)
	}
	dead := time.AfterFunc(2*answerWithin, cancel)
	defer dead.Stop()
	resp, err := r.http.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	if resp.StatusCode != http.StatusOK {
		if resp.StatusCode == http.StatusGone {
			w.expire(r, from, "410")
		}
		return r.name + " answered " + resp.Status
	}
	for lines.Scan() {
		dead.Reset(2 * answerWithin)
		if !w.take(r, lines.Bytes()) {
			return r.name + " said " + lines.Text()
		}
	}
	return fmt.Sprintf("%s: %v", r.name, lines.Err())
}

// take notes an event; it is false if the watch is over.
func (w *watcher) take(r *replica, line []byte) bool {
	var e struct {
		Type   string
		Object gadget
	}
	if json.Unmarshal(line, &e) != nil {
		return false // cut off within a line
	}
	version, _ := strconv.ParseInt(e.Object.Metadata.ResourceVersion, 10, 64)
	w.mu.Lock()
	switch e.Type {
	case "ERROR":
		last := w.last
		w.mu.Unlock()
		if e.Object.Code == http.StatusGone {
			w.expire(r, last, e.Object.Message)
		}
		return false
	case "BOOKMARK":
	default:
		w.changes = append(w.changes, change{e.Type, e.Object.Metadata.Name, e.Object.Spec.Value, version})
	}
	w.last = version
	w.mu.Unlock()
	return true
}

func (w *watcher) expire(r *replica, version int64, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expired = append(w.expired, fmt.Sprintf("%s at version %d: %s", r.name, version, text))
}

// reached reports whether the watcher has seen everything up to a version.
func (w *watcher) reached(version int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last >= version
}
