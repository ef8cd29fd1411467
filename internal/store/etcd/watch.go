package etcd

// This file has the watchers: streams of changes from the embedded server or a cluster.

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"google.golang.org/grpc/metadata"

	"github.com/keelson-io/keelson/internal/store"
)

// source is a stream of changes. next returns at least one change, or a newer revision than before.
// All changes up to rev have then been returned.
type source interface {
	next(ctx context.Context) (events []*mvccpb.Event, rev int64, err error)
	stop()
}

// watcher implements store.Watcher.
type watcher struct {
	c *client
	source
}

// Watch implements store.Store.
func (c *client) Watch(ctx context.Context, prefix string, after int64) (store.Watcher, error) {
	return c.open(ctx, prefix, after, true)
}

// WatchLean implements store.LeanWatcher.
func (c *client) WatchLean(ctx context.Context, prefix string, after int64) (store.Watcher, error) {
	return c.open(ctx, prefix, after, false)
}

// open opens a watch. If prev is set, events have the value that they replace.
func (c *client) open(ctx context.Context, prefix string, after int64, prev bool) (store.Watcher, error) {
	if err := c.usable(ctx); err != nil {
		return nil, err
	}
	return &watcher{c, c.watch(c.key(prefix), max(0, after), prev)}, nil
}

// Close implements store.Watcher.
func (w *watcher) Close() { w.stop() }

// Next implements store.Watcher.
func (w *watcher) Next(ctx context.Context) (store.Batch, error) {
	events, rev, err := w.next(ctx)
	if err != nil {
		return store.Batch{}, err
	}
	b := store.Batch{Rev: rev}
	if len(events) > 0 {
		b.Events = make([]store.Event, len(events))
	}
	for i, e := range events {
		b.Events[i] = w.event(e)
	}
	return b, nil
}

// event returns etcd's event in the form of the store, with the checked value.
func (w *watcher) event(e *mvccpb.Event) store.Event {
	ev := store.Event{Key: w.c.trim(e.Kv.Key), Rev: e.Kv.ModRevision}
	switch {
	case e.Type == mvccpb.Event_DELETE:
		ev.Deleted = true
	default:
		ev.Value = w.c.checked(e.Kv)
		ev.Created = e.Kv.CreateRevision == e.Kv.ModRevision
	}
	if e.PrevKv != nil {
		ev.Prev, ev.PrevRev = w.c.checked(e.PrevKv), e.PrevKv.ModRevision
	}
	return ev
}

// localSource is a watch stream of the embedded server.
type localSource struct {
	e      *embedded
	stream mvcc.WatchStream
	prev   bool
	rev    int64
	err    error // the error that next returns

	mu    sync.Mutex
	queue []mvcc.WatchResponse
	ended bool          // the stream was closed
	news  chan struct{} // capacity 1: the queue is not empty, or ended is set

	stopping sync.Once
	done     chan struct{}
}

// maxQueue is the number of responses that can wait.
const maxQueue = 100_000

// watch starts a watch in the embedded server. After close it returns a source that has ended.
func (e *embedded) watch(prefix []byte, after int64, prev bool) source {
	s := &localSource{
		e: e, stream: e.Watchable().NewWatchStream(), prev: prev, rev: after,
		news: make(chan struct{}, 1), done: make(chan struct{}),
	}
	e.streams.Lock()
	defer e.streams.Unlock()
	if e.closing {
		close(s.done)
		s.stream.Close()
		return s
	}
	e.open[s] = struct{}{}
	// The only possible errors are an empty range and a closed stream.
	if _, err := s.stream.Watch(context.Background(), 0, prefix, rangeEnd(prefix), after+1); err != nil {
		panic("BUG: etcd watch: " + err.Error())
	}
	go s.pump()
	return s
}

// pump moves responses from the stream's channel to the queue as fast as possible. The channel
// holds 128 changes. If it is full, etcd delivers further ones only with its next round for slow
// watchers, a tenth of a second later.
func (s *localSource) pump() {
	for r := range s.stream.Chan() {
		s.mu.Lock()
		s.queue = append(s.queue, r)
		full := len(s.queue) >= maxQueue
		s.mu.Unlock()
		s.signal()
		for full && !s.stopped() {
			time.Sleep(10 * time.Millisecond)
			s.mu.Lock()
			full = len(s.queue) >= maxQueue
			s.mu.Unlock()
		}
	}
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.signal()
}

// signal wakes next. One signal is enough for any number of changes.
func (s *localSource) signal() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// stopped reports whether stop was called.
func (s *localSource) stopped() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// askProgress makes an idle stream deliver the newest revision. If changes are waiting, they come
// first.
func (s *localSource) askProgress() { s.stream.RequestProgressAll() }

// stop ends the watch. It can be called more than once.
func (s *localSource) stop() {
	s.stopping.Do(func() { close(s.done) })
	s.e.streams.Lock()
	_, open := s.e.open[s]
	delete(s.e.open, s)
	s.e.streams.Unlock()
	if open && s.e.failure() == nil { // a server that failed may hold its locks forever
		s.stream.Close()
	}
}

// next returns the next changes, and the revision up to which the watch is complete.
func (s *localSource) next(ctx context.Context) ([]*mvccpb.Event, int64, error) {
	for s.err == nil && !s.stopped() {
		if events, news := s.dequeue(); news {
			s.e.sawRevision(s.rev)
			return events, s.rev, nil
		}
		if s.err != nil {
			break
		}
		select {
		case <-s.news:
		case <-s.done:
		case <-s.e.dead:
			return nil, 0, s.e.failure()
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
	if s.stopped() {
		return nil, 0, store.ErrClosed
	}
	return nil, 0, s.err
}

// dequeue returns the queued changes, and whether there is anything to deliver.
func (s *localSource) dequeue() (events []*mvccpb.Event, news bool) {
	s.mu.Lock()
	queue, ended := s.queue, s.ended
	s.queue = nil
	s.mu.Unlock()
	if ended {
		s.err = store.ErrClosed
	}
	for i := range queue {
		r := &queue[i]
		switch {
		case r.CompactRevision != 0:
			s.err = store.ErrCompacted
			return events, news
		case len(r.Events) > 0:
			if s.prev {
				s.fillPrev(r.Events)
			}
			events = append(events, r.Events...)
			s.rev = r.Events[len(r.Events)-1].Kv.ModRevision
			news = true
		case r.Revision >= s.rev:
			s.rev = r.Revision
			news = true
		}
	}
	return events, news
}

// fillPrev reads the values that the changes replaced. It copies the events, which other streams
// share.
func (s *localSource) fillPrev(events []*mvccpb.Event) {
	for i, e := range events {
		if e.Type == mvccpb.Event_PUT && e.Kv.CreateRevision == e.Kv.ModRevision {
			continue
		}
		r, err := s.e.KV().Range(context.Background(), e.Kv.Key, nil, mvcc.RangeOptions{Rev: e.Kv.ModRevision - 1})
		if err == nil && len(r.KVs) > 0 {
			events[i] = &mvccpb.Event{Type: e.Type, Kv: e.Kv, PrevKv: r.KVs[0]}
		}
	}
}

// remoteSource is a watch of a cluster. It is opened again if the server ends it or is silent for
// too long.
type remoteSource struct {
	c           *cluster
	prefix, end []byte
	prev        bool
	rev         int64

	life  context.Context
	close context.CancelFunc
	// Opening a watch waits for an answer of the server, which a member that hangs never sends. It
	// therefore happens in another goroutine.
	opening chan clientv3.WatchChan // nil unless the watch is being opened
	ch      clientv3.WatchChan      // nil unless the watch is open
	cancel  context.CancelFunc      // ends either

	stream atomic.Int64 // number of the client's stream with this watch; 0 before it is opened
	turn   atomic.Int64 // number of times that it was opened again because of silence
	alive  *time.Timer
	asked  bool // progress was requested, and no answer has come

	born   time.Time
	waited atomic.Int64 // when a caller began to wait for progress, as the time since born; 0: none waits
	lost   atomic.Int64 // number of times that it was opened again for such a caller, since the last answer
	hurry  chan int64   // capacity 1: the value of waited that has lasted too long
}

// watch starts a watch of the cluster. It is opened by the first call of next.
func (c *cluster) watch(prefix []byte, after int64, prev bool) source {
	s := &remoteSource{c: c, prefix: prefix, end: rangeEnd(prefix), prev: prev, rev: after, born: time.Now(), hurry: make(chan int64, 1)}
	s.life, s.close = context.WithCancel(c.life)
	s.alive = time.NewTimer(c.silence)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watches == nil {
		c.watches = map[*remoteSource]struct{}{}
	}
	c.watches[s] = struct{}{}
	return s
}

// stop ends the watch.
func (s *remoteSource) stop() {
	s.c.mu.Lock()
	delete(s.c.watches, s)
	s.c.mu.Unlock()
	s.close()
}

const (
	// reopenAfter is the pause before a watch is opened again.
	reopenAfter = 100 * time.Millisecond
	// silence is the time after which a silent watch is asked for progress, and the time that it
	// has to answer. A member that hangs keeps its connections, so that nothing else ends the
	// watch.
	silence = 10 * time.Second
)

// next returns the next changes, and the revision up to which the watch is complete. It opens the
// watch again if the connection broke.
func (s *remoteSource) next(ctx context.Context) ([]*mvccpb.Event, int64, error) {
	for {
		if s.ch == nil && s.opening == nil {
			s.reopen()
		}
		select {
		case s.ch = <-s.opening:
			s.opening = nil
		case r, ok := <-s.ch:
			s.alive.Reset(s.c.silence)
			s.asked = false
			s.waited.Store(0)
			if s.life.Err() != nil {
				return nil, 0, store.ErrClosed
			}
			if r.CompactRevision != 0 {
				return nil, 0, store.ErrCompacted
			}
			if !ok || r.Err() != nil { // no leader, a server that stops, and the like
				s.drop()
				if err := s.pause(ctx); err != nil {
					return nil, 0, err
				}
				continue
			}
			s.lost.Store(0)
			if events, news := s.handle(r); news {
				return events, s.rev, nil
			}
		case <-s.alive.C:
			s.checkAlive()
		case since := <-s.hurry:
			if s.waited.Load() == since { // there was no answer in the meantime
				s.lost.Add(1)
				s.giveUp()
			}
		case <-s.life.Done():
			return nil, 0, store.ErrClosed
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}

// checkAlive asks a silent watch for progress. If it was asked before, checkAlive gives the watch
// up.
func (s *remoteSource) checkAlive() {
	s.alive.Reset(s.c.silence)
	if !s.asked && s.opening == nil {
		s.asked = true
		go func() { // the request may wait for a stream
			ctx, cancel := context.WithTimeout(s.life, s.c.silence)
			defer cancel()
			_ = s.askProgress(ctx) // a lost request has the same effect as a missing answer
		}()
		return
	}
	s.giveUp()
}

// giveUp opens the watch on another stream.
func (s *remoteSource) giveUp() {
	s.c.log.Warn("etcd has not answered a watch, opening it again", "after", s.rev)
	s.alive.Reset(s.c.silence)
	s.asked = false
	s.waited.Store(0)
	s.turn.Add(1)
	s.drop()
}

// awaited records that progress was requested for a waiting caller. It gives the watch up if the
// caller has waited for four times the patience for one request, or longer if several members were
// tried, since etcd may be slow.
func (s *remoteSource) awaited() {
	now := int64(time.Since(s.born))
	switch since := s.waited.Load(); {
	case since == 0:
		s.waited.Store(now)
	case now-since > int64(4*s.c.patience)<<min(s.lost.Load()/3, 3):
		select {
		case s.hurry <- since:
		default:
		}
	}
}

// drop ends the watch at the server.
func (s *remoteSource) drop() {
	s.cancel()
	s.ch, s.opening = nil, nil
}

// streamKey distinguishes streams: the client keeps watches whose contexts have different values on
// different streams. Every opened watch gets its own stream, for two reasons. A watch that is
// opened again because of silence must not continue on the silent stream. And a server sends
// progress to all watches of a stream: if it answers a progress request and opens a watch at the
// same time, it may send the two in the other order, and the new watch would seem complete before
// it got anything.
const streamKey = "keelson-watch-stream"

// context adds to a context the values with which the watch was opened.
func (s *remoteSource) context(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(clientv3.WithRequireLeader(ctx), streamKey, strconv.FormatInt(s.stream.Load(), 10))
}

// askProgress requests progress on the watch's stream, which the client finds by the context.
func (s *remoteSource) askProgress(ctx context.Context) error {
	if s.stream.Load() == 0 || s.life.Err() != nil {
		return nil // the watch is not open
	}
	return s.c.client.RequestProgress(s.context(ctx))
}

// reopen opens the watch where it stopped. With a leader required, a server without one ends it
// instead of staying silent.
func (s *remoteSource) reopen() {
	s.stream.Store(s.c.streams.Add(1))
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(s.context(s.life))
	opts := []clientv3.OpOption{
		clientv3.WithRange(string(s.end)), clientv3.WithRev(s.rev + 1), clientv3.WithProgressNotify(),
	}
	if s.prev {
		opts = append(opts, clientv3.WithPrevKV())
	}
	opening := make(chan clientv3.WatchChan, 1)
	s.opening = opening
	go func() { opening <- s.c.client.Watch(ctx, string(s.prefix), opts...) }()
}

// pause waits before the watch is opened again, so that a broken cluster is not flooded.
func (s *remoteSource) pause(ctx context.Context) error {
	select {
	case <-time.After(reopenAfter):
		return nil
	case <-s.life.Done():
		return store.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// handle reads a response. It reports whether there is anything to deliver.
func (s *remoteSource) handle(r clientv3.WatchResponse) (events []*mvccpb.Event, news bool) {
	switch {
	case len(r.Events) > 0:
		events = make([]*mvccpb.Event, len(r.Events))
		for i, e := range r.Events {
			events[i] = (*mvccpb.Event)(e)
		}
		s.rev = r.Events[len(r.Events)-1].Kv.ModRevision
		return events, true
	case r.IsProgressNotify() && r.Header.Revision >= s.rev:
		s.rev = r.Header.Revision
		return nil, true
	}
	return nil, false
}
