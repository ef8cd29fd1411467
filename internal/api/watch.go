package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/api/admit"
	"github.com/keelson-io/keelson/internal/api/encoding"
	"github.com/keelson-io/keelson/internal/api/selection"
	"github.com/keelson-io/keelson/internal/api/stream"
	"github.com/keelson-io/keelson/internal/api/table"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/objects"
	"github.com/keelson-io/keelson/internal/status"
)

// This file watches objects: every change as a line of JSON. The bytes of an object are printed once
// for all watchers. A watcher adds what stands around them, and writes pending events in pieces.

// lastBookmark is how long before its end a watch sends one more bookmark.
const lastBookmark = 2 * time.Second

// To send a batch costs about the same, whatever its size. If changes come faster than they can be
// sent to all watchers, each watcher lets them gather after it has sent some. It waits in steps,
// each several times as long as sending to all watchers, while each step brings more changes, and
// never so long that a client notices. A single change is sent at once.
const (
	gatherEach  = 100 * time.Microsecond // of a step, for each watcher that shares the changes
	gatherStep  = 5 * time.Millisecond   // the longest step
	gatherSteps = 4
	gatherFull  = 64                     // so many changes are enough
	gatherFrom  = 100 * time.Microsecond // shorter is not worth a timer
)

// watcher is one open watch.
type watcher struct {
	q         *request
	f         *selection.Filter
	t         *table.Rows // if tables are asked for
	o         *meta.ListOptions
	w         *cache.Watch
	initial   bool      // the state is sent first …
	endMark   bool      // … and a bookmark marks their end
	from      int64     // events after this revision
	deadline  time.Time // when the watch ends
	nextMark  time.Time // when a bookmark is due; zero if none is wanted
	lastRev   int64     // revision of the last event or bookmark sent
	lastSent  time.Time // when several events were sent at once; zero if the last one came alone
	bookmarks bool

	out    stream.Pieces      // the events that are to be sent
	corker stream.Corker      // nil if there is none to use
	events prometheus.Counter // of events sent
}

// watch serves a watch.
func (q *request) watch() error {
	var err error
	if q.accept, err = q.negotiate(); err != nil {
		return err
	}
	o, f, err := q.selection()
	if err != nil {
		return err
	}
	w := &watcher{q: q, f: f, o: o, bookmarks: o.AllowWatchBookmarks}
	// Events are gathered into pieces: most changes come in groups.
	w.out = stream.Pieces{Most: stream.PieceSize, Send: w.send}
	if q.accept.Form == encoding.Table {
		if w.t, err = q.newTable(table.New(q.v)); err != nil {
			return err
		}
	}
	err = w.begin()
	if in := (*inStream)(nil); err != nil && !errors.As(err, &in) {
		return err
	}
	defer func() {
		if w.w != nil { // run opens it, too
			w.w.Close()
		}
	}()
	if q.accept.YAML { // what is liked best decides, also if something else would do
		return encoding.NotAcceptable(encoding.JSON+encoding.Streamed, encoding.Protobuf+encoding.Streamed)
	}
	q.accept.Pretty = false
	if authn.IsWebSocket(q.r) {
		return w.runSocket(err)
	}
	// Corking holds back everything on the connection, so nobody else may use it.
	if q.r.ProtoMajor == 1 { // connections of HTTP/2 are shared
		w.corker = stream.CorkerOf(q.ctx)
	}
	return w.runOrRefuse(err)
}

// runOrRefuse serves a watch. If failed is not nil, it refuses the watch with this error.
func (w *watcher) runOrRefuse(failed error) error {
	if failed != nil {
		w.refuse(failed)
		return nil
	}
	defer w.q.h.metrics.Requests.Watching(w.q.v, w.q.scope())()
	w.events = w.q.h.metrics.Requests.Events(w.q.v)
	return w.run()
}

// begin finds out where the watch starts, and opens it.
func (w *watcher) begin() error {
	q, o := w.q, w.o
	version := o.ResourceVersion
	var rev int64
	if version != "" {
		n, err := revision(version)
		if err != nil {
			return err
		}
		if rev = int64(min(n, math.MaxInt64)); rev == 0 {
			version = "0" // however that is written
		}
	}
	// The path begins with "watch". A watch by the parameter gets the initial events by default.
	legacy := o.SendInitialEvents == nil && o.ResourceVersionMatch == "" && (version == "" || version == "0")
	w.initial = legacy || o.SendInitialEvents != nil && *o.SendInitialEvents
	w.endMark = w.initial && w.bookmarks && !legacy
	// A watch has no deadline, but its start has that of other requests.
	ctx, cancel := context.WithTimeout(q.ctx, q.h.Timeout)
	defer cancel()
	waiting := q.ctx
	q.ctx = ctx
	defer func() { q.ctx = waiting }()
	switch {
	case w.initial && rev > 0:
		if err := q.waitFor(uint64(rev)); errors.As(err, &admit.TooMany{}) {
			return err
		} else if err != nil {
			return &inStream{err}
		}
	case w.initial, version == "" || version == "0":
		if err := q.awaitVersion(q.wantedVersion(version)); err != nil {
			return err
		}
	default:
		w.from = rev
		if err := q.awaitVersion("0"); err != nil {
			return err
		}
		return w.open()
	}
	if !w.initial {
		w.from = q.res.Snapshot().Rev()
	}
	if w.initial {
		return q.spareList(0) // run opens the watch at the state that it sends
	}
	return w.open()
}

// open opens the watch of the events after w.from.
func (w *watcher) open() error {
	var err error
	w.w, err = w.q.res.Watch(w.from, w.f.Prefix)
	if errors.Is(err, cache.ErrExpired) {
		return &inStream{w.tooOld()}
	}
	return objects.StoreError(err)
}

// tooOld returns the error for a watch from a revision whose changes are not kept any more.
func (w *watcher) tooOld() error {
	return status.Expired(fmt.Sprintf("too old resource version: %d (%d)", w.from, w.q.res.Snapshot().Rev()))
}

// start sends the header.
func (w *watcher) start() {
	if w.q.code != 0 {
		return // a WebSocket has its handshake behind it
	}
	h := w.q.w.Header()
	h["Content-Type"] = jsonHeader
	if w.q.accept.Protobuf {
		h["Content-Type"] = protobufStreamHeader
	}
	w.q.header(http.StatusOK)
}

// run sends the state, if that is wanted, and then events until the watch
// ends.
func (w *watcher) run() error {
	q := w.q
	w.deadline = time.Now().Add(w.timeout())
	if w.bookmarks {
		w.nextMark = w.markAfter(time.Now())
	}
	cut := q.cut
	cut.EndBy(w.deadline)
	ctx, cancel := context.WithCancel(q.ctx)
	defer cancel()
	// A watch ends with its client, with the server, and with the version that it reads.
	defer context.AfterFunc(q.h.stopping, cancel)()
	defer context.AfterFunc(q.h.served.Context(q.kind), cancel)()
	defer context.AfterFunc(ctx, cut.EndNow)()
	w.out.Room = q.room(ctx)
	w.start()
	if w.initial {
		if err := w.sendState(ctx); err != nil {
			return w.end(err)
		}
	} else {
		w.q.cut.Flush()
	}
	var due alarm
	defer due.off()
	for {
		next := w.deadline
		if w.bookmarks && w.nextMark.Before(next) {
			next = w.nextMark
		}
		err := w.step(due.at(ctx, next))
		now := time.Now()
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, context.DeadlineExceeded):
			if w.bookmarks && !now.Before(w.nextMark) { // also at the end: a client that comes back from it has fewer events to read again
				if err := w.sendBookmark(); err != nil {
					return nil
				}
				w.nextMark = w.markAfter(now)
			}
			if !now.Before(w.deadline) {
				return nil
			}
		case !now.Before(w.deadline):
			return nil
		default:
			return w.end(err)
		}
	}
}

// alarm is a context that ends at a time, kept while the time stays the same:
// batches of events come far more often than bookmarks.
type alarm struct {
	time   time.Time
	ctx    context.Context
	cancel context.CancelFunc
}

// at returns a context that ends at a time. The last one is used again if the time is the same.
func (a *alarm) at(parent context.Context, t time.Time) context.Context {
	if a.ctx == nil || !a.time.Equal(t) {
		a.off()
		a.ctx, a.cancel = context.WithDeadline(parent, t)
		a.time = t
	}
	return a.ctx
}

// off releases the context.
func (a *alarm) off() {
	if a.cancel != nil {
		a.cancel()
	}
}

// timeout returns the duration of the watch. Watches without a requested one end at different
// times, so that their clients do not come back all at once.
func (w *watcher) timeout() time.Duration {
	if s := w.o.TimeoutSeconds; s != nil && *s > 0 {
		return time.Duration(*s) * time.Second
	}
	least := w.q.h.WatchTimeout
	return least + rand.N(least)
}

// markAfter is when a bookmark is due after now.
func (w *watcher) markAfter(now time.Time) time.Time {
	next := now.Add(w.q.h.BookmarkEvery)
	last := w.deadline.Add(-lastBookmark)
	if next.After(last) && now.Before(last) {
		return last
	}
	return next
}

// step waits for events and sends them.
func (w *watcher) step(ctx context.Context) error {
	w.gather(ctx)
	events, _, err := w.w.Next(ctx)
	if err != nil {
		return err
	}
	w.out.Begin()
	defer w.out.End()
	sent := 0
	for i := range events {
		told, err := w.appendEvent(&events[i])
		if err != nil {
			return err
		}
		if told {
			sent++
		}
	}
	if sent == 0 {
		return nil
	}
	w.events.Add(float64(sent))
	if err := w.out.Flush(); err != nil {
		return err
	}
	w.lastSent = time.Time{}
	if sent > 1 {
		w.lastSent = time.Now()
	}
	return nil
}

// gather waits until it is worth sending again.
func (w *watcher) gather(ctx context.Context) {
	if w.lastSent.IsZero() {
		return
	}
	step := min(gatherEach*time.Duration(w.w.Sharing()), gatherStep)
	pause := step - time.Since(w.lastSent)
	if pause < gatherFrom {
		return
	}
	before := 0
	for range gatherSteps {
		if !sleep(ctx, pause) {
			return
		}
		now := w.w.Pending()
		if now == before || now >= gatherFull {
			return
		}
		before, pause = now, step
	}
}

// sleep reports whether the context lasted for so long.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// end ends a watch that has begun.
func (w *watcher) end(err error) error {
	switch {
	case errors.Is(err, cache.ErrExpired):
		err = w.tooOld()
	case errors.Is(err, cache.ErrClosed), errors.Is(err, cache.ErrSlow), errors.Is(err, context.Canceled):
		return nil // the client comes back for the rest
	}
	w.send(w.appendError(nil, err)) // the client is gone: the error of the write means nothing
	return nil
}

// sendState opens the watch of what follows the state of now, and sends all objects of that as
// added. An old state is let go when the log has dropped what follows it: the watch could not go on.
func (w *watcher) sendState(ctx context.Context) error {
	w.f.Expansion = selection.NewExpansion(ctx)
	defer func() { w.f.Expansion = nil }() // changes come one by one
	snap := w.q.res.Snapshot()
	w.from = snap.Rev()
	if err := w.open(); err != nil {
		var in *inStream
		if errors.As(err, &in) {
			return in.err
		}
		return err
	}
	if err := w.q.convertAll(&source{prefix: w.f.Prefix, from: w.f.Prefix, snap: snap}); err != nil {
		return err
	}
	w.out.Begin()
	defer w.out.End()
	looked, failed := 0, error(nil)
	snap.Ascend(w.f.Prefix, func(obj *cache.Object) bool {
		if failed = w.q.ended(&looked); failed != nil || !strings.HasPrefix(obj.Key, w.f.Prefix) {
			return false
		}
		ok, err := w.f.Matches(obj)
		if err == nil && ok {
			before := len(w.out.B)
			if err = w.append("ADDED", obj); err == nil && len(w.out.B) < before { // it sent something
				if err = ctx.Err(); err == nil && w.w.Overtaken() {
					err = cache.ErrSlow
				}
			}
		}
		failed = err
		return err == nil
	})
	if failed != nil {
		return failed
	}
	if w.endMark {
		if err := w.appendBookmark(w.from, true); err != nil {
			return err
		}
	}
	if len(w.out.B) == 0 {
		w.q.cut.Flush()
		return nil
	}
	return w.out.Flush()
}

// appendEvent appends the event that the watch's client gets for a change: for the client an object
// is added or deleted when it begins or ends to match the selectors. It reports whether there is
// one.
func (w *watcher) appendEvent(e *cache.Event) (bool, error) {
	is, was := e.Type != cache.Deleted, e.Type != cache.Added
	var err error
	if is {
		if is, err = w.f.Matches(e.Object); err != nil {
			return false, err
		}
	}
	if was {
		prev := e.Prev
		if prev == nil {
			prev = e.Object
		}
		if was, err = w.f.Matches(prev); err != nil {
			return false, err
		}
	}
	switch {
	case is && was:
		return true, w.append("MODIFIED", e.Object)
	case is:
		return true, w.append("ADDED", e.Object)
	case was && e.Type == cache.Deleted:
		return true, w.append("DELETED", e.Object)
	case was:
		return true, w.append("DELETED", e.Prev.At(e.Rev))
	}
	return false, nil
}

// append appends the event of an object, and sends what was gathered if it is enough.
func (w *watcher) append(event string, obj *cache.Object) error {
	w.lastRev = obj.Rev
	if w.q.accept.Protobuf {
		apiVersion, name := w.q.v.APIVersion(), w.q.kind.Name
		message, err := w.q.message(obj)
		if w.q.accept.Form != encoding.Object {
			apiVersion, name = table.MetaGroup+w.q.accept.Meta, table.Partial
		}
		if err != nil {
			return err
		}
		if err := w.makeRoom(len(message)); err != nil {
			return err
		}
		if err := addFrame(&w.out, event, apiVersion, name, message); err != nil {
			return err
		}
		return w.out.Step()
	}
	view, err := obj.View(w.q.v)
	if err != nil {
		return err
	}
	return w.appendObject(event, view.JSON)
}

// makeRoom makes room for the event of an object of n bytes, if it has to be built whole.
func (w *watcher) makeRoom(n int) error {
	if w.out.Whole || w.q.accept.Form == encoding.Table {
		return w.out.Build(n)
	}
	return nil
}

// appendObject appends the event of an object in JSON.
func (w *watcher) appendObject(event string, object []byte) error {
	if err := w.makeRoom(rowCost(object)); err != nil {
		return err
	}
	p := &w.out
	p.B = append(append(append(p.B, `{"type":"`...), event...), `","object":`...)
	var err error
	switch w.q.accept.Form {
	case encoding.Table:
		p.B, err = w.t.AppendOne(w.q.ctx, p.B, object)
		w.t.Bare = true
	case encoding.Partial, encoding.PartialList:
		err = sharePartial(p, object, w.q.accept.Meta)
	default:
		err = p.Share(object)
	}
	if err != nil {
		return err
	}
	p.B = append(p.B, "}\n"...)
	return p.Step()
}

// sendBookmark sends the client its progress. A watch from a future revision has none yet.
func (w *watcher) sendBookmark() error {
	if w.from > w.q.res.Snapshot().Rev() {
		return nil
	}
	rev := w.w.Progress()
	if rev < w.lastRev {
		rev = w.lastRev
	}
	w.out.Begin()
	defer w.out.End()
	if err := w.appendBookmark(rev, false); err != nil {
		return err
	}
	return w.out.Flush()
}

// appendBookmark appends a bookmark; the one at the end of the initial state has an annotation.
func (w *watcher) appendBookmark(rev int64, complete bool) error {
	if w.q.kind.Behavior.HasGoType() {
		return w.appendText("BOOKMARK", objects.EmptyObject(w.q.v, func(m metav1.Object) {
			m.SetResourceVersion(strconv.FormatInt(rev, 10))
			if complete {
				m.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
			}
		}))
	}
	object := append([]byte(`{"apiVersion":"`), w.q.v.APIVersion()...)
	object = append(append(object, `","kind":"`...), w.q.kind.Name...)
	object = append(object, `","metadata":{`...)
	if complete {
		object = append(object, `"annotations":{"`+metav1.InitialEventsAnnotationKey+`":"true"},`...)
	}
	object = append(object, `"resourceVersion":"`...)
	object = strconv.AppendInt(object, rev, 10)
	object = append(object, `"}}`...)
	return w.appendText("BOOKMARK", object)
}

// appendText appends an event that is for this watch only.
func (w *watcher) appendText(event string, object []byte) error {
	if !w.q.accept.Protobuf {
		return w.appendObject(event, object)
	}
	if w.q.accept.Form != encoding.Object {
		object = table.AppendPartial(nil, object, w.q.accept.Meta)
	}
	var err error
	w.out.B, err = w.q.appendFrameOf(w.out.B, event, object)
	return err
}

// appendError appends an error as an event.
func (w *watcher) appendError(b []byte, err error) []byte {
	st := status.From(err).Status
	st.Kind, st.APIVersion = "Status", "v1"
	body, merr := json.Marshal(&st)
	if merr != nil {
		panic("BUG: status does not marshal: " + merr.Error())
	}
	if w.q.accept.Protobuf {
		if b, err = w.q.appendFrameOf(b, "ERROR", body); err != nil {
			w.q.h.logger.Error("error of a watch does not encode", "error", err)
		}
		return b
	}
	b = append(b, `{"type":"ERROR","object":`...)
	b = append(b, body...)
	return append(b, "}\n"...)
}

// send writes and flushes bytes, in as few pieces as can be.
func (w *watcher) send(b []byte) error { return w.q.cut.Send(b, w.corker) }
