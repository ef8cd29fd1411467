package gc

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"k8s.io/client-go/util/workqueue"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/kind"
)

const crdKey = crd.Prefix + "/trees.demo.io"

// late returns a controller that hears of changes of a kind Tree of v1 when the registry does not have it any more.
func late(listed ...store.Event) *Controller {
	crds := (*crd.Compiler)(nil).Definitions()
	c := &Controller{Kinds: kind.NewRegistry(crds), crds: crds, graph: newGraph(), fixed: map[string]*kind.Kind{}}
	c.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	if err := c.Reset(context.Background(), func(yield func(*store.Event, error) bool) {
		for i := range listed {
			if !yield(&listed[i], nil) {
				return
			}
		}
	}); err != nil {
		panic(err)
	}
	return c
}

func written(rev int64, key, text string, args ...any) store.Event {
	return store.Event{Key: key, Rev: rev, Value: fmt.Appendf(nil, text, args...)}
}

func deleted(rev int64, key string) store.Event {
	return store.Event{Key: key, Rev: rev, Deleted: true}
}

// tree is a CRD, and leaf an object in a namespace with a tree as its owner.
func tree(rev int64, scope, accepted string) store.Event {
	return written(rev, crdKey, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"trees.demo.io"},"spec":{"group":"demo.io","scope":%q,"names":{"plural":"trees"},"versions":[{"name":"v1","served":true},{"name":"v2","served":false}]},"status":{"acceptedNames":{"kind":%q}}}`, scope, accepted)
}

// beta is a CRD as the first releases of v1beta1 stored it, with one version. scope is its member, or nothing.
func beta(rev int64, scope string) store.Event {
	return written(rev, crdKey, `{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"CustomResourceDefinition","metadata":{"name":"trees.demo.io"},"spec":{"group":"demo.io",%s"names":{"plural":"trees"},"version":"v1"},"status":{"acceptedNames":{"kind":"Tree"}}}`, scope)
}

func leaf(rev int64, name, version string) store.Event {
	return written(rev, "a/"+name, `{"metadata":{"namespace":"n","uid":%q,"ownerReferences":[{"apiVersion":"demo.io/%s","kind":"Tree","name":"t","uid":"u"}]}}`, name, version)
}

// TestKindsThatAreGoneAlready holds that the end of an owner is seen although its kind is not served any more when it is heard of.
func TestKindsThatAreGoneAlready(t *testing.T) {
	ends := func(key string) []store.Event {
		return []store.Event{leaf(2, "served", "v1"), leaf(3, "unserved", "v2"), deleted(4, key), deleted(5, crdKey), leaf(6, "served", "v1")}
	}
	for name, tc := range map[string]struct {
		listed, changes []store.Event
		want            bool
	}{
		"cluster-scoped":        {nil, slices.Concat([]store.Event{tree(1, "Cluster", "Tree")}, ends("demo.io/trees/t")), true},
		"namespaced":            {nil, slices.Concat([]store.Event{tree(1, "Namespaced", "Tree")}, ends("demo.io/trees/n/t")), true},
		"another namespace":     {nil, slices.Concat([]store.Event{tree(1, "Namespaced", "Tree")}, ends("demo.io/trees/other/t")), false},
		"another kind":          {nil, slices.Concat([]store.Event{tree(1, "Cluster", "Tree")}, ends("demo.io/bushes/t")), false},
		"names not accepted":    {nil, slices.Concat([]store.Event{tree(1, "Cluster", "")}, ends("demo.io/trees/t")), false},
		"accepted later":        {nil, slices.Concat([]store.Event{tree(1, "Cluster", ""), tree(1, "Cluster", "Tree")}, ends("demo.io/trees/t")), true},
		"stored in v1beta1":     {nil, slices.Concat([]store.Event{beta(1, `"scope":"Cluster",`)}, ends("demo.io/trees/t")), true},
		"v1beta1, no scope":     {nil, slices.Concat([]store.Event{beta(1, "")}, ends("demo.io/trees/n/t")), true},
		"renamed":               {nil, slices.Concat([]store.Event{tree(1, "Cluster", "Tree"), tree(1, "Cluster", "Bush")}, ends("demo.io/trees/t")), false},
		"listed":                {[]store.Event{leaf(2, "served", "v1"), leaf(3, "unserved", "v2"), tree(1, "Cluster", "Tree")}, ends("demo.io/trees/t")[2:], true},
		"deleted before leaves": {nil, []store.Event{tree(1, "Cluster", "Tree"), deleted(2, crdKey), leaf(3, "served", "v1"), leaf(4, "unserved", "v2"), deleted(5, "demo.io/trees/t")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := late(tc.listed...)
			c.Change(t.Context(), tc.changes)
			if got := c.lostOwners("a/served")["u"]; got != tc.want {
				t.Errorf("the owner is seen to go: %v, want %v", got, tc.want)
			}
			if c.lostOwners("a/unserved")["u"] {
				t.Error("an owner in a version that is not served is seen to go")
			}
			if len(c.graph.defined.byKind)+len(c.graph.defined.byKey) > 0 {
				t.Error("the CRD stays in memory")
			}
		})
	}
}
