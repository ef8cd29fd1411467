package gc

import (
	"context"
	"fmt"
	"iter"
	"path"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/kind"
)

// This file tests which objects are queued after a change.

// seen is a controller that only sees changes. It tries failed objects again after an hour.
type seen struct {
	*Controller
	rev int64
}

func newSeen() *seen {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Hour, time.Hour)
	configmaps := &kind.Kind{Name: "ConfigMap", Plural: "configmaps", StoragePrefix: "configmaps", Namespaced: true, Versions: []*kind.Version{{Name: "v1"}}}
	nodes := &kind.Kind{Name: "Node", Plural: "nodes", StoragePrefix: "minions", Versions: []*kind.Version{{Name: "v1"}}}
	events := &kind.Kind{Name: "Event", Plural: "events", StoragePrefix: "events", Namespaced: true, Versions: []*kind.Version{{Name: "v1"}}}
	events.Behavior.TTL = time.Hour
	return &seen{Controller: &Controller{
		Kinds: kind.NewRegistry(configmaps, nodes, events), fixed: map[string]*kind.Kind{"configmaps": configmaps, "minions": nodes, "events": events}, crds: &kind.Kind{StoragePrefix: "crds"}, graph: newGraph(),
		queue: workqueue.NewTypedRateLimitingQueue(limiter),
	}}
}

// put sees an object of a name, which is its uid, too, with more of its metadata.
func (s *seen) put(name, more string) { s.see(s.event("configmaps/a/"+name, more)) }

// event returns the next change: an object is written that has the last part of its key as name and uid.
func (s *seen) event(key, more string) *store.Event {
	s.rev++
	return &store.Event{Key: key, Rev: s.rev, Value: fmt.Appendf(nil, `{"metadata":{"name":%q,"uid":%[1]q%s}}`, path.Base(key), more)}
}

// queued empties the queue, and returns the names in it, in order.
func (s *seen) queued() []string {
	names := s.drain()
	for i := range names {
		names[i] = path.Base(names[i])
	}
	return names
}

// drain empties the queue, and returns the keys in it, in order.
func (s *seen) drain() (keys []string) {
	for s.queue.Len() > 0 {
		key, _ := s.queue.Get()
		keys = append(keys, key)
		s.queue.Done(key)
	}
	return keys
}

// owned is metadata with an owner, which is blocked or not.
func owned(owner string, blocks bool) string {
	return fmt.Sprintf(`,"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":%q,"uid":%[1]q,"blockOwnerDeletion":%t}]`, owner, blocks)
}

const waiting = `,"deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["foregroundDeletion"]`

// TestChangeWakesWhatFailed holds that an object whose deletion was refused is tried again at once when it changes, and so is the owner that
// waits for it: a label may have been removed that stood in the way.
func TestChangeWakesWhatFailed(t *testing.T) {
	s := newSeen()
	s.put("owner", waiting)
	s.put("dependent", owned("owner", true))
	s.queued()
	s.put("dependent", owned("owner", true)+`,"labels":{"keep":"no"}`)
	if got := s.queued(); got != nil {
		t.Fatalf("a change of a label queues %v", got)
	}
	s.queue.AddRateLimited("configmaps/a/dependent")
	s.put("dependent", owned("owner", true))
	if got := s.queued(); !slices.Equal(got, []string{"dependent"}) {
		t.Errorf("after a refused deletion, a change queues %v", got)
	}
	s.queue.Forget("configmaps/a/dependent")
	s.queue.AddRateLimited("configmaps/a/owner")
	s.put("dependent", owned("owner", true)+`,"labels":{"keep":"no"}`)
	if got := s.queued(); !slices.Equal(got, []string{"owner"}) {
		t.Errorf("after a refused change of a dependent, a change queues %v", got)
	}
}

// TestDependentsAreQueuedBeforeTheirOwner holds that all dependents of an owner that begins to wait are queued, before it: those that do not
// block it, too, for the owner may not be able to go.
func TestDependentsAreQueuedBeforeTheirOwner(t *testing.T) {
	for _, before := range []string{"", owned("other", false)} { // an owner that the graph does not have, and one that it has
		s := newSeen()
		s.put("owner", before)
		s.put("blocks", owned("owner", true))
		s.put("does-not", owned("owner", false))
		s.queued()
		s.put("owner", before+waiting)
		if got := s.queued(); !slices.Equal(got, []string{"blocks", "does-not", "owner"}) {
			t.Errorf("an owner that begins to wait queues %v", got)
		}
		s.put("owner", before+waiting+`,"labels":{"a":"b"}`)
		if got := s.queued(); got != nil {
			t.Errorf("another change of the owner queues %v", got)
		}
	}
}

// TestOnlyDependentsBlock checks which objects with an owner's uid in a blocking reference are its dependents, and wake it when they are
// deleted: those that can have this owner. It is the same for a graph that is built from all objects, as after a restart.
func TestOnlyDependentsBlock(t *testing.T) {
	for _, owner := range []struct {
		key, kind string
		want      []string // of the objects below
	}{
		{"configmaps/a/owner", "ConfigMap", []string{"configmaps/a/near"}},
		{"minions/owner", "Node", []string{"configmaps/a/near", "configmaps/b/far", "minions/wide"}},
	} {
		for _, ref := range []struct {
			apiVersion, kind, name string
			foreign                bool
		}{
			{"v1", owner.kind, "owner", false},
			{"v9", owner.kind, "owner", false}, // not served, as after an upgrade
			{"v1", "Odd", "owner", true},
			{"v1", "Event", "owner", true},
			{"nobody.io/v1", owner.kind, "owner", true},
			{"v1", owner.kind, "other", true},
			{"v1", owner.kind, "wner", true},
		} {
			s, events := newSeen(), []store.Event{}
			for _, key := range []string{"configmaps/a/near", "configmaps/b/far", "minions/wide", "events/a/event"} {
				more := fmt.Sprintf(`,"ownerReferences":[{"apiVersion":%q,"kind":%q,"name":%q,"uid":"owner","blockOwnerDeletion":true}]`, ref.apiVersion, ref.kind, ref.name)
				events = append(events, *s.event(key, more))
			}
			events = append(events, *s.event(owner.key, waiting))
			var want []string
			if !ref.foreign {
				want = owner.want
			}
			for i := range events {
				s.see(&events[i])
			}
			s.checkDependents(t, fmt.Sprintf("%s by %v", owner.key, ref), owner.key, want)
			if err := s.Reset(context.Background(), all(events)); err != nil {
				t.Fatal(err)
			}
			s.checkDependents(t, fmt.Sprintf("%s by %v, after a reset", owner.key, ref), owner.key, want)
			for i := range events[:4] {
				s.drain()
				s.see(&store.Event{Key: events[i].Key, Rev: 100, Deleted: true})
				if got, want := slices.Contains(s.drain(), owner.key), slices.Contains(want, events[i].Key); got != want {
					t.Errorf("%s by %v: the end of %s wakes the owner: %v, want %v", owner.key, ref, events[i].Key, got, want)
				}
			}
		}
	}
}

// checkDependents compares the dependents of the node at a key.
func (s *seen) checkDependents(t *testing.T, what, owner string, want []string) {
	t.Helper()
	var got []string
	for _, d := range s.graph.dependents(s.graph.nodes[owner]) {
		got = append(got, d.key)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: got the dependents %v, want %v", what, got, want)
	}
}

// all returns a list of events without errors.
func all(events []store.Event) iter.Seq2[*store.Event, error] {
	return func(yield func(*store.Event, error) bool) {
		for i := range events {
			if !yield(&events[i], nil) {
				return
			}
		}
	}
}
