package gc

import (
	"fmt"
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
	return &seen{Controller: &Controller{
		Kinds: kind.NewRegistry(configmaps), fixed: map[string]*kind.Kind{"configmaps": configmaps}, crds: &kind.Kind{StoragePrefix: "crds"}, graph: newGraph(),
		queue: workqueue.NewTypedRateLimitingQueue(limiter),
	}}
}

// put sees an object of a name, which is its uid, too, with more of its metadata.
func (s *seen) put(name, more string) {
	s.rev++
	s.see(&store.Event{Key: "configmaps/a/" + name, Rev: s.rev, Value: fmt.Appendf(nil, `{"metadata":{"namespace":"a","name":%q,"uid":%[1]q%s}}`, name, more)})
}

// queued empties the queue, and returns the names in it, in order.
func (s *seen) queued() []string {
	var names []string
	for s.queue.Len() > 0 {
		key, _ := s.queue.Get()
		names = append(names, key[len("configmaps/a/"):])
		s.queue.Done(key)
	}
	return names
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
