package gc_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/server"
	"github.com/keelson-io/keelson/servertest"
)

// This file tests what the controller does while it has not heard of everything yet.

// gated is a store that can be told to hold back reads of one key, and what watchers are told.
type gated struct {
	store.Store
	key     string        // what is read there waits once for arrived and release
	arrived chan struct{} // closed when the key is read
	release chan struct{}
	once    sync.Once
	held    atomic.Bool // watchers are told nothing
	open    chan struct{}
	asked   chan struct{} // closed when the revision is asked for after the release
	asking  sync.Once
}

func (s *gated) Get(ctx context.Context, key string) (store.Item, error) {
	if key == s.key {
		s.once.Do(func() {
			close(s.arrived)
			<-s.release
		})
	}
	return s.Store.Get(ctx, key)
}

func (s *gated) Revision(ctx context.Context) (int64, error) {
	select {
	case <-s.release:
		s.asking.Do(func() { close(s.asked) })
	default:
	}
	return s.Store.Revision(ctx)
}

func (s *gated) Watch(ctx context.Context, prefix string, after int64) (store.Watcher, error) {
	w, err := s.Store.Watch(ctx, prefix, after)
	return gatedWatcher{w, s}, err
}

type gatedWatcher struct {
	store.Watcher
	s *gated
}

func (w gatedWatcher) Next(ctx context.Context) (store.Batch, error) {
	b, err := w.Watcher.Next(ctx)
	if w.s.held.Load() {
		select {
		case <-w.s.open:
		case <-ctx.Done():
			return b, ctx.Err()
		}
	}
	return b, err
}

// TestOwnersWaitForWhatIsLate: an owner's finalizer stays until the controller has heard of the dependents that were created before,
// here by another server. The worker that looks at the owner is stopped before it reads it; meanwhile the owner gets a dependent and is
// deleted, which is not told yet.
func TestOwnersWaitForWhatIsLate(t *testing.T) {
	for finalizer, want := range map[string]string{"foregroundDeletion": "deleted dep, deleted a", "orphan": "changed dep, deleted a"} {
		t.Run(finalizer, func(t *testing.T) {
			r, s := newGated(t, "a")
			solid := r.node("solid")
			// That it has an owner of its own is why the controller looks at it.
			a := r.node("a", owner("solid", solid, ""))
			<-s.arrived
			s.held.Store(true)
			rev := s.write("dep", "", fmt.Sprintf(`"uid":"1","ownerReferences":[%s]`, owner("a", a, blocks)))
			s.write("a", "a", fmt.Sprintf(`"uid":%q,"deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":[%q]`, a, finalizer))
			if got := s.goOn(t, rev+1, 2); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// TestDependentsWaitForWhatIsLate: an object whose owner is deleted in the foreground goes in the foreground, too, if it has dependents
// of which the controller has not heard yet. The worker that looks at it, because it is new, is stopped before it reads it.
func TestDependentsWaitForWhatIsLate(t *testing.T) {
	r, s := newGated(t, "b")
	a := r.node("a")
	b := r.node("b", owner("a", a, blocks))
	<-s.arrived
	s.held.Store(true)
	s.write("c", "", fmt.Sprintf(`"uid":"1","ownerReferences":[%s]`, owner("b", b, blocks)))
	rev := s.write("a", "a", fmt.Sprintf(`"uid":%q,"deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["foregroundDeletion"]`, a))
	if got, want := s.goOn(t, rev, 4), "changed b, deleted c, deleted b, deleted a"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// newGated starts a server whose store holds back the first read of a node.
func newGated(t *testing.T, name string) (*rig, *gated) {
	t.Helper()
	s := &gated{
		Store: mem.New(mem.Options{}), key: "demo.io/nodes/default/" + name,
		arrived: make(chan struct{}), release: make(chan struct{}), open: make(chan struct{}), asked: make(chan struct{}),
	}
	server := servertest.Start(t, servertest.Configure(func(c *server.Config) { c.Store = s }))
	client, err := rest.HTTPClientFor(server.Config)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t, server.Config.Host, client}
	r.define()
	return r, s
}

// goOn lets the read go on, then the watchers, and returns what becomes of nodes after a revision, up to a number of changes.
func (s *gated) goOn(t *testing.T, after int64, count int) string {
	t.Helper()
	w, err := s.Store.Watch(t.Context(), s.key[:len(s.key)-1], after)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	told := make(chan string, 16)
	go tell(t.Context(), w, told)
	var got []string
	close(s.release)
	select {
	case <-s.asked: // by who waits for what is late, or by anybody else: then the answer comes a moment later
	case what := <-told:
		got = append(got, what)
	}
	close(s.open)
	late := time.After(20 * time.Second)
	for len(got) < count {
		select {
		case what := <-told:
			got = append(got, what)
		case <-late:
			t.Fatalf("got only %q", got)
		}
	}
	return strings.Join(got, ", ")
}

// tell tells what becomes of nodes, but for changes of a, until ctx ends.
func tell(ctx context.Context, w store.Watcher, told chan<- string) {
	for {
		b, err := w.Next(ctx)
		if err != nil {
			return
		}
		for _, e := range b.Events {
			what := map[bool]string{true: "deleted ", false: "changed "}[e.Deleted] + e.Key[strings.LastIndex(e.Key, "/")+1:]
			if what != "changed a" {
				told <- what
			}
		}
	}
}

// write writes a node behind the server's back, and returns the revision.
func (s *gated) write(name, over, metadata string) int64 {
	key := s.key[:strings.LastIndex(s.key, "/")+1] + name
	value := fmt.Sprintf(`{"apiVersion":"demo.io/v1","kind":"Node","metadata":{"name":%q,"namespace":"default","creationTimestamp":"2026-01-01T00:00:00Z",%s}}`, name, metadata)
	if !json.Valid([]byte(value)) {
		panic(value)
	}
	var rev int64
	var err error
	if over == "" {
		rev, err = s.Store.Create(context.Background(), key, []byte(value))
	} else {
		var now store.Item
		if now, err = s.Store.Get(context.Background(), key); err == nil {
			rev, err = s.Store.Update(context.Background(), key, []byte(value), now.Rev)
		}
	}
	if err != nil {
		panic(err)
	}
	return rev
}
